package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats"
	"github.com/tensorfs/tensorfs/internal/testing/testmodel"
)

// adapterOf returns an adapter of PEFT for all linear layers of a model of Hugging Face, of
// rank 16.
func adapterOf(t testing.TB, parent string, of benchModel) string {
	const rank = 16
	return cached(t, parent, filepath.Base(of.path)+"-lora", func(dir string) error {
		m, err := formats.Open(of.path)
		if err != nil {
			return err
		}
		defer m.Close()
		var list []testmodel.SafeTensor
		for i := range m.Tensors {
			x := &m.Tensors[i]
			module, ok := strings.CutSuffix(x.Source, "_proj.weight")
			if !ok {
				continue
			}
			for name, shape := range map[string][]int64{"A": {rank, x.Shape[1]}, "B": {x.Shape[0], rank}} {
				y := testmodel.SafeTensor{Name: "base_model.model." + module + "_proj.lora_" + name + ".weight", DType: tensorfs.F32, Shape: shape}
				var data bytes.Buffer // never fails
				patterns[y.DType].fill(&data, y.Size())
				y.Data = data.Bytes()
				list = append(list, y)
			}
		}
		return errors.Join(os.WriteFile(filepath.Join(dir, "adapter_config.json"), fmt.Appendf(nil, `{"peft_type":"LORA","r":%d,"lora_alpha":32}`, rank), 0o644),
			os.WriteFile(filepath.Join(dir, "adapter_model.safetensors"), testmodel.Safetensors(list, nil), 0o644))
	})
}

// mergesOf returns a directory of recipes for a model and others, which are the same under
// another name.
func mergesOf(t testing.TB, parent string, of benchModel) string {
	return cached(t, parent, filepath.Base(of.path)+"-merges", func(dir string) error {
		path, err := filepath.Abs(of.path)
		for _, name := range []string{"a", "b", "c"} {
			err = errors.Join(err, os.Symlink(path, filepath.Join(dir, name)))
		}
		for name, text := range map[string]string{
			"linear-of-3": "merge_method: linear\nmodels: [{model: ./a, parameters: {weight: 0.2}}, {model: ./b, parameters: {weight: 0.3}}, {model: ./c, parameters: {weight: 0.5}}]\n",
			"slerp":       "merge_method: slerp\nbase_model: ./a\nmodels: [{model: ./a}, {model: ./b}]\nparameters: {t: 0.3}\n",
			"ties-of-3":   "merge_method: ties\nbase_model: ./a\nmodels: [{model: ./b, parameters: {weight: 0.3, density: 0.5}}, {model: ./c, parameters: {weight: 0.5, density: 0.5}}]\n",
		} {
			err = errors.Join(err, os.WriteFile(filepath.Join(dir, name+".yml"), []byte(text), 0o644))
		}
		return err
	})
}

// What the benchmarks merge and adapt is what they say.
func TestBenchMerges(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	m := wholeModel(t, dir, 1, false)
	if text := succeeds(t, "info", m.path, "--lora", adapterOf(t, dir, m)); !strings.Contains(text, "changed") {
		t.Error(text)
	}
	files, err := filepath.Glob(filepath.Join(mergesOf(t, dir, m), "*.yml"))
	must(t, err)
	for _, file := range files {
		if text := succeeds(t, "info", file); !strings.Contains(text, "merge  ") {
			t.Error(text)
		}
	}
	if len(files) != 3 {
		t.Errorf("recipes: %q", files)
	}
}
