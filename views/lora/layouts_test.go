package lora_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats"
	"github.com/tensorfs/tensorfs/formats/gguf"
	"github.com/tensorfs/tensorfs/formats/safetensors"
	"github.com/tensorfs/tensorfs/internal/convert"
	"github.com/tensorfs/tensorfs/internal/testing/testwhole"
	"github.com/tensorfs/tensorfs/views"
	"github.com/tensorfs/tensorfs/views/lora"
)

// asGGUF writes a model as a GGUF file of F32.
func asGGUF(t *testing.T, m *tensorfs.Model) string {
	t.Helper()
	f := convert.GGUF(m, convert.Options{})
	if f.Reason != "" {
		t.Fatal(f.Reason)
	}
	path := filepath.Join(t.TempDir(), "model.gguf")
	must(t, os.WriteFile(path, testwhole.Read(t, f.List[0].Data), 0o600))
	return path
}

// pairs are random adapters of a model's matrices in its first layers: what each is for.
func pairs(m *tensorfs.Model) (list [][]safetensors.Stored) {
	for i := range m.Tensors {
		x := &m.Tensors[i]
		module, ok := strings.CutSuffix(x.Source, ".weight")
		if !ok || len(x.Shape) != 2 || x.Quant != nil || !strings.HasPrefix(x.Name, "layers.0.") && !strings.HasPrefix(x.Name, "layers.1.") {
			continue
		}
		list = append(list, pairOf(module, x.Shape[0], x.Shape[1], 2))
	}
	return list
}

// TestLayouts: an adapter of PEFT changes a GGUF file to what the file of the changed directory
// is, for architectures whose rows or columns the two store in different orders.
func TestLayouts(t *testing.T) {
	const config = `{"peft_type":"LORA","r":2,"lora_alpha":3}`
	for _, c := range []struct {
		name string
		some int // modules that are applied, at least
		not  []string
	}{
		{"glm4", 8, nil}, {"glm-ocr", 8, nil}, {"glm4v", 8, nil}, {"bloom", 4, nil}, {"gptneox", 4, nil}, {"qwen3.5", 8, nil}, {"qwen3.5-moe", 8, nil}, {"minicpmv4.6", 8, nil},
		{"falcon-h1", 1, []string{"(times)", "(times_states)"}}, {"qwen2", 14, nil}, {"llama", 14, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := filepath.Join(testwhole.Data(t), "architectures", c.name)
			if _, err := os.Stat(dir); err != nil {
				dir = filepath.Join(testwhole.Data(t), "whole-gguf", map[string]string{"qwen2": "qwen2", "llama": "llama3"}[c.name])
			}
			file := asGGUF(t, testwhole.Open(t, dir))
			applied := 0
			for _, list := range pairs(testwhole.Open(t, dir)) {
				module := strings.TrimSuffix(list[0].Name, ".lora_A.weight")
				of := testwhole.Open(t, dir)
				use := func(m *tensorfs.Model) error {
					return lora.Apply(m, views.Options{}, lora.Use{Model: peft(t, config, list...), Adapter: tensorfs.Adapter{Source: "a", Scale: 1}})
				}
				must(t, use(of))
				g, err := formats.Open(file)
				must(t, err)
				t.Cleanup(func() { g.Close() })
				if err := use(g); err != nil {
					known := slices.ContainsFunc(c.not, func(why string) bool { return strings.Contains(err.Error(), why) })
					if !known || strings.Contains(err.Error(), "fetch it again") {
						t.Errorf("%s: %v", module, err)
					}
					continue
				}
				applied++
				want, err := formats.Open(asGGUF(t, of))
				must(t, err)
				t.Cleanup(func() { want.Close() })
				changed := 0
				for i := range want.Tensors {
					w := &want.Tensors[i]
					x := g.Tensor(w.Name)
					if x == nil {
						t.Fatalf("%s: no %s", module, w.Name)
					}
					if x.Change != nil {
						changed++
					}
					if got, want := rounded(t, x, w.DType), testwhole.Read(t, w.Data); !bytes.Equal(got, want) {
						t.Errorf("%s: %s has other numbers", module, w.Name)
					}
				}
				if changed != 1 {
					t.Errorf("%s: %d tensors are changed", module, changed)
				}
			}
			if applied < c.some {
				t.Errorf("%d modules are applied", applied)
			}
		})
	}
}

// rounded are a tensor's numbers as another type.
func rounded(t *testing.T, x *tensorfs.Tensor, to tensorfs.DType) []byte {
	t.Helper()
	d, err := views.Encode(x, to)
	if err != nil {
		t.Fatal(fmt.Errorf("%s: %w", x.Name, err))
	}
	return testwhole.Read(t, d)
}

// TestLayoutsOfGGUF: an adapter in a GGUF file changes a directory to what the directory's
// file is after the same adapter.
func TestLayoutsOfGGUF(t *testing.T) {
	for name, some := range map[string]int{"glm4": 8, "glm-ocr": 8, "bloom": 4, "gptneox": 4, "qwen3.5": 8, "minicpmv4.6": 8} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(testwhole.Data(t), "architectures", name)
			file := asGGUF(t, testwhole.Open(t, dir))
			base, err := formats.Open(file)
			must(t, err)
			t.Cleanup(func() { base.Close() })
			applied := 0
			for i := range base.Tensors {
				x := &base.Tensors[i]
				if len(x.Shape) != 2 || !strings.HasPrefix(x.Source, "blk.0.") && !strings.HasPrefix(x.Source, "blk.1.") || !strings.HasSuffix(x.Source, ".weight") {
					continue
				}
				a, b := tensor("a", tensorfs.F32, 2, x.Shape[1]), tensor("bb", tensorfs.F32, x.Shape[0], 2)
				d, err := gguf.Compose([]tensorfs.Meta{{Key: "general.architecture", Value: base.Architecture}, {Key: "general.type", Value: "adapter"}, {Key: "adapter.type", Value: "lora"}, {Key: "adapter.lora.alpha", Value: float32(3)}},
					[]gguf.Stored{{Name: x.Source + ".lora_a", DType: tensorfs.F32, Shape: a.Shape, Data: a.Data}, {Name: x.Source + ".lora_b", DType: tensorfs.F32, Shape: b.Shape, Data: b.Data}})
				must(t, err)
				path := filepath.Join(t.TempDir(), "adapter.gguf")
				must(t, os.WriteFile(path, testwhole.Read(t, d), 0o600))
				of := testwhole.Open(t, dir)
				g, err := formats.Open(file)
				must(t, err)
				t.Cleanup(func() { g.Close() })
				must(t, lora.Open(g, views.Options{}, []string{path}, formats.Options{}.OpenAdapter))
				if err := lora.Open(of, views.Options{}, []string{path}, formats.Options{}.OpenAdapter); err != nil {
					if strings.Contains(err.Error(), "fetch it again") {
						t.Error(err)
					}
					continue
				}
				applied++
				want, err := formats.Open(asGGUF(t, of))
				must(t, err)
				t.Cleanup(func() { want.Close() })
				for i := range want.Tensors {
					w := &want.Tensors[i]
					if got, want := rounded(t, g.Tensor(w.Name), w.DType), testwhole.Read(t, w.Data); !bytes.Equal(got, want) {
						t.Errorf("%s: %s has other numbers", x.Source, w.Name)
					}
				}
			}
			if applied < some {
				t.Errorf("%d modules are applied", applied)
			}
		})
	}
}
