package arrange

import (
	"bytes"
	"encoding/binary"
	"io"
	"math"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/tensorfs/tensorfs"
	"github.com/x448/float16"
)

// TestSum adds numbers along each dimension. PyTorch's sums of the same numbers are equal, also of two negative zeros.
func TestSum(t *testing.T) {
	negative := float32(math.Copysign(0, -1))
	for _, c := range []struct {
		name  string
		to    tensorfs.DType
		store func(b []byte, x float32) []byte
		x     []float32
		dim   int
		want  []float32
		kind  tensorfs.DType
	}{
		{"outermost", tensorfs.F32, appendF32, []float32{1, 2, 3, 4, 10, 20, 30, 40}, 0, []float32{11, 22, 33, 44}, tensorfs.F32},
		{"middle", tensorfs.BF16, appendBF16, []float32{1, 2, 3, 4, 10, 20, 30, 40}, 1, []float32{4, 6, 40, 60}, tensorfs.F32},
		{"innermost", tensorfs.F32, appendF32, []float32{1, 2, 3, 4, negative, negative, 1 << 24, 1}, 2, []float32{3, 7, 0, 1 << 24}, tensorfs.F32},
		{"halves are rounded once", tensorfs.F16, appendF16, []float32{2048, 1, 3, 4, 1, 20, 30, 40}, 0, []float32{2048, 21, 33, 44}, tensorfs.F16},
	} {
		var b []byte
		for _, x := range c.x {
			b = c.store(b, x)
		}
		got, err := Sum(&tensorfs.Tensor{DType: c.to, Shape: []int64{2, 2, 2}, Data: tensorfs.Bytes(b)}, c.dim)
		if err != nil {
			t.Fatal(err)
		}
		var want []byte
		for _, x := range c.want {
			if want = appendF32(want, x); c.kind == tensorfs.F16 {
				want = appendF16(want[:len(want)-4], x)
			}
		}
		made := make([]byte, got.Data.Size())
		if err := tensorfs.ReadFull(got.Data, made, 0); err != nil || got.DType != c.kind || len(got.Shape) != 2 || !bytes.Equal(made, want) {
			t.Errorf("%s: %s %v %x, %v, want %x", c.name, got.DType, got.Shape, made, err, want)
		}
		if err := iotest.TestReader(io.NewSectionReader(got.Data, 0, got.Data.Size()), want); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	for why, x := range map[string]*tensorfs.Tensor{
		"no dimension 3":    {DType: tensorfs.F32, Shape: []int64{1, 1, 1}, Data: tensorfs.Bytes(make([]byte, 4))},
		"nothing is summed": {DType: tensorfs.I32, Shape: []int64{1, 1, 1, 2}, Data: tensorfs.Bytes(make([]byte, 8))},
	} {
		if _, err := Sum(x, 3); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%v, want %s", err, why)
		}
	}
}

func appendF32(b []byte, x float32) []byte {
	return binary.LittleEndian.AppendUint32(b, math.Float32bits(x))
}

func appendBF16(b []byte, x float32) []byte {
	return binary.LittleEndian.AppendUint16(b, uint16(math.Float32bits(x)>>16))
}

func appendF16(b []byte, x float32) []byte {
	return binary.LittleEndian.AppendUint16(b, float16.Fromfloat32(x).Bits())
}
