package memlimit

import (
	"runtime"
	"runtime/debug"
	"sync"
)

// openingGC is the collector's target while a model is opened. What opening allocates stays in use:
// collecting again and again would take a third of the time until a mount is ready.
const openingGC = 400

// opening counts the models that are being opened, and keeps the target of the time before.
var opening struct {
	sync.Mutex
	count, usual int
}

// Opening lets the heap grow to 16 MB, and to five times what is in use, before it is collected.
// The call of end restores the usual target if there was a collection; otherwise the next collection
// does. A command that ends sooner collects nothing.
func Opening() (end func()) {
	opening.Lock()
	defer opening.Unlock()
	if opening.count++; opening.count == 1 {
		opening.usual = debug.SetGCPercent(openingGC)
	}
	before := collections()
	return sync.OnceFunc(func() {
		if collections() > before {
			opened()
			return
		}
		runtime.AddCleanup(new(collection), func(struct{}) { opened() }, struct{}{})
	})
}

// collections counts the collections of this process.
func collections() int64 {
	var s debug.GCStats
	debug.ReadGCStats(&s)
	return s.NumGC
}

// opened restores the usual target after the last opening.
func opened() {
	opening.Lock()
	defer opening.Unlock()
	if opening.count--; opening.count == 0 {
		debug.SetGCPercent(opening.usual)
	}
}
