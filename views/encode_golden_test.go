package views

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/testing/datatest"
	"github.com/tensorfs/tensorfs/views/kernel"
)

// TestEncodeGolden quantises rows that are stored as F32, and as halves if these hold the numbers, to the bytes that
// libggml writes.
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

// TestWeighted reads what is quantised by an importance matrix at every offset: matrices of three rows, whose columns count
// differently in each.
func TestWeighted(t *testing.T) {
	const matrices, rows, columns = 2, 3, 256
	b, _ := floats(9, tensorfs.F32, matrices*rows*columns)
	x := tensorfs.Tensor{DType: tensorfs.F32, Shape: []int64{matrices, rows, columns}, Data: tensorfs.Bytes(b)}
	by := func(first, n int64) ([]float32, error) {
		w := make([]float32, n)
		for i := range w {
			w[i] = float32((first+int64(i))*7919%101) + 0.5
		}
		return w, nil
	}
	for _, to := range []tensorfs.DType{tensorfs.Q4_0, tensorfs.Q5_1, tensorfs.Q3_K, tensorfs.Q6_K, tensorfs.IQ4_XS, tensorfs.IQ2_XXS, tensorfs.IQ1_M, tensorfs.Q8_0} {
		d, err := Weighted(&x, to, by)
		if err != nil {
			t.Fatal(err)
		}
		var want []byte
		e, _ := kernel.LookupEncoder(to.String())
		row := make([]byte, columns/e.Elems*e.Bytes)
		for i := range int64(matrices * rows) {
			src := b[i*columns*4:][:columns*4]
			if e.Weigh == nil {
				e.Encode(row, src)
			} else {
				w, _ := by(i/rows*columns, columns)
				e.Weigh(row, src, w)
			}
			want = append(want, row...)
		}
		checkData(t, d, want)
	}
	fails := func(int64, int64) ([]float32, error) { return nil, datatest.ErrBroken }
	d, err := Weighted(&x, tensorfs.Q4_K, fails)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.ReadAt(make([]byte, 10), 0); !errors.Is(err, datatest.ErrBroken) {
		t.Errorf("no weights: %v", err)
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
