package measure

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestRank plants differences of known ranks.
func TestRank(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	const rows, cols = 300, 260
	a := make([]float32, rows*cols)
	for i := range a {
		a[i] = float32(random.NormFloat64())
	}
	for _, rank := range []int{0, 1, 4, 8, 200} {
		b := slices.Clone(a)
		for range rank {
			u, v := make([]float64, rows), make([]float64, cols)
			for i := range u {
				u[i] = random.NormFloat64()
			}
			for i := range v {
				v[i] = 0.01 * random.NormFloat64()
			}
			for i := range b {
				b[i] += float32(u[i/cols] * v[i%cols])
			}
		}
		got, err := Rank(context.Background(), Pair{A: floats(a), B: floats(b)}, cols, nil)
		if err != nil {
			t.Fatal(err)
		}
		if low, high := 0.8*float64(rank), 1.1*float64(rank); rank <= 8 && (got < low || got > high) || rank > 32 && got < MaxRank {
			t.Errorf("rank %d is found as %.2f", rank, got)
		}
	}
}
