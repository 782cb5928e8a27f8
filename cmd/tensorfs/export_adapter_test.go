package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats"
)

// tensorsOf returns the tensors of a file: type, shape and bytes by their names.
func tensorsOf(t *testing.T, path string) map[string]string {
	t.Helper()
	m, err := formats.Open(path)
	must(t, err)
	defer m.Close()
	all := map[string]string{}
	for i := range m.Tensors {
		x := &m.Tensors[i]
		b := make([]byte, x.Data.Size())
		must(t, tensorfs.ReadFull(x.Data, b, 0))
		all[x.Source] = fmt.Sprint(x.DType, x.Shape, " ") + string(b)
	}
	return all
}

func equalTensors(t *testing.T, got, want string) {
	t.Helper()
	x, y := tensorsOf(t, got), tensorsOf(t, want)
	if len(x) != len(y) {
		t.Errorf("%s has %d tensors, want %d", got, len(x), len(y))
	}
	for name, b := range y {
		if x[name] != b {
			t.Errorf("%s of %s has other bytes", name, got)
		}
	}
}

// TestExportAdapter writes adapters in the other form: as llama.cpp's converter does, and back as PEFT had them.
func TestExportAdapter(t *testing.T) {
	apart(t)
	const base = loraCase + "base"
	gguf := fileIn(t, "base.gguf", base, "gguf/model.gguf")
	dir := t.TempDir()
	write := func(form, adapter, base string) string {
		t.Helper()
		to := filepath.Join(dir, form+"-"+strings.ReplaceAll(strings.TrimPrefix(adapter, testdata), "/", "-"))
		succeeds(t, "export", "--adapter", form, "--lora", adapter, base, to)
		return to
	}
	made := write("gguf", loraCase+"adapter0", gguf) + "/adapter.gguf"
	equalTensors(t, made, loraCase+"adapter0.gguf")
	m, err := formats.Open(made)
	must(t, err)
	want, err := formats.Open(loraCase + "adapter0.gguf")
	must(t, err)
	for _, e := range want.Metadata {
		if got := m.Meta(e.Key); got != e.Value {
			t.Errorf("%s is %v, want %v", e.Key, got, e.Value)
		}
	}
	must(t, m.Close())
	must(t, want.Close())
	equalTensors(t, write("peft", made, base)+"/adapter_model.safetensors", loraCase+"adapter0/adapter_model.safetensors")
	// Of mlx-lm, with ranks and alphas of its own, and with the factor of rsLoRA: all forms give a model the same numbers.
	patterns := testdata + "lora/patterns/"
	equalTensors(t, write("peft", patterns+"adapter0", patterns+"base")+"/adapter_model.safetensors", patterns+"adapter0/adapter_model.safetensors")
	of := testdata + "lora/mlx/lora/adapter"
	for _, c := range []struct{ base, from, to, tensor string }{
		{base, of, write("peft", of, base), "layers.1.attention.q.weight"},
		{base, of, write("peft", of, base), "token_embedding.weight"},
		{gguf, of, write("gguf", of, gguf) + "/adapter.gguf", "layers.1.attention.q.weight"},
		{gguf, of, write("gguf", of, gguf) + "/adapter.gguf", "token_embedding.weight"},
		{patterns + "base", patterns + "adapter0", write("peft", patterns+"adapter0", patterns+"base"), "layers.0.ffn.down.weight"},
		{gguf, testdata + "lora/rslora/adapter0", write("gguf", testdata+"lora/rslora/adapter0", gguf) + "/adapter.gguf", "layers.1.attention.k.weight"},
		{testdata + "lora/dora/base", testdata + "lora/dora/adapter0", write("peft", testdata+"lora/dora/adapter0", testdata+"lora/dora/base"), "layers.0.attention.k.weight"},
	} {
		a, b := succeeds(t, "cat", c.base, "f32/"+c.tensor, "--lora", c.from), succeeds(t, "cat", c.base, "f32/"+c.tensor, "--lora", c.to)
		if a != b || a == succeeds(t, "cat", c.base, "f32/"+c.tensor) {
			t.Errorf("%s: other numbers of %s", c.to, c.tensor)
		}
	}
	for _, c := range []struct {
		code int
		args []string
		want string
	}{
		{2, []string{"gguf", gguf}, "name it once with --lora"},
		{2, []string{"mlx", gguf, "--lora", of}, `--adapter "mlx": want gguf or peft`},
		{1, []string{"gguf", base, "--lora", of}, "name a GGUF file of the base"},
		{1, []string{"peft", gguf, "--lora", of}, "name the base as a directory of Hugging Face or MLX"},
		{1, []string{"gguf", gguf, "--lora", testdata + "lora/dora/adapter0"}, "llama.cpp has no DoRA"},
		{1, []string{"gguf", gguf, "--lora", patterns + "adapter0"}, "a GGUF file has one alpha"},
		{1, []string{"gguf", gguf, "--lora", loraCase + "adapter0:0"}, "its factor is 0"},
		{1, []string{"peft", base, "--lora", testdata + "lora/mlx/dora/adapter"}, "DoRA of embeddings has another meaning"},
		{1, []string{"peft", base, "--lora", testdata + "lora/mlx/full/adapter"}, "it is a whole tensor"},
		{1, []string{"peft", testdata + "lora/moe-nested/base", "--lora", testdata + "lora/moe-nested/adapter0"}, `"target_parameters"`},
		{1, []string{"peft", testdata + "lora/moe-nested/base", "--lora", of}, "made for \"acme/base\", and the model is"},
	} {
		place := filepath.Join(dir, "none")
		failsWith(t, c.code, slices.Insert(append([]string{"export", "--adapter"}, c.args...), 4, place), c.want)
		if _, err := os.Stat(place); err == nil {
			t.Errorf("%q made %s", c.args, place)
		}
	}
}
