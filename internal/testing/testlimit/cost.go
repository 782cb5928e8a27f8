package testlimit

import (
	"encoding/json"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// attempts is how often something is measured that costs too much, because a
// neighbour can make anything look slow once.
const attempts = 5

// processor returns what this process has used of the processors.
func processor(t testing.TB) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func measure(t testing.TB, fn func()) time.Duration {
	before := processor(t)
	fn()
	return processor(t) - before
}

// text is a JSON text of a mebibyte.
var text = sync.OnceValue(func() []byte {
	const one, size = `{"name":[1,2.5,true]}`, 1 << 20
	return []byte("[" + strings.Repeat(one+",", size/(len(one)+1)) + one + "]")
})

// unit returns the processor time of one unit of work: encoding/json looks
// through a mebibyte. It is some 5 ms of a fast processor.
func unit(t testing.TB) time.Duration {
	return measure(t, func() {
		if !json.Valid(text()) {
			t.Fatal("the text is not valid JSON")
		}
	})
}

// least is the shortest time of a unit so far, in nanoseconds. It spares what
// costs far too little to be compared with care.
var least atomic.Int64

// Work holds that fn needs the processor no longer than units of work do, where
// a unit is a look through a mebibyte of JSON. It calls fn again, up to five
// times in all, when that is not so.
func Work(t testing.TB, units int, fn func()) {
	t.Helper()
	text()
	if least.Load() == 0 {
		least.Store(int64(unit(t)))
	}
	var used, one time.Duration
	for range attempts {
		if used = measure(t, fn); used <= time.Duration(units)*time.Duration(least.Load())/4 {
			return
		}
		one = unit(t)
		least.Store(min(least.Load(), int64(one)))
		if used <= time.Duration(units)*one {
			return
		}
	}
	t.Errorf("it takes %v of processor time; %d units, of %v each, are allowed", used, units, one)
}

// Growth holds that fn(4*n) needs the processor no more than ten times as long
// as fn(n): 4 is linear, 16 is quadratic. n has to be so large that the parts that
// do not grow are small.
func Growth(t testing.TB, n int, fn func(n int)) {
	t.Helper()
	const most = 10
	var small, large time.Duration
	for i := range attempts {
		s, l := measure(t, func() { fn(n) }), measure(t, func() { fn(4 * n) })
		if i == 0 {
			small, large = s, l
		}
		small, large = min(small, s), min(large, l)
		if large <= most*small {
			return
		}
	}
	t.Errorf("%d take %v of processor time and %d take %v", n, small, 4*n, large)
}

// Allocated returns the bytes that the process allocates while fn runs.
func Allocated(fn func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	fn()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}
