package lora

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"slices"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/adapter"
	"github.com/tensorfs/tensorfs/internal/convert/layout"
	"github.com/tensorfs/tensorfs/views"
)

// Use is an adapter, opened as a model, and how it is applied.
type Use struct {
	Model *tensorfs.Model
	tensorfs.Adapter
}

// file opens a file of the adapter, which closes it.
func (u *Use) file(name string) (tensorfs.File, error) {
	d, err := u.Model.File(name)
	if err != nil {
		return nil, err
	}
	f, ok := d.(tensorfs.File)
	if !ok {
		return nil, fs.ErrNotExist
	}
	return f, nil
}

// SourcesDir is the directory below source/ with the files of adapters, each in one that is
// named by its number.
const SourcesDir = "lora"

// Apply makes a model one to which adapters were applied, in their order. The model owns
// them from here on, even on error. An adapter that does not fit is an error that names its
// tensor, and the model is as it was. Nothing is read but the configs of adapters.
func Apply(m *tensorfs.Model, opts views.Options, uses ...Use) error {
	b := newBuilder(m, opts)
	var err error
	for _, u := range uses {
		m.Own(u.Model)
		if err == nil {
			err = b.use(u)
		}
	}
	if err != nil || len(b.changed) == 0 {
		return err
	}
	return b.rewrite(uses)
}

// Open opens adapters as a user names them and applies them. open returns an adapter as a
// model, with its name, as OpenAdapter of the options of package formats does.
func Open(m *tensorfs.Model, opts views.Options, named []string, open func(named string) (*tensorfs.Model, tensorfs.Adapter, error)) error {
	var uses []Use
	for _, n := range named {
		a, by, err := open(n)
		if err != nil {
			for _, u := range uses {
				u.Model.Close()
			}
			return err
		}
		uses = append(uses, Use{a, by})
	}
	return Apply(m, opts, uses...)
}

// builder collects what becomes of the tensors of a model.
type builder struct {
	m       *tensorfs.Model
	opts    views.Options
	weights map[string]*tensorfs.Tensor // by the names of their numbers, without companions
	sources map[string]*tensorfs.Tensor
	changed map[string]*change // by the names of tensors
	kept    *kept
	order   *layout.Walk // of the model; nil until it is asked for
}

// change is what becomes of a tensor.
type change struct {
	base   *tensorfs.Tensor // the base's
	now    *tensorfs.Tensor // it, or what an adapter has in its place
	deltas []delta
	rows   []rowsOfTokens // after deltas
	by     []tensorfs.Adapter
	last   *applied // of by
	from   []tensorfs.Data
}

func newBuilder(m *tensorfs.Model, opts views.Options) *builder {
	b := &builder{m: m, opts: opts, weights: map[string]*tensorfs.Tensor{}, sources: map[string]*tensorfs.Tensor{}, changed: map[string]*change{}, kept: &kept{}}
	for i := range m.Tensors {
		t := m.Tensors[i] // a copy: the list will be another one
		if t.Owner == "" {
			b.weights[t.Weight()], b.sources[t.Source] = &t, &t
		}
	}
	return b
}

// use applies an adapter.
func (b *builder) use(u Use) error {
	a, err := adapter.Of(u.Model)
	if err != nil {
		return err
	}
	if err := b.fitsArchitecture(a); err != nil {
		return err
	}
	if err := orient(a); err != nil {
		return err
	}
	x := &applied{builder: b, a: a, by: u.Adapter, names: b.canonical(a)}
	if err := x.wholeOfMLX(); err != nil {
		return err
	}
	for i := 0; i < len(a.Modules); {
		n := 1
		for i+n < len(a.Modules) && a.Modules[i+n].Name == a.Modules[i].Name {
			n++
		}
		if err := x.modules(a.Modules[i : i+n]); err != nil {
			return err
		}
		i += n
	}
	return nil
}

// fitsArchitecture returns an error if an adapter is for another architecture.
func (b *builder) fitsArchitecture(a *adapter.Adapter) error {
	if a.Architecture != "" && b.m.Architecture != "unknown" && a.Architecture != b.m.Architecture {
		return tensorfs.Unsupported(a.Path, fmt.Sprintf("it is an adapter for %s, and the model is %s", tensorfs.Quote(a.Architecture), tensorfs.Quote(b.m.Architecture)), "name an adapter for this model")
	}
	return nil
}

// applied is an adapter that is being applied.
type applied struct {
	*builder
	a     *adapter.Adapter
	by    tensorfs.Adapter
	names map[string]string // of tensors as the adapter calls them: canonical ones
}

// refuse is an error about a tensor of the adapter.
func (x *applied) refuse(t *tensorfs.Tensor, problem string, args ...any) error {
	return &tensorfs.FormatError{File: x.a.Path, Tensor: t.Source, Offset: -1, Problem: fmt.Sprintf(problem, args...), Kind: tensorfs.ErrUnsupported}
}

// changeOf returns what becomes of a tensor, which the adapter changes.
func (x *applied) changeOf(t *tensorfs.Tensor) *change {
	c := x.changed[t.Name]
	if c == nil {
		c = &change{base: t, now: t}
		x.changed[t.Name] = c
	}
	if c.last != x {
		c.by, c.last = append(c.by, x.by), x
	}
	return c
}

// replace puts a weight of the adapter into the place of the base's.
func (x *applied) replace(to, t *tensorfs.Tensor) error {
	if !slices.Equal(to.Numbers(), t.Shape) {
		return x.another(t, "shape %v, and %s of the base has %v, so it is for another base, or for one with other tokens", t.Shape, to.Weight(), to.Numbers())
	}
	if x.by.Scale == 0 {
		return nil
	}
	c := x.changeOf(to)
	if len(c.deltas)+len(c.rows) > 0 {
		return x.refuse(t, "it would take the place of %s, which an adapter before it has changed; name this adapter first", to.Weight())
	}
	now := *t
	now.Name, now.Quant, now.Owner, now.Parts = to.Weight(), nil, "", nil
	now.Source, now.Apart = to.Source, to.Apart
	c.now = &now
	c.from = append(c.from, t.Data)
	return nil
}

// add adds the product of a pair to rows of a tensor.
func (x *applied) add(to *tensorfs.Tensor, d delta, scale float64, about *tensorfs.Tensor) error {
	s := float32(x.by.Scale * scale) // in F64, and rounded once
	if math.IsInf(float64(s), 0) || s != s {
		return x.refuse(about, "its factor %v is no finite number", x.by.Scale*scale)
	}
	if err := d.fits(about.Source); err != nil {
		return x.refuse(about, "%v", err)
	}
	if x.by.Scale == 0 {
		return nil
	}
	c := x.changeOf(to)
	if len(c.rows) > 0 {
		return x.refuse(about, "it would be added to rows of %s that an adapter before it has in full; name this adapter first", to.Weight())
	}
	d.factor = s
	if d.magnitude != nil && slices.ContainsFunc(c.deltas, func(o delta) bool { return o.from < d.from+d.n && d.from < o.from+o.n }) {
		return x.refuse(about, "DoRA of %s applies only to the unchanged base, and another adapter has changed it; name this adapter first, or only one adapter with DoRA", to.Weight())
	}
	c.deltas = append(c.deltas, d)
	c.from = append(c.from, d.a.Data, d.b.Data)
	if d.magnitude != nil {
		c.from = append(c.from, d.magnitude.base.Data)
	}
	return nil
}

// rewrite puts what was made into the model.
func (b *builder) rewrite(uses []Use) error {
	var list []tensorfs.Tensor
	for _, c := range b.changed {
		t, err := b.build(c)
		if err != nil {
			return fmt.Errorf("%s: %w", c.base.Weight(), err)
		}
		list = append(list, *t)
	}
	var sources []tensorfs.Source
	var by []tensorfs.Adapter
	for i, u := range uses {
		if u.Scale == 0 {
			continue
		}
		by = append(by, u.Adapter)
		for _, f := range u.Model.Opened() {
			if l, ok := f.(labelled); ok {
				l.SetLabel(sourceName(i, l.Label()))
			}
		}
		for _, s := range u.Model.Sources {
			own := s.Name
			s.Name, s.Open = sourceName(i, own), func() (tensorfs.File, error) { return u.file(own) }
			sources = append(sources, s)
		}
		for _, w := range u.Model.Warnings {
			b.m.Warnings = append(b.m.Warnings, tensorfs.Printable(u.Source)+": "+w)
		}
		if slices.ContainsFunc(u.Model.Sources, func(s tensorfs.Source) bool { return s.Name == "tokenizer.json" }) {
			b.m.Warnings = append(b.m.Warnings, tensorfs.Printable(u.Source)+": its tokenizer is not used: the model keeps the base's")
		}
		if u.Model.ModTime.After(b.m.ModTime) {
			b.m.ModTime = u.Model.ModTime
		}
	}
	return b.m.Rewrite(list, sources, by)
}

// labelled is a file that has a name below source/.
type labelled interface {
	Label() string
	SetLabel(label string)
}

func sourceName(i int, name string) string { return fmt.Sprintf("%s/%d/%s", SourcesDir, i+1, name) }

// build returns a tensor as it becomes.
func (b *builder) build(c *change) (*tensorfs.Tensor, error) {
	t := *c.now
	t.Change = &tensorfs.Change{Of: c.base, By: c.by, From: c.from}
	if len(c.deltas)+len(c.rows) == 0 {
		return &t, nil
	}
	base, err := b.opts.Encode(c.now, tensorfs.F32)
	if err != nil {
		return nil, err
	}
	shape := c.now.Numbers()
	d := &merged{base: base, rows: rowsOf(shape), columns: columnsOf(shape), deltas: c.deltas, from: c.from, kept: b.kept}
	d.rowWise = slices.ContainsFunc(c.deltas, func(d delta) bool { return d.magnitude != nil && !d.magnitude.columns })
	if d.rowWise && 4*d.columns > maxRow {
		return nil, errors.New("its rows are too long for DoRA")
	}
	numbers := tensorfs.Data(d)
	if len(c.deltas) == 0 {
		numbers = base
	}
	if numbers, err = b.withRows(numbers, c.rows, d.rows, d.columns); err != nil {
		return nil, err
	}
	t = tensorfs.Tensor{Name: c.base.Weight(), Source: c.base.Source, DType: tensorfs.F32, Shape: shape, Data: numbers, Float: floatOf(c.now), Apart: c.base.Apart, Change: t.Change}
	return &t, nil
}

// maxRow bounds the bytes of a row that is needed whole.
const maxRow = 1 << 28

// floatOf is the type that the numbers of a changed tensor have in a file: the base's, or,
// where that was quantised, the one in which programs compute with it, or BF16. It is
// Unknown for F32, which changed numbers have anyway.
func floatOf(t *tensorfs.Tensor) tensorfs.DType {
	float := tensorfs.BF16
	switch {
	case t.Quant != nil:
		float = cmp.Or(t.Quant.Float, tensorfs.BF16)
	case t.DType == tensorfs.F16 || t.DType == tensorfs.BF16 || t.DType == tensorfs.F32:
		float = t.DType
	case t.DType == tensorfs.F64:
		float = tensorfs.F32
	}
	if float == tensorfs.F32 {
		return tensorfs.Unknown
	}
	return float
}

// rowsOf and columnsOf count all rows and columns of a tensor's matrices, one after the
// other; a vector is a matrix of one column.
func rowsOf(shape []int64) int64 {
	n, _ := tensorfs.Elements(shape)
	return n / max(columnsOf(shape), 1)
}

func columnsOf(shape []int64) int64 {
	if len(shape) < 2 {
		return 1
	}
	return shape[len(shape)-1]
}
