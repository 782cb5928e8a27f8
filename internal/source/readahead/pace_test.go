package readahead

import (
	"testing"
	"time"
)

// More parts are under way only where that brings more.
func TestPace(t *testing.T) {
	const each = 10_000_000 // bytes a second of a connection
	for _, c := range []struct {
		name  string
		all   int64 // connections' worth that all of them share
		under func(parts int64) int64
		want  int64
	}{
		{"each connection is limited", 100, func(n int64) int64 { return n }, 16},
		{"all share a limit", 8, func(n int64) int64 { return n }, 8},
		{"all share less than a few take", 2, func(n int64) int64 { return n }, 8},
		{"a limit is reached in between", 11, func(n int64) int64 { return n }, 12},
		{"parts end and begin", 100, func(n int64) int64 { return n/2 + 1 }, 16},
		{"the reader is slow", 100, func(int64) int64 { return 2 }, 8},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, now := Pace{Parts: 8, More: 4, Most: 16, Size: 8 << 20}, time.Unix(1000, 0)
			for range 4000 { // 100 kB at a time, 400 MB in all
				under := c.under(p.Parts)
				now = now.Add(time.Second * 100_000 / time.Duration(each*min(under, c.all)))
				p.Came(100_000, under, now)
				if p.Parts > p.Most {
					t.Fatalf("%d parts", p.Parts)
				}
			}
			if p.Parts != c.want {
				t.Errorf("%d parts in the end, want %d", p.Parts, c.want)
			}
		})
	}
}
