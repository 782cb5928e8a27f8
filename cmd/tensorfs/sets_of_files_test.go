package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats"
	"github.com/tensorfs/tensorfs/formats/safetensors"
)

// TestSetsOfFiles: of directories with several sets of weights the one is shown that the index, or else
// model.safetensors, names, as transformers decides; files that other programs add do not count; and of a set that is
// not complete the missing file is named.
func TestSetsOfFiles(t *testing.T) {
	const tensor, index = "f32/token_embedding.weight", "model.safetensors.index.json"
	m, err := formats.Open(llama3)
	must(t, err)
	defer m.Close()
	// set writes the tensors, each number replaced by fill unless that is negative, into n files.
	set := func(dir string, n int, fill int, name func(i int) string) map[string]string {
		files := make([][]safetensors.Stored, n)
		where := map[string]string{}
		for i, x := range m.Tensors {
			data := make(tensorfs.Bytes, x.Data.Size())
			must(t, tensorfs.ReadFull(x.Data, data, 0))
			for j := range data {
				if fill >= 0 {
					data[j] = byte(fill)
				}
			}
			files[i%n] = append(files[i%n], safetensors.Stored{Name: x.Source, DType: x.DType, Shape: x.Shape, Data: data})
			where[x.Source] = name(i % n)
		}
		for i, list := range files {
			d, err := safetensors.Compose([][2]string{{"format", "pt"}}, list)
			must(t, err)
			text := make([]byte, d.Size())
			must(t, tensorfs.ReadFull(d, text, 0))
			must(t, os.WriteFile(filepath.Join(dir, name(i)), text, 0o600))
		}
		return where
	}
	shard := func(n int) func(i int) string {
		return func(i int) string { return fmt.Sprintf("model-%05d-of-%05d.safetensors", i+1, n) }
	}
	alone := func(name string) func(int) string { return func(int) string { return name } }
	indexed := func(dir string, where map[string]string) {
		text, err := json.Marshal(map[string]any{"metadata": map[string]any{"total_size": 1}, "weight_map": where})
		must(t, err)
		must(t, os.WriteFile(filepath.Join(dir, index), text, 0o600))
	}
	remove := func(dir, name string) { must(t, os.Remove(filepath.Join(dir, name))) }
	want := succeeds(t, "cat", llama3, tensor)
	for name, c := range map[string]struct {
		make  func(dir string)
		fails string // "" where the tensors are the golden model's
	}{
		"one file beside indexed shards": {func(dir string) { indexed(dir, set(dir, 2, -1, shard(2))); set(dir, 1, 1, alone("model.safetensors")) }, ""},
		"two sets, one of them indexed":  {func(dir string) { indexed(dir, set(dir, 2, -1, shard(2))); set(dir, 3, 1, shard(3)) }, ""},
		"shards without an index":        {func(dir string) { set(dir, 2, -1, shard(2)) }, ""},
		"a variant beside": {func(dir string) {
			set(dir, 1, -1, alone("model.safetensors"))
			set(dir, 1, 1, alone("model.fp16.safetensors"))
		}, ""},
		"Mistral's own file beside": {func(dir string) {
			set(dir, 1, -1, alone("model.safetensors"))
			set(dir, 1, 1, alone("consolidated.safetensors"))
		}, ""},
		"a file of PyTorch beside": {func(dir string) {
			set(dir, 1, -1, alone("model.safetensors"))
			must(t, os.WriteFile(filepath.Join(dir, "pytorch_model.bin"), []byte("PK"), 0o600))
		}, ""},
		"a hole in shards without an index": {func(dir string) { set(dir, 3, -1, shard(3)); remove(dir, shard(3)(1)) }, "model-00002-of-00003.safetensors: the other files say that it belongs to the model, but it is missing"},
		"an index of another count": {func(dir string) {
			set(dir, 2, -1, shard(2))
			indexed(dir, map[string]string{"lm_head.weight": shard(4)(0)})
		}, `the file "model-00001-of-00004.safetensors" that it names is missing`},
		"a download that did not end": {func(dir string) { indexed(dir, set(dir, 2, -1, shard(2))); remove(dir, shard(2)(1)) }, `the file "model-00002-of-00002.safetensors" that it names is missing`},
		"a pointer of Git LFS": {func(dir string) {
			must(t, os.WriteFile(filepath.Join(dir, "model.safetensors"), []byte("version https://git-lfs.github.com/spec/v1\noid sha256:"+strings.Repeat("0", 64)+"\nsize 4952571760\n"), 0o600))
		}, "it is a Git LFS pointer, not the file itself"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := writtenAs(t, with(golden(t), "model.safetensors", nil), ".")
			c.make(dir)
			code, out, errs := command("cat", dir, tensor)
			if c.fails == "" && (code != 0 || out != want) {
				t.Errorf("exit code %d, %s; other numbers %t", code, errs, out != want)
			}
			if c.fails != "" && (code == 0 || strings.Count(errs, "\n") != 1 || !strings.Contains(errs, c.fails)) {
				t.Errorf("exit code %d, %s; want %q", code, errs, c.fails)
			}
		})
	}
}
