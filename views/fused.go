package views

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/tensorfs/tensorfs"
)

// fused joins the groups of packed/ whose parts agree in type, so that nothing
// is converted.
func fused(ts []tensorfs.Tensor, opts Options) (Tensors, []Absent) {
	parts, _ := packed(ts, opts)
	return fuse(parts, ts, joinPacked)
}

// fusedF16 joins the groups of f16/ whose columns agree.
func fusedF16(ts []tensorfs.Tensor, opts Options) (Tensors, []Absent) {
	parts, _ := f16(ts, opts)
	return fuse(parts, ts, join)
}

// joinPacked joins packed parts, or says why a kernel could not take the result.
func joinPacked(parts []tensorfs.Tensor, g *group) (tensorfs.Tensor, string) {
	first := &parts[0]
	if first.Quant != nil {
		return fuseModules(parts, g)
	}
	for i := range parts[1:] {
		if p := &parts[1+i]; p.DType != first.DType || p.Quant != nil {
			return tensorfs.Tensor{}, fmt.Sprintf("%s is %s and %s is %s: rows of different types cannot stand in one matrix; see fused-f16/", first.Name, typeName(first), p.Name, typeName(p))
		}
	}
	if first.DType.Whole() {
		return tensorfs.Tensor{}, fmt.Sprintf("%s keeps its scale outside of the rows, so matrices of it cannot be joined; see fused-f16/", first.DType)
	}
	if n := rowsTogether[first.DType]; n > 0 {
		for _, p := range parts {
			if g.experts || len(p.Shape) < 2 || p.Shape[len(p.Shape)-2]%n != 0 {
				return tensorfs.Tensor{}, fmt.Sprintf("%s mixes the bytes of %d rows, which does not divide the rows of %s; see fused-f16/", first.DType, n, p.Name)
			}
		}
	}
	f, reason := join(parts, g)
	if reason == "" {
		f.Sections = sections(part{"weights", f.DType.String(), f.Data})
	}
	return f, reason
}

// rowsTogether is how many rows stand interleaved in a stored type.
var rowsTogether = map[tensorfs.DType]int64{tensorfs.Q4_0_4_4: 4, tensorfs.Q4_0_4_8: 4, tensorfs.Q4_0_8_8: 8}

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
}

func (c candidate) name() string { return c.at.name(c.group.out) }

// joiner makes one tensor of a group's parts, or says why that is not possible.
type joiner func(parts []tensorfs.Tensor, g *group) (tensorfs.Tensor, string)

// fusions are the tensors of a fused view.
type fusions struct {
	have  Tensors // the parts, and groups that are stored as one tensor
	built []candidate
	join  joiner
}

func (f *fusions) Len() int          { return len(f.built) }
func (f *fusions) Name(i int) string { return f.built[i].name() }

func (f *fusions) At(i int) tensorfs.Tensor {
	t, _ := f.make(f.built[i]) // fuse kept only those that can be made
	return t
}

// make builds one group. A tensor that is stored under the group's name wins
// over a computed one.
func (f *fusions) make(c candidate) (tensorfs.Tensor, string) {
	name := c.name()
	if i, ok := Find(f.have, name); ok {
		return f.have.At(i), ""
	}
	parts := make([]tensorfs.Tensor, 0, len(c.group.parts))
	var missing []string
	for _, stem := range c.group.parts {
		part := c.at.name(stem)
		if i, ok := Find(f.have, part); ok {
			parts = append(parts, f.have.At(i))
		} else {
			missing = append(missing, part)
		}
	}
	if len(missing) > 0 {
		return tensorfs.Tensor{}, "a part is missing: " + strings.Join(missing, ", ")
	}
	t, reason := f.join(parts, c.group)
	t.Name = name
	return t, reason
}

// fuse makes a view of every group that can be made of the tensors of have. all
// are the model's tensors: a group is reported as absent where the model has a
// part of it.
func fuse(have Tensors, all []tensorfs.Tensor, join joiner) (Tensors, []Absent) {
	f := &fusions{have: have, join: join}
	var absent []Absent
	built := map[string]bool{}
	for _, c := range candidates(all) {
		if fallback := c.group.fallback; fallback != "" && (built[c.at.name(fallback)] || c.at.param != "weight") {
			if _, stored := Find(have, c.name()); !stored {
				continue
			}
		}
		if _, reason := f.make(c); reason != "" {
			absent = append(absent, Absent{c.name(), reason})
			continue
		}
		built[c.name()] = true
		f.built = append(f.built, c)
	}
	slices.SortFunc(f.built, func(a, b candidate) int { return strings.Compare(a.name(), b.name()) })
	sortAbsent(absent)
	return f, absent
}

// candidates returns the groups of which the model has a part or the whole,
// each once, fallbacks last.
func candidates(all []tensorfs.Tensor) []candidate {
	type key struct{ tower, stem string }
	byPart := map[key][]*group{}
	for i := range groups {
		g := &groups[i]
		for _, stem := range append([]string{g.out}, g.parts...) {
			byPart[key{g.tower, stem}] = append(byPart[key{g.tower, stem}], g)
		}
	}
	seen := map[candidate]bool{}
	var out []candidate
	for i := range all {
		tower, at, stem, ok := locate(weightName(&all[i]))
		if !ok {
			continue
		}
		for _, g := range byPart[key{tower, stem}] {
			if c := (candidate{g, at}); !seen[c] {
				seen[c] = true
				out = append(out, c)
			}
		}
	}
	slices.SortStableFunc(out, func(a, b candidate) int {
		return cmp.Compare(len(a.group.fallback), len(b.group.fallback))
	})
	return out
}

// join puts the rows of parts one behind the other; for stacked experts those
// of each expert.
func join(parts []tensorfs.Tensor, g *group) (tensorfs.Tensor, string) {
	var f tensorfs.Tensor
	shape, reason := joinShapes(parts, g)
	if reason != "" {
		return f, reason
	}
	data := make([]tensorfs.Data, len(parts))
	for i, p := range parts {
		data[i] = p.Data
	}
	f = tensorfs.Tensor{Source: joinSources(parts), DType: parts[0].DType, Shape: shape}
	f.Data = interleave(rounds(shape, g), data...)
	return f, ""
}

// rounds is how many experts take turns.
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

// joinShapes returns the shape of the joined matrix: rows add up, everything
// else agrees. Without experts a weight has two dimensions and a bias one; a
// stack has one more.
func joinShapes(parts []tensorfs.Tensor, g *group) ([]int64, string) {
	shape := slices.Clone(parts[0].Shape)
	lead := 0
	if g.experts {
		lead = 1
	}
	if len(shape) <= lead {
		return nil, fmt.Sprintf("%s has the shape %v, which has no rows to join", parts[0].Name, shape)
	}
	for _, p := range parts[1:] {
		fits := len(p.Shape) == len(shape)
		for i := range shape {
			fits = fits && (i == lead || p.Shape[i] == shape[i])
		}
		if !fits {
			return nil, fmt.Sprintf("shapes do not fit: %s is %v and %s is %v", parts[0].Name, parts[0].Shape, p.Name, p.Shape)
		}
		if shape[lead] += p.Shape[lead]; shape[lead] < 0 {
			return nil, "the joined matrix would have more than 2^63 rows"
		}
	}
	if _, ok := tensorfs.Elements(shape); !ok {
		return nil, "the joined matrix would have more than 2^63 elements"
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
	for s, section := range first.Sections {
		data := make([]tensorfs.Data, len(parts))
		for i, p := range parts {
			data[i] = slice(p.Data, p.Sections[s].Offset, p.Sections[s].Bytes)
		}
		joined = append(joined, part{section.Name, section.DType, interleave(rounds(shape, g), data...)})
	}
	quant := *first.Quant
	quant.Shape, quant.Weight = shape, ""
	f := tensorfs.Tensor{Source: joinSources(parts), DType: first.DType, Quant: &quant}
	return packModule(&f, joined), ""
}
