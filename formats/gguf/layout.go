package gguf

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/tensorfs/tensorfs"
)

// place is where a tensor's bytes stand, counted from the start of the data.
type place struct {
	tensor int // in File.Tensors
	offset int64
	size   int64
	next   int64 // offset of the nearest tensor behind it that has elements, or the end of the file
	last   bool  // no tensor stands behind it
	elems  int64
}

// lay gives every tensor its type and its bytes. headerEnd is where the tensor
// infos end.
func (f *File) lay(headerEnd int64, infos []info) error {
	start := (headerEnd + f.Alignment - 1) / f.Alignment * f.Alignment // alignment is below 2^32
	length := f.file.Size() - start
	if length < 0 {
		return f.errorAt(-1, headerEnd, "the tensor data begins at byte %d, and the file has %d", start, f.file.Size())
	}
	places, err := f.places(infos, length)
	if err != nil {
		return err
	}
	for i := range places {
		p := &places[i]
		if err := f.resolve(p, infos[p.tensor]); err != nil {
			return err
		}
		if p.size > length-p.offset {
			return f.errorAt(p.tensor, start+p.offset, "its %d bytes go %d beyond the end of the file", p.size, p.size-(length-p.offset))
		}
	}
	if err := f.checkOverlap(places, start); err != nil {
		return err
	}
	for _, p := range places {
		f.Tensors[p.tensor].Data = f.file.Section(start+p.offset, p.size)
	}
	return nil
}

// errorAt returns what is wrong with a tensor, or with the file where tensor is
// -1.
func (f *File) errorAt(tensor int, off int64, format string, args ...any) *tensorfs.FormatError {
	e := &tensorfs.FormatError{File: f.file.Path(), Offset: off, Problem: fmt.Sprintf(format, args...)}
	if tensor >= 0 {
		if e.Tensor = f.Tensors[tensor].Source; e.Tensor == "" {
			e.Problem = `tensor "": ` + e.Problem
		}
	}
	return e
}

// places checks the offsets against the length of the data and returns them in
// order, each with the next larger one of a tensor that has elements.
func (f *File) places(infos []info, length int64) ([]place, error) {
	places := make([]place, len(infos))
	for i, in := range infos {
		t := &f.Tensors[i]
		switch {
		case in.offset > math.MaxInt64 || int64(in.offset) > length:
			return nil, f.errorAt(i, in.at, "its offset %d is beyond the end of the data, which has %d bytes", in.offset, length)
		case int64(in.offset)%f.Alignment != 0:
			e := f.errorAt(i, in.at, "its offset %d is no multiple of general.alignment %d", in.offset, f.Alignment)
			e.Advice = "the file is damaged, or written by a program that ignores general.alignment: convert it again"
			return nil, e
		}
		n, _ := tensorfs.Elements(t.Shape)
		places[i] = place{tensor: i, offset: int64(in.offset), elems: n}
	}
	slices.SortFunc(places, func(a, b place) int {
		if c := cmp.Compare(a.offset, b.offset); c != 0 {
			return c
		}
		return cmp.Compare(a.tensor, b.tensor)
	})
	// From the back: group is the smallest offset of a tensor with elements so
	// far, behind the one before it.
	group, behind := length, length
	for i := len(places) - 1; i >= 0; i-- {
		p := &places[i]
		if p.next = behind; p.offset < group {
			p.next = group
			if p.elems > 0 {
				group, behind = p.offset, group
			}
		}
		p.last = p.next == length
	}
	return places, nil
}

// checkOverlap returns an error where two tensors share a byte. Places are in
// the order of their offsets. The furthest end so far is kept, not that of the
// neighbour, because an empty tensor may stand between.
func (f *File) checkOverlap(places []place, start int64) error {
	end, owner := int64(0), -1
	for _, p := range places {
		if p.size == 0 {
			continue
		}
		if p.offset < end {
			return f.errorAt(p.tensor, start+p.offset, "its first %d bytes belong to tensor %s as well", min(p.size, end-p.offset), tensorfs.Quote(f.Tensors[owner].Source))
		}
		end, owner = p.offset+p.size, p.tensor
	}
	return nil
}
