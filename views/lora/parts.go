package lora

import (
	"slices"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/adapter"
	"github.com/tensorfs/tensorfs/formats/architectures"
	"github.com/tensorfs/tensorfs/views"
	"github.com/tensorfs/tensorfs/views/arrange"
)

// Part is what an adapter adds to one weight of its base, in the base's layout.
type Part struct {
	Base  *tensorfs.Tensor
	A, B  *tensorfs.Tensor // [r, in] and [out, r], of an embedding [r, V] and [H, r]; of a stack [E, r, in] and [E, out, r]
	Scale float64          // of the product
	Rank  int64

	Magnitude *tensorfs.Tensor // of DoRA; nil without
	Embedding bool
}

// Parts returns what an adapter adds to a base, for programs that apply it themselves. An adapter that is
// more than products of two matrices is an error that names its tensor. The tensors are the adapter's,
// which stays open.
func Parts(m *tensorfs.Model, opts views.Options, u Use) ([]Part, *adapter.Adapter, error) {
	a, err := adapter.Of(u.Model)
	if err != nil {
		return nil, nil, err
	}
	b := newBuilder(m, opts)
	if err := b.fitsArchitecture(a); err != nil {
		return nil, nil, err
	}
	if err := orient(a); err != nil {
		return nil, nil, err
	}
	x := &applied{builder: b, a: a, by: u.Adapter, names: b.canonical(a)}
	var list []Part
	for i := range a.Modules {
		p, err := x.part(&a.Modules[i])
		if err != nil {
			return nil, nil, err
		}
		list = append(list, *p)
	}
	return list, a, nil
}

// part returns what a module adds.
func (x *applied) part(m *adapter.Module) (*Part, error) {
	switch {
	case m.A == nil || m.WholeBias != nil || m.Weight != nil:
		return nil, x.refuse(anyOf(m), "it is a whole tensor, and only the two factors of a change are written in another form")
	case m.Parameters != nil:
		return nil, x.refuse(m.A, "\"target_parameters\": only the factors of whole modules are written in another form")
	case m.Bias != nil:
		return nil, x.refuse(m.Bias, "it changes a bias, and only the two factors of a change are written in another form")
	case m.Magnitude != nil && m.Embedding:
		return nil, x.refuse(m.Magnitude, "DoRA of embeddings has another meaning in the other form")
	}
	to, canonical := x.baseTensor(x.weightName(m))
	if to == nil {
		return nil, x.missing(m.A, canonical)
	}
	var err error
	p := &Part{Base: to, A: m.A, B: m.B, Scale: m.Scale * x.by.Scale, Rank: m.Rank, Magnitude: m.Magnitude, Embedding: m.Embedding}
	if x.a.Layout == "gguf" && m.Embedding {
		if p.A, err = arrange.Transpose(m.A); err != nil {
			return nil, x.refuse(m.A, "%v", err)
		}
	}
	if p.B, err = x.inOrder(canonical, m.B, false); err != nil {
		return nil, err
	}
	if p.A, err = x.reorder(canonical, architectures.Columns, p.A); err != nil {
		return nil, err
	}
	if m.Magnitude != nil {
		if p.Magnitude, err = x.inOrder(canonical, m.Magnitude, false); err != nil {
			return nil, err
		}
	}
	dims := len(p.A.Shape)
	want := []int64{p.B.Shape[dims-2], p.A.Shape[dims-1]}
	switch {
	case m.Embedding:
		want = []int64{p.A.Shape[1], p.B.Shape[0]}
	case dims == 3:
		want = slices.Insert(want, 0, p.A.Shape[0])
	}
	if m.FanInFanOut || x.isTransposed(canonical) || !slices.Equal(to.Numbers(), want) {
		return nil, x.another(m.A, "A of shape %v and B of shape %v are not for %s of shape %v", p.A.Shape, p.B.Shape, to.Weight(), to.Numbers())
	}
	return p, nil
}

// Transposed returns a matrix with its columns as rows.
func Transposed(t *tensorfs.Tensor) (*tensorfs.Tensor, error) { return arrange.Transpose(t) }
