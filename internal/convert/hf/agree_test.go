package hf

import (
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats"
)

// differing are fields of models that say what their file has: how it is quantised, a
// matrix that is stored though it is that of the embedding, further layers, which are in
// no GGUF file, scaling of rotary embeddings, which a GGUF file has as numbers in a
// tensor, the layers one by one.
var differing = map[string][]string{
	"":                {"quant_bits", "quant_group_size", "quant_mode"},
	"qwen3":           {"tie_embeddings"},
	"deepseek3":       {"n_nextn_layers"},
	"llama3":          {"rope_orig_ctx", "rope_scaling_factor", "rope_scaling_type"},
	"mlx-llama3-4bit": {"rope_orig_ctx", "rope_scaling_factor", "rope_scaling_type"},
	"phi3":            {"rope_scaling_type"},
	"gpt-oss":         {"sliding_window_pattern", "sliding_window_pattern_per_layer"},
}

// TestConfigAgrees holds that a model says the same of itself as a directory and as the
// GGUF file that is made of it.
func TestConfigAgrees(t *testing.T) {
	dirs, err := filepath.Glob(testdata + "whole-gguf/*/config.json")
	if err != nil || len(dirs) < 20 {
		t.Fatal(dirs, err)
	}
	for _, file := range dirs {
		dir := filepath.Dir(file)
		name := filepath.Base(dir)
		m, err := formats.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		fields := func(m *tensorfs.Model) map[string]any {
			all := map[string]any{}
			for _, f := range m.Config {
				all[f.Name] = f.Value
			}
			return all
		}
		a, b := fields(m), fields(throughGGUF(t, dir))
		m.Close()
		for k := range b {
			if _, ok := a[k]; !ok {
				a[k] = nil
			}
		}
		for k, v := range a {
			if !reflect.DeepEqual(v, b[k]) && !slices.Contains(slices.Concat(differing[name], differing[""]), k) {
				t.Errorf("%s: %s is %v, and %v in GGUF", name, k, v, b[k])
			}
		}
	}
}
