package arrange

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/tensorfs/tensorfs"
	"github.com/x448/float16"
)

// Add returns the numbers of t plus a number, as F32. Halves are added
// as halves, as llama.cpp's converter does: the sum is rounded before it is
// widened.
func Add(t *tensorfs.Tensor, x float32) (*tensorfs.Tensor, error) {
	return add(t, numbers{
		tensorfs.F32:  func(src []byte) float32 { return number32(src) + x },
		tensorfs.BF16: func(src []byte) float32 { return numberB16(src) + x },
		tensorfs.F16: func(src []byte) float32 {
			// Rounding to F32 before F16 changes nothing: F32 has more than twice the digits.
			return float16.Fromfloat32(number16(src) + x).Float32()
		},
	})
}

// Subtract returns the numbers of t minus a number, as F32. It undoes [Add] but for the
// last digits, which were lost in the sum.
func Subtract(t *tensorfs.Tensor, x float32) (*tensorfs.Tensor, error) {
	return add(t, numbersBy(func(y float32) float32 { return y - x }))
}

// Scale returns the numbers of t multiplied by a number, as F32. Products of halves are rounded
// to halves, as sums are in [Add].
func Scale(t *tensorfs.Tensor, x float32) (*tensorfs.Tensor, error) {
	return calculated("multiplied in", t, tensorfs.F32, numbers{
		tensorfs.F32:  func(src []byte) float32 { return number32(src) * x },
		tensorfs.BF16: func(src []byte) float32 { return numberB16(src) * x },
		tensorfs.F16:  func(src []byte) float32 { return float16.Fromfloat32(number16(src) * x).Float32() },
	})
}

// numbers converts a stored number of a type to another number.
type numbers map[tensorfs.DType]func(src []byte) float32

func add(t *tensorfs.Tensor, by numbers) (*tensorfs.Tensor, error) {
	return calculated("added to", t, tensorfs.F32, by)
}

// calculated returns a tensor of another type, F32, BF16 or F16, whose numbers are computed
// from the numbers of t. how is a word for errors.
func calculated(how string, t *tensorfs.Tensor, to tensorfs.DType, by numbers) (*tensorfs.Tensor, error) {
	number, ok := by[t.DType]
	if t.Quant != nil || !ok || t.BigEndian || t.Opaque != "" {
		return nil, fmt.Errorf("nothing is %s %s: only to little-endian F32, F16 and BF16", how, t.DType)
	}
	made := *t
	made.DType, made.Parts = to, nil
	_, width := t.DType.Block()
	_, out := to.Block()
	made.Data = &computed{t.Data, number, stored[to], width, out}
	return &made, nil
}

func number32(b []byte) float32 { return math.Float32frombits(binary.LittleEndian.Uint32(b)) }

func numberB16(b []byte) float32 {
	return math.Float32frombits(uint32(binary.LittleEndian.Uint16(b)) << 16)
}

func number16(b []byte) float32 { return float16.Frombits(binary.LittleEndian.Uint16(b)).Float32() }

// stored write a number as a type has it, rounded to the nearest one.
var stored = map[tensorfs.DType]func(dst []byte, x float32){
	tensorfs.F32: func(dst []byte, x float32) { binary.LittleEndian.PutUint32(dst, math.Float32bits(x)) },
	tensorfs.F16: func(dst []byte, x float32) { binary.LittleEndian.PutUint16(dst, float16.Fromfloat32(x).Bits()) },
	tensorfs.BF16: func(dst []byte, x float32) {
		binary.LittleEndian.PutUint16(dst, uint16(math.Float32bits(roundedB16(x))>>16))
	},
}

// computed is numbers computed from the numbers of d, with out bytes for each.
type computed struct {
	d          tensorfs.Data
	number     func(src []byte) float32
	store      func(dst []byte, x float32)
	width, out int64
}

func (c *computed) Size() int64 { return c.d.Size() / c.width * c.out }

func (c *computed) Check() error { return tensorfs.Check(c.d) }

func (c *computed) ReadAt(p []byte, off int64) (int, error) {
	return readElements(c, c.out, c.Size(), p, off)
}

func (c *computed) make(dst []byte, first int64) error {
	return viewed(c.d, first*c.width, int64(len(dst))/c.out*c.width, func(src []byte) error {
		for at := 0; len(dst) > 0; at += int(c.width) {
			c.store(dst, c.number(src[at:]))
			dst = dst[c.out:]
		}
		return nil
	})
}

var _ tensorfs.Checker = (*computed)(nil)
