package packing

import (
	"encoding/binary"
	"fmt"
	"math"
	"sync"

	"github.com/tensorfs/tensorfs"
)

// maker computes numbers of a module: len(dst) F32 values, beginning with the value number
// first.
type maker interface {
	make(dst []byte, first int64) error
}

// computed is Data of elements that are made on read, of width bytes each.
type computed struct {
	maker
	width, n int64
	inputs   []*tensorfs.Tensor // the inputs
}

// numbersOf returns the n numbers that m computes from tensors.
func numbersOf(m maker, n int64, of ...*tensorfs.Tensor) tensorfs.Data {
	return &computed{m, 4, n, present(of)}
}

// present are the tensors that there are.
func present(ts []*tensorfs.Tensor) (out []*tensorfs.Tensor) {
	for _, t := range ts {
		if t != nil {
			out = append(out, own(t))
		}
	}
	return out
}

// own returns a copy of a tensor: the model will sort the list that it is in.
func own(t *tensorfs.Tensor) *tensorfs.Tensor {
	c := *t
	return &c
}

func (c *computed) Size() int64 { return c.width * c.n }

func (c *computed) Check() error {
	for _, t := range c.inputs {
		if err := tensorfs.Check(t.Data); err != nil {
			return err
		}
	}
	return nil
}

// maxRun bounds what is made at a time, in bytes.
const maxRun = 1 << 20

// ReadAt computes whole elements directly into p, and elements that p covers only in part
// in a buffer.
func (c *computed) ReadAt(p []byte, off int64) (int, error) {
	n, eof := tensorfs.ClipRange(c.Size(), p, off)
	for done := 0; done < n; {
		at := off + int64(done)
		take := min(n-done, maxRun) / int(c.width) * int(c.width)
		if skip := at % c.width; skip != 0 || take == 0 {
			var one [32]byte
			if err := c.make(one[:c.width], at/c.width); err != nil {
				return done, err
			}
			done += copy(p[done:n], one[skip:c.width])
			continue
		}
		if err := c.make(p[done:done+take], at/c.width); err != nil {
			return done, err
		}
		done += take
	}
	return n, eof
}

var _ tensorfs.Checker = (*computed)(nil)

// buffer is memory that a read needs, so that reads in a row allocate nothing.
type buffer struct{ b []byte }

var pool = sync.Pool{New: func() any { return new(buffer) }}

// sized returns a buffer of n bytes.
func sized(n int) *buffer {
	b := pool.Get().(*buffer)
	if cap(b.b) < n {
		b.b = make([]byte, max(n, 64)) // aligned for floats
	}
	b.b = b.b[:n]
	return b
}

func (b *buffer) free() { pool.Put(b) }

// withBytes calls fn with the bytes [off, off+n) of a tensor, under [tensorfs.Guard].
func withBytes(t *tensorfs.Tensor, off, n int64, fn func(src []byte)) error {
	buf := sized(0)
	defer buf.free()
	src, memory, err := tensorfs.View(t.Data, off, n, &buf.b)
	if err != nil {
		return err
	}
	return tensorfs.Guard(func() error { fn(src); return nil }, memory)
}

// copied copies n runs of width bytes, pitch bytes apart, out of a tensor: a strip of
// columns. It reads only the strip if that is less than all.
//
//	|··|=====|·······|     first, width
//	|··|=====|·······|     pitch: a row of the tensor
func copied(dst []byte, t *tensorfs.Tensor, first, width, pitch, n int64) error {
	const near = 4 // below so many widths the bytes between strips cost less than reading strips one by one
	if width == pitch || n == 1 {
		return tensorfs.ReadFull(t.Data, dst[:n*width], first)
	}
	step := int64(1)
	if pitch < near*width {
		step = max(maxRun/pitch, 1)
	}
	for at := int64(0); at < n; at += step {
		rows := min(step, n-at)
		err := withBytes(t, first+at*pitch, (rows-1)*pitch+width, func(src []byte) {
			for i := range rows {
				copy(dst[(at+i)*width:][:width], src[i*pitch:])
			}
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// putF32 writes a number.
func putF32(dst []byte, v float32) {
	binary.LittleEndian.PutUint32(dst, math.Float32bits(v))
}

// floats reads numbers of a type of scales.
var floats = map[tensorfs.DType]func(dst []float32, src []byte){
	tensorfs.F32: func(dst []float32, src []byte) {
		for i := range dst {
			dst[i] = math.Float32frombits(binary.LittleEndian.Uint32(src[4*i:]))
		}
	},
	tensorfs.BF16: func(dst []float32, src []byte) {
		for i := range dst {
			dst[i] = math.Float32frombits(uint32(binary.LittleEndian.Uint16(src[2*i:])) << 16)
		}
	},
	tensorfs.F16: func(dst []float32, src []byte) {
		for i := range dst {
			dst[i] = half(binary.LittleEndian.Uint16(src[2*i:]))
		}
	},
}

// half returns the value of an IEEE half.
func half(h uint16) float32 {
	sign, exp, frac := uint32(h>>15)<<31, uint32(h>>10&31), uint32(h&0x3FF)
	switch exp {
	case 0:
		v := float32(frac) * 0x1p-24
		return math.Float32frombits(math.Float32bits(v) | sign)
	case 31:
		return math.Float32frombits(sign | 0x7F800000 | frac<<13)
	}
	return math.Float32frombits(sign | (exp+112)<<23 | frac<<13)
}

// FloatOf is the type in which programs compute with scales of a type, unless the model
// specifies another one.
func FloatOf(scales tensorfs.DType) tensorfs.DType {
	if scales == tensorfs.F16 {
		return tensorfs.F16
	}
	return tensorfs.BF16
}

// wrong is an error about a tensor of a module.
func wrong(t *tensorfs.Tensor, format string, args ...any) error {
	return fmt.Errorf("%s %s", tensorfs.Quote(t.Source), fmt.Sprintf(format, args...))
}

// isFloat returns an error unless a tensor holds scales.
func isFloat(t *tensorfs.Tensor) error {
	if floats[t.DType] == nil {
		return wrong(t, "is %s, and scales are F16, BF16 or F32", t.DType)
	}
	return nil
}

// hasShape returns an error unless a tensor has a shape.
func hasShape(t *tensorfs.Tensor, want ...int64) error {
	ok := len(t.Shape) == len(want)
	for i := range want {
		ok = ok && t.Shape[i] == want[i]
	}
	if !ok {
		return wrong(t, "has shape %v, and its module needs %v", t.Shape, want)
	}
	return nil
}

// up returns a/b, rounded up, of numbers that are not negative.
func up(a, b int64) int64 {
	n := a / b
	if a%b > 0 {
		n++
	}
	return n
}

// maxSide bounds rows and columns, so that no product of two sizes of a module overflows.
const maxSide = 1 << 30
