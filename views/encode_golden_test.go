package views

import (
	"bytes"
	"encoding/binary"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs"
)

// TestEncodeGolden quantises rows that are stored as F32, and as halves where they hold the numbers, to the bytes that
// libggml makes of them.
func TestEncodeGolden(t *testing.T) {
	const columns = 512
	golden := func(name string) []byte {
		b, err := os.ReadFile("../testdata/quantise/" + name)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	rows := golden("rows.f32")
	n := int64(len(rows) / 4 / columns)
	seen := 0
	for to := range tensorfs.DTypes() {
		want, err := os.ReadFile("../testdata/quantise/blocks/" + to.String() + ".bin")
		if err != nil {
			continue
		}
		seen++
		size, _ := to.Size([]int64{1, columns})
		all := tensorfs.Tensor{DType: tensorfs.F32, Shape: []int64{n, columns}, Data: tensorfs.Bytes(rows)}
		d, err := Encode(&all, to)
		if err != nil {
			t.Fatal(err)
		}
		if got := content(t, d); !bytes.Equal(got, want) {
			t.Errorf("%s of F32 has other bytes", to)
		}
		for i := range n {
			row := rows[i*columns*4:][:columns*4]
			for _, from := range []tensorfs.DType{tensorfs.F16, tensorfs.BF16} {
				b, ok := held(row, from)
				if !ok {
					continue
				}
				x := tensorfs.Tensor{DType: from, Shape: []int64{1, columns}, Data: tensorfs.Bytes(b)}
				d, err := Encode(&x, to)
				if err != nil {
					t.Fatal(err)
				}
				if got := content(t, d); !bytes.Equal(got, want[i*size:][:size]) {
					t.Errorf("%s of row %d as %s has other bytes", to, i, from)
				}
			}
		}
	}
	if list, err := os.ReadDir("../testdata/quantise/blocks"); err != nil || seen != len(list)-strings.Count(names(list), "imatrix.") {
		t.Errorf("%d types were compared: %v", seen, err)
	}
}

func names(list []os.DirEntry) (all string) {
	for _, e := range list {
		all += e.Name() + " "
	}
	return all
}

// held returns F32 as a shorter type, false where that does not hold each.
func held(singles []byte, to tensorfs.DType) (b []byte, ok bool) {
	for i := 0; i < len(singles); i += 4 {
		x := math.Float32frombits(binary.LittleEndian.Uint32(singles[i:]))
		if to == tensorfs.BF16 {
			ok = math.Float32bits(x)&0xFFFF == 0
			b = append(b, singles[i+2:i+4]...)
		} else {
			h := halvesOf(singles[i : i+4])
			wide, err := Floats(&tensorfs.Tensor{DType: tensorfs.F16, Shape: []int64{1}, Data: tensorfs.Bytes(h)})
			ok = err == nil && math.Float32bits(wide[0]) == math.Float32bits(x)
			b = append(b, h...)
		}
		if !ok {
			return nil, false
		}
	}
	return b, true
}
