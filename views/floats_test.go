package views_test

import (
	"encoding/binary"
	"io"
	"math"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/views"
)

// Floats gives what f32 has, also of tensors of several pieces and of none.
func TestFloats(t *testing.T) {
	for _, rows := range []int64{0, 1, 1000} {
		raw := make([]byte, rows*512*2)
		for i := range raw {
			raw[i] = byte(i*7 + i/251)
		}
		tensor := &tensorfs.Tensor{Name: "x", DType: tensorfs.BF16, Shape: []int64{rows, 512}, Data: tensorfs.Bytes(raw)}
		got, err := views.Floats(tensor)
		if err != nil || len(got) != len(raw)/2 {
			t.Fatalf("%d rows: %d numbers, %v", rows, len(got), err)
		}
		for i, x := range got {
			if want := uint32(binary.LittleEndian.Uint16(raw[2*i:])) << 16; math.Float32bits(x) != want {
				t.Fatalf("%d rows: number %d is %x, want %x", rows, i, math.Float32bits(x), want)
			}
		}
	}
	_, err := views.Floats(&tensorfs.Tensor{Name: "x", DType: tensorfs.I32, Shape: []int64{1, 4}, Data: make(tensorfs.Bytes, 16)})
	if err == nil || !strings.Contains(err.Error(), "integers") {
		t.Errorf("of integers: %v", err)
	}
	short := tensorfs.Tensor{Name: "x", DType: tensorfs.F32, Shape: []int64{1, 4}, Data: cut{make(tensorfs.Bytes, 16)}}
	if _, err = views.Floats(&short); err == nil {
		t.Error("bytes that cannot be read are numbers")
	}
}

// cut is Data that cannot be read.
type cut struct{ tensorfs.Bytes }

func (cut) ReadAt([]byte, int64) (int, error) { return 0, io.ErrUnexpectedEOF }
