package metal_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats"
	"github.com/tensorfs/tensorfs/formats/safetensors"
	"github.com/tensorfs/tensorfs/internal/convert"
	"github.com/tensorfs/tensorfs/internal/convert/hf"
	"github.com/tensorfs/tensorfs/metal"
)

// The tensors of hf/ are a view of any model: the same bytes under the same names.
func TestWholeViews(t *testing.T) {
	for name, stored := range map[string]bool{"../testdata/gguf/llama-xs.q8_0.gguf": false, "../testdata/architectures/smollm3": true, "../testdata/models-mlx/qwen3-mixed": false} {
		m, err := formats.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		var want []safetensors.Entry
		for _, f := range hf.HF(m, convert.Options{}).List {
			if strings.HasSuffix(f.Path, ".safetensors") {
				p, err := safetensors.Parse(f.Data)
				if err != nil {
					t.Fatal(err)
				}
				want = append(want, p.Tensors...)
			}
		}
		l := openDir(t, name, metal.Options{})
		if got := l.Names("hf"); len(got) != len(want) || len(got) == 0 || !slices.IsSorted(got) {
			t.Fatalf("%s: %d names, want %d: %q", name, len(got), len(want), got)
		}
		if slices.Contains(l.Views(), "hf") {
			t.Error("hf is among the views that were not asked for")
		}
		mapped := 0
		for _, x := range want {
			info, err := l.Info("hf", x.Name)
			if err != nil || info.DType != x.DType || !slices.Equal(info.Shape, x.Shape) {
				t.Fatalf("%s: %v %v, %v", x.Name, info.DType, info.Shape, err)
			}
			b := make([]byte, x.Data.Size())
			if err := tensorfs.ReadFull(x.Data, b, 0); err != nil {
				t.Fatal(err)
			}
			buffer := get(t, l, "hf", x.Name)
			if !bytes.Equal(buffer.Contents, b) {
				t.Errorf("%s: other bytes", x.Name)
			}
			if buffer.Origin == metal.OriginModel {
				mapped++
			}
		}
		if stored && mapped != len(want) {
			t.Errorf("%s: %d of %d tensors are mapped", name, mapped, len(want))
		}
	}

	// A model without hf/ returns the reason for every name.
	l := openDir(t, "../testdata/hostile-safetensors/valid/names-awkward-for-a-filesystem.safetensors", metal.Options{})
	if names := l.Names("hf"); len(names) != 0 {
		t.Errorf("%q", names)
	}
	if _, err := l.Info("hf", "x"); err == nil || !strings.Contains(err.Error(), "has no config.json") {
		t.Errorf("%v", err)
	}
}
