package arrange

import (
	"bytes"
	"encoding/binary"
	"io"
	"testing"
	"testing/iotest"

	"github.com/tensorfs/tensorfs"
)

// TestIntegers makes each type of the other, at any offset, and refuses other types.
func TestIntegers(t *testing.T) {
	var narrow, wide, cut []byte
	for _, x := range []int64{0, 1, -1, 255, -256, 1<<31 - 1, -1 << 31} {
		narrow = binary.LittleEndian.AppendUint32(narrow, uint32(x))
		wide = binary.LittleEndian.AppendUint64(wide, uint64(x))
		cut = binary.LittleEndian.AppendUint64(cut, uint64(x^5<<40)) // with a high half that an I32 leaves out
	}
	table := func(d tensorfs.DType, b []byte) *tensorfs.Tensor {
		return &tensorfs.Tensor{Name: "table", Source: "table", DType: d, Shape: []int64{7}, Data: bytes.NewReader(b)}
	}
	for _, c := range []struct {
		of   *tensorfs.Tensor
		to   tensorfs.DType
		want []byte
	}{
		{table(tensorfs.I64, wide), tensorfs.I32, narrow},
		{table(tensorfs.I64, cut), tensorfs.I32, narrow},
		{table(tensorfs.I32, narrow), tensorfs.I64, wide},
		{table(tensorfs.I32, narrow), tensorfs.I32, narrow},
	} {
		made, err := Integers(c.of, c.to)
		if err != nil {
			t.Fatal(err)
		}
		if made.DType != c.to || made.Data.Size() != int64(len(c.want)) {
			t.Errorf("%s to %s: %s of %d bytes", c.of.DType, c.to, made.DType, made.Data.Size())
		}
		if err := iotest.TestReader(io.NewSectionReader(made.Data, 0, made.Data.Size()), c.want); err != nil {
			t.Errorf("%s to %s: %v", c.of.DType, c.to, err)
		}
	}
	for _, wrong := range []*tensorfs.Tensor{table(tensorfs.U32, narrow), {DType: tensorfs.I64, BigEndian: true, Shape: []int64{7}, Data: bytes.NewReader(wide)}} {
		if _, err := Integers(wrong, tensorfs.I32); err == nil {
			t.Errorf("%s is taken, big-endian: %v", wrong.DType, wrong.BigEndian)
		}
	}
}
