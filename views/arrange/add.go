package arrange

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/tensorfs/tensorfs"
	"github.com/x448/float16"
)

// AddOne returns the numbers of t plus one, as F32. Halves are added
// as halves, as llama.cpp's converter does: the sum is rounded before it is
// widened.
func AddOne(t *tensorfs.Tensor) (*tensorfs.Tensor, error) { return add(t, plusOne) }

// SubtractOne returns the numbers of t minus one, as F32. It undoes [AddOne] but for
// the last digits of tiny numbers, which were lost in the sum.
func SubtractOne(t *tensorfs.Tensor) (*tensorfs.Tensor, error) { return add(t, minusOne) }

// numbers says how a stored number of a type becomes another.
type numbers map[tensorfs.DType]func(src []byte) float32

func add(t *tensorfs.Tensor, by numbers) (*tensorfs.Tensor, error) {
	sum, ok := by[t.DType]
	if t.Quant != nil || !ok || t.BigEndian || t.Opaque != "" {
		return nil, fmt.Errorf("nothing is added to %s: only to little-endian F32, F16 and BF16", t.DType)
	}
	to := *t
	to.DType, to.Parts = tensorfs.F32, nil
	_, width := t.DType.Block()
	to.Data = &added{t.Data, sum, width}
	return &to, nil
}

// plusOne adds one to a stored number.
var plusOne = numbers{
	tensorfs.F32:  func(src []byte) float32 { return number32(src) + 1 },
	tensorfs.BF16: func(src []byte) float32 { return numberB16(src) + 1 },
	tensorfs.F16: func(src []byte) float32 {
		// Rounding to F32 before F16 changes nothing: F32 has more than twice the digits.
		return float16.Fromfloat32(number16(src) + 1).Float32()
	},
}

// minusOne subtracts one.
var minusOne = numbers{
	tensorfs.F32:  func(src []byte) float32 { return number32(src) - 1 },
	tensorfs.BF16: func(src []byte) float32 { return numberB16(src) - 1 },
	tensorfs.F16:  func(src []byte) float32 { return number16(src) - 1 },
}

func number32(b []byte) float32 { return math.Float32frombits(binary.LittleEndian.Uint32(b)) }

func numberB16(b []byte) float32 {
	return math.Float32frombits(uint32(binary.LittleEndian.Uint16(b)) << 16)
}

func number16(b []byte) float32 { return float16.Frombits(binary.LittleEndian.Uint16(b)).Float32() }

// added is the numbers of d, plus or minus one, as F32.
type added struct {
	d     tensorfs.Data
	sum   func(src []byte) float32
	width int64
}

func (a *added) Size() int64 { return a.d.Size() / a.width * 4 }

func (a *added) Check() error { return tensorfs.Check(a.d) }

func (a *added) ReadAt(p []byte, off int64) (int, error) {
	return readElements(a, 4, a.Size(), p, off)
}

func (a *added) make(dst []byte, first int64) error {
	return viewed(a.d, first*a.width, int64(len(dst))/4*a.width, func(src []byte) error {
		for i, at := 0, 0; i < len(dst); i, at = i+4, at+int(a.width) {
			binary.LittleEndian.PutUint32(dst[i:], math.Float32bits(a.sum(src[at:])))
		}
		return nil
	})
}

var _ tensorfs.Checker = (*added)(nil)
