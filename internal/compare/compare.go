package compare

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/views"
	"github.com/tensorfs/tensorfs/views/measure"
)

// Status is what a comparison of a pair comes to.
type Status string

// The statuses.
const (
	Equal     Status = "equal"
	Close     Status = "close"     // within the tolerance
	Different Status = "different" // beyond it, or stored bytes that differ and cannot be decoded
	Shape     Status = "shape"     // the shapes differ by more than dimensions of 1 in front, so nothing was compared
	OnlyA     Status = "only_a"
	OnlyB     Status = "only_b"
)

// Result is a pair, compared.
type Result struct {
	Pair
	Status     Status
	Tolerance  float64 // of the pair: see Tolerance
	Difference measure.Difference
	Reason     string // why there are no numbers to compare; "" if there are
}

// Options choose how to compare. The zero value is the default.
type Options struct {
	A, B      views.Options // how to read each model
	Tolerance float64       // of all pairs; 0: see Tolerance
	Progress  func(total int64) (add func(bytes int64))
}

// Compare compares pairs, in their order. It reads all numbers that both have, on
// all cores.
func Compare(ctx context.Context, pairs []Pair, opts Options) ([]Result, error) {
	results := make([]Result, len(pairs))
	var list []measure.Pair
	var of []int // index in results
	total := int64(0)
	for i, p := range pairs {
		r := &results[i]
		r.Pair = p
		switch {
		case p.B == nil:
			r.Status = OnlyA
		case p.A == nil:
			r.Status = OnlyB
		case !slices.Equal(trimmed(p.A.Numbers()), trimmed(p.B.Numbers())):
			r.Status = Shape
		default:
			r.Tolerance = opts.Tolerance
			if r.Tolerance == 0 {
				r.Tolerance = max(Tolerance(p.A), Tolerance(p.B))
			}
			m, why := numbers(p, opts)
			if r.Reason = why; m.A == nil && m.StoredA == nil {
				r.Status = Different
				continue
			}
			list, of = append(list, m), append(of, i)
			total += m.Bytes()
		}
	}
	var add func(int64)
	if opts.Progress != nil {
		add = opts.Progress(total)
	}
	found, err := measure.Compare(ctx, list, add)
	if err != nil {
		return nil, err
	}
	for i, d := range found {
		results[of[i]].judge(d)
	}
	return results, nil
}

// trimmed is a shape without dimensions of 1 in front, which GGUF files do not keep.
func trimmed(shape []int64) []int64 {
	for len(shape) > 0 && shape[0] == 1 {
		shape = shape[1:]
	}
	return shape
}

// judge interprets a difference.
func (r *Result) judge(d measure.Difference) {
	switch r.Difference = d; {
	case d.Equal:
		r.Status = Equal
	case d.Numbers && d.Odd == 0 && d.Max <= r.Tolerance*d.Largest:
		r.Status = Close
	default:
		r.Status = Different
	}
}

// numbers returns what there is to compare of two tensors of one shape, and why
// that is not numbers.
func numbers(p Pair, opts Options) (m measure.Pair, why string) {
	m.Name = p.Name
	if way := storage(p.A); way == storage(p.B) && opts.A.I2S == opts.B.I2S {
		m.StoredA, m.StoredB = stored(p.A), stored(p.B)
	}
	a, err := opts.A.Encode(p.A, tensorfs.F32)
	if err != nil {
		return m, err.Error()
	}
	b, err := opts.B.Encode(p.B, tensorfs.F32)
	if err != nil {
		return m, err.Error()
	}
	m.A, m.B = a, b
	return m, ""
}

// storage names the way in which a tensor is stored: two with the same name and the
// same bytes have the same numbers.
func storage(t *tensorfs.Tensor) string {
	s := fmt.Sprint(t.DType, t.BigEndian, t.Shape)
	if q := t.Quant; q != nil {
		s += fmt.Sprint(q.Mode, q.Bits, q.GroupSize, q.Block, q.Shards)
		for _, c := range companions(t) {
			s += fmt.Sprint(c.DType, c.BigEndian, c.Shape)
		}
	}
	return s
}

// stored returns the stored bytes of a tensor with its companions'.
func stored(t *tensorfs.Tensor) tensorfs.Data {
	if t.Quant == nil {
		return t.Data
	}
	all := []tensorfs.Data{t.Data}
	for _, c := range companions(t) {
		all = append(all, c.Data)
	}
	return tensorfs.Concat(all...)
}

// companions are the companions that a tensor's Quant names.
func companions(t *tensorfs.Tensor) (all []*tensorfs.Tensor) {
	for _, c := range []*tensorfs.Tensor{t.Quant.Scales, t.Quant.Biases, t.Quant.Global} {
		if c != nil {
			all = append(all, c)
		}
	}
	return append(all, t.Quant.Companions...)
}

// Tolerance returns how far numbers of a tensor may be from the numbers before conversion,
// as a part of the greatest of them: the rounding of its type.
//
//	F32, F16, BF16          half a unit in the last place: 2^-24, 2^-11, 2^-8
//	floats of 8 and 4 bits  the same: 2^-4 for F8_E4M3, 2^-2 for MXFP4
//	blocks of n-bit codes   2^-(n-1), as much as a quantiser may clip: 2^-7 for Q8_0, 2^-3 for Q4_0 and Q4_K
func Tolerance(t *tensorfs.Tensor) float64 {
	mantissa := t.DType.Mantissa()
	if n, ok := smallFloats[t.DType.String()]; ok {
		mantissa = n
	}
	if q := t.Quant; q != nil {
		if n, ok := smallFloats[q.Mode]; ok {
			mantissa = n
		} else if q.GroupSize > 0 {
			return math.Ldexp(1, 1-q.Bits)
		}
	}
	elems, _ := t.DType.Block()
	if mantissa == 0 && elems > 0 {
		return math.Ldexp(1, int(1-t.DType.Bits()/elems))
	}
	return math.Ldexp(1, -min(mantissa, 23)-1)
}

// smallFloats are the bits of the mantissa of floats of less than 16 bits, by the name
// of the type, or of the mode that has them with scales of groups.
var smallFloats = map[string]int{
	"F8_E4M3": 3, "F8_E4M3FNUZ": 3, "F8_E5M2": 2, "F8_E5M2FNUZ": 2, "MXFP4": 1, "NVFP4": 1,
	"mxfp8": 3, "mxfp4": 1, "nvfp4": 1,
}
