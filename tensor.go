package tensorfs

import (
	"fmt"
	"slices"
	"strings"
)

// Tensor is one named array of numbers. It is a plain value; nothing in it
// reads the model.
type Tensor struct {
	Name      string // file name in every view: canonical, or escaped from Source
	Source    string // name in the model's file, any bytes
	DType     DType  // type of the stored elements
	BigEndian bool   // multi-byte fields of Data are big-endian

	// MayOverflow marks F16 numbers converted from a type with a larger range: values of
	// 65520 and above, or -65520 and below, are infinite in Data. Whether such values occur
	// is not known.
	MayOverflow bool

	// Float is the type that numbers have in a file if they are F32 only because they were
	// dequantised; Unknown for all other tensors.
	Float DType

	Shape  []int64 // row-major, outermost first; empty is a single element
	Data   Data
	Quant  *Quant // how companions turn the stored codes into numbers; nil if the type is self-contained
	Owner  string // name of the tensor whose Quant holds this one, or whose activations it scales; "" for others
	Opaque string // why the numbers cannot be decoded from the bytes; "" if they can
	Parts  []Part // parts of Data that a kernel addresses separately; nil if Data is a single part

	// Apart explains why a joined tensor, such as gate_up, does not store all rows of one
	// part before the rows of the next; "" if it does.
	Apart string

	// Unfolded is the shape of the numbers if the file declares that it differs from Shape, as
	// files of image models do; otherwise nil. The bytes are the same in both shapes.
	Unfolded []int64

	// Factor is the name of the tensor that multiplies what this one computes: the second scale
	// of NVFP4 in a GGUF file, one F32 or one for each index of the first dimension. Views do not
	// multiply by it. "" without one.
	Factor string

	// Change describes what adds to the numbers when they are read; nil if the numbers come
	// unchanged from the model's files.
	Change *Change
}

// Cols returns the length of a row: the last dimension, 1 for a scalar.
func (t *Tensor) Cols() int64 {
	if len(t.Shape) == 0 {
		return 1
	}
	return t.Shape[len(t.Shape)-1]
}

// WholeRowGroups reports whether the rows of each of the tensor's matrices divide
// evenly into the groups that its type interleaves: see [DType.RowGroup].
func (t *Tensor) WholeRowGroups() bool {
	n := t.DType.RowGroup()
	return n == 1 || len(t.Shape) >= 2 && t.Shape[len(t.Shape)-2]%n == 0
}

// Weight returns the name under which the tensor's numbers are shown: its own name, or the
// name of the module whose codes it holds.
func (t *Tensor) Weight() string {
	if t.Quant != nil && t.Quant.Weight != "" {
		return t.Quant.Weight
	}
	return t.Name
}

// Numbers returns the shape of the numbers that the tensor represents, which
// differs from the shape of codes packed into words, and of rows that a file folds.
func (t *Tensor) Numbers() []int64 {
	if t.Quant != nil {
		return t.Quant.Shape
	}
	if t.Unfolded != nil {
		return t.Unfolded
	}
	return t.Shape
}

// Quant describes how a module's stored codes become numbers if the scales are in tensors
// of their own.
//
//	affine         code*scale + bias           codes U32, scales and biases F16, BF16 or F32
//	mxfp4, mxfp8   element * 2^(scale-127)     codes U32 (or U8), scales U8 as E8M0
//	nvfp4          element * E4M3(scale) * global
//	fp8            F8 element * scale          one scale, or one per Block of rows x columns
//	others         Numbers                     what package formats/packing reads
type Quant struct {
	Mode      string
	Bits      int
	GroupSize int     // elements per scale along a row; 0 for fp8
	Block     [2]int  // fp8: rows and columns per scale; zero for one scale per tensor
	Shards    int     // fp8: how many equal runs of rows have blocks of their own; 0 means one
	Shape     []int64 // of the numbers, row-major (the codes' own shape counts packed words)
	Weight    string  // name of the module's weight where the codes are stored under another name; "" otherwise
	Scales    *Tensor
	Biases    *Tensor // affine only
	Global    *Tensor // nvfp4: factor of the whole tensor, or one per leading index; nil without one

	// Numbers holds the numbers themselves for all other modes: F32, row after row, equal
	// to the values of the packing program before it rounds. Reading them unpacks them.
	// Such a module has no Scales, Biases and Global, but Companions.
	Numbers Data
	// Companions are further tensors of the module. Some do not enter the numbers, such as
	// the scales of activations.
	Companions []*Tensor
	// Float is the type in which programs compute with the numbers: F16, BF16 or, if the
	// model asks for it, F32. Unknown for modules that MLX quantised.
	Float DType
	// Same returns the numbers as a module of one of the modes above, nil if no mode has
	// all of them. It may read the companions.
	Same func() (*Tensor, error)
}

// ByRows reports whether each row of the numbers depends only on its own rows of codes,
// scales and biases, so that rows can be moved as they are stored.
func (q *Quant) ByRows() bool { return q.GroupSize > 0 && q.Numbers == nil }

// Part is a run of a tensor's bytes with its own meaning, such as the scales
// after the codes.
type Part struct {
	Name   string `json:"name"`
	DType  string `json:"dtype"`
	Offset int64  `json:"offset"`
	Bytes  int64  `json:"bytes"`
}

// Change describes how the numbers of a tensor come to differ from the numbers in the
// model's files. The tensor that has it holds the numbers after the change.
type Change struct {
	Of   *Tensor   // the tensor before it, as the files have it
	By   []Adapter // what changes it, in the order in which it does
	From []Data    // what is read for the change besides Of
}

// Adapter is what changes tensors of a model when they are read.
type Adapter struct {
	Source string  // as it was named: a path or a name in a store
	Scale  float64 // by which its changes are multiplied
}

// String is the adapter as one writes it.
func (a Adapter) String() string { return fmt.Sprintf("%s:%v", a.Source, a.Scale) }

// Stored returns the tensor as the model's files have it: itself where nothing changes it.
func (t *Tensor) Stored() *Tensor {
	if t.Change == nil {
		return t
	}
	return t.Change.Of.Stored()
}

// Origin returns where the numbers of a tensor are in the model's files: the tensor's own
// bytes or, if a change computes them, the bytes of the tensor before it.
func (t *Tensor) Origin() []Extent {
	if e := Extents(t.Data); e != nil || t.Change == nil {
		return e
	}
	return t.Change.Of.Origin()
}

// origins yields every extent of a file that a tensor is computed from.
func (t *Tensor) origins(yield func(Extent)) {
	for _, x := range Extents(t.Data) {
		yield(x)
	}
	c := t.Change
	if c == nil {
		return
	}
	c.Of.origins(yield)
	for _, d := range c.From {
		for _, x := range Extents(d) {
			yield(x)
		}
	}
	if q := c.Of.Quant; q != nil { // companions of a changed module are no tensors of the model any more
		for _, p := range append([]*Tensor{q.Scales, q.Biases, q.Global}, q.Companions...) {
			if p != nil {
				p.origins(yield)
			}
		}
	}
}

// Rewrite replaces tensors by changed ones, before views read the model. Companions of
// replaced modules leave the model, which goes on reading them. sources are the further
// files that the changes need, of models that m owns: see [Model.Own]. by lists the
// adapters that make the changes, in order.
func (m *Model) Rewrite(changed []Tensor, sources []Source, by []Adapter) error {
	place := make(map[string]*Tensor, len(changed))
	for i := range changed {
		place[changed[i].Change.Of.Name] = &changed[i]
	}
	owners := map[string]bool{}
	list := make([]Tensor, 0, len(m.Tensors))
	at := map[string]*Tensor{} // copies: the list that modules point into is about to be another
	for _, t := range m.Tensors {
		if c := place[t.Name]; c != nil {
			if t.Quant != nil && c.Quant == nil {
				owners[t.Name] = true
			}
			list = append(list, *c)
			delete(place, t.Name)
			continue
		}
		list = append(list, t)
	}
	for name := range place {
		return fmt.Errorf("%s: the model has no %s to change", m.Path, name)
	}
	list = slices.DeleteFunc(list, func(t Tensor) bool { return owners[t.Owner] })
	slices.SortFunc(list, func(a, b Tensor) int { return strings.Compare(a.Name, b.Name) })
	for i := range list {
		at[list[i].Name] = &list[i]
	}
	for i := range list {
		if q := list[i].Quant; q != nil {
			repoint(q, list[i].Name, at)
		}
	}
	m.Tensors = list
	m.Shown = nil // files of what views make were made without the change
	m.Sources = slices.Clone(m.Sources)
	for _, s := range sources {
		s.Adapter = true
		m.Sources = append(m.Sources, s)
	}
	slices.SortFunc(m.Sources, func(a, b Source) int { return strings.Compare(a.Name, b.Name) })
	m.Adapters = append(m.Adapters, by...)
	if err := m.checkTensors(); err != nil {
		return err
	}
	return m.checkSources()
}

// repoint makes a module refer to the new places of its companions.
func repoint(q *Quant, owner string, at map[string]*Tensor) {
	move := func(c **Tensor) {
		if *c != nil && (*c).Owner == owner && at[(*c).Name] != nil {
			*c = at[(*c).Name]
		}
	}
	move(&q.Scales)
	move(&q.Biases)
	move(&q.Global)
	for i := range q.Companions {
		move(&q.Companions[i])
	}
}
