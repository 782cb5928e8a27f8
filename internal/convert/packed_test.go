package convert_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/convert"
	"github.com/tensorfs/tensorfs/internal/convert/preset"
	"github.com/tensorfs/tensorfs/internal/testing/testwhole"
	"github.com/tensorfs/tensorfs/views"
)

// TestPacked compares the GGUF file of a model that another program packed with the GGUF file of a
// plain model of the same values. The numbers are equal if a block type holds them exactly;
// otherwise they are rounded once to the model's type.
func TestPacked(t *testing.T) {
	blocks := map[string]string{ // of all modules, q and k as well, whose rows are moved
		"awq-real-gemm-sym": "Q4_1", "ct-real-w2-asym": "Q4_1", "ct-real-w3-dense": "Q4_1",
		"ar-real-gptq-2bit-asym": "Q4_1", "ar-real-gptq-3bit-asym": "Q4_1", "ar-real-own-2bit-asym": "Q4_1", "ar-real-own-3bit-asym": "Q4_1",
		"ct-mxfp4": "MXFP4", "ar-real-mxfp4": "MXFP4", "ct-real-mxfp4": "MXFP4",
	}
	for _, name := range testwhole.PackedCases(t) {
		t.Run(name, func(t *testing.T) {
			files := testwhole.Packed(t, name, nil)
			packed := testwhole.OpenFiles(t, files)
			plain := testwhole.OpenFiles(t, testwhole.Unpacked(t, packed, files, tensorfs.BF16))
			single := testwhole.OpenFiles(t, testwhole.Unpacked(t, packed, files, tensorfs.F32))
			made := func(m *tensorfs.Model, opts convert.Options) (*tensorfs.Model, *convert.Files) {
				f := convert.GGUF(m, opts)
				if f.Reason != "" {
					t.Fatal(f.Reason)
				}
				return testwhole.OpenGGUF(t, testwhole.Read(t, f.List[0].Data)), f
			}
			got, files1 := made(packed, convert.Options{})
			want, _ := made(plain, convert.Options{})
			exact, _ := made(single, convert.Options{})
			p, err := preset.Named("F32")
			if err != nil {
				t.Fatal(err)
			}
			wide, files2 := made(packed, convert.Options{Quantise: &preset.Options{Preset: p, Requantise: true}})
			for i := range exact.Tensors {
				if w := wide.Tensor(exact.Tensors[i].Name); w.DType != tensorfs.F32 || !files2.Exact || !bytes.Equal(numbers(t, w), numbers(t, &exact.Tensors[i])) {
					t.Errorf("%s is %s, and has other numbers, where F32 is asked for", w.Source, w.DType)
				}
			}
			if len(got.Tensors) != len(want.Tensors) {
				t.Fatalf("%d tensors, want %d", len(got.Tensors), len(want.Tensors))
			}
			types, rounded := map[string]int{}, 0
			for i := range got.Tensors {
				x, w := &got.Tensors[i], &want.Tensors[i]
				of := w
				if x.DType.Kind() == tensorfs.KindBlock {
					of = &exact.Tensors[i]
					types[x.DType.String()]++
				}
				if a, b := numbers(t, x), numbers(t, of); x.Source != of.Source || !bytes.Equal(a, b) {
					t.Errorf("%s has other numbers than %s as %s", x.Source, of.Source, of.DType)
				}
				if !bytes.Equal(numbers(t, w), numbers(t, &exact.Tensors[i])) && x.DType.Kind() != tensorfs.KindBlock {
					rounded++
				}
				if x.DType.Kind() == tensorfs.KindFloat && x.DType != w.DType {
					t.Errorf("%s is %s, want %s", x.Source, x.DType, w.DType)
				}
			}
			if to := blocks[name]; to != "" && types[to] != 10 || to == "" && len(types) > 0 {
				t.Errorf("types %v, want %s", types, to)
			}
			if rounded > 0 && files1.Exact {
				t.Errorf("%d tensors are rounded, and the file is called exact", rounded)
			}
			note := fmt.Sprintf("%d tensors are rounded to BF16", rounded)
			if said := strings.Join(files1.Notes, "; "); rounded > 0 && !strings.Contains(said, note) {
				t.Errorf("notes %q, want %q", said, note)
			}
		})
	}
}

// numbers returns a tensor's numbers as F32, with all zeros alike.
func numbers(t *testing.T, x *tensorfs.Tensor) []byte {
	t.Helper()
	d, err := views.Encode(x, tensorfs.F32)
	if err != nil {
		t.Fatal(err)
	}
	b := testwhole.Read(t, d)
	for i := 3; i < len(b); i += 4 {
		if b[i] == 0x80 && b[i-1]|b[i-2]|b[i-3] == 0 {
			b[i] = 0
		}
	}
	return b
}
