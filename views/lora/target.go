package lora

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/adapter"
	"github.com/tensorfs/tensorfs/formats/architectures"
	"github.com/tensorfs/tensorfs/formats/names"
	"github.com/tensorfs/tensorfs/internal/convert/hf"
	"github.com/tensorfs/tensorfs/views"
	"github.com/tensorfs/tensorfs/views/arrange"
)

// Canonical names of the two ends of a model that may be one tensor.
const (
	embeddingName = "token_embedding.weight"
	outputName    = "output.weight"
)

// stackOrder is the order in which modules of stacked experts have their parameters,
// independent of the adapter's list.
var stackOrder = []string{"gate_up_proj", "down_proj"}

// canonical returns the canonical names of all that an adapter may be for.
func (b *builder) canonical(a *adapter.Adapter) map[string]string {
	var list []names.Source
	seen := map[string]bool{}
	add := func(name string, shape []int64) {
		if !seen[name] {
			seen[name] = true
			list = append(list, names.Source{Name: name, Shape: shape})
		}
	}
	layout := names.HF
	for _, m := range a.Modules {
		shape := []int64(nil)
		switch {
		case m.Weight != nil:
			shape = m.Weight.Shape
		case m.Tokens != nil: // there may be any number
		case m.A != nil && len(m.A.Shape) == 2 && !m.Embedding:
			shape = []int64{m.B.Shape[0], m.A.Shape[1]}
		}
		switch {
		case a.Layout == "gguf":
			layout = names.GGUF
			add(m.Name, shape)
		case m.Parameters != nil && !isPlain(m):
			for _, p := range m.Parameters {
				add(m.Name+"."+p, nil)
			}
		default:
			add(m.Name+".weight", shape)
			for _, t := range []*tensorfs.Tensor{m.Bias, m.WholeBias} {
				if t != nil {
					add(m.Name+".bias", t.Shape)
				}
			}
		}
	}
	all := make(map[string]string, len(list))
	for i, r := range names.Map(layout, b.m.Architecture, list) {
		if r.Mapped {
			all[list[i].Name] = r.Name
		}
	}
	return all
}

// baseTensor returns the base's tensor of a name that the adapter has: by its name in the files,
// or else by the canonical one, which it returns too.
func (x *applied) baseTensor(name string) (*tensorfs.Tensor, string) {
	canonical := x.names[name]
	if t := x.weights[canonical]; t != nil {
		return t, canonical
	}
	if t := x.sources[name]; t != nil && x.a.Layout == x.m.Layout {
		return t, t.Weight()
	}
	if canonical == "" {
		canonical = name
	}
	return nil, canonical
}

// modules applies what the adapter has for one module of the base: one part, or several
// nested ones.
func (x *applied) modules(list []adapter.Module) error {
	first := &list[0]
	if first.WholeBias != nil {
		if err := x.bias(first); err != nil {
			return err
		}
	}
	switch {
	case first.Parameters != nil && first.A != nil && !isPlain(*first):
		return x.parameters(list)
	case len(list) > 1:
		return x.refuse(anyOf(&list[1]), "%s has two of them", tensorfs.Quote(first.Name))
	case first.Weight != nil:
		return x.replaceWeight(first)
	case first.Tokens != nil:
		return x.tokens(first)
	case first.A == nil:
		return nil
	}
	return x.product(first)
}

// isPlain reports whether the parameter of a module that target_parameters names is its
// weight, such as a router's: one matrix like any other.
func isPlain(m adapter.Module) bool { return len(m.Parameters) == 1 && m.Parameters[0] == "weight" }

// anyOf is a tensor of a module, for messages.
func anyOf(m *adapter.Module) *tensorfs.Tensor {
	for _, t := range []*tensorfs.Tensor{m.A, m.B, m.Weight, m.WholeBias, m.Tokens, m.Magnitude, m.Bias} {
		if t != nil {
			return t
		}
	}
	return &tensorfs.Tensor{Source: m.Name}
}

// weightName is how the adapter calls the weight of a module.
func (x *applied) weightName(m *adapter.Module) string {
	if x.a.Layout == "gguf" {
		return m.Name
	}
	return m.Name + ".weight"
}

// product adds a product to the weight of a module.
func (x *applied) product(m *adapter.Module) error {
	to, canonical := x.baseTensor(x.weightName(m))
	if canonical == outputName && (to == nil || x.isTied()) {
		return x.noOutput(m.A, canonical)
	}
	b, err := x.inOrder(canonical, m.B, false)
	if err != nil {
		return err
	}
	p, columns, err := x.pairOf(m, b, to, canonical)
	if err != nil {
		return err
	}
	place := &placed{applied: x, pair: p, about: m.A, scale: m.Scale}
	columns = columns && !m.RowLengths
	if m.Magnitude != nil {
		mag := m.Magnitude
		if !columns {
			if mag, err = x.inOrder(canonical, mag, false); err != nil {
				return err
			}
		}
		if n := map[bool]int64{false: p.rows, true: p.columns}[columns]; mag.Shape[0] != n {
			return x.refuse(m.Magnitude, "shape %v, where the weight has %d", mag.Shape, n)
		}
		place.magnitude = &magnitude{base: mag, columns: columns}
	}
	if err := place.all(canonical); err != nil {
		return err
	}
	if m.Bias == nil {
		return nil
	}
	to, canonical = x.baseTensor(m.Name + ".bias")
	if to == nil {
		return x.refuse(m.Bias, "\"lora_bias\": the base has no %s to add it to", canonical)
	}
	add, err := x.inOrder(canonical, m.Bias, false)
	if err != nil {
		return err
	}
	return (&placed{applied: x, pair: bias(add), about: m.Bias, scale: m.Scale}).rows(canonical, 0, add.Shape[0])
}

// pairOf returns the matrices of a module, with B in the order of the base's rows. columns
// reports that DoRA's lengths belong to columns.
func (x *applied) pairOf(m *adapter.Module, b, to *tensorfs.Tensor, canonical string) (p *pair, columns bool, err error) {
	a, err := x.reorder(canonical, architectures.Columns, m.A)
	if err != nil {
		return nil, false, err
	}
	switch {
	case x.a.Layout == "gguf" && m.Embedding:
		return embedding(a, b), true, nil
	case len(b.Shape) == 3:
		return stack(a, b), false, nil
	case m.Embedding:
		return turned(a, b), true, nil
	case to == nil || len(to.Numbers()) != 2:
		return linear(a, b), false, nil
	}
	shape := to.Numbers()
	isLinear := shape[0] == b.Shape[0] && shape[1] == a.Shape[1]
	isTurned := shape[0] == a.Shape[1] && shape[1] == b.Shape[0]
	switch {
	case isLinear && isTurned && x.m.Layout == "hf" && x.a.Layout == "hf" && x.m.Format != mlxFormat && (m.FanInFanOut || x.isTransposed(canonical)), isTurned && !isLinear:
		if b != m.B {
			return nil, false, x.refuse(m.B, "%s of the base has its rows in another order, and columns in their place", canonical)
		}
		return turned(a, b), true, nil
	case isLinear:
		return linear(a, b), false, nil
	}
	return nil, false, x.another(a, "A of shape %v and B of shape %v are not for %s of shape %v", a.Shape, m.B.Shape, canonical, shape)
}

// moves returns the steps that convert a tensor between the two layouts.
func (x *applied) moves(canonical string) []architectures.Move {
	if a := architectures.Find(x.m.Architecture); a != nil {
		return a.MovesOf(canonical)
	}
	return nil
}

// isTransposed reports whether the two layouts swap rows and columns of a tensor.
func (x *applied) isTransposed(canonical string) bool {
	return slices.ContainsFunc(x.moves(canonical), func(m architectures.Move) bool { return m.Effect() == architectures.Transpose })
}

// inOrder returns an adapter's values for the rows of a tensor in the base's order. whole
// means that they are the weight itself, whose numbers may differ too.
func (x *applied) inOrder(canonical string, t *tensorfs.Tensor, whole bool) (*tensorfs.Tensor, error) {
	if x.a.Layout == x.m.Layout {
		return t, nil
	}
	for _, move := range x.moves(canonical) {
		if e := move.Effect(); e == architectures.Numbers || whole && e == architectures.Transpose {
			return nil, x.refuse(t, "GGUF files store %s in another form than Hugging Face's files (%s), and the adapter's values cannot be converted: name a base in the adapter's layout", canonical, move.Name)
		}
	}
	t, err := x.reorder(canonical, architectures.Rows, t)
	if err == nil && whole {
		t, err = x.reorder(canonical, architectures.Columns, t)
	}
	if err != nil || !architectures.Reordered(x.m.Architecture, canonical) {
		return t, err
	}
	head := x.m.ConfigInt("head_dim")
	if head < 2 || len(t.Shape) == 0 || t.Shape[0]%head != 0 {
		return nil, x.refuse(t, "shape %v does not divide into heads of %d", t.Shape, head)
	}
	move := arrange.Permute
	if x.m.Layout == "hf" {
		move = arrange.Unpermute
	}
	moved, err := move(t, t.Shape[0]/head)
	if err != nil {
		return nil, x.refuse(t, "%v", err)
	}
	return moved, nil
}

// isReordering reports whether a move changes only the place of rows or of columns.
func isReordering(m architectures.Move) bool {
	return m.Effect() == architectures.Rows || m.Effect() == architectures.Columns
}

// reorder brings the rows or columns of an adapter's tensor into the base's order.
func (x *applied) reorder(canonical string, axis architectures.Effect, t *tensorfs.Tensor) (*tensorfs.Tensor, error) {
	if x.a.Layout == x.m.Layout || !slices.ContainsFunc(x.moves(canonical), isReordering) {
		return t, nil
	}
	if x.order == nil {
		order, err := hf.Order(x.m)
		if err != nil {
			return nil, x.refuse(t, "where rows of %s are in the base is not known: %v", canonical, err)
		}
		x.builder.order = order
	}
	moved, err := x.order.Reorder(canonical, axis, t)
	if err != nil {
		return nil, x.refuse(t, "%v", err)
	}
	return moved, nil
}

// placed is a pair that is being added to tensors of the base.
type placed struct {
	*applied
	pair      *pair
	about     *tensorfs.Tensor
	scale     float64
	magnitude *magnitude
}

// put adds rows of the pair to a tensor.
func (p *placed) put(to *tensorfs.Tensor, from, n, at int64) error {
	shape := to.Numbers()
	switch {
	case columnsOf(shape) != p.pair.columns || from+n > rowsOf(shape):
		return p.another(p.about, "the product of A and B has %d rows of %d columns, and %s of the base has shape %v", p.pair.rows, p.pair.columns, to.Weight(), shape)
	case to.Quant == nil && to.DType.Kind() == tensorfs.KindInteger:
		return p.refuse(p.about, "%s of the base holds integers", to.Weight())
	}
	d := delta{pair: p.pair, from: from, n: n, at: at}
	if m := p.magnitude; m != nil {
		if m.columns && n != rowsOf(shape) {
			return p.refuse(p.about, "DoRA of columns holds for whole tensors, and the base has %s joined with others", to.Weight())
		}
		d.magnitude = &magnitude{base: m.base, columns: m.columns, at: at}
	}
	return p.add(to, d, p.scale, p.about)
}

// all adds the pair to the tensor of that canonical name: a stack of experts also to the
// matrices of each.
func (p *placed) all(name string) error {
	if p.weights[name] != nil || p.pair.matrices() == 1 {
		return p.rows(name, 0, p.pair.rows)
	}
	return p.each(name, p.pair.matrices(), p.pair.per)
}

// each adds a stack of experts, with so many rows for each, to the matrices that the base has
// of them.
func (p *placed) each(name string, experts, rows int64) error {
	for e := range experts {
		parts := p.partsOf(name, e)
		if parts == nil {
			return p.missing(p.about, name)
		}
		per := rows / int64(len(parts))
		for i, part := range parts {
			if err := p.rows(part, e*rows+int64(i)*per, per); err != nil {
				return err
			}
		}
	}
	return nil
}

// rows adds n rows of the pair from one on to a tensor of that canonical name, or to that
// which the base has in its place.
func (p *placed) rows(name string, at, n int64) error {
	if t := p.weights[name]; t != nil {
		if rowsOf(t.Numbers()) != n {
			return p.another(p.about, "B has %d rows for %s, and the base has shape %v", n, name, t.Numbers())
		}
		return p.put(t, 0, n, at)
	}
	if t, e, ok := p.expertOf(name); ok {
		per := t.Numbers()[1]
		if e >= t.Numbers()[0] || per != n {
			return p.another(p.about, "B has %d rows for %s, and the base has %s of shape %v", n, name, t.Weight(), t.Numbers())
		}
		return p.put(t, e*per, n, at)
	}
	for _, g := range views.GroupsOf(name) {
		ok, err := p.group(g, name, at, n)
		if ok || err != nil {
			return err
		}
	}
	return p.missing(p.about, name)
}

// expertOf returns the stack that has an expert's matrix, and its number.
func (b *builder) expertOf(name string) (*tensorfs.Tensor, int64, bool) {
	before, after, ok := strings.Cut(name, ".experts.")
	if !ok {
		return nil, 0, false
	}
	number, part, ok := strings.Cut(after, ".")
	var e int64
	if _, err := fmt.Sscanf(number, "%d", &e); err != nil || !ok || e < 0 {
		return nil, 0, false
	}
	t := b.weights[before+".experts."+part]
	return t, e, t != nil && len(t.Numbers()) == 3 && t.Apart == ""
}

// group adds rows to the parts of a matrix that the base does not have as one, or to a
// part of one that it has joined.
func (p *placed) group(g views.Group, name string, at, n int64) (ok bool, err error) {
	if g.Whole == name {
		var rows int64
		for _, part := range g.Parts {
			t := p.weights[part]
			if t == nil {
				return false, nil
			}
			rows += rowsOf(t.Numbers())
		}
		if rows != n {
			return false, p.another(p.about, "B has %d rows for %s, and the parts of it that the base has are %d", n, name, rows)
		}
		for _, part := range g.Parts {
			t := p.weights[part]
			rows := rowsOf(t.Numbers())
			if err := p.put(t, 0, rows, at); err != nil {
				return false, err
			}
			at += rows
		}
		return true, nil
	}
	whole, from := p.weights[g.Whole], int64(0)
	if whole == nil {
		var e int64
		if whole, e, ok = p.expertOf(g.Whole); !ok {
			return false, nil
		}
		from = e * whole.Numbers()[1]
	}
	all := rowsOf(whole.Numbers())
	if len(whole.Numbers()) == 3 {
		all = whole.Numbers()[1]
	}
	switch k := slices.Index(g.Parts, name); {
	case whole.Apart != "":
		return false, p.refuse(p.about, "%s of the base has it with others, and %s", whole.Weight(), whole.Apart)
	case k == 0:
	case k == len(g.Parts)-1:
		from += all - n
	default: // of q, k and v, where k has the rows of v
		from += all - 2*n
	}
	if n > all {
		return false, p.another(p.about, "B has %d rows for %s, and %s of the base has %d", n, name, whole.Weight(), all)
	}
	return true, p.put(whole, from, n, at)
}
