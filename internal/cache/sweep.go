package cache

import (
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// lockName is the file that a sweep locks, so that there is one at a time. Who
// makes an entry whole locks it shared: no sweep is under way then.
const lockName = "lock"

// errSweeping says that another sweeps.
var errSweeping = errors.New("another process is sweeping the cache")

// item is an entry on the disk, as a sweep sees it.
type item struct {
	dir     string
	private bool
	bytes   int64 // that it takes on the disk
	lastUse time.Time
}

// itemCost is what an entry takes on the disk besides its data and state: its
// directory, meta.json and whole.
const itemCost = 12 << 10

// items returns all entries. What cannot be read is not there.
func (s *Store) items() []item {
	var list []item
	groups, _ := os.ReadDir(s.path(filesDir))
	for _, group := range groups {
		names, _ := os.ReadDir(s.path(filesDir, group.Name()))
		for _, name := range names {
			dir := s.path(filesDir, group.Name(), name.Name())
			it := item{dir: dir, private: group.Name() == privateDir, bytes: itemCost}
			for _, part := range []string{dataName, stateName} {
				var st unix.Stat_t
				if unix.Lstat(filepath.Join(dir, part), &st) == nil {
					it.bytes += st.Blocks * 512
					it.lastUse = time.Unix(st.Mtim.Unix()) // of the state, the last
				}
			}
			list = append(list, it)
		}
	}
	return list
}

// used returns what the entries, the names and what is left half made take on the disk.
func (s *Store) used(list []item) int64 {
	n := int64(0)
	walkFiles(s.path(tmpDir), func(_ string, st *unix.Stat_t) { n += st.Blocks * 512 })
	for _, it := range list {
		n += it.bytes
	}
	for _, p := range s.pinFiles() {
		n += p.bytes
	}
	return n
}

type sweepOptions struct {
	target int64                          // bytes to sweep down to
	punch  bool                           // entries that are in use lose cells too
	remove func(dir string, m *meta) bool // entries to remove whatever the target; nil: none
	names  bool                           // all pins go too
}

// Swept says what a sweep removed.
type Swept struct {
	Entries int
	Bytes   int64
	InUse   int // entries that would have been removed
}

// sweep removes entries that nobody has open, those that were not used for longest
// first, until the target is met; then it takes cells from others.
func (s *Store) sweep(o sweepOptions) (Swept, error) {
	var result Swept
	lock, ok, err := lockFile(s.path(lockName), unix.LOCK_EX)
	if err != nil {
		return result, err
	}
	if !ok {
		return result, errSweeping
	}
	defer lock.Close()
	s.removeLeftovers()
	list := s.items()
	slices.SortFunc(list, func(a, b item) int { return a.lastUse.Compare(b.lastUse) })
	total := s.used(list)
	if o.names {
		total -= s.removePins(0)
	} else {
		total -= s.removePins(o.target / 16)
	}
	var kept []item
	for _, it := range list {
		wanted := total > o.target
		if o.remove != nil && !wanted {
			m, err := readMeta(it.dir)
			wanted = err == nil && o.remove(it.dir, m)
		}
		if !wanted && !it.private {
			continue
		}
		switch gone, err := s.removeUnused(it.dir); {
		case err != nil:
			return result, err
		case gone:
			total -= it.bytes
			result.Entries++
			result.Bytes += it.bytes
		default:
			kept = append(kept, it)
			if wanted {
				result.InUse++
			}
		}
	}
	if !o.punch || !canPunch {
		return result, nil
	}
	for range 2 { // what the first pass leaves, because it was used, the second finds unused
		for _, it := range kept {
			if total <= o.target {
				return result, nil
			}
			freed, err := s.punchEntry(it.dir, total-o.target)
			if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, errBroken) {
				return result, err
			}
			total -= freed
			result.Bytes += freed
		}
	}
	return result, nil
}

// making is longer than anything is being made: what is older was left by a process
// that was killed. Whoever is slower begins anew.
const making = 10 * time.Minute

// removeLeftovers removes what killed processes left half made or half removed.
func (s *Store) removeLeftovers() {
	names, _ := os.ReadDir(s.path(tmpDir))
	for _, n := range names {
		st, err := n.Info()
		if err == nil && (strings.HasPrefix(n.Name(), "gone-") || time.Since(st.ModTime()) > making) {
			_ = os.RemoveAll(s.path(tmpDir, n.Name())) // the next sweep tries again
		}
	}
}

// removeUnused removes an entry unless somebody has it open. Mappings of it stay
// what they are.
func (s *Store) removeUnused(dir string) (gone bool, err error) {
	state, err := openPart(dir, stateName)
	switch {
	case errors.Is(err, errBroken): // nobody can have it open
		return true, removeDir(s.path(tmpDir), dir)
	case errors.Is(err, fs.ErrNotExist):
		return true, nil
	case err != nil:
		return false, err
	}
	defer state.Close()
	if alone, err := flock(state, unix.LOCK_EX); !alone {
		return false, err
	}
	return true, removeDir(s.path(tmpDir), dir)
}

// hole is a run of cells.
type hole struct{ first, n int64 }

// punchEntry takes cells from an entry that is in use, need bytes if it can: those
// that were not used since the last time. Only one process does this at a time.
//
//	not used: present, durable -> swept -> sync(state) -> hole in data -> absent, next generation
//	used:     not used
//
// The state is durable before the hole is: in another boot no cell is durable
// whose bytes are gone. Entries that are whole lose nothing, because they are
// mapped.
func (s *Store) punchEntry(dir string, need int64) (freed int64, err error) {
	m, err := readMeta(dir)
	if err != nil {
		return 0, err
	}
	d := &disk{s: s, dir: dir, size: m.Size}
	defer func() { err = errors.Join(err, d.closeFiles()) }()
	if d.state, err = openPart(dir, stateName); err != nil {
		return 0, err
	}
	// Nobody else has it alone meanwhile, so what is being swept stays that.
	if ok, err := flock(d.state, unix.LOCK_SH); !ok {
		return 0, err
	}
	if d.data, err = openPart(dir, dataName); err != nil {
		return 0, err
	}
	if err := d.checkSizes(); err != nil {
		return 0, err
	}
	if _, err := os.Lstat(filepath.Join(dir, wholeName)); !errors.Is(err, fs.ErrNotExist) {
		return 0, err
	}
	if d.cells, err = mapCells(int(d.state.Fd()), d.size); err != nil {
		return 0, err
	}
	var before, after unix.Stat_t
	if err := unix.Fstat(int(d.data.Fd()), &before); err != nil {
		return 0, err
	}
	err = d.cells.guard(func() error {
		if err := d.recover(false); err != nil {
			if errors.Is(err, unix.EWOULDBLOCK) {
				return nil // of another boot: nobody uses it
			}
			return err
		}
		holes := d.cells.sweep(need, rand.Int64N(max(d.cells.n, 1)))
		if len(holes) == 0 {
			return nil
		}
		if err := d.cells.flush(); err != nil {
			return err
		}
		for _, h := range holes {
			if err := punch(d.data, h.first*CellSize, h.n*CellSize); err != nil {
				return err
			}
			for i := h.first; i < h.first+h.n; i++ {
				d.cells.change(i, func(b byte) (byte, bool) { return emptied(b), b&stateMask == swept })
			}
		}
		return nil
	})
	if serr := unix.Fstat(int(d.data.Fd()), &after); serr == nil {
		freed = max(before.Blocks-after.Blocks, 0) * 512
	}
	return freed, err
}

// sweep marks cells of need bytes, if there are so many unused ones, as being
// swept, and the used ones that it passes as unused. It goes round from a cell on,
// each time another, because none is worth less than others. Cells that are marked
// already were left so by a sweep that was killed.
func (c *cells) sweep(need, from int64) []hole {
	c.begin()
	var list []hole
	for k := int64(0); k < c.n && need > 0; k++ {
		i, take := (from+k)%c.n, false
		c.change(i, func(b byte) (byte, bool) {
			take = b&stateMask == swept || isLocal(b) && b&used == 0
			if take {
				return b | swept, true
			}
			return b &^ used, isLocal(b)
		})
		if !take {
			continue
		}
		need -= CellSize
		if k := len(list) - 1; k >= 0 && list[k].first+list[k].n == i {
			list[k].n++
		} else {
			list = append(list, hole{i, 1})
		}
	}
	return list
}
