package arrange

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/tensorfs/tensorfs"
	"github.com/x448/float16"
)

// AddOne returns F32 numbers that are one more than those of t. Halves are added
// as halves, as llama.cpp's converter does: the sum is rounded before it is
// widened.
func AddOne(t *tensorfs.Tensor) (*tensorfs.Tensor, error) {
	_, ok := plusOne[t.DType]
	if t.Quant != nil || !ok || t.BigEndian || t.Opaque != "" {
		return nil, fmt.Errorf("nothing is added to %s: only to little-endian F32, F16 and BF16", t.DType)
	}
	to := *t
	to.DType, to.Parts = tensorfs.F32, nil
	_, width := t.DType.Block()
	to.Data = &added{t.Data, t.DType, width}
	return &to, nil
}

// plusOne adds one to a stored number.
var plusOne = map[tensorfs.DType]func(src []byte) float32{
	tensorfs.F32:  func(src []byte) float32 { return math.Float32frombits(binary.LittleEndian.Uint32(src)) + 1 },
	tensorfs.BF16: func(src []byte) float32 { return math.Float32frombits(uint32(binary.LittleEndian.Uint16(src))<<16) + 1 },
	tensorfs.F16: func(src []byte) float32 {
		// Rounding to F32 before F16 changes nothing: F32 has more than twice the digits.
		return float16.Fromfloat32(float16.Frombits(binary.LittleEndian.Uint16(src)).Float32() + 1).Float32()
	},
}

// added is the numbers of d, plus one, as F32.
type added struct {
	d     tensorfs.Data
	dtype tensorfs.DType
	width int64
}

func (a *added) Size() int64 { return a.d.Size() / a.width * 4 }

func (a *added) Check() error { return tensorfs.Check(a.d) }

func (a *added) ReadAt(p []byte, off int64) (int, error) {
	return readElements(a, 4, a.Size(), p, off)
}

func (a *added) make(dst []byte, first int64) error {
	plus := plusOne[a.dtype]
	return viewed(a.d, first*a.width, int64(len(dst))/4*a.width, func(src []byte) error {
		for i, at := 0, 0; i < len(dst); i, at = i+4, at+int(a.width) {
			binary.LittleEndian.PutUint32(dst[i:], math.Float32bits(plus(src[at:])))
		}
		return nil
	})
}

var _ tensorfs.Checker = (*added)(nil)
