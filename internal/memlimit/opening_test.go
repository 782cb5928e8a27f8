package memlimit

import (
	"runtime"
	"runtime/debug"
	"testing"
	"time"
)

// The target of the collector is usual again after the last opening, if there was a collection since its
// beginning, or after the next one.
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
	if second(); target() != usual {
		t.Errorf("the target is %d after an opening with a collection, want %d", target(), usual)
	}
	if Opening()(); target() != openingGC {
		t.Errorf("the target is %d before the next collection, want %d", target(), openingGC)
	}
	for range 100 {
		if runtime.GC(); target() == usual {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Errorf("the target stays %d, want %d", target(), usual)
}
