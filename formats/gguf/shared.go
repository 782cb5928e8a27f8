package gguf

import (
	"fmt"
	"math"
	"strings"

	"github.com/tensorfs/tensorfs"
)

// Numbers that ggml, bitnet.cpp and others gave to different types. No field in a
// file says whose numbering it follows, but the space up to the next tensor does.
const (
	firstShared = 36
	lastShared  = 39
)

// meaning is one meaning of a shared number.
type meaning struct {
	id     uint32
	dtype  tensorfs.DType
	size   func(s shared) int64 // negative if the tensor cannot have this meaning
	opaque string               // why it cannot be decoded; "" if it can
}

// shared holds the inputs to the sizes of meanings.
type shared struct {
	n, cols, rows int64
	hasScale      bool // a tensor NAME_scale exists
}

const (
	lostRepack = "%s, a repacking that ggml removed, cannot be decoded; see raw/"
	needsTiles = "%s of bitnet.cpp needs tile sizes that the file does not have; see raw/"
)

// meanings is the table of shared numbers' meanings. If two fit, the first one counts.
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
	{39, tensorfs.MXFP4, func(s shared) int64 { return s.blocks(17) }, ""},
	{39, tensorfs.TL2, shared.tl2, needsTiles},
	{39, tensorfs.TL2, func(s shared) int64 { return plus((s.tl2()+31)/32*32, 32) }, needsTiles},
}

// parts returns n*num/den if that is a whole number.
func (s shared) parts(num, den int64) int64 {
	if s.n%den != 0 {
		return -1
	}
	return s.n / den * num
}

// blocks returns the size of rows of 32-element blocks.
func (s shared) blocks(bytes int64) int64 {
	if s.cols%32 != 0 {
		return -1
	}
	return s.parts(bytes, 32)
}

func (s shared) nibbles() int64 { return s.blocks(18) }

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

// resolveShared finds the meaning of a shared number: the one whose size, rounded
// up to the alignment, equals the space that the tensor has. The last tensor of a
// file may lack its padding.
func (f *File) resolveShared(p *extent, in info) error {
	t := &f.Tensors[p.tensor]
	const many = math.MaxInt64 / 256 // no size below overflows
	space := p.next - p.offset
	if p.elems > 0 && p.elems < many {
		s := shared{n: p.elems, cols: t.Cols(), hasScale: f.hasTensor(t.Source + "_scale")}
		s.rows = s.n / s.cols
		least := int64(math.MaxInt64)
		for _, c := range meanings {
			size := c.size(s)
			if c.id != in.typ || size < 0 {
				continue
			}
			padded := (size + f.Alignment - 1) / f.Alignment * f.Alignment
			if space == padded || p.last && size <= space && space < size+f.Alignment {
				return f.settle(p, c, size)
			}
			if c.dtype != tensorfs.TL2 || f.isBitNet() {
				least = min(least, size)
			}
		}
		if p.last && space < least && least < math.MaxInt64 {
			return f.errorAt(p.tensor, in.at, "its %d bytes of type %d go %d beyond the end of the file", least, in.typ, least-space)
		}
	}
	t.Opaque = fmt.Sprintf("its ggml type %d has several meanings, and none of them takes %d bytes for this shape; see raw/", in.typ, space)
	if p.elems == 0 {
		t.Opaque = fmt.Sprintf("its ggml type %d has several meanings, which an empty tensor does not tell apart; see raw/", in.typ)
	}
	return f.takeAll(p, in)
}

// settle gives a tensor the meaning c.
func (f *File) settle(p *extent, c meaning, size int64) error {
	t := &f.Tensors[p.tensor]
	t.DType, p.size = c.dtype, size
	if c.opaque != "" {
		t.Opaque = fmt.Sprintf(c.opaque, c.dtype)
	}
	return nil
}

// hasTensor reports whether the file has a tensor of that name.
func (f *File) hasTensor(name string) bool {
	_, ok := f.names[name]
	return ok
}

// isBitNet reports whether the architecture is one of bitnet.cpp's own.
func (f *File) isBitNet() bool { return strings.HasPrefix(f.Architecture(), "bitnet") }
