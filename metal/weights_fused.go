package metal

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/tensorfs/tensorfs"
)

// joinedSuffix is appended to the name of a view whose tensors are joined, in messages and
// descriptions. No view has such a name.
const joinedSuffix = ", joined"

// Fused returns the rows of named tensors of one view, one after the other, as one
// tensor in memory; sections (codes, scales, biases) are joined section by section:
//
//	q [W|S|B]   k [W|S|B]   v [W|S|B]   ->   [Wq|Wk|Wv|Sq|Sk|Sv|Bq|Bk|Bv]
//
// All must have the same columns (all dimensions but the first), type, sections and
// quantisation, and rows that need nothing beyond their own bytes.
//
// If the view fused/ has the same tensors, the bytes are equal. Callers with the same names
// share the buffer, and each use is released.
func (l *Loader) Fused(view string, names ...string) (Buffer, error) {
	t, err := l.FusedInfo(view, names...)
	if err != nil {
		return Buffer{}, err
	}
	ref := Ref{view + joinedSuffix, t.Name}
	p := &place{ref: ref, bytes: t.Data.Size(), data: t.Data}
	want := l.arenas([]*place{p})[0]
	r, err := l.acquire(want, func(r *region) error {
		if err := l.affordable(l.summary(&job{places: []place{*p}, arenas: []*region{want}})); err != nil {
			return err
		}
		return l.fill(p)(r)
	})
	if err != nil {
		return Buffer{}, fmt.Errorf("metal: %s: %w", ref, err)
	}
	return l.lease(p, r, false), l.release(r)
}

// FusedInfo describes what Fused would return. Its name joins all the names.
func (l *Loader) FusedInfo(view string, names ...string) (t tensorfs.Tensor, err error) {
	if len(names) < 2 {
		return t, fmt.Errorf("metal: %d tensors of view %q are to be joined, and at least two are needed", len(names), view)
	}
	parts, quoted := make([]tensorfs.Tensor, len(names)), make([]string, len(names))
	for i, name := range names {
		if parts[i], err = l.Info(view, name); err != nil {
			return t, err
		}
		quoted[i] = strconv.Quote(name)
	}
	if t, err = join(parts); err != nil {
		return t, fmt.Errorf("metal: tensors of view %q cannot be joined: %w", view, err)
	}
	t.Name = strings.Join(quoted, "+")
	if n, most := t.Data.Size(), l.info.MaxBufferLength-l.opts.TailPad; n > most {
		return t, fmt.Errorf("metal: %s: %d bytes, and %s takes buffers of at most %d", Ref{view + joinedSuffix, t.Name}, n, l.info.Name, most)
	}
	return t, nil
}

// join checks tensors and joins their rows.
func join(parts []tensorfs.Tensor) (tensorfs.Tensor, error) {
	first := &parts[0]
	t, bytes := *first, int64(0)
	t.Shape, t.Parts = slices.Clone(first.Shape), slices.Clone(first.Parts)
	var runs []tensorfs.Data
	for i := range parts {
		p := &parts[i]
		if err := joinable(p); err != nil {
			return t, fmt.Errorf("%q: %w", p.Name, err)
		}
		if why := differs(first, p); why != "" {
			return t, fmt.Errorf("%q and %q have %s", first.Name, p.Name, why)
		}
		if i > 0 && (bytes > math.MaxInt64-p.Data.Size() || t.Shape[0] > math.MaxInt64-p.Shape[0]) {
			return t, errors.New("the result would have 2^63 bytes or rows")
		}
		bytes += p.Data.Size()
		if i > 0 {
			t.Shape[0] += p.Shape[0]
		}
		runs = append(runs, p.Data)
	}
	if len(t.Parts) > 0 {
		runs = nil
	}
	at := int64(0)
	for s := range t.Parts {
		section := &t.Parts[s]
		section.Offset, section.Bytes = at, 0
		for i := range parts {
			p := parts[i].Parts[s]
			section.Bytes += p.Bytes
			runs = append(runs, tensorfs.Section(parts[i].Data, p.Offset, p.Bytes))
		}
		at += section.Bytes
	}
	t.Data = tensorfs.Concat(runs...)
	return t, nil
}

// rowModes are the quantisations whose rows need nothing but their own sections.
var rowModes = []string{"affine", "mxfp4", "mxfp8"}

// joinable returns an error unless the tensor's bytes are its rows, one after the other, or
// sections that each are.
func joinable(t *tensorfs.Tensor) error {
	bytes := t.Data.Size()
	switch {
	case len(t.Shape) == 0:
		return errors.New("it is a single number, which has no rows")
	case t.DType == tensorfs.Unknown:
		return fmt.Errorf("it is of type %s, whose rows are not known", t.DType)
	case t.DType.Whole():
		return fmt.Errorf("%s keeps more than rows in a tensor", t.DType)
	case t.Quant != nil && !slices.Contains(rowModes, t.Quant.Mode):
		return fmt.Errorf("its quantisation, %s, can have scales that belong to more than one row", t.Quant.Mode)
	case !t.WholeRowGroups():
		return fmt.Errorf("%s mixes the bytes of %d rows, and its rows are not a multiple of that", t.DType, t.DType.RowGroup())
	}
	if len(t.Parts) < 2 { // otherwise the type describes words of codes
		if size, ok := t.DType.Size(t.Shape); !ok || size != bytes {
			return fmt.Errorf("its %d bytes are more or less than the rows of a tensor of %s and shape %v", bytes, t.DType, t.Shape)
		}
	}
	at := int64(0)
	for _, s := range t.Parts {
		if s.Offset != at || s.Bytes < 0 || s.Bytes > bytes-at {
			return fmt.Errorf("section %q does not begin where the one before it ends", s.Name)
		}
		if rows := t.Shape[0]; rows <= 0 && s.Bytes > 0 || rows > 0 && s.Bytes%rows != 0 {
			return fmt.Errorf("section %q has %d bytes, which do not divide into %d rows", s.Name, s.Bytes, rows)
		}
		at += s.Bytes
	}
	if len(t.Parts) > 0 && at != bytes {
		return fmt.Errorf("its sections have %d bytes of %d", at, bytes)
	}
	return nil
}

// differs names the difference between two tensors that are to be joined, "" if they agree.
func differs(t, o *tensorfs.Tensor) string {
	switch {
	case t.DType != o.DType:
		return fmt.Sprintf("different types, %s and %s", t.DType, o.DType)
	case !slices.Equal(t.Shape[1:], o.Shape[min(1, len(o.Shape)):]):
		return fmt.Sprintf("no common columns: their shapes are %v and %v", t.Shape, o.Shape)
	case (t.Quant == nil) != (o.Quant == nil) ||
		t.Quant != nil && (t.Quant.Mode != o.Quant.Mode || t.Quant.Bits != o.Quant.Bits || t.Quant.GroupSize != o.Quant.GroupSize):
		return "different quantisations"
	case len(t.Parts) != len(o.Parts):
		return "different sections"
	}
	for i, s := range t.Parts {
		p := o.Parts[i]
		if s.Name != p.Name || s.DType != p.DType {
			return "different sections"
		}
		if t.Shape[0] > 0 && o.Shape[0] > 0 && s.Bytes/t.Shape[0] != p.Bytes/o.Shape[0] {
			return fmt.Sprintf("rows of different lengths in section %q", s.Name)
		}
	}
	return ""
}
