package measure

import (
	"cmp"
	"context"
	"math"
	"slices"
)

// sketched is how many columns a difference is multiplied by to find its rank.
const sketched = 32

// MaxRank is the largest rank that a sketch can determine.
const MaxRank = 24

// DifferenceRank is the rank of the difference of two matrices, as a sketch shows it: the difference times 32 columns of
// fixed signs.
type DifferenceRank struct {
	// Effective is the exponential of the entropy of the squares of the singular values. It is below the rank, the more
	// so the more uneven they are; 0 if both matrices are equal, and MaxRank or more if the rank is larger.
	Effective float64
	// Counted is the number of singular values above the noise of rounding; 0 if no gap sets them apart.
	Counted int
}

// Rank returns the rank of b - a, two matrices of rows of cols numbers.
func Rank(ctx context.Context, p Pair, cols int64, add func(int64)) (DifferenceRank, error) {
	r := newRun(ctx, add)
	defer r.stop(nil)
	return r.rank(p, cols)
}

// Ranked are two matrices of rows of Cols numbers.
type Ranked struct {
	Pair
	Cols int64
}

// Ranks is [Rank] of several pairs at a time, with an effective rank of at most MaxRank.
func Ranks(ctx context.Context, list []Ranked, add func(int64)) ([]DifferenceRank, error) {
	r := newRun(ctx, add)
	ranks := make([]DifferenceRank, len(list))
	err := r.each(len(list), func(i int) error {
		rank, err := r.rank(list[i].Pair, list[i].Cols)
		rank.Effective = min(rank.Effective, MaxRank)
		ranks[i] = rank
		return err
	})
	return ranks, err
}

func (r *run) rank(p Pair, cols int64) (d DifferenceRank, err error) {
	signs := signsOf(cols)
	n := p.A.Size() / 4
	rows := max(piece/cols, 1) * cols // whole rows
	type gram = [sketched][sketched]float64
	parts := (n + rows - 1) / rows
	var g gram
	b := new(buffer)
	for i := range parts {
		first := i * rows
		take := min(rows, n-first)
		x, err := r.read(p.A, &b.a, 4*first, 4*take)
		if err != nil {
			return d, named(p.Name, err)
		}
		y, err := r.read(p.B, &b.b, 4*first, 4*take)
		if err != nil {
			return d, named(p.Name, err)
		}
		for len(x) >= int(4*cols) {
			if r.ctx.Err() != nil {
				return d, context.Cause(r.ctx)
			}
			var s [sketched]float64
			for j := range cols {
				d := float64(float32At(y[4*j:])) - float64(float32At(x[4*j:]))
				if d == 0 || d-d != 0 {
					continue
				}
				w := signs[j]
				for k := range s {
					if w>>k&1 != 0 {
						s[k] += d
					} else {
						s[k] -= d
					}
				}
			}
			for k := range s {
				for l := 0; l <= k; l++ {
					g[k][l] += float64(s[k] * s[l])
				}
			}
			x, y = x[4*cols:], y[4*cols:]
		}
	}
	for k := range g {
		for l := range k {
			g[l][k] = g[k][l]
		}
	}
	squares := eigenvalues(&g)
	d.Effective = entropyRank(squares)
	d.Counted = countRank(squares, d.Effective)
	return d, nil
}

// signsOf are random signs for each column, 32 in a word: the same on every machine.
func signsOf(cols int64) []uint32 {
	list := make([]uint32, cols)
	state := uint64(0x9E3779B97F4A7C15)
	for i := range list { // splitmix64
		state += 0x9E3779B97F4A7C15
		z := state
		z = (z ^ z>>30) * 0xBF58476D1CE4E5B9
		z = (z ^ z>>27) * 0x94D049BB133111EB
		list[i] = uint32((z ^ z>>31) >> 32)
	}
	return list
}

// entropyRank is the effective rank of squares of singular values.
func entropyRank(squares []float64) float64 {
	sum := 0.0
	for _, s := range squares {
		sum += max(s, 0)
	}
	if sum == 0 {
		return 0
	}
	h := 0.0
	for _, s := range squares {
		if p := max(s, 0) / sum; p > 1e-12 {
			h -= p * math.Log(p)
		}
	}
	return math.Exp(h)
}

// leastGap is how far squares of singular values are above the noise that follows them: noise itself has smaller gaps.
const leastGap = 8

// countRank returns how many squares come before the widest gap, 0 if none is wide.
func countRank(squares []float64, effective float64) (rank int) {
	sorted := slices.Clone(squares)
	slices.SortFunc(sorted, func(a, b float64) int { return cmp.Compare(b, a) })
	widest, least := float64(leastGap), 1e-13*sorted[0] // less is rounding of the sketch itself
	for k := 1; k < MaxRank; k++ {
		if float64(k) < effective-0.5 || sorted[k-1] <= least {
			continue
		}
		if gap := sorted[k-1] / max(sorted[k], least); gap > widest {
			widest, rank = gap, k
		}
	}
	return rank
}

// eigenvalues computes the eigenvalues of a symmetric matrix by Jacobi's rotations.
func eigenvalues(a *[sketched][sketched]float64) []float64 {
	for range 60 {
		off := 0.0
		for i := range a {
			for j := range i {
				off += a[i][j] * a[i][j]
			}
		}
		if off == 0 {
			break
		}
		for p := range a {
			for q := p + 1; q < sketched; q++ {
				if a[p][q] == 0 {
					continue
				}
				theta := (a[q][q] - a[p][p]) / (2 * a[p][q])
				t := 1 / (math.Abs(theta) + math.Hypot(theta, 1))
				if theta < 0 {
					t = -t
				}
				c := 1 / math.Hypot(t, 1)
				s := t * c
				for k := range a {
					x, y := a[k][p], a[k][q]
					a[k][p], a[k][q] = c*x-s*y, s*x+c*y
				}
				for k := range a {
					x, y := a[p][k], a[q][k]
					a[p][k], a[q][k] = c*x-s*y, s*x+c*y
				}
			}
		}
	}
	values := make([]float64, sketched)
	for i := range a {
		values[i] = a[i][i]
	}
	return values
}
