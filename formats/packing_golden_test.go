package formats_test

import (
	"archive/zip"
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats"
	"github.com/tensorfs/tensorfs/views"
)

// packed returns the golden cases of other programs' packings: what is in their
// directories, and by case the SHA-256 of the numbers as F32.
func packed(t testing.TB) (files *zip.ReadCloser, sums map[string]string) {
	t.Helper()
	files, err := zip.OpenReader(testdata + "/quantise/foreign.zip")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { files.Close() })
	f, err := files.Open("cases.tsv")
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(f)
	if err != nil {
		t.Fatal(err)
	}
	sums = map[string]string{}
	for line := range strings.Lines(string(text)) {
		col := strings.Split(strings.TrimSpace(line), "\t")
		sums[col[0]] = col[2]
	}
	return files, sums
}

// unpackedTo writes a case into a directory and returns it.
func unpackedTo(t testing.TB, files *zip.ReadCloser, name string) string {
	t.Helper()
	dir := t.TempDir()
	for _, file := range []string{"config.json", "model.safetensors"} {
		b, err := fs.ReadFile(files, name+"/"+file)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, file), b, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestPackings compares the numbers of every packing with the numbers of the program that packed
// them, in one read and in chunks.
func TestPackings(t *testing.T) {
	files, sums := packed(t)
	if len(sums) != 69 {
		t.Errorf("%d cases", len(sums))
	}
	for name, want := range sums {
		t.Run(name, func(t *testing.T) {
			m, err := formats.Open(unpackedTo(t, files, name))
			if err != nil {
				t.Fatal(err)
			}
			defer m.Close()
			if len(m.Warnings) > 0 {
				t.Errorf("warnings %q", m.Warnings)
			}
			var codes *tensorfs.Tensor
			for i := range m.Tensors {
				x := &m.Tensors[i]
				switch {
				case x.Opaque != "":
					t.Errorf("%s: %s", x.Source, x.Opaque)
				case x.Quant != nil:
					codes = x
				}
			}
			if codes == nil || codes.Weight() != "m.weight" {
				t.Fatalf("no module: %+v", codes)
			}
			d, err := views.Encode(codes, tensorfs.F32)
			if err != nil {
				t.Fatal(err)
			}
			all := make([]byte, d.Size())
			if err := tensorfs.ReadFull(d, all, 0); err != nil {
				t.Fatal(err)
			}
			if sum(all) != want {
				t.Fatalf("other numbers: %s of %v", sum(all), codes.Numbers())
			}
			r := rand.New(rand.NewPCG(1, 2))
			for range 300 {
				at := r.Int64N(d.Size())
				n := 1 + r.Int64N(min(d.Size()-at, 3000))
				p := make([]byte, n)
				if err := tensorfs.ReadFull(d, p, at); err != nil || !bytes.Equal(p, all[at:at+n]) {
					t.Fatalf("%d bytes at %d differ: %v", n, at, err)
				}
			}
			plain := tensorfs.Tensor{Name: "w", DType: tensorfs.F32, Shape: codes.Numbers(), Data: tensorfs.Bytes(all)}
			for _, to := range []tensorfs.DType{tensorfs.F16, tensorfs.BF16, tensorfs.Q8_0} {
				a, err1 := views.Encode(codes, to)
				b, err2 := views.Encode(&plain, to)
				if err1 != nil || err2 != nil {
					if fmt.Sprint(err1) != fmt.Sprint(err2) {
						t.Errorf("%s: %v, %v", to, err1, err2)
					}
					continue
				}
				x, y := make([]byte, a.Size()), make([]byte, b.Size())
				if tensorfs.ReadFull(a, x, 0) != nil || tensorfs.ReadFull(b, y, 0) != nil || !bytes.Equal(x, y) {
					t.Errorf("%s is not that of the numbers", to)
				}
			}
			same(t, codes, all)
		})
	}
}

// same holds the module of MLX's kind to have the same numbers.
func same(t *testing.T, codes *tensorfs.Tensor, want []byte) {
	t.Helper()
	to, exact, err := views.Exact(codes)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s, exact %v", to, exact)
	if exact {
		d, err := views.Encode(codes, to)
		if err != nil {
			t.Fatal(err)
		}
		back, err := views.Encode(&tensorfs.Tensor{Name: "w", DType: to, Shape: codes.Numbers(), Data: d}, tensorfs.F32)
		if err != nil {
			t.Fatal(err)
		}
		p := make([]byte, back.Size())
		if err := tensorfs.ReadFull(back, p, 0); err != nil || !equalNumbers(p, want) {
			t.Errorf("%s holds other numbers: %v", to, err)
		}
	}
	if codes.Quant.Same == nil {
		return
	}
	x, err := codes.Quant.Same()
	if err != nil {
		t.Fatal(err)
	}
	if x == nil {
		t.Log("no module of MLX's")
		return
	}
	d, err := views.Encode(x, tensorfs.F32)
	if err != nil {
		t.Fatal(err)
	}
	p := make([]byte, d.Size())
	if err := tensorfs.ReadFull(d, p, 0); err != nil || !bytes.Equal(p, want) {
		t.Errorf("the module of MLX's holds other numbers: %v", err)
	}
}

// equalNumbers compares F32, and takes zeros of both signs as equal.
func equalNumbers(a, b []byte) bool {
	if len(a) != len(b) {
		return false
	}
	for i := 0; i < len(a); i += 4 {
		if !bytes.Equal(a[i:i+4], b[i:i+4]) && !(a[i]|a[i+1]|a[i+2]|a[i+3]&0x7F == 0 && b[i]|b[i+1]|b[i+2]|b[i+3]&0x7F == 0) {
			return false
		}
	}
	return true
}
