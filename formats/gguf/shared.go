package gguf

import (
	"fmt"
	"iter"
	"math"
	"slices"
	"strings"

	"github.com/tensorfs/tensorfs"
)

// firstShared is the first number that ggml and its forks gave to different types. No field
// in a file tells whose numbering it follows, but the space up to the next tensor does.
const firstShared = 36

// meaning is one meaning of a shared number.
type meaning struct {
	id     uint32
	dtype  tensorfs.DType
	size   func(s shared) int64 // negative if the tensor cannot have this meaning
	opaque string               // why it cannot be decoded; "" if it can
}

// shared holds the inputs to the sizes of meanings.
type shared struct {
	shape         []int64
	n, cols, rows int64
	hasScale      bool // a tensor NAME_scale exists
}

const (
	lostRepack = "%s, a repacking that ggml removed, cannot be decoded; see raw/"
	needsTiles = "%s of bitnet.cpp needs tile sizes that the file does not have; see raw/"
)

// meanings is the table of what numbers mean beside, or before, the type that has the number
// in the table of types. If two fit, the first one counts.
var meanings = []meaning{
	{36, tensorfs.I2_S, func(s shared) int64 { return plus(s.parts(1, 4), 32) }, ""},
	{36, tensorfs.I2_S, func(s shared) int64 { return s.parts(1, 4) }, ""}, // without a scale: Trinity's
	{36, tensorfs.IQ4_NL_4_4, shared.nibbles, lostRepack},
	{37, tensorfs.IQ4_NL_4_8, shared.nibbles, lostRepack},
	{37, tensorfs.I8_S, func(s shared) int64 { return s.n }, "%s of bitnet.cpp is for activations and has no known layout as a weight; see raw/"},
	{38, tensorfs.TL1, func(s shared) int64 {
		if !s.hasScale {
			return -1
		}
		return s.parts(1, 4)
	}, needsTiles},
	{38, tensorfs.TL1, func(s shared) int64 { return plus(s.parts(1, 4), 32) }, needsTiles},
	{38, tensorfs.IQ4_NL_8_8, shared.nibbles, lostRepack},
	{39, tensorfs.MXFP4, func(s shared) int64 { return s.blocks(32, 17) }, ""},
	{39, tensorfs.TL2, shared.tl2, needsTiles},
	{39, tensorfs.TL2, func(s shared) int64 { return plus((s.tl2()+31)/32*32, 32) }, needsTiles},
	{42, tensorfs.Q2_0, func(s shared) int64 { return s.blocks(64, 18) }, ""},
	{42, tensorfs.PQ2_0, func(s shared) int64 { return s.blocks(128, 34) }, ""}, // Prism's, until it had a number of its own
	{143, tensorfs.PTQ1_0, func(s shared) int64 { return s.blocks(128, 28) }, "%s of Prism's llama.cpp cannot be decoded here; see raw/"},
}

// meaningsOf returns what a number may mean: the rows of the table, or the type that has
// the number. It is empty for a number without a known use.
func meaningsOf(id uint32) []meaning {
	var found []meaning
	for _, m := range meanings {
		if m.id == id {
			found = append(found, m)
		}
	}
	if d, ok := byID[id]; ok && len(found) == 0 {
		m := meaning{id: id, dtype: d, size: func(s shared) int64 {
			if n, ok := d.Size(s.shape); ok {
				return n
			}
			return -1
		}}
		if d.Kind() == tensorfs.KindOpaque {
			m.opaque = "%s, a type of ik_llama.cpp, cannot be decoded here; see raw/"
		}
		found = append(found, m)
	}
	return found
}

// parts returns n*num/den if that is a whole number.
func (s shared) parts(num, den int64) int64 {
	if s.n%den != 0 {
		return -1
	}
	return s.n / den * num
}

// blocks returns the size of rows of whole blocks.
func (s shared) blocks(elems, bytes int64) int64 {
	if s.cols%elems != 0 {
		return -1
	}
	return s.parts(bytes, elems)
}

func (s shared) nibbles() int64 { return s.blocks(32, 18) }

// tl2 returns the bytes of TL2: triples of 5 bits for all but the last 256
// columns, pairs of 4 bits for those. The packer divides in this order.
func (s shared) tl2() int64 {
	if s.cols < 256 {
		return -1
	}
	return (s.cols-256)*s.rows/3*5/8 + 256*s.rows/2*4/8
}

// plus adds to a size, unless that is negative.
func plus(size, n int64) int64 {
	if size < 0 {
		return size
	}
	return size + n
}

// numbering is what each shared number of a file can mean: the types that fit every tensor
// of the number. A program gives a number to one type, so a tensor that fits by chance is
// not read as a type that its neighbours contradict.
type numbering map[uint32]map[tensorfs.DType]bool

// numbering compares all tensors of shared numbers with the space that they have.
func (f *File) numbering(extents []extent, infos []info) numbering {
	var all numbering
	for i := range extents {
		p := &extents[i]
		id := infos[p.tensor].typ
		if id < firstShared || p.elems == 0 {
			continue
		}
		fits := map[tensorfs.DType]bool{}
		for m := range f.fitting(p, id) {
			fits[m.dtype] = true
		}
		if p.last && len(fits) == 0 {
			continue // the file may be cut off
		}
		if all == nil {
			all = numbering{}
		}
		before, seen := all[id]
		if !seen {
			all[id] = fits
			continue
		}
		for d := range before {
			if !fits[d] {
				delete(before, d)
			}
		}
	}
	return all
}

// allows reports whether a number can mean a type.
func (n numbering) allows(id uint32, d tensorfs.DType) bool {
	types, seen := n[id]
	return !seen || types[d]
}

// inputs returns what the sizes of a tensor's meanings depend on. ok is false if the tensor
// is empty or too large for any.
func (f *File) inputs(p *extent) (s shared, ok bool) {
	const many = math.MaxInt64 / 256 // no size below overflows
	if p.elems <= 0 || p.elems >= many {
		return s, false
	}
	t := &f.Tensors[p.tensor]
	s = shared{shape: t.Shape, n: p.elems, cols: t.Cols(), hasScale: f.hasTensor(t.Source + "_scale")}
	s.rows = s.n / s.cols
	return s, true
}

// fitting yields the meanings of a number whose size, rounded up to the alignment, equals the
// space that the tensor has. The last tensor of a file may lack its padding.
func (f *File) fitting(p *extent, id uint32) iter.Seq2[meaning, int64] {
	return func(yield func(meaning, int64) bool) {
		s, ok := f.inputs(p)
		if !ok {
			return
		}
		space := p.next - p.offset
		for _, m := range meaningsOf(id) {
			size := m.size(s)
			if size < 0 {
				continue
			}
			padded := (size + f.Alignment - 1) / f.Alignment * f.Alignment
			if (space == padded || p.last && size <= space && space < size+f.Alignment) && !yield(m, size) {
				return
			}
		}
	}
}

// resolveShared gives a tensor of a shared number the first meaning that fits it and all
// tensors of that number.
func (f *File) resolveShared(p *extent, in info, all numbering) error {
	t := &f.Tensors[p.tensor]
	known := meaningsOf(in.typ)
	switch {
	case len(known) == 0:
		t.Opaque = nameless(in.typ)
		return f.takeAll(p, in)
	case p.elems == 0:
		_, fits := known[0].dtype.Size(t.Shape)
		if len(known) == 1 && fits {
			f.setMeaning(p, known[0], 0)
			return nil
		}
		t.Opaque = fmt.Sprintf("its ggml type %d has several meanings, which an empty tensor does not tell apart; see raw/", in.typ)
		return nil
	}
	for m, size := range f.fitting(p, in.typ) {
		if all.allows(in.typ, m.dtype) {
			f.setMeaning(p, m, size)
			return nil
		}
	}
	space := p.next - p.offset
	if least := f.least(p, known, in.typ, all); p.last && space < least && least < math.MaxInt64 {
		return f.errorAt(p.tensor, in.at, "its %d bytes of type %d go %d beyond the end of the file", least, in.typ, least-space)
	}
	var names []string
	for _, m := range known {
		if name := m.dtype.String(); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	t.Opaque = fmt.Sprintf("its ggml type %d is known as %s, which does not fit the %d bytes of this tensor or its neighbours; see raw/", in.typ, strings.Join(names, " or "), space)
	return f.takeAll(p, in)
}

// least returns the smallest size that a tensor can have, MaxInt64 if no meaning has one.
func (f *File) least(p *extent, known []meaning, id uint32, all numbering) int64 {
	least := int64(math.MaxInt64)
	s, ok := f.inputs(p)
	if !ok {
		return least
	}
	for _, m := range known {
		size := m.size(s)
		if size < 0 || !all.allows(id, m.dtype) || m.dtype == tensorfs.TL2 && !f.isBitNet() {
			continue
		}
		least = min(least, size)
	}
	return least
}

// setMeaning gives a tensor the meaning m.
func (f *File) setMeaning(p *extent, m meaning, size int64) {
	t := &f.Tensors[p.tensor]
	t.DType, p.size = m.dtype, size
	if !t.WholeRowGroups() {
		t.Opaque = fmt.Sprintf("%s mixes %d rows, and the rows of this tensor are not a multiple of %d; see raw/", m.dtype, m.dtype.RowGroup(), m.dtype.RowGroup())
	}
	if m.opaque != "" {
		t.Opaque = fmt.Sprintf(m.opaque, m.dtype)
	}
}

// hasTensor reports whether the file has a tensor of that name.
func (f *File) hasTensor(name string) bool {
	_, ok := f.names[name]
	return ok
}

// isBitNet reports whether the architecture is one of bitnet.cpp's own.
func (f *File) isBitNet() bool { return strings.HasPrefix(f.Architecture(), "bitnet") }
