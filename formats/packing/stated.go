package packing

import (
	"encoding/binary"
	"sync/atomic"

	"github.com/tensorfs/tensorfs"
)

// stated is a tensor of a module that states the shape of its numbers, which has to equal
// the shape that follows from the other tensors.
type stated struct {
	t    *tensorfs.Tensor
	want [2]int64
	good atomic.Bool
}

func statedBy(t *tensorfs.Tensor, rows, cols int64) *stated {
	if t == nil {
		return nil
	}
	return &stated{t: own(t), want: [2]int64{rows, cols}}
}

// check returns an error unless the shape is what it has to be.
func (s *stated) check() error {
	if s == nil || s.good.Load() {
		return nil
	}
	got, err := shapeIn(s.t)
	if err != nil {
		return err
	}
	if got != s.want {
		return wrong(s.t, "has %v as the shape, but its module has %v", got, s.want)
	}
	s.good.Store(true)
	return nil
}

// shapeIn returns the two integers that a tensor holds.
func shapeIn(t *tensorfs.Tensor) (shape [2]int64, err error) {
	width := map[tensorfs.DType]int64{tensorfs.I64: 8, tensorfs.I32: 4}[t.DType]
	if n, _ := tensorfs.Elements(t.Shape); width == 0 || n != 2 {
		return shape, wrong(t, "is %s of shape %v, and a shape is two I64", t.DType, t.Shape)
	}
	var b [16]byte
	if err := tensorfs.ReadFull(t.Data, b[:2*width], 0); err != nil {
		return shape, err
	}
	for i := range shape {
		shape[i] = int64(int32(binary.LittleEndian.Uint32(b[int64(i)*width:])))
		if width == 8 {
			shape[i] = int64(binary.LittleEndian.Uint64(b[8*i:]))
		}
	}
	return shape, nil
}
