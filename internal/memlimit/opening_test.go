package memlimit

import (
	"runtime"
	"runtime/debug"
	"testing"
	"time"
)

// The target of the collector is usual again after the collection that follows the last opening.
func TestOpening(t *testing.T) {
	target := func() int {
		n := debug.SetGCPercent(-1)
		debug.SetGCPercent(n)
		return n
	}
	usual := target()
	first, second := Opening(), Opening()
	first()
	first()
	runtime.GC()
	time.Sleep(10 * time.Millisecond)
	if n := target(); n != openingGC {
		t.Errorf("the target is %d while a model is opened, want %d", n, openingGC)
	}
	second()
	if n := target(); n != openingGC {
		t.Errorf("the target is %d before the next collection, want %d", n, openingGC)
	}
	for range 100 {
		if runtime.GC(); target() == usual {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Errorf("the target stays %d, want %d", target(), usual)
}
