package assemble

import (
	"strconv"
	"strings"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/config"
	"github.com/tensorfs/tensorfs/formats/images"
	"github.com/tensorfs/tensorfs/formats/names"
)

// Tensors are the tensors of one model while it is assembled. Their sources are unique.
type Tensors struct {
	List  []tensorfs.Tensor
	Names []names.Result // of List; nil until Name was called

	layout names.Layout
	arch   string
	at     map[string]int32 // by source: the index in List of the tensor added under that name
	named  map[string]int32 // the same by canonical name, for modules whose widths are asked for; nil until then
}

// Add adds a tensor unless another has the same source. In that case it returns
// the index of the other and false.
func (ts *Tensors) Add(t tensorfs.Tensor) (other int32, ok bool) {
	if ts.at == nil {
		ts.at = make(map[string]int32)
	}
	if other, taken := ts.at[t.Source]; taken {
		return other, false
	}
	ts.at[t.Source] = int32(len(ts.List))
	ts.List = append(ts.List, t)
	return 0, true
}

// Find returns the index of the tensor added under a source.
func (ts *Tensors) Find(source string) (i int32, ok bool) {
	i, ok = ts.at[source]
	return i, ok
}

// Source returns the tensor added under a source, or nil. The pointer stays valid
// until another tensor is added.
func (ts *Tensors) Source(source string) *tensorfs.Tensor {
	if i, ok := ts.at[source]; ok {
		return &ts.List[i]
	}
	return nil
}

// Name gives all tensors their canonical names, for a model of the given architecture. It
// returns warnings about tensors that could not have theirs.
func (ts *Tensors) Name(layout names.Layout, arch string) (warnings []string) {
	ts.layout, ts.arch = layout, arch
	src := make([]names.Source, len(ts.List))
	for i := range ts.List {
		src[i] = names.Source{Name: ts.List[i].Source, Shape: ts.List[i].Shape}
	}
	ts.Names = names.Map(layout, arch, src)
	for i, r := range ts.Names {
		ts.List[i].Name = r.Name
		if r.Reason != "" {
			warnings = append(warnings, "tensor "+r.Reason)
		}
	}
	return warnings
}

// Image returns the architecture of the image model that the names of all tensors tell, "" if
// they tell none.
func (ts *Tensors) Image() string {
	list := make([]string, len(ts.List))
	for i := range ts.List {
		list[i] = ts.List[i].Source
	}
	if a, _ := images.Recognise(list); a != nil {
		return a.Name
	}
	return ""
}

// Attach records that tensor codes becomes numbers by q, whose companions belong to it
// from then on. Call it when all of them have their names.
func Attach(codes *tensorfs.Tensor, q *tensorfs.Quant) {
	for _, c := range []**tensorfs.Tensor{&q.Scales, &q.Biases, &q.Global} {
		if *c != nil {
			(*c).Owner = codes.Name
		}
	}
	for _, c := range q.Companions {
		c.Owner = codes.Name
	}
	codes.Quant = q
}

// Config returns the config of the model, from its metadata and its tensors. get
// may be nil unless the layout is GGUF.
func (ts *Tensors) Config(get config.Lookup) []tensorfs.Field {
	shape := func(name string) ([]int64, bool) {
		for i := range ts.List { // called for a handful of names only
			if t := &ts.List[i]; t.Weight() == name {
				return t.Numbers(), true
			}
		}
		return nil, false
	}
	if images.Find(ts.arch) != nil {
		return nil // the schema is of language models
	}
	if ts.layout == names.GGUF {
		return config.FromGGUF(get, shape, ts.layers())
	}
	return config.FromHF(get, shape, ts.layers())
}

// layers returns how many layers the tensors' names imply.
func (ts *Tensors) layers() int {
	n := 0
	for i := range ts.List {
		rest, ok := strings.CutPrefix(ts.List[i].Weight(), "layers.")
		number, _, dot := strings.Cut(rest, ".")
		if !ok || !dot {
			continue
		}
		if i, err := strconv.ParseUint(number, 10, 20); err == nil { // package names stops at 999999
			n = max(n, int(i)+1)
		}
	}
	return n
}

// Apart marks the tensors that join several and do not hold these one after the
// other. dim is the width of the model's hidden state, 0 if unknown. It returns
// one of the marked tensors, or nil.
func (ts *Tensors) Apart(dim int64) (first *tensorfs.Tensor) {
	for i := range ts.List {
		t := &ts.List[i]
		if t.Apart = names.Apart(ts.arch, t.Weight(), t.Numbers(), dim); t.Apart != "" && first == nil {
			first = t
		}
	}
	return first
}
