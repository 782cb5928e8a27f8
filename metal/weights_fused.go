package metal

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/tensorfs/tensorfs"
)

// fusion is what becomes of several tensors of one view:
//
//	q [W|S|B]   k [W|S|B]   v [W|S|B]   ->   [Wq|Wk|Wv|Sq|Sk|Sv|Bq|Bk|Bv]
type fusion struct {
	info  TensorInfo // of the result
	parts []TensorInfo
}

// Fused returns the rows of named tensors of one view, one after the other, as one
// tensor in memory; sections (codes, scales, biases) are joined section by section.
// All must have the same columns (all dimensions but the first), type, sections and
// quantisation, and rows that need nothing beyond their own bytes.
//
// Where the view fused/ has the same tensors, its bytes are these. The buffer is
// shared by all who ask for the same names meanwhile, and each use is released.
func (l *Loader) Fused(view string, names ...string) (Buffer, error) {
	f, err := l.fusion(view, names)
	if err != nil {
		return Buffer{}, err
	}
	fail := func(err error) (Buffer, error) { return Buffer{}, fmt.Errorf("metal: %s: %w", f.info.Ref, err) }
	want := &region{at: map[Ref]int64{f.info.Ref: 0}, end: max(1, f.info.Bytes+l.opts.TailPad), origin: OriginMemory}
	p := &place{ref: f.info.Ref, bytes: f.info.Bytes, live: want}
	r, err := l.acquire(want, func(r *region) error { return l.join(f, p) })
	if err != nil {
		return fail(err)
	}
	return l.lease(p, r, false), l.release(r)
}

// FusedInfo describes what Fused would return. Its name stands for all the names.
func (l *Loader) FusedInfo(view string, names ...string) (TensorInfo, error) {
	f, err := l.fusion(view, names)
	if err != nil {
		return TensorInfo{}, err
	}
	return f.info, nil
}

// fusion plans the joining of tensors, or says why they cannot be joined.
func (l *Loader) fusion(view string, names []string) (*fusion, error) {
	if len(names) < 2 {
		return nil, fmt.Errorf("metal: %d tensors of view %q are to be joined, and at least two are needed", len(names), view)
	}
	f := &fusion{}
	quoted := make([]string, len(names))
	for i, name := range names {
		info, err := l.Info(view, name)
		if err != nil {
			return nil, err
		}
		f.parts, quoted[i] = append(f.parts, info), strconv.Quote(name)
	}
	// No tensor has that name: views of trees are not called so.
	ref := Ref{view + ", joined", strings.Join(quoted, "+")}
	if l.Has(ref.View, ref.Name) {
		return nil, fmt.Errorf("metal: a view is called %q, so tensors of %q cannot be joined", ref.View, view)
	}
	if err := f.plan(ref); err != nil {
		return nil, fmt.Errorf("metal: tensors of view %q cannot be joined: %w", view, err)
	}
	if most := l.info.MaxBufferLength - l.opts.TailPad; f.info.Bytes > most {
		return nil, fmt.Errorf("metal: %s: %d bytes, and %s takes buffers of at most %d", ref, f.info.Bytes, l.info.Name, most)
	}
	return f, nil
}

// plan checks the parts and describes the result.
func (f *fusion) plan(ref Ref) error {
	first := &f.parts[0]
	f.info = *first
	f.info.Ref, f.info.Shape = ref, slices.Clone(first.Shape)
	f.info.Sections = slices.Clone(first.Sections)
	for i := range f.parts {
		p := &f.parts[i]
		if err := p.joinable(); err != nil {
			return fmt.Errorf("%q: %w", p.Name, err)
		}
		if i == 0 {
			continue
		}
		if why := first.differs(p); why != "" {
			return fmt.Errorf("%q and %q have %s", first.Name, p.Name, why)
		}
		if f.info.Bytes > math.MaxInt64-p.Bytes || f.info.Shape[0] > math.MaxInt64-p.Shape[0] {
			return errors.New("the result would have 2^63 bytes or rows")
		}
		f.info.Bytes += p.Bytes
		f.info.Shape[0] += p.Shape[0]
		for s := range f.info.Sections {
			f.info.Sections[s].Bytes += p.Sections[s].Bytes
		}
	}
	at := int64(0)
	for s := range f.info.Sections {
		f.info.Sections[s].Offset = at
		at += f.info.Sections[s].Bytes
	}
	return nil
}

// dtypeNames are the stored types by name.
var dtypeNames = sync.OnceValue(func() map[string]tensorfs.DType {
	m := map[string]tensorfs.DType{}
	for t := range tensorfs.DTypes() {
		m[t.String()] = t
	}
	return m
})

// rowModes are the quantisations whose rows need nothing but their own sections.
var rowModes = []string{"affine", "mxfp4", "mxfp8"}

// joinable returns an error unless the tensor's bytes are its rows, one after the
// other, or sections of which each is that.
func (t *TensorInfo) joinable() error {
	dtype, known := dtypeNames()[t.DType]
	switch {
	case len(t.Shape) == 0:
		return errors.New("it is a single number, which has no rows")
	case !known:
		return fmt.Errorf("it is of type %s, whose rows are not known", t.DType)
	case dtype.Whole():
		return fmt.Errorf("%s keeps more than rows in a tensor", t.DType)
	case t.Quant != nil && !slices.Contains(rowModes, t.Quant.Mode):
		return fmt.Errorf("its quantisation, %s, can have scales that are not those of rows", t.Quant.Mode)
	}
	if group := dtype.RowGroup(); group > 1 && (len(t.Shape) < 2 || t.Shape[len(t.Shape)-2]%group != 0) {
		return fmt.Errorf("%s mixes the bytes of %d rows, and its rows are not a multiple of that", t.DType, group)
	}
	if len(t.Sections) < 2 { // else the type is that of words of codes
		if size, ok := dtype.Size(t.Shape); !ok || size != t.Bytes {
			return fmt.Errorf("its %d bytes are not the rows of a tensor of %s and shape %v alone", t.Bytes, t.DType, t.Shape)
		}
	}
	at := int64(0)
	for _, s := range t.Sections {
		if s.Offset != at || s.Bytes < 0 || s.Bytes > t.Bytes-at {
			return fmt.Errorf("section %q does not begin where the one before it ends", s.Name)
		}
		if rows := t.Shape[0]; rows <= 0 && s.Bytes > 0 || rows > 0 && s.Bytes%rows != 0 {
			return fmt.Errorf("section %q has %d bytes, which are not those of %d rows", s.Name, s.Bytes, rows)
		}
		at += s.Bytes
	}
	if len(t.Sections) > 0 && at != t.Bytes {
		return fmt.Errorf("its sections have %d bytes of %d", at, t.Bytes)
	}
	return nil
}

// differs says in what two tensors that are to be joined differ, "" in nothing.
func (t *TensorInfo) differs(o *TensorInfo) string {
	switch {
	case t.DType != o.DType:
		return fmt.Sprintf("different types, %s and %s", t.DType, o.DType)
	case !slices.Equal(t.Shape[1:], o.Shape[min(1, len(o.Shape)):]):
		return fmt.Sprintf("no common columns: their shapes are %v and %v", t.Shape, o.Shape)
	case (t.Quant == nil) != (o.Quant == nil) || t.Quant != nil && *t.Quant != *o.Quant:
		return "different quantisations"
	case len(t.Sections) != len(o.Sections):
		return "different sections"
	}
	for i, s := range t.Sections {
		p := o.Sections[i]
		if s.Name != p.Name || s.DType != p.DType {
			return "different sections"
		}
		if t.Shape[0] > 0 && o.Shape[0] > 0 && s.Bytes/t.Shape[0] != p.Bytes/o.Shape[0] {
			return fmt.Sprintf("rows of different lengths in section %q", s.Name)
		}
	}
	return ""
}

// join makes the buffer of a fusion.
func (l *Loader) join(f *fusion, p *place) (err error) {
	j := job{places: []place{*p}, arenas: []*region{p.live}}
	if err := l.affordable(l.summary(&j)); err != nil {
		return err
	}
	b, done, err := l.openJoined(f)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, done()) }()
	if p.live.buffer, err = l.device.Alloc(p.live.end); err != nil {
		return err
	}
	pieces := j.pieces()
	for i := range pieces {
		from := pieces[i].from
		from.once.Do(func() { from.bytes = b })
	}
	return l.run(context.Background(), pieces, LoadOptions{})
}

// openJoined opens the parts of a fusion, and joins them; done closes them.
func (l *Loader) openJoined(f *fusion) (_ Bytes, done func() error, err error) {
	var parts []tensorfs.Data
	done = func() error {
		var errs []error
		for _, p := range parts {
			if c, ok := p.(io.Closer); ok {
				errs = append(errs, c.Close())
			}
		}
		return errors.Join(errs...)
	}
	for i := range f.parts {
		p := &f.parts[i]
		bytes, err := l.tree.Open(p.View, p.Name)
		if err == nil {
			parts = append(parts, bytes)
			if n := bytes.Size(); n != p.Bytes {
				err = fmt.Errorf("%d bytes where %d were expected", n, p.Bytes)
			}
		}
		if err != nil {
			return nil, nil, errors.Join(fmt.Errorf("%s: %w", p.Ref, err), done())
		}
	}
	if len(f.info.Sections) == 0 {
		return tensorfs.Concat(parts...), done, nil
	}
	var runs []tensorfs.Data
	for s := range f.info.Sections {
		for i, p := range parts {
			part := f.parts[i].Sections[s]
			runs = append(runs, tensorfs.Section(p, part.Offset, part.Bytes))
		}
	}
	return tensorfs.Concat(runs...), done, nil
}
