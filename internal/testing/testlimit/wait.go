package testlimit

import (
	"fmt"
	"runtime/debug"
	"testing"
	"time"
)

// Patience is how long to wait for what usually comes at once: so long that no
// machine is too slow for it. Only a test that fails takes that long.
const Patience = 2 * time.Minute

// Wait polls until ok. What is the end of "no ..." in the failure's message.
func Wait(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(Patience); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("no %s after %v", what, Patience)
		}
	}
}

// Receive returns the next value of c, or the zero value where c is closed.
func Receive[T any](t testing.TB, what string, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(Patience):
		t.Fatalf("no %s after %v", what, Patience)
		panic("not reached")
	}
}

// Return calls fn and ends the whole program, which shows all stacks, where fn
// does not come back. It is for what may block, and for walks that could go on
// for hours. fn stays on the goroutine, and so on the thread, of its caller.
func Return(what string, fn func()) {
	timer := time.AfterFunc(Patience, func() {
		debug.SetTraceback("all")
		panic(fmt.Sprintf("no end of %s after %v", what, Patience))
	})
	defer timer.Stop()
	fn()
}
