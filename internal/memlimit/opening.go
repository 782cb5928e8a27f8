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
// The first collection after the call of end restores the usual target. A command that ends sooner
// collects nothing.
func Opening() (end func()) {
	opening.Lock()
	defer opening.Unlock()
	if opening.count++; opening.count == 1 {
		opening.usual = debug.SetGCPercent(openingGC)
	}
	return sync.OnceFunc(func() { runtime.AddCleanup(new(collection), func(struct{}) { opened() }, struct{}{}) })
}

// opened restores the usual target after the last opening.
func opened() {
	opening.Lock()
	defer opening.Unlock()
	if opening.count--; opening.count == 0 {
		debug.SetGCPercent(opening.usual)
	}
}
