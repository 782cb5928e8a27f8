package measure

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/tensorfs/tensorfs"
)

// TestRank plants differences of known ranks.
func TestRank(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	const rows, cols = 300, 260
	a := make([]float32, rows*cols)
	for i := range a {
		a[i] = float32(random.NormFloat64())
	}
	for _, c := range []struct {
		rank    int
		decay   float64 // of each factor against the one before
		rounded bool    // to BF16
	}{{0, 1, false}, {1, 1, false}, {4, 1, false}, {8, 1, false}, {8, 0.7, false}, {8, 0.7, true}, {4, 1, true}, {16, 0.9, true}, {200, 1, false}, {200, 1, true}} {
		rank := c.rank
		b := slices.Clone(a)
		size := 0.05
		for range rank {
			u, v := make([]float64, rows), make([]float64, cols)
			for i := range u {
				u[i] = random.NormFloat64()
			}
			for i := range v {
				v[i] = size * random.NormFloat64()
			}
			size *= c.decay
			for i := range b {
				b[i] += float32(u[i/cols] * v[i%cols])
			}
		}
		if c.rounded {
			for _, list := range [][]float32{a, b} {
				for i, v := range list {
					list[i] = math.Float32frombits((math.Float32bits(v) + 0x8000) &^ 0xffff)
				}
			}
		}
		rankOf, err := Rank(context.Background(), Pair{A: floats(a), B: floats(b)}, cols, nil)
		if err != nil {
			t.Fatal(err)
		}
		got := rankOf.Effective
		if want := rank % 200; rankOf.Counted != want {
			t.Errorf("%+v: %d are counted (effective %.1f)", c, rankOf.Counted, got)
		}
		if low, high := 0.8*float64(rank), 1.1*float64(rank); c.decay == 1 && rank <= 8 && (got < low || got > high) || rank > 32 && got < MaxRank {
			t.Errorf("rank %d is found as %.2f", rank, got)
		}
	}
}

// endsWork is data whose reading ends the work.
type endsWork struct {
	tensorfs.Data
	end func()
}

func (e endsWork) ReadAt(b []byte, off int64) (int, error) {
	defer e.end()
	return e.Data.ReadAt(b, off)
}

// TestRankEnds holds that the numbers which were read already do not keep a rank going.
func TestRankEnds(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	numbers := tensorfs.Bytes(make([]byte, 4*64*64))
	if _, err := Rank(ctx, Pair{Name: "x", A: numbers, B: endsWork{numbers, stop}}, 64, nil); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
