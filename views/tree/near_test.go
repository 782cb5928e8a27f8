package tree_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats"
	"github.com/tensorfs/tensorfs/views/tree"
)

func TestNear(t *testing.T) {
	for model, paths := range map[string]map[string]string{
		"../../testdata/gguf/llama-xs.q8_0.gguf": {
			"f16/blk.0.attn_q.weight":         "f16/layers.0.attention.q.weight",
			"npy/blk.0.attn_q.weight":         "npy/layers.0.attention.q.weight.npy",
			"npy/layers.0.attention.q.weight": "npy/layers.0.attention.q.weight.npy",
			"blk.0.attn_q.weight":             "raw/layers.0.attention.q.weight packed/layers.0.attention.q.weight f16/layers.0.attention.q.weight bf16/layers.0.attention.q.weight f32/layers.0.attention.q.weight npy/layers.0.attention.q.weight.npy",
			"layers.0.attention.q.weight":     "raw/layers.0.attention.q.weight packed/layers.0.attention.q.weight f16/layers.0.attention.q.weight bf16/layers.0.attention.q.weight f32/layers.0.attention.q.weight npy/layers.0.attention.q.weight.npy",
			"f16/layers.0.atention.q.weight":  "f16/layers.0.attention.q.weight f16/layers.0.attention.k.weight f16/layers.0.attention.v.weight",
			"layers.0.atention.q.weight":      "raw/layers.0.attention.q.weight packed/layers.0.attention.q.weight f16/layers.0.attention.q.weight bf16/layers.0.attention.q.weight f32/layers.0.attention.q.weight npy/layers.0.attention.q.weight.npy",
			"config.jsn":                      "config.json",
			"Readme":                          "README",
			"f61/output_norm.weight":          "f16/output_norm.weight",
			"f61/nothing":                     "",
			"metadata/general.nam":            "metadata/general.name",
			"source/llama-xs.q8_O.gguf":       "source/llama-xs.q8_0.gguf",
			"gguf/model.gguff":                "gguf/model.gguf",
			"f16/nosuch.weight":               "",
			"nosuch":                          "",
			"config.json/x":                   "",
			"raw/" + strings.Repeat("x", 300): "",
			"":                                "",
			"raw/":                            "",
			"/raw":                            "",
			"f16/layers.0.attention.q.weight/nothing": "",
		},
		"../../testdata/whole-gguf/gpt-oss": { // the codes have a name of their own
			"f16/model.layers.0.mlp.experts.down_proj_blocks": "f16/layers.0.ffn.experts.down.weight",
		},
		"../../testdata/models-mlx/qwen3-mixed": {
			"f16/model.layers.0.self_attn.q_proj.weight": "f16/layers.0.attention.q.weight",
			"raw/model.layers.0.self_attn.q_proj.scales": "raw/layers.0.attention.q.scales",
			"model.layers.0.self_attn.q_proj.scales":     "raw/layers.0.attention.q.scales",
		},
	} {
		m, err := formats.Open(model)
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		tr := tree.New(m, tree.Options{})
		for path, want := range paths {
			got := tr.Near(path)
			if !slices.Equal(got, strings.Fields(want)) {
				t.Errorf("%s: %q, want %s", path, got, want)
			}
			for _, p := range got {
				if _, err := tensorfs.Find(tr.Root, p); err != nil {
					t.Errorf("%s: %v", path, err)
				}
			}
		}
	}
}
