package convert_test

import (
	"compress/gzip"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/convert"
	"github.com/tensorfs/tensorfs/internal/testing/testwhole"
	"github.com/tensorfs/tensorfs/views"
)

// TestOllamaFiles reads files that Ollama's own converter wrote, of directories from which
// llama.cpp's converter makes the same model.
func TestOllamaFiles(t *testing.T) {
	// What its files have not, or otherwise, and why llama.cpp computes the same.
	tokens := "tokens scores token_type add_bos_token add_eos_token add_sep_token add_space_prefix add_padding_token add_unknown_token add_mask_token " +
		"bos_token_id unknown_token_id padding_token_id eos_token_ids pre"
	for _, c := range []struct {
		name, dir string
		keys      string // that differ, except keys of tokens
	}{
		{"gemma3-vl", "architectures", ""},
		{"gpt-oss", "whole-gguf", "gpt-oss.rope.scaling.yarn_beta_fast gpt-oss.rope.scaling.yarn_beta_slow tokenizer.ggml.eos_token_id tokenizer.chat_template"}, // llama.cpp's own numbers
		{"qwen2.5-vl", "architectures", ""},
		{"ministral3-vl", "published", ""},
		{"qwen36-moe-published", "published", ""},
		{"glm-ocr", "architectures", "glm4.block_count glm4.nextn_predict_layers"}, // without the layer that predicts further tokens
		{"gemma4-moe", "architectures", ""},
		{"deepseek-ocr", "architectures", "deepseek2-ocr.rope.dimension_count deepseek2-ocr.vocab_size tokenizer.chat_template"},   // no number that llama.cpp takes
		{"olmo3", "architectures", "olmo2.rope.freq_base_swa olmo2.rope.scaling.yarn_beta_fast olmo2.rope.scaling.yarn_beta_slow"}, // llama.cpp's own numbers
		{"laguna", "architectures", "laguna.attention.head_count laguna.attention.sliding_window_pattern laguna.expert_shared_count laguna.vocab_size"},
		{"qwen3-vl-moe", "architectures", ""},
		{"gemma3n", "architectures", "gemma3n.feed_forward_length gemma3n.activation_sparsity_scale"}, // a number for all layers; one is rounded otherwise
	} {
		f := convert.GGUF(testwhole.OpenGGUF(t, unzipped(t, testdata+"dialect/"+c.name+".gguf.gz")), convert.Options{})
		if f.Reason != "" || len(notLoaded(f)) > 0 {
			t.Errorf("%s: %s %q", c.name, f.Reason, f.Notes)
			continue
		}
		m := testwhole.OpenGGUF(t, testwhole.Read(t, f.List[0].Data))
		usual := testwhole.OpenGGUF(t, testwhole.Read(t, convert.GGUF(testwhole.Open(t, testdata+c.dir+"/"+c.name), convert.Options{}).List[0].Data))
		differ := strings.Fields(c.keys)
		for _, name := range strings.Fields(tokens) {
			differ = append(differ, "tokenizer.ggml."+name)
		}
		got, want := keysOf(m, differ), keysOf(usual, differ)
		for key := range want {
			if got[key] != want[key] && !strings.HasPrefix(key, "general.") {
				t.Errorf("%s: %s is %q, want %q", c.name, key, got[key], want[key])
			}
		}
		for key := range got {
			if _, ok := want[key]; !ok {
				t.Errorf("%s: %s is %q, want nothing", c.name, key, got[key])
			}
		}
		layers, _ := m.Meta(m.Architecture + ".block_count").(uint32)
		for i := range usual.Tensors {
			x := &usual.Tensors[i]
			if y := m.TensorBySource(x.Source); y == nil {
				if c.name != "glm-ocr" || !strings.HasPrefix(x.Source, "blk.3.") || layers != 3 {
					t.Errorf("%s has no %s", c.name, x.Source)
				}
			} else if !slices.Equal(x.Shape, y.Shape) || !slices.Equal(floats(t, x), floats(t, y)) {
				t.Errorf("%s: %s is another", c.name, x.Source)
			}
		}
		for _, y := range m.Tensors {
			if usual.TensorBySource(y.Source) == nil {
				t.Errorf("%s has %s", c.name, y.Source)
			}
		}
	}
}

// unzipped returns what a file compressed with gzip has.
func unzipped(t *testing.T, name string) []byte {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// floats returns the numbers of a tensor, or the bytes of one that is quantised.
func floats(t *testing.T, x *tensorfs.Tensor) []float32 {
	if x.DType.Kind() != tensorfs.KindFloat {
		var list []float32
		for _, b := range testwhole.Read(t, x.Data) {
			list = append(list, float32(b))
		}
		return list
	}
	list, err := views.Floats(x)
	if err != nil {
		t.Fatal(err)
	}
	return list
}
