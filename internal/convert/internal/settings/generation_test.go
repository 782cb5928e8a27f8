package settings

import (
	"encoding/binary"
	"math"
	"reflect"
	"testing"

	"github.com/tensorfs/tensorfs"
)

// TestZeroRows finds rows without a number other than zero, whatever the sign of the zeros.
func TestZeroRows(t *testing.T) {
	var b []byte
	for _, x := range []float32{0, 0, 1, 0, 0, float32(math.Copysign(0, -1)), 0, math.SmallestNonzeroFloat32, 0, 0} {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(x))
	}
	x := &tensorfs.Tensor{Source: "embed", DType: tensorfs.F32, Shape: []int64{5, 2}, Data: tensorfs.Bytes(b)}
	got, err := zeroRows(x, 1)
	if want := []any{int64(2), int64(4)}; err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%v, %v; want %v", got, err, want)
	}
	if got, err = zeroRows(x, 4); err != nil || len(got) != 1 {
		t.Errorf("from row 4 on: %v, %v", got, err)
	}
	if _, err = zeroRows(x, 0); err == nil {
		t.Error("there is no error without a tokenizer.json")
	}
	large := &tensorfs.Tensor{DType: tensorfs.F32, Shape: []int64{maxZeroRows + 2, 2}}
	if _, err = zeroRows(large, 1); err == nil {
		t.Error("there is no error of too many rows")
	}
}
