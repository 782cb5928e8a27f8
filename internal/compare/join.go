package compare

import (
	"fmt"
	"strings"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/views"
	"github.com/tensorfs/tensorfs/views/arrange"
)

// join makes tensors of s that the other model has joined or stacked, of parts that
// only s has. It returns a note for each kind.
func (s *side) join(other *side) (notes []string) {
	kinds := map[string]int{}
	for name, t := range other.tensors {
		if s.tensors[name] != nil || t.Apart != "" {
			continue
		}
		parts, dim := views.JoinedParts(name)
		join := func(ts []*tensorfs.Tensor) (*tensorfs.Tensor, error) { return arrange.Join(dim, ts...) }
		if parts == nil {
			parts = s.experts(name, t)
			join = func(ts []*tensorfs.Tensor) (*tensorfs.Tensor, error) { return arrange.Stack(ts...) }
		}
		if made := s.joined(other, name, parts, join); made != nil {
			for _, p := range parts {
				delete(s.tensors, p)
			}
			s.tensors[name] = made
			kinds[kind(name)]++
		}
	}
	for k, n := range kinds {
		notes = append(notes, fmt.Sprintf("%s has %s in parts, which are joined for the comparison (%d)", s.name, k, n))
	}
	return notes
}

// joined joins parts, or returns nil if one of them is missing, or is paired.
func (s *side) joined(other *side, name string, parts []string, join func([]*tensorfs.Tensor) (*tensorfs.Tensor, error)) *tensorfs.Tensor {
	ts := make([]*tensorfs.Tensor, len(parts))
	for i, p := range parts {
		if ts[i] = s.tensors[p]; ts[i] == nil || other.tensors[p] != nil {
			return nil
		}
	}
	if len(ts) == 0 {
		return nil
	}
	t, err := join(ts)
	if err != nil { // of several types, which are one as numbers
		for i := range ts {
			if ts[i], err = single(ts[i]); err != nil {
				return nil
			}
		}
		if t, err = join(ts); err != nil {
			return nil
		}
	}
	one := *t
	one.Name, one.Source = name, fmt.Sprintf("%s and %d more", ts[0].Source, len(ts)-1)
	if one.Quant != nil {
		q := *one.Quant
		q.Weight, one.Quant = "", &q
	}
	return &one
}

// single returns the numbers of a tensor as F32.
func single(t *tensorfs.Tensor) (*tensorfs.Tensor, error) {
	d, err := views.Encode(t, tensorfs.F32)
	return &tensorfs.Tensor{Name: t.Weight(), Source: t.Source, DType: tensorfs.F32, Shape: t.Numbers(), Data: d}, err
}

// experts returns the names of the tensors that a stack of experts holds:
// layers.0.ffn.experts.gate.weight holds layers.0.ffn.experts.0.gate.weight and so on. It
// is nil if one is missing: a shape may claim any number of them.
func (s *side) experts(name string, stack *tensorfs.Tensor) (parts []string) {
	before, after, ok := strings.Cut(name, ".experts.")
	shape := stack.Numbers()
	if !ok || len(shape) == 0 {
		return nil
	}
	for e := range shape[0] {
		part := fmt.Sprintf("%s.experts.%d.%s", before, e, after)
		if s.tensors[part] == nil {
			return nil
		}
		parts = append(parts, part)
	}
	return parts
}

// kind is a name without the number of its layer.
func kind(name string) string {
	if _, rest, ok := strings.Cut(name, "layers."); ok {
		if _, stem, ok := strings.Cut(rest, "."); ok {
			return stem
		}
	}
	return name
}
