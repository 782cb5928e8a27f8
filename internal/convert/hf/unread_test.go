package hf_test

import (
	"iter"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats"
	"github.com/tensorfs/tensorfs/internal/convert"
	"github.com/tensorfs/tensorfs/internal/convert/hf"
	"github.com/tensorfs/tensorfs/internal/testing/memory"
)

// TestForeignKeys adds a key to the GGUF file of each golden model: hf/ and mlx/ are absent if
// the key may change what is computed, and have a note if it cannot.
func TestForeignKeys(t *testing.T) {
	keys := []struct {
		key   string // ARCH is the architecture
		value any
		want  string // "absent", "note" or "nothing"
	}{
		{"ARCH.frobnicate.scale", float32(2), "absent"},
		{"ARCH.attention.frobnicate", uint32(3), "absent"},
		{"acme.rotation.sizes", sizes{uint32(128), uint32(64)}, "absent"},
		{"acme.rotation.enabled", true, "absent"},
		{"ARCH.frobnicate.kind", "sylvester", "note"},
		{"acme.note", "made by hand", "note"},
		{"general.frobnicate", uint32(5), "note"},
		{"tokenizer.ggml.frobnicate", true, "note"},
		{"comfy.gguf.orig_shape.x", sizes{uint32(2), uint32(3)}, "note"},
		{"ARCH.num_loops", uint32(4), "note"}, // of another architecture
		{"ARCH.frobnicate.off", uint32(0), "nothing"},
		{"general.quantized_by", "somebody", "nothing"},
	}
	for name, m := range goldenGGUFs(t) {
		for _, k := range keys {
			key := strings.Replace(k.key, "ARCH", m.Architecture, 1)
			if slices.ContainsFunc(m.Metadata, func(x tensorfs.Meta) bool { return x.Key == key }) {
				continue
			}
			changed := *m
			changed.Metadata = append(slices.Clone(m.Metadata), tensorfs.Meta{Key: key, Value: k.value})
			f := hf.HF(&changed, convert.Options{})
			got := "nothing"
			switch {
			case f.Reason != "" && strings.Contains(f.Reason, key):
				got = "absent"
			case f.Reason != "":
				got = f.Reason
			case slices.ContainsFunc(f.Notes, func(n string) bool { return strings.Contains(n, key) }):
				got = "note"
			}
			if got != k.want {
				t.Errorf("%s with %s: %s, want %s", name, key, got, k.want)
			}
		}
	}
}

// sizes is an array of metadata.
type sizes []any

func (s sizes) Len() int              { return len(s) }
func (s sizes) Values() iter.Seq[any] { return slices.Values(s) }

// goldenGGUFs are the GGUF files of the golden models that have hf/, opened.
func goldenGGUFs(t *testing.T) map[string]*tensorfs.Model {
	t.Helper()
	models := map[string]*tensorfs.Model{}
	tables, err := filepath.Glob(data + "architectures/expected/*.tensors.tsv")
	if err != nil {
		t.Fatal(err)
	}
	for _, table := range tables {
		name := strings.TrimSuffix(filepath.Base(table), ".tensors.tsv")
		m, err := formats.Open(data + "architectures/" + name)
		if err != nil {
			continue
		}
		t.Cleanup(func() { m.Close() })
		f := convert.GGUF(m, convert.Options{})
		if f.Reason != "" {
			continue
		}
		b := make([]byte, f.List[0].Data.Size())
		if err := tensorfs.ReadFull(f.List[0].Data, b, 0); err != nil {
			t.Fatal(err)
		}
		g, err := openGGUF(memory.New(map[string][]byte{"m.gguf": b}))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { g.Close() })
		if hf.HF(g, convert.Options{}).Reason == "" {
			models[name] = g
		}
	}
	if len(models) < 100 {
		t.Fatalf("%d models", len(models))
	}
	return models
}
