package hf

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/convert"
	"github.com/tensorfs/tensorfs/internal/convert/layout"
	"github.com/tensorfs/tensorfs/views/arrange"
)

// inputFactors are the ends of the names of tensors that scale what a weight of NVFP4 is multiplied
// by, where a program computes in NVFP4 too.
var inputFactors = []string{".input_scale", ".weight.input_scale"}

// factored is a model whose weights were multiplied by their factors.
type factored struct {
	*tensorfs.Model
	applied map[string]bool // weights, by their names in the file
	inputs  int
	rounded []string // weights whose products F32 does not hold
}

// withFactors returns the model with weights of NVFP4 that have a factor as F32, multiplied by it,
// and without the factors. Without any it returns the model.
func withFactors(m *tensorfs.Model) (*factored, error) {
	f := &factored{Model: m, applied: map[string]bool{}}
	if !slices.ContainsFunc(m.Tensors, func(t tensorfs.Tensor) bool { return t.Factor != "" }) {
		return f, nil
	}
	sources := make(map[string]bool, len(m.Tensors))
	for i := range m.Tensors {
		sources[m.Tensors[i].Source] = true
	}
	gone := map[string]bool{}
	list := slices.Clone(m.Tensors)
	for i := range list {
		t := &list[i]
		factor := m.Tensor(t.Factor)
		if factor == nil {
			continue
		}
		made, exact, err := multiplied(t, factor)
		if err != nil {
			return nil, fmt.Errorf("%s cannot be multiplied by %s: %w", tensorfs.Quote(t.Source), tensorfs.Quote(factor.Source), err)
		}
		if !exact {
			f.rounded = append(f.rounded, t.Name)
		}
		f.applied[t.Source], gone[factor.Source] = true, true
		for _, end := range inputFactors {
			if input := strings.TrimSuffix(t.Source, ".weight") + end; sources[input] {
				f.inputs++
				gone[input] = true
			}
		}
		made.Name, made.Source = t.Name, t.Source
		list[i] = *made
	}
	clean := *m
	clean.Tensors = slices.DeleteFunc(list, func(t tensorfs.Tensor) bool { return gone[t.Source] })
	f.Model = &clean
	return f, nil
}

// codeBits are the digits that a number of NVFP4 has: two of its code and four of its scale.
const codeBits = 6

// multiplied returns a tensor as F32, multiplied by its factor, or each matrix by a factor of its own,
// and whether F32 holds all products.
func multiplied(t, factor *tensorfs.Tensor) (made *tensorfs.Tensor, exact bool, err error) {
	if made, err = layout.Encoded(t, tensorfs.F32); err != nil {
		return nil, false, err
	}
	factors, err := layout.Floats(factor)
	if err != nil {
		return nil, false, err
	}
	exact = true
	parts := make([]*tensorfs.Tensor, len(factors))
	for i, x := range factors {
		size := math.Abs(float64(x))
		exact = exact && math.Float32bits(x)&(1<<codeBits-1) == 0 && (x == 0 || size > 0x1p-100 && size < 0x1p100)
		part := made
		if len(parts) > 1 {
			if part, err = arrange.Slice(made, 0, int64(i), 1); err != nil {
				return nil, false, err
			}
		}
		if parts[i], err = arrange.Multiply(part, x); err != nil {
			return nil, false, err
		}
	}
	made, err = arrange.Join(0, parts...)
	return made, exact, err
}

// notes describe what was done.
func (f *factored) notes() (notes []string) {
	if n := len(f.applied); n > 0 {
		notes = append(notes, fmt.Sprintf("weights of NVFP4 were multiplied by the second scale that the file has apart (X.scale of X.weight; weights: %d)", n))
	}
	if f.inputs > 0 {
		notes = append(notes, fmt.Sprintf("scales of activations are left out (X.input_scale of X.weight; weights: %d): the weights are plain numbers here", f.inputs))
	}
	if len(f.rounded) > 0 {
		notes = append(notes, convert.RoundedNotes(map[string][]string{tensorfs.F32.String(): f.rounded})...)
	}
	return notes
}
