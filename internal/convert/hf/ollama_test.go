package hf_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats"
	"github.com/tensorfs/tensorfs/formats/gguf"
	"github.com/tensorfs/tensorfs/internal/convert"
	"github.com/tensorfs/tensorfs/internal/convert/hf"
	"github.com/tensorfs/tensorfs/internal/testing/memory"
	"github.com/tensorfs/tensorfs/internal/testing/testwhole"
	"github.com/tensorfs/tensorfs/views"
)

// TestOllamaTowers makes hf/ of files that Ollama's own converter wrote of a language model
// with its tower: it has the numbers of the model that they were written of, and is the
// same as from both files below gguf/.
func TestOllamaTowers(t *testing.T) {
	for golden, change := range map[string]func(meta []tensorfs.Meta) []tensorfs.Meta{
		"gemma3-vl":  nil,
		"mistral3":   nil,
		"qwen2.5-vl": inArchitecture("qwen2vl", "qwen25vl"),
		"qwen3-vl": func(meta []tensorfs.Meta) []tensorfs.Meta {
			return slices.DeleteFunc(meta, func(x tensorfs.Meta) bool { return x.Key == "qwen3vl.rope.dimension_sections" })
		},
		"qwen3.5": nil,
		"llama4":  nil,
		"gemma4":  nil,
		"lfm2-vl": nil,
	} {
		t.Run(golden, func(t *testing.T) {
			source, err := formats.Open(data + "architectures/" + golden)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { source.Close() })
			text, _ := pairOf(t, golden)
			usual, err := openGGUF(memory.New(map[string][]byte{"m.gguf": text}))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { usual.Close() })
			keys, tensors := testwhole.OllamaTower(t, golden)
			meta := slices.Clone(usual.Metadata)
			if change != nil {
				meta = change(meta)
			}
			var list []gguf.Stored
			for _, x := range slices.Concat(tensors, usual.Tensors) {
				list = append(list, gguf.Stored{Name: x.Source, DType: x.DType, Shape: x.Shape, Data: x.Data})
			}
			d, err := gguf.Compose(append(meta, keys...), list)
			if err != nil {
				t.Fatal(err)
			}
			m := testwhole.OpenGGUF(t, all(t, d))
			made := hf.HF(m, convert.Options{})
			if made.Reason != "" || made.Left[convert.Vision] != "" || !slices.Contains(made.Notes, "the vision tower comes from the file itself") {
				t.Fatalf("%s", made.Describe())
			}
			files := contents(t, made)

			got := testwhole.OpenFiles(t, map[string][]byte{"model.safetensors": files["model.safetensors"], "config.json": files["config.json"]})
			if len(got.Tensors) == 0 {
				t.Fatal("no tensors")
			}
			for i := range got.Tensors {
				x := &got.Tensors[i]
				at := slices.IndexFunc(source.Tensors, func(s tensorfs.Tensor) bool { return s.Source == x.Source })
				if strings.HasSuffix(x.Source, ".A_log") {
					continue // GGUF has its exponential, which the language model's own tests hold
				}
				if at < 0 {
					if !strings.HasSuffix(x.Source, "lm_head.weight") {
						t.Errorf("%s is not in the model", x.Source)
					}
					continue
				}
				want, err := views.Encode(&source.Tensors[at], x.DType)
				if err != nil || !slices.Equal(x.Shape, source.Tensors[at].Shape) || !bytes.Equal(all(t, x.Data), all(t, want)) {
					t.Errorf("%s has other numbers, %v", x.Source, err)
				}
			}

			pair := contents(t, convert.GGUF(m, convert.Options{}))
			alone, err := openGGUF(memory.New(map[string][]byte{"m.gguf": pair["model.gguf"]}))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { alone.Close() })
			again := contents(t, hf.HF(alone, beside(t, pair["mmproj.gguf"])))
			for path, b := range again {
				if path == "model.safetensors" { // in another order
					testwhole.Same(t, tensorsOf(t, b), tensorsOf(t, files[path]))
				} else if !bytes.Equal(b, files[path]) {
					t.Errorf("%s is another from gguf/", path)
				}
			}
			if len(again) != len(files) {
				t.Errorf("%d files, and %d from gguf/", len(files), len(again))
			}
		})
	}
}

// inArchitecture gives keys of an architecture another's name.
func inArchitecture(from, to string) func(meta []tensorfs.Meta) []tensorfs.Meta {
	return func(meta []tensorfs.Meta) []tensorfs.Meta {
		for i, x := range meta {
			if rest, ok := strings.CutPrefix(x.Key, from+"."); ok {
				meta[i].Key = to + "." + rest
			} else if x.Value == from {
				meta[i].Value = to
			}
		}
		return meta
	}
}
