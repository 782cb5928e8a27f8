package testlimit

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
)

// recorder replaces a test that may fail.
type recorder struct {
	testing.TB
	said []string
}

func (r *recorder) Helper() {}

func (r *recorder) Errorf(format string, args ...any) {
	r.said = append(r.said, fmt.Sprintf(format, args...))
}

var sink atomic.Uint64

// spin keeps a processor busy in proportion to n.
func spin(n int) {
	var x uint64
	for i := range n {
		x = x*6364136223846793005 + uint64(i)
	}
	sink.Add(x)
}

// TestGrowth holds that a quadratic function is noticed and a linear one is not.
func TestGrowth(t *testing.T) {
	const n = 1 << 11
	for name, test := range map[string]struct {
		fn   func(n int)
		fail bool
	}{
		"linear":    {func(n int) { spin(n * 4096) }, false},
		"quadratic": {func(n int) { spin(n * n) }, true},
	} {
		r := &recorder{TB: t}
		Growth(r, n, test.fn)
		if (len(r.said) > 0) != test.fail {
			t.Errorf("%s: %q", name, r.said)
		}
	}
}

// TestWork holds that work beyond the limit is noticed, measured several times,
// and what is a single slip is not.
func TestWork(t *testing.T) {
	for name, test := range map[string]struct {
		units []int // of each call; the last one counts for all later
		calls int
		fail  bool
	}{
		"little": {[]int{1}, 1, false},
		"slip":   {[]int{12, 1}, 2, false},
		"much":   {[]int{12}, attempts, true},
	} {
		r, calls := &recorder{TB: t}, 0
		Work(r, 3, func() {
			for range test.units[min(calls, len(test.units)-1)] {
				unit(t)
			}
			calls++
		})
		if (len(r.said) > 0) != test.fail || calls != test.calls {
			t.Errorf("%s: %d calls, %q", name, calls, r.said)
		}
	}
}

// TestAllocated holds that bytes are counted.
func TestAllocated(t *testing.T) {
	var kept []byte
	n := Allocated(func() { kept = make([]byte, 1<<20) })
	if n < 1<<20 || n > 2<<20 || len(kept) != 1<<20 {
		t.Errorf("%d bytes", n)
	}
}

// TestWaits holds that what waits sees what comes late.
func TestWaits(t *testing.T) {
	polls := 0
	Wait(t, "third poll", func() bool { polls++; return polls == 3 })
	c := make(chan int)
	go func() { c <- 7 }()
	if v := Receive(t, "number", c); v != 7 || polls != 3 {
		t.Error(v, polls)
	}
	var said []string
	Return("writing", func() { said = append(said, strings.Repeat("x", 3)) })
	if !slices.Equal(said, []string{"xxx"}) {
		t.Error(said)
	}
}
