package mix

import (
	"fmt"
	"math"
	"slices"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/views"
	"github.com/tensorfs/tensorfs/views/kernel"
)

// Input is a tensor of one of the models.
type Input struct {
	Tensor  *tensorfs.Tensor
	Base    bool
	Weight  float64
	Density float64 // ties: the part of the differences that is kept
}

// Merge describes the computation of a tensor. D is the type DType, R(x) is rounding to it,
// and all steps are in F32; numbers x of the inputs are cast to D first.
//
//	linear           a = fma(w, x, a) over the inputs; R(a / sum of w) where Normalize, else R(a)
//	slerp            R(c0*x0 + c1*x1), x0 the base: c = sin((1-T)θ)/sin θ, sin(Tθ)/sin θ, where cos θ is
//	                 that between the whole tensors; above 0.9995, 1-T and T
//	task_arithmetic  d = R(x - base), q = R(w*d), M = R(sum of q), R(M / R(sum of w)) where Normalize,
//	                 R(M * Lambda), R(base + M)
//	ties             the same, but of each d only the Density*n largest, times R(sum of |d| / sum of
//	                 those kept) where Rescale; of the q only those with the sign of their sum, and
//	                 their w
//	passthrough      x, R(x * Scale) where there is one
type Merge struct {
	Method    string
	Inputs    []Input
	T         float64
	Lambda    float64
	Scale     *float64
	Normalize bool
	Rescale   bool
	// DType is F32, F16 or BF16; Unknown means the inputs' type, which must agree.
	DType tensorfs.DType
	// Out is the type of the result; Unknown is DType.
	Out tensorfs.DType
}

// Tensor returns the merged tensor, without a name. It reads nothing. If an error is about
// one of the inputs, it begins with the input's source name.
func (m Merge) Tensor() (t tensorfs.Tensor, err error) {
	if len(m.Inputs) == 0 {
		return t, fmt.Errorf("there is nothing to merge")
	}
	shape := m.Inputs[0].Tensor.Shape
	first := m.Inputs[0].Tensor.DType
	for _, in := range m.Inputs {
		x := in.Tensor
		switch {
		case x.Quant != nil || !merged(x.DType):
			return t, fmt.Errorf("%s is %s, and F32, F16 and BF16 are merged", tensorfs.Quote(x.Source), x.DType)
		case !slices.Equal(x.Shape, shape):
			return t, fmt.Errorf("%s has shape %v in one model and %v in another", tensorfs.Quote(x.Source), shape, x.Shape)
		case m.DType == tensorfs.Unknown && x.DType != first:
			return t, fmt.Errorf("%s is %s in one model and %s in another; say with dtype in which type to compute", tensorfs.Quote(x.Source), first, x.DType)
		}
	}
	if m.DType == tensorfs.Unknown {
		m.DType = first
	}
	if m.Out == tensorfs.Unknown {
		m.Out = m.DType
	}
	t = tensorfs.Tensor{DType: m.DType, Shape: shape}
	if t.Data, err = m.data(); err != nil {
		return t, err
	}
	if m.Out == m.DType {
		return t, nil
	}
	if t.Data, err = views.Encode(&t, m.Out); err != nil {
		return t, err
	}
	t.DType = m.Out
	return t, nil
}

// data is the merge in the type of the computation.
func (m Merge) data() (tensorfs.Data, error) {
	if m.Method == "passthrough" && m.Scale == nil {
		return views.Encode(m.Inputs[0].Tensor, m.DType)
	}
	f, err := formOf(m.DType)
	if err != nil {
		return nil, err
	}
	x := &mixed{form: f}
	for _, in := range m.Inputs {
		cast, err := views.Encode(in.Tensor, m.DType)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", tensorfs.Quote(in.Tensor.Source), err)
		}
		x.parts = append(x.parts, cast)
	}
	make, ok := methods[m.Method]
	if !ok {
		return nil, fmt.Errorf("there is no method %s", m.Method)
	}
	if x.prepare, err = make(&m, x.parts, f); err != nil {
		return nil, err
	}
	return x, nil
}

// merged reports whether a type's numbers are merged.
func merged(d tensorfs.DType) bool {
	return d == tensorfs.F32 || d == tensorfs.F16 || d == tensorfs.BF16
}

// combine computes numbers of D from the inputs' numbers. first is the number of the first
// element.
type combine func(dst []byte, in [][]byte, first int64)

// methods return the function that computes the numbers of a merge. They may read whole
// tensors for it, and run again after a failure.
var methods = map[string]func(m *Merge, parts []tensorfs.Data, f form) (func() (combine, error), error){
	"linear":          linear,
	"slerp":           slerp,
	"task_arithmetic": task,
	"ties":            ties,
	"passthrough":     scaled,
}

// once is a combine that needs no whole tensor.
func once(c combine) func() (combine, error) {
	return func() (combine, error) { return c, nil }
}

func linear(m *Merge, _ []tensorfs.Data, _ form) (func() (combine, error), error) {
	weights := make([]float32, len(m.Inputs))
	sum := float32(0)
	for i, in := range m.Inputs {
		weights[i] = float32(in.Weight)
		sum += weights[i]
	}
	by := float32(1)
	if m.Normalize {
		by = sum
	}
	if by == 0 {
		return nil, fmt.Errorf("the weights add up to 0, and normalize divides by that; change one, or give normalize: false")
	}
	sums, ok := kernel.NewWeightedSum(m.DType.String(), weights, by)
	if !ok {
		return nil, fmt.Errorf("numbers are not added up in %s", m.DType)
	}
	return once(func(dst []byte, in [][]byte, _ int64) { sums.Make(dst, in) }), nil
}

func scaled(m *Merge, _ []tensorfs.Data, f form) (func() (combine, error), error) {
	scale := float32(*m.Scale)
	return once(f.combine(func(dst []byte, in [][]byte, _ int64) {
		copy(dst, in[0])
		kernel.Multiply(dst, scale)
	})), nil
}

// colinear is the cosine above which slerp is linear.
const colinear = 0.9995

func slerp(m *Merge, parts []tensorfs.Data, f form) (func() (combine, error), error) {
	base := slices.IndexFunc(m.Inputs, func(in Input) bool { return in.Base })
	if base < 0 || len(m.Inputs) != 2 {
		return nil, fmt.Errorf("slerp wants a base and one other tensor")
	}
	other := 1 - base
	return func() (combine, error) {
		var sums kernel.Distances
		err := f.walk([]tensorfs.Data{parts[base], parts[other]}, func(in [][]byte, _ int64) { sums.Add(in[0], in[1]) })
		if err != nil {
			return nil, err
		}
		dot := sums.Dot()
		a, b := sums.Norms()
		for _, squares := range []float64{a, b} {
			if n := math.Sqrt(squares); n > 1e-8 {
				dot /= n
			}
		}
		dot = min(max(dot, -1), 1)
		c0, c1 := 1-m.T, m.T
		if math.Abs(dot) <= colinear {
			angle := math.Acos(dot)
			c0, c1 = math.Sin(float64((1-m.T)*angle))/math.Sin(angle), math.Sin(float64(m.T*angle))/math.Sin(angle)
		}
		return f.combine(func(dst []byte, in [][]byte, _ int64) {
			copy(dst, in[base])
			kernel.Multiply(dst, float32(c0))
			kernel.Multiply(in[other], float32(c1))
			kernel.Add(dst, in[other])
		}), nil
	}, nil
}
