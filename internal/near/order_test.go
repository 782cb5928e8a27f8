package near_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs/internal/near"
)

func TestCompare(t *testing.T) {
	for _, want := range []string{
		"layers.0.a layers.1.a layers.2.a layers.9.z layers.10.a layers.11.a layers.100.a",
		"a a01 a1 a1b a2 a010 b",
		"f16/layers.2 f16/layers.10 fused/a fused-f16/a",
		"experts.2.x experts.10.w layers.1 output token",
		"m-00001-of-00012 m-00002-of-00012 m-00010-of-00012",
		"x18446744073709551616 x18446744073709551617 x99999999999999999999999",
		"01 1 1.0 2 3b q4_k q8_0 ä",
	} {
		names := strings.Fields(want)
		for range 20 {
			rand.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
			slices.SortFunc(names, near.Compare)
			if got := strings.Join(names, " "); got != want {
				t.Fatalf("%s\nwant %s", got, want)
			}
		}
	}
}

// FuzzCompare holds that it is an order: what sorting needs.
func FuzzCompare(f *testing.F) {
	f.Add("layers.2.a", "layers.10.a", "layers.10")
	f.Add("1", "01", "001")
	f.Add("a/b", "a-b", "a0")
	f.Fuzz(func(t *testing.T, a, b, c string) {
		sign := func(n int) int { return min(max(n, -1), 1) }
		if sign(near.Compare(a, b)) != -sign(near.Compare(b, a)) || (near.Compare(a, b) == 0) != (a == b) {
			t.Fatalf("%q and %q: %d and %d", a, b, near.Compare(a, b), near.Compare(b, a))
		}
		if near.Compare(a, b) < 0 && near.Compare(b, c) < 0 && near.Compare(a, c) >= 0 {
			t.Fatalf("%q, %q and %q", a, b, c)
		}
	})
}
