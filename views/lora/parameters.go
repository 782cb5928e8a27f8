package lora

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/adapter"
	"github.com/tensorfs/tensorfs/formats/names"
)

// parameters applies PEFT's adapters of parameters of one module, stacks of experts. The
// modules are nested, and the innermost belongs to the first parameter. No name tells which
// one is which, so the shapes have to agree with that order, and with no other.
func (x *applied) parameters(list []adapter.Module) error {
	wanted := slices.Clone(list[0].Parameters)
	for _, name := range wanted {
		if !slices.Contains(stackOrder, name) {
			return x.refuse(list[0].A, "\"target_parameters\": %s is no stack of experts that is known: %s are", tensorfs.Quote(name), strings.Join(stackOrder, " and "))
		}
	}
	slices.SortFunc(wanted, func(a, b string) int { return slices.Index(stackOrder, a) - slices.Index(stackOrder, b) })
	if len(wanted) != len(list) {
		return x.refuse(list[0].A, "\"target_parameters\" names %d parameters of %s, and the file has %d", len(wanted), tensorfs.Quote(list[0].Name), len(list))
	}
	for i := range list {
		m := &list[i]
		s, why := x.stackOf(m, wanted[i])
		if why != "" {
			return x.refuse(m.A, "A of shape %v and B of shape %v for %s: %s", m.A.Shape, m.B.Shape, wanted[i], why)
		}
		if err := x.inStack(m, s); err != nil {
			return err
		}
	}
	if len(list) == 2 {
		_, not := x.stackOf(&list[0], wanted[1])
		_, neither := x.stackOf(&list[1], wanted[0])
		if not == "" && neither == "" {
			return x.refuse(list[0].A, "its shape does not tell which of %s it is for", strings.Join(wanted, " and "))
		}
	}
	return nil
}

// stackPlace is where a base has a stack of experts.
type stackPlace struct {
	name              string // canonical, of the stack as one tensor
	experts, rows, in int64  // of the weight as the adapter's model has it
	turned            bool   // that is [E, in, out]
}

// stackOf returns where the base has what a pair is for, or why not.
func (x *applied) stackOf(m *adapter.Module, parameter string) (s stackPlace, why string) {
	s.name = x.names[m.Name+"."+parameter]
	s.experts = m.A.Shape[0] / m.Rank
	var shape []int64
	inParts := false // which transformers joins as [E, out, in]
	if t := x.weights[s.name]; t != nil {
		shape = t.Numbers()
	} else {
		var each []*tensorfs.Tensor
		for _, part := range x.partsOf(s.name, 0) {
			if t := x.weights[part]; t != nil && len(t.Numbers()) == 2 {
				each = append(each, t)
			} else if t, _, ok := x.expertOf(part); ok {
				of := *t
				of.Shape, of.Quant = t.Numbers()[1:], nil
				each = append(each, &of)
			}
		}
		if len(each) == 0 || len(each) != len(x.partsOf(s.name, 0)) {
			return s, "the base has no " + tensorfs.Printable(s.name)
		}
		shape = []int64{s.experts, 0, each[0].Numbers()[1]}
		for _, t := range each {
			shape[1] += t.Numbers()[0]
		}
		inParts = true
		if why := names.Apart(x.m.Architecture, s.name, shape, 0); why != "" {
			return s, "the base has it in parts, and " + why
		}
	}
	if len(shape) != 3 || shape[0] != s.experts {
		return s, fmt.Sprintf("the base has shape %v", shape)
	}
	out, in := m.B.Shape[0], m.A.Shape[1]
	plain, turned := out == shape[1] && in == shape[2], in == shape[1] && out == shape[2]
	switch {
	case plain && turned && !inParts:
		return s, fmt.Sprintf("shape %v of the base does not tell rows from columns", shape)
	case !plain && !turned:
		return s, fmt.Sprintf("the base has shape %v", shape)
	}
	s.rows, s.in, s.turned = shape[1], shape[2], turned && !plain
	return s, ""
}

// partsOf returns the names of an expert's matrices that a stack joins.
func (b *builder) partsOf(name string, expert int64) []string {
	before, part, ok := strings.Cut(name, ".experts.")
	if !ok {
		return nil
	}
	one := func(part string) string { return fmt.Sprintf("%s.experts.%d.%s", before, expert, part) }
	if rest, ok := strings.CutPrefix(part, "gate_up."); ok {
		return []string{one("gate." + rest), one("up." + rest)}
	}
	return []string{one(part)}
}

// inStack adds a pair to a stack, or to the matrices of each expert.
func (x *applied) inStack(m *adapter.Module, s stackPlace) error {
	p := experts(m.A, m.B, m.Rank)
	if s.turned {
		p = expertsTurned(m.A, m.B, m.Rank)
	}
	if m.Magnitude != nil || m.Bias != nil {
		return x.refuse(m.A, "DoRA and biases of stacks of experts are not known")
	}
	place := &placed{applied: x, pair: p, about: m.A, scale: m.Scale}
	if t := x.weights[s.name]; t != nil {
		if x.a.Layout != x.m.Layout && names.Apart(x.m.Architecture, s.name, t.Numbers(), x.m.Dim()) != "" {
			return x.refuse(m.A, "rows of %s are in another order in GGUF files; name a base of Hugging Face", s.name)
		}
		return place.put(t, 0, p.rows, 0)
	}
	if s.turned {
		return x.refuse(m.A, "the base stores each expert of %s separately, and the adapter is for a transposed stack of experts", s.name)
	}
	return place.each(s.name, s.experts, s.rows)
}
