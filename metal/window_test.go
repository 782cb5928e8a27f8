package metal

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// Every span that fits into some window lies whole in the window that windowOf
// names, at whatever offsets, sizes and overlaps.
func TestPlan(t *testing.T) {
	const page = 16
	rng := rand.New(rand.NewPCG(3, 4))
	for round := range 20_000 {
		limit := page * (1 + rng.Int64N(8))
		spans := make([]span, 1+rng.IntN(12))
		for i := range spans {
			spans[i] = span{off: rng.Int64N(300), bytes: rng.Int64N(limit + 20)}
		}
		given := slices.Clone(spans)
		starts := plan(spans, limit, page)
		if !slices.IsSorted(starts) || len(slices.Compact(slices.Clone(starts))) != len(starts) {
			t.Fatalf("round %d: starts %v are not ascending", round, starts)
		}
		for _, s := range given {
			start, ok := windowOf(starts, limit, s.off, s.bytes)
			fits := s.off%page+s.bytes <= limit
			if fits && !ok {
				t.Fatalf("round %d: span %+v is in none of the windows %v of %d", round, s, starts, limit)
			}
			if !ok {
				continue
			}
			if start%page != 0 || s.off < start || s.off+s.bytes > start+limit {
				t.Fatalf("round %d: span %+v is not inside the window at %d of %d", round, s, start, limit)
			}
		}
	}
}

func TestPlanMakesFewWindows(t *testing.T) {
	for _, c := range []struct {
		name  string
		spans []span
		limit int64
		want  []int64
	}{
		{"none", nil, 64, nil},
		{"one for a whole file", []span{{off: 20, bytes: 10}, {off: 30, bytes: 1000}}, 4096, []int64{16}},
		{"cut between", []span{{off: 0, bytes: 32}, {off: 32, bytes: 32}}, 32, []int64{0, 32}},
		{"overlap on the page that two share", []span{{off: 0, bytes: 40}, {off: 40, bytes: 40}}, 48, []int64{0, 32}},
		{"too large for any", []span{{off: 1, bytes: 64}, {off: 70, bytes: 8}}, 64, []int64{64}},
		{"a fused span and its parts", []span{{off: 16, bytes: 16}, {off: 16, bytes: 48}, {off: 32, bytes: 16}, {off: 48, bytes: 16}}, 48, []int64{16}},
	} {
		if got := plan(c.spans, c.limit, 16); !slices.Equal(got, c.want) {
			t.Errorf("%s: windows at %v, want %v", c.name, got, c.want)
		}
	}
}
