package cache

import (
	"context"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tensorfs/tensorfs"
	"golang.org/x/sys/unix"
)

// keeper keeps the cache below its limit. What this process stores is counted as
// it is stored; what is on the disk is counted again after every step, because
// others store too.
//
//	0 ............ 7/8 ........ 15/16 ...... limit
//	   a sweep ends here   one begins here   beyond it nothing is stored
type keeper struct {
	s      *Store
	budget int64 // as Options has it

	first   sync.Once    // counts the first time
	counted atomic.Int64 // bytes on the disk, when they were counted
	since   atomic.Int64 // bytes that this process stored since
	limit   atomic.Int64

	start   sync.Once
	kick    chan struct{}
	quit    context.Context
	stop    context.CancelFunc
	running sync.WaitGroup
}

const (
	// maxBudget bounds the default budget, a tenth of the file system.
	maxBudget = 100e9
	// keepFree is the part of the file system that is left free: a twentieth.
	keepFree = 20
	// steps is how often the disk is counted while the budget is stored once.
	steps = 64
	// restAfter is how long a keeper rests that made no room.
	restAfter = 100 * time.Millisecond
)

func newKeeper(s *Store, budget int64) *keeper {
	k := &keeper{s: s, budget: budget, kick: make(chan struct{}, 1)}
	k.quit, k.stop = context.WithCancel(context.Background())
	return k
}

// room reports whether n more bytes may be stored, and counts them.
func (k *keeper) room(n int64) bool {
	k.first.Do(func() { k.count() })
	since, limit := k.since.Add(n), k.limit.Load()
	total := k.counted.Load() + since
	if since > limit/steps || total > limit-limit/16 {
		k.wake()
	}
	if total > limit {
		k.since.Add(-n)
		return false
	}
	return true
}

// wake lets the keeper look, in its own time.
func (k *keeper) wake() {
	k.start.Do(func() { k.running.Go(k.loop) })
	select {
	case k.kick <- struct{}{}:
	default:
	}
}

func (k *keeper) close() {
	k.start.Do(func() {}) // from now on it is not started
	k.stop()
	k.running.Wait()
}

func (k *keeper) loop() {
	for {
		select {
		case <-k.quit.Done():
			return
		case <-k.kick:
		}
		if !k.tidy() {
			select {
			case <-k.quit.Done():
			case <-time.After(restAfter):
			}
		}
	}
}

// count counts what is on the disk and sets the limit.
func (k *keeper) count() (used, limit int64) {
	k.s.removeLeftovers()
	before := k.since.Load() // what is stored while it counts is counted twice, until the next time
	used = k.s.used(k.s.items())
	limit, _ = k.limitAt(used)
	k.limit.Store(limit)
	k.counted.Store(used)
	k.since.Add(-before)
	return used, limit
}

// Limit returns how many bytes the cache may have on its disk, and whether that is so
// because the disk is full.
func (s *Store) Limit() (limit int64, full bool) {
	if s.keeper == nil {
		return 0, false
	}
	return s.keeper.limitAt(s.used(s.items()))
}

// limitAt is Limit if the cache has used now.
func (k *keeper) limitAt(used int64) (limit int64, full bool) {
	var st unix.Statfs_t
	if err := unix.Statfs(k.s.root, &st); err != nil {
		return max(k.budget, 0), false
	}
	block := int64(st.Bsize)
	total, free := int64(min(st.Blocks, math.MaxInt64/uint64(block)))*block, int64(min(uint64(st.Bavail), math.MaxInt64/uint64(block)))*block
	budget := k.budget
	if budget == 0 {
		budget = min(total/10, maxBudget)
	}
	room := used + free - total/keepFree
	return max(min(budget, room), 0), room < budget
}

// tidy counts, and sweeps if room is scarce. ok is false if it still is afterwards.
func (k *keeper) tidy() (ok bool) {
	used, limit := k.count()
	if used <= limit-limit/16 {
		return true
	}
	if _, err := k.s.sweep(PruneOptions{Size: limit - limit/8}); err != nil {
		if err != errSweeping {
			k.s.logOnce("sweep", "the cache cannot be swept", err)
		}
		return false
	}
	if used, limit = k.count(); used > limit {
		k.s.logOnce("memory", "the cache has no room; it goes on in memory", fmt.Errorf("%s: %d bytes are in use, %d may be", tensorfs.Printable(k.s.root), used, limit))
	}
	return used <= limit-limit/16
}
