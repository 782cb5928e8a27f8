package views

import (
	"cmp"
	"fmt"
	"slices"
	"sort"
	"strings"

	"github.com/tensorfs/tensorfs"
)

// fused joins the groups of packed/ whose parts agree in type, so that nothing
// is converted.
func fused(b *basis) (Tensors, Absent) {
	return fuse("packed", b.packed(), b.groups(), joinPacked)
}

// fusedF16 joins the groups of f16/ whose columns agree.
func fusedF16(b *basis) (Tensors, Absent) {
	return fuse("f16", b.f16(), b.groups(), join)
}

// joinPacked joins packed parts, or returns why a kernel could not take the result.
func joinPacked(parts []tensorfs.Tensor, g *group) (tensorfs.Tensor, string) {
	first := &parts[0]
	if first.Quant != nil {
		return fuseModules(parts, g)
	}
	for i := range parts[1:] {
		if p := &parts[1+i]; p.DType != first.DType || p.Quant != nil {
			return tensorfs.Tensor{}, fmt.Sprintf("%s is %s and %s is %s: rows of different types cannot be in one matrix; see fused-f16/", first.Name, typeName(first), p.Name, typeName(p))
		}
	}
	if first.DType.Whole() {
		return tensorfs.Tensor{}, fmt.Sprintf("%s keeps its scale outside the rows, so matrices of it cannot be joined; see fused-f16/", first.DType)
	}
	for i := range parts {
		if p, n := &parts[i], first.DType.RowGroup(); !p.WholeRowGroups() {
			return tensorfs.Tensor{}, fmt.Sprintf("%s mixes the bytes of %d rows, and the rows of %s are not a multiple of %d; see fused-f16/", p.DType, n, p.Name, n)
		}
	}
	f, reason := join(parts, g)
	if reason == "" {
		f.Parts = layOut(part{"weights", f.DType.String(), f.Data})
	}
	return f, reason
}

func typeName(t *tensorfs.Tensor) string {
	if q := t.Quant; q != nil {
		return fmt.Sprintf("%s of %d bits in groups of %d", q.Mode, q.Bits, q.GroupSize)
	}
	return t.DType.String()
}

// candidate is a group at a place where the model has a part of it.
type candidate struct {
	group *group
	at    place
	name  string // of the joined tensor
}

// joiner joins a group's parts into one tensor, or returns why that is not possible.
type joiner func(parts []tensorfs.Tensor, g *group) (tensorfs.Tensor, string)

// fusions are the tensors of a fused view.
type fusions struct {
	*candidates
	view  string  // the view with the parts
	have  Tensors // of that view: parts, and groups that are stored as one tensor
	join  joiner
	index []int32 // of list, in the order of the names
}

func (f *fusions) Len() int          { return len(f.index) }
func (f *fusions) Name(i int) string { return f.list[f.index[i]].name }

func (f *fusions) At(i int) tensorfs.Tensor {
	t, _ := f.make(f.list[f.index[i]]) // fuse kept only groups that can be joined
	return t
}

// sort orders by name.
func (f *fusions) sort() {
	slices.SortFunc(f.index, func(a, b int32) int { return strings.Compare(f.list[a].name, f.list[b].name) })
}

// apart are the groups that a fused view cannot join.
type apart struct{ fusions }

func (a *apart) Lost(i int) bool { return a.inModel(a.list[a.index[i]]) }

func (a *apart) Reason(i int) string {
	_, reason := a.make(a.list[a.index[i]])
	return reason
}

// make builds one group, or returns why that is not possible. A tensor that is stored under
// the group's name wins over a computed one.
func (f *fusions) make(c candidate) (tensorfs.Tensor, string) {
	if stored := f.stored(c.name); stored != nil {
		i, ok := Find(f.have, c.name)
		switch {
		case !ok:
			return tensorfs.Tensor{}, f.missing(c.name)
		case stored.Apart != "":
			return tensorfs.Tensor{}, stored.Apart + "; see " + f.view + "/"
		}
		return f.have.At(i), ""
	}
	parts := make([]tensorfs.Tensor, len(c.group.parts))
	for k, stem := range c.group.parts {
		i, ok := Find(f.have, c.at.name(stem))
		if !ok {
			return tensorfs.Tensor{}, f.missing(c.parts()...)
		}
		parts[k] = f.have.At(i)
	}
	t, reason := f.join(parts, c.group)
	t.Name = c.name
	return t, reason
}

// inModel reports whether the model has all parts of the group.
func (f *fusions) inModel(c candidate) bool {
	return f.stored(c.name) != nil || !slices.ContainsFunc(c.parts(), func(name string) bool { return f.stored(name) == nil })
}

// parts returns the names of the group's parts.
func (c candidate) parts() []string {
	names := make([]string, len(c.group.parts))
	for i, stem := range c.group.parts {
		names[i] = c.at.name(stem)
	}
	return names
}

// fuse makes the view of that name: every candidate whose parts have can join. Other
// candidates are absent.
func fuse(view string, have Tensors, all *candidates, join joiner) (Tensors, Absent) {
	f := &fusions{candidates: all, view: view, have: have, join: join}
	left := &apart{*f}
	built := map[string]bool{}
	for i, c := range all.list {
		name, fallback := c.name, c.group.fallback
		if fallback != "" && f.stored(name) == nil && (built[c.at.name(fallback)] || c.at.param != "weight") {
			continue
		}
		if _, reason := f.make(c); reason != "" {
			left.index = append(left.index, int32(i))
			continue
		}
		built[name] = true
		f.index = append(f.index, int32(i))
	}
	f.sort()
	left.sort()
	return f, Absent{left}
}

// missing names the tensors of a group that the model lacks. If only the view of the parts
// lacks them, it gives that view's reason.
func (f *fusions) missing(need ...string) string {
	var inModel, inView []string
	for _, name := range need {
		if f.stored(name) == nil {
			inModel = append(inModel, name)
		} else if _, ok := Find(f.have, name); !ok {
			inView = append(inView, name)
		}
	}
	if inModel != nil {
		return "the model has no " + strings.Join(inModel, " and no ")
	}
	return f.view + "/ has no " + strings.Join(inView, " and no ")
}

// candidates are the groups that a model has in part or whole, each once, fallbacks last.
type candidates struct {
	list    []candidate
	weights listed // all tensors
}

// stored returns the model's tensor of a name, which may be the name of a weight whose codes are
// stored under another, or nil.
func (c *candidates) stored(name string) *tensorfs.Tensor {
	i := sort.Search(c.weights.Len(), func(i int) bool { return c.weights.Name(i) >= name })
	if i == c.weights.Len() || c.weights.Name(i) != name {
		return nil
	}
	return &c.weights.from[c.weights.index[i]]
}

func findCandidates(all []tensorfs.Tensor) *candidates {
	type key struct{ tower, stem string }
	byPart := map[key][]*group{}
	for i := range groups {
		g := &groups[i]
		for _, stem := range append([]string{g.out}, g.parts...) {
			byPart[key{g.tower, stem}] = append(byPart[key{g.tower, stem}], g)
		}
	}
	c := &candidates{weights: listed{from: all, index: make([]int32, len(all))}}
	seen := make(map[string]bool, len(all)/2)
	for i := range all {
		weight := all[i].Weight()
		c.weights.index[i] = int32(i)
		tower, at, stem, ok := locate(weight)
		if !ok {
			continue
		}
		for _, g := range byPart[key{tower, stem}] {
			if name := at.name(g.out); !seen[name] {
				seen[name] = true
				c.list = append(c.list, candidate{g, at, name})
			}
		}
	}
	c.weights.sort()
	c.list = slices.Clip(slices.Clone(c.list))
	slices.SortStableFunc(c.list, func(a, b candidate) int {
		return cmp.Compare(len(a.group.fallback), len(b.group.fallback))
	})
	return c
}

// join puts the rows of the parts back to back; for stacked experts, expert by expert.
func join(parts []tensorfs.Tensor, g *group) (tensorfs.Tensor, string) {
	var f tensorfs.Tensor
	if i := slices.IndexFunc(parts, func(p tensorfs.Tensor) bool { return p.Factor != "" }); i >= 0 {
		return f, fmt.Sprintf("%s is multiplied by a factor of its own, %s; see packed/ and f16/", parts[i].Name, parts[i].Factor)
	}
	shape, reason := joinShapes(parts, g)
	if reason != "" {
		return f, reason
	}
	data := make([]tensorfs.Data, len(parts))
	for i, p := range parts {
		data[i] = p.Data
	}
	f = tensorfs.Tensor{Source: joinSources(parts), DType: parts[0].DType, Shape: shape, MayOverflow: anyMayOverflow(parts)}
	f.Data = tensorfs.Interleave(rounds(shape, g), data...)
	if size, ok := f.DType.Size(shape); !ok || size != f.Data.Size() {
		return f, fmt.Sprintf("shape %v has more bytes than any file", shape)
	}
	return f, ""
}

// rounds is the number of experts that take turns.
func rounds(shape []int64, g *group) int64 {
	if g.experts {
		return shape[0]
	}
	return 1
}

func joinSources(parts []tensorfs.Tensor) string {
	names := make([]string, len(parts))
	for i, p := range parts {
		names[i] = p.Source
	}
	return strings.Join(names, "+")
}

func anyMayOverflow(parts []tensorfs.Tensor) bool {
	return slices.ContainsFunc(parts, func(p tensorfs.Tensor) bool { return p.MayOverflow })
}

// joinShapes returns the shape of the joined matrix: rows add up, everything else agrees.
// Stacks of experts are [experts, rows, columns], or [experts, rows] for a bias; any other
// shape under such a name does not tell which dimension is rows.
func joinShapes(parts []tensorfs.Tensor, g *group) ([]int64, string) {
	first := &parts[0]
	shape := slices.Clone(first.Shape)
	rows := 0
	if g.experts {
		rows = 1
		dims := 2
		if strings.HasSuffix(first.Name, ".weight") {
			dims = 3
		}
		if len(shape) != dims {
			return nil, fmt.Sprintf("%s has the shape %v, where a stack of experts has %d dimensions", first.Name, shape, dims)
		}
	}
	if len(shape) == 0 {
		return nil, first.Name + " is a single number, which has no rows to join"
	}
	for i := range parts[1:] {
		p := &parts[1+i]
		fits := len(p.Shape) == len(shape)
		for i := range shape {
			fits = fits && (i == rows || p.Shape[i] == shape[i])
		}
		if !fits {
			return nil, fmt.Sprintf("%s of shape %v and %s of shape %v have no common columns", first.Name, first.Shape, p.Name, p.Shape)
		}
		if shape[rows] += p.Shape[rows]; shape[rows] < 0 {
			return nil, "the joined matrix would have 2^63 rows or more"
		}
	}
	if _, ok := tensorfs.Elements(shape); !ok {
		return nil, "the joined matrix would have 2^63 elements or more"
	}
	return shape, ""
}

// fuseModules joins modules of codes, scales and biases section by section:
// [Wq|Wk|Wv|Sq|Sk|Sv|Bq|Bk|Bv], which is the packed form of the joined matrix.
func fuseModules(parts []tensorfs.Tensor, g *group) (tensorfs.Tensor, string) {
	first := &parts[0]
	for i := range parts {
		p := &parts[i]
		if p.Quant == nil || p.Quant.Mode != first.Quant.Mode || p.Quant.Bits != first.Quant.Bits || p.Quant.GroupSize != first.Quant.GroupSize || p.DType != first.DType {
			return tensorfs.Tensor{}, fmt.Sprintf("%s is %s and %s is %s: a kernel cannot take both at once; see fused-f16/", first.Name, typeName(first), p.Name, typeName(p))
		}
		if p.Quant.Global != nil {
			return tensorfs.Tensor{}, fmt.Sprintf("%s has a global scale of its own; see fused-f16/", p.Name)
		}
	}
	shape, reason := joinShapes(parts, g)
	if reason != "" {
		return tensorfs.Tensor{}, reason
	}
	var joined []part
	for s, p := range first.Parts {
		data := make([]tensorfs.Data, len(parts))
		for i, p := range parts {
			data[i] = tensorfs.Section(p.Data, p.Parts[s].Offset, p.Parts[s].Bytes)
		}
		joined = append(joined, part{p.Name, p.DType, tensorfs.Interleave(rounds(shape, g), data...)})
	}
	quant := *first.Quant
	quant.Shape, quant.Weight = shape, ""
	f := tensorfs.Tensor{Source: joinSources(parts), DType: first.DType, Quant: &quant, MayOverflow: anyMayOverflow(parts)}
	return packModule(&f, joined), ""
}
