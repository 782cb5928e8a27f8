package hf

import (
	"slices"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs/internal/convert"
)

// TestEmbedding holds every byte of the files for sentence-transformers, and the reason if they are
// missing.
func TestEmbedding(t *testing.T) {
	const modules = `[{"idx":0,"name":"0","path":"","type":"sentence_transformers.models.Transformer"},` +
		`{"idx":1,"name":"1","path":"1_Pooling","type":"sentence_transformers.models.Pooling"},` +
		`{"idx":2,"name":"2","path":"2_Normalize","type":"sentence_transformers.models.Normalize"}]`
	for _, c := range []struct {
		arch string
		v    any    // pooling_type
		set  string // the field that is true; "": there are no files
		note string
	}{
		{"bert", uint32(1), "pooling_mode_mean_tokens", "llama.cpp does by default"},
		{"bert", uint32(2), "pooling_mode_cls_token", "context of 4096 tokens"},
		{"qwen3", int32(3), "pooling_mode_lasttoken", "the file does not say it"},
		{"qwen2", uint64(3), "pooling_mode_lasttoken", "the file does not say it"},
		{"bert", uint32(0), "", "bert.pooling_type is 0, which"},
		{"bert", uint32(4), "", "takes the mean of all tokens: bert.pooling_type is 4"},
		{"qwen3", uint32(4), "", "qwen3.pooling_type is 4"},
		{"bert", uint64(1 << 63), "", "bert.pooling_type is 9223372036854775808"},
		{"bert", "mean\n", "", `bert.pooling_type is "mean\n"`},
		{"bert", nil, "", "the file has no bert.pooling_type"},
		{"qwen3", nil, "", ""},
	} {
		m, err := newSample(c.arch, map[string]any{"pooling_type": c.v}).maker(false)
		if err != nil {
			t.Errorf("%s: %v", c.arch, err)
			continue
		}
		texts, notes := m.Embedding()
		files := map[string]string{}
		for path, text := range texts {
			files[path] = strings.NewReplacer("\n", "", " ", "").Replace(string(text))
		}
		said := strings.Join(notes, "; ")
		if !strings.Contains(said, c.note) || c.note == "" && said != "" || strings.Contains(said, "\n") {
			t.Errorf("%s, %v: %q, want %q", c.arch, c.v, said, c.note)
		}
		if c.set == "" {
			if len(files) > 0 {
				t.Errorf("%s, %v: %v", c.arch, c.v, files)
			}
			continue
		}
		pooling := `{"word_embedding_dimension":32,`
		for _, name := range []string{"mean_tokens", "cls_token", "lasttoken", "max_tokens", "mean_sqrt_len_tokens", "weightedmean_tokens"} {
			name = "pooling_mode_" + name
			pooling += `"` + name + `":` + map[bool]string{true: "true,", false: "false,"}[name == c.set]
		}
		for path, want := range map[string]string{"modules.json": modules, "1_Pooling/config.json": pooling + `"include_prompt":true}`, "sentence_bert_config.json": `{"max_seq_length":4096,"do_lower_case":false}`} {
			if files[path] != want {
				t.Errorf("%s, %v: %s is %s, want %s", c.arch, c.v, path, files[path], want)
			}
		}
		if len(files) != 3 {
			t.Errorf("%s, %v: %d files", c.arch, c.v, len(files))
		}
	}
}

// TestEmbeddingTrip holds that a directory's pooling survives the way through its GGUF file, in hf/
// only, and that models without pooling have no such files.
func TestEmbeddingTrip(t *testing.T) {
	m := throughGGUF(t, testdata+"whole-gguf/bert")
	f := HF(m, convert.Options{})
	if !slices.ContainsFunc(f.List, func(x convert.File) bool { return x.Path == "1_Pooling/config.json" }) || f.Exact {
		t.Errorf("%s", f.Describe())
	}
	if f := MLX(throughGGUF(t, testdata+"whole-gguf/qwen3"), convert.Options{}); f.Reason != "" || slices.ContainsFunc(f.List, func(x convert.File) bool { return x.Path == "modules.json" }) {
		t.Errorf("%s", f.Describe())
	}
}
