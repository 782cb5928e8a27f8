package memlimit

import (
	"math"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
)

const (
	// Floor is how many bytes the process may always use.
	Floor = 40 << 20
	// spare is how many it may use beyond what is in use: for the buffers of the
	// requests under way, of which the kernel sends a dozen at a time.
	spare = 20 << 20
)

// Follow keeps the process small, unless GOMEMLIMIT does. go-fuse has a pool of reply buffers for
// every size of request, and a heap that may double before it is collected
// would keep all of them: readers of many sizes made it take 100 MiB. With a
// limit close above what is in use, the pools are emptied in time.
//
// The limit follows the heap, and leaves as much again as half of it: with many tensors
// whatever is rendered would otherwise be one collection of all of them after another. It
// is adjusted after every collection, when the size of the heap in use is
// known; an idle process does nothing.
var Follow = sync.OnceFunc(func() {
	if debug.SetMemoryLimit(-1) == math.MaxInt64 {
		followHeap()
	}
})

// collection is an object that nobody refers to: its cleanup runs after the
// next garbage collection.
type collection struct{ _ *int }

func followHeap() {
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(live)
	inUse := int64(0)
	if live[0].Value.Kind() == metrics.KindUint64 {
		inUse = int64(live[0].Value.Uint64())
	}
	debug.SetMemoryLimit(limitFor(inUse))
	runtime.AddCleanup(new(collection), func(struct{}) { followHeap() }, struct{}{})
}

// limitFor is the limit of a process that has so many bytes in use.
func limitFor(inUse int64) int64 { return max(Floor, inUse+inUse/2+spare) }
