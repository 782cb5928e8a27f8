package arrange

import (
	"fmt"

	"github.com/tensorfs/tensorfs"
)

// Integers returns a table of I32 or I64 as the other type, or as it is. An I32 is the low half of
// an I64, as PyTorch converts them.
func Integers(t *tensorfs.Tensor, to tensorfs.DType) (*tensorfs.Tensor, error) {
	is := func(d tensorfs.DType) bool { return d == tensorfs.I32 || d == tensorfs.I64 }
	if t.Quant != nil || t.BigEndian || t.Opaque != "" || !is(t.DType) || !is(to) {
		return nil, fmt.Errorf("a table is %s, and not little-endian I32 or I64", t.DType)
	}
	if t.DType == to {
		return t, nil
	}
	made := *t
	made.DType, made.Parts = to, nil
	_, from := t.DType.Block()
	_, width := to.Block()
	made.Data = &integers{t.Data, from, width}
	return &made, nil
}

// integers are little-endian numbers of width bytes, converted from numbers of from bytes.
type integers struct {
	d           tensorfs.Data
	from, width int64
}

func (x *integers) Size() int64 { return x.d.Size() / x.from * x.width }

func (x *integers) Check() error { return tensorfs.Check(x.d) }

func (x *integers) ReadAt(p []byte, off int64) (int, error) {
	return readElements(x, x.width, x.Size(), p, off)
}

func (x *integers) make(dst []byte, first int64) error {
	return viewed(x.d, first*x.from, int64(len(dst))/x.width*x.from, func(src []byte) error {
		for ; len(dst) > 0; src, dst = src[x.from:], dst[x.width:] {
			sign := byte(int8(src[x.from-1]) >> 7)
			for i := copy(dst[:x.width], src[:x.from]); i < int(x.width); i++ {
				dst[i] = sign
			}
		}
		return nil
	})
}

var _ tensorfs.Checker = (*integers)(nil)
