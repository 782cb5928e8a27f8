package memlimit

import (
	"math"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"slices"
	"sync"
)

const (
	// Floor is how many bytes the process may always use.
	Floor = 40 << 20
	// spare is the allowance beyond the memory in use: for the buffers of the requests
	// under way. The kernel sends a dozen concurrently.
	spare = 20 << 20
)

// window is how many collections something has to be in use before it counts: buffers of
// requests are, for one or two, and a limit that followed them would let ever more of them be kept.
const window = 16

// Follow keeps the process small, unless GOMEMLIMIT does. go-fuse has a pool of reply buffers for
// every size of request, and a heap that may double before it is collected
// would keep all of them: readers of many sizes made it take 100 MiB. With a
// limit close above what is in use, the pools are emptied in time.
//
// The limit follows what is in use all the time, which are models, and leaves as much again as half of it:
// with many tensors whatever is rendered would otherwise be one collection of all of them after
// another. It is adjusted after every collection, when the size of the heap in use is
// known; an idle process does nothing.
var Follow = sync.OnceFunc(func() {
	if debug.SetMemoryLimit(-1) == math.MaxInt64 {
		new(follower).wait()
	}
})

// follower knows how much was in use after the last collections.
type follower struct {
	inUse [window]int64
	count int
}

// collection is an unreferenced object: its cleanup runs after the next garbage collection.
type collection struct{ _ *int }

func (f *follower) adjust() {
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(live)
	inUse := int64(0)
	if live[0].Value.Kind() == metrics.KindUint64 {
		inUse = int64(live[0].Value.Uint64())
	}
	debug.SetMemoryLimit(f.next(inUse))
	f.wait()
}

// wait has the limit adjusted after the next collection.
func (f *follower) wait() {
	runtime.AddCleanup(new(collection), func(struct{}) { f.adjust() }, struct{}{})
}

// next returns the limit after a collection that left so many bytes in use.
func (f *follower) next(inUse int64) int64 {
	f.inUse[f.count%window] = inUse
	f.count++
	lasting := slices.Min(f.inUse[:min(f.count, window)])
	return max(Floor, lasting+lasting/2+spare)
}
