package gguf

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/tensorfs/tensorfs"
)

// extent is where a tensor's bytes are, counted from the start of the data.
type extent struct {
	tensor int // in File.Tensors
	offset int64
	size   int64
	next   int64 // offset of the nearest tensor after it that has elements, or the end of the file
	last   bool  // no tensor is after it
	elems  int64
}

// lay gives every tensor its type and its bytes. headerEnd is where the tensor
// infos end.
func (f *File) lay(headerEnd int64, infos []info) error {
	start := (headerEnd + f.Alignment - 1) / f.Alignment * f.Alignment // alignment is below 2^32
	length := f.file.Size() - start
	if length < 0 {
		return f.errorAt(-1, headerEnd, "the tensor data begins at byte %d, but the file has only %d", start, f.file.Size())
	}
	extents, err := f.extents(infos, length)
	if err != nil {
		return err
	}
	all := f.numbering(extents, infos)
	for i := range extents {
		p := &extents[i]
		if err := f.resolve(p, infos[p.tensor], all); err != nil {
			return err
		}
		if p.size > length-p.offset {
			return f.errorAt(p.tensor, start+p.offset, "its %d bytes go %d beyond the end of the file", p.size, p.size-(length-p.offset))
		}
	}
	if err := f.checkOverlap(extents, start); err != nil {
		return err
	}
	f.Offsets = make([]int64, len(infos))
	for _, p := range extents {
		f.Offsets[p.tensor] = start + p.offset
		f.Tensors[p.tensor].Data = f.file.Section(start+p.offset, p.size)
	}
	return nil
}

// errorAt returns an error about a tensor, or about the file if tensor is -1.
func (f *File) errorAt(tensor int, off int64, format string, args ...any) *tensorfs.FormatError {
	e := &tensorfs.FormatError{File: f.file.Path(), Offset: off, Problem: fmt.Sprintf(format, args...)}
	if tensor >= 0 {
		if e.Tensor = f.Tensors[tensor].Source; e.Tensor == "" {
			e.Problem = `tensor "": ` + e.Problem
		}
	}
	return e
}

// extents checks the offsets against the length of the data and returns them in
// order, each with the next larger offset of a tensor that has elements.
func (f *File) extents(infos []info, length int64) ([]extent, error) {
	extents := make([]extent, len(infos))
	for i, in := range infos {
		t := &f.Tensors[i]
		switch {
		case in.offset > math.MaxInt64 || int64(in.offset) > length:
			return nil, f.errorAt(i, in.at, "its offset %d is beyond the end of the data, which has %d bytes", in.offset, length)
		case int64(in.offset)%f.Alignment != 0:
			e := f.errorAt(i, in.at, "its offset %d is not a multiple of general.alignment %d", in.offset, f.Alignment)
			e.Advice = "the file is damaged, or written by a program that ignores general.alignment: convert it again"
			return nil, e
		}
		n, _ := tensorfs.Elements(t.Shape)
		extents[i] = extent{tensor: i, offset: int64(in.offset), elems: n}
	}
	slices.SortFunc(extents, func(a, b extent) int {
		if c := cmp.Compare(a.offset, b.offset); c != 0 {
			return c
		}
		return cmp.Compare(a.tensor, b.tensor)
	})
	// From the back: group is the smallest offset of a tensor with elements so
	// far, after the one before it.
	group, after := length, length
	for i := len(extents) - 1; i >= 0; i-- {
		p := &extents[i]
		if p.next = after; p.offset < group {
			p.next = group
			if p.elems > 0 {
				group, after = p.offset, group
			}
		}
		p.last = p.next == length
	}
	return extents, nil
}

// checkOverlap returns an error if two tensors share a byte. Extents are in the order of
// their offsets. The furthest end so far is kept instead of the neighbour's, because an
// empty tensor may lie in between.
func (f *File) checkOverlap(extents []extent, start int64) error {
	end, owner := int64(0), -1
	for _, p := range extents {
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
