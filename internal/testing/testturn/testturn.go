// Package testturn measures two pieces of work of one thread in turn, on Linux by the time that
// processors spend on them, so that a busy machine shows less in their ratio.
package testturn

import (
	"runtime"
	"slices"
	"testing"
	"time"
)

// Measure reports the rate of work, which processes so many bytes each time, and its ratio
// to the rate of other, which processes as many: medians of both. called is other's name,
// without spaces. aim is the desired ratio; 0 if there is no aim.
//
//	GB/s         of work, on one processor
//	of:CALLED    its rate as a part of that of other
//	>=of:CALLED  what that part is to be
func Measure(b *testing.B, bytes int, called string, aim float64, work, other func()) {
	b.Helper()
	b.ReportAllocs()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var times, others []time.Duration
	for b.Loop() {
		start := now()
		work()
		middle := now()
		other()
		times, others = append(times, middle-start), append(others, now()-middle)
	}
	median := func(list []time.Duration) float64 {
		slices.Sort(list)
		return float64(list[len(list)/2])
	}
	ns := median(times)
	b.ReportMetric(ns, "ns/op")
	b.ReportMetric(float64(bytes)/ns, "GB/s")
	b.ReportMetric(median(others)/ns, "of:"+called)
	if aim > 0 {
		b.ReportMetric(aim, ">=of:"+called)
	}
}
