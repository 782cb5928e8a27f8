package hf_test

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/convert"
	"github.com/tensorfs/tensorfs/internal/convert/hf"
	"github.com/tensorfs/tensorfs/internal/testing/memory"
	"github.com/tensorfs/tensorfs/internal/testing/testwhole"
)

// edits are values of a JSON file's fields; nil removes one.
type edits map[string]any

func (e edits) in(t *testing.T, text []byte) []byte {
	t.Helper()
	o := readJSONOf(t, text)
	maps.Copy(o, e)
	maps.DeleteFunc(o, func(_ string, v any) bool { return v == nil })
	text, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// TestPublicCases makes gguf/ of directories as users reported them. It holds which setting decides
// about a token at the begin or the end of texts, which chat template is used, and that
// transformers 5's tokenizer_config.json is read. Keys equal the keys of llama.cpp's converter; of
// two templates, transformers' choice is taken.
func TestPublicCases(t *testing.T) {
	const config, settings = "config.json", "tokenizer_config.json"
	a := "A:{{ bos_token }}{% for m in messages %}{{ m['content'] }}{% endfor %}"
	b, c := strings.Replace(a, "A", "B", 1), strings.Replace(a, "A", "C", 1)
	named := []any{map[string]any{"name": "tool_use", "template": b}, map[string]any{"name": "rag", "template": c}}
	const bos, eos, chat = "tokenizer.ggml.add_bos_token", "tokenizer.ggml.add_eos_token", "tokenizer.chat_template"
	decides := map[string]any{bos: true, eos: false}
	for _, x := range []struct {
		what  string
		edits map[string]edits  // by files
		files map[string]string // more files; "" removes one
		want  map[string]any    // keys; nil: absent
		note  string
	}{
		{"no flag", nil, nil, decides, ""},
		{"no BOS by a flag, and one by the post-processor", map[string]edits{settings: {"add_bos_token": false}}, nil, decides, ""},
		{"EOS by a flag, and none by the post-processor", map[string]edits{settings: {"add_eos_token": true}}, nil, decides, ""},
		{"a list of templates", map[string]edits{settings: {"chat_template": append(named, map[string]any{"name": "default", "template": a})}}, nil, map[string]any{chat: a, chat + ".tool_use": b, chat + ".rag": c}, ""},
		{"no default template", map[string]edits{settings: {"chat_template": named}}, nil, map[string]any{chat: nil, chat + ".tool_use": b, chat + ".rag": c}, ""},
		{"templates in files", map[string]edits{settings: {"chat_template": nil}}, map[string]string{"chat_template.jinja": a, "additional_chat_templates/tool_use.jinja": b}, map[string]any{chat: a, chat + ".tool_use": b}, ""},
		{"two templates", map[string]edits{settings: {"chat_template": a}}, map[string]string{"chat_template.jinja": b}, map[string]any{chat: b}, "chat_template.jinja"},
		{"as transformers 5 saves it", map[string]edits{settings: {"tokenizer_class": "TokenizersBackend", "extra_special_tokens": []any{"<|start_header_id|>", "<|end_header_id|>"}, "backend": "tokenizers", "is_local": true}}, nil, decides, ""},
		{"without tokenizer_config.json", nil, map[string]string{settings: ""}, decides, ""},
		{"dtype", map[string]edits{config: {"torch_dtype": nil, "dtype": "bfloat16"}}, nil, decides, ""},
		{"tied, with another head", map[string]edits{config: {"tie_word_embeddings": true}}, nil, map[string]any{"output.weight": true}, ""},
		{"scaling beside parameters", map[string]edits{config: {"rope_theta": nil, "rope_scaling": map[string]any{"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 512}, "rope_parameters": map[string]any{"rope_type": "default", "rope_theta": 500000.0}}}, nil,
			map[string]any{"llama.rope.scaling.type": "yarn", "llama.rope.scaling.factor": float32(4), "llama.rope.scaling.original_context_length": uint32(512)}, ""},
		{"a word that is MLX's own", map[string]edits{config: {"quantization_config": map[string]any{"quant_method": "mlx"}}}, nil, decides, ""},
	} {
		files := onDisk(t, data+"whole-gguf/llama3")
		for name, e := range x.edits {
			files[name] = e.in(t, files[name])
		}
		for name, text := range x.files {
			if files[name] = []byte(text); text == "" {
				delete(files, name)
			}
		}
		m, err := openDirectory(memory.New(files))
		if err != nil {
			t.Errorf("%s: %v", x.what, err)
			continue
		}
		defer m.Close()
		f := convert.GGUF(m, convert.Options{})
		if f.Reason != "" || !f.Exact || !tells(f, x.note) {
			t.Errorf("%s: %s exact %v, notes %q, want %q", x.what, f.Reason, f.Exact, f.Notes, x.note)
			continue
		}
		g, err := openGGUF(memory.New(map[string][]byte{"m.gguf": testwhole.Read(t, f.List[0].Data)}))
		if err != nil {
			t.Fatal(err)
		}
		defer g.Close()
		for key, want := range x.want {
			got := g.Meta(key)
			if key == "output.weight" {
				got = g.TensorBySource(key) != (*tensorfs.Tensor)(nil)
			}
			if got != want {
				t.Errorf("%s: %s is %v, want %v", x.what, key, got, want)
			}
		}
	}
}

// TestMLXOwnHead holds that mlx/ keeps a matrix of the output that differs from the embedding, which
// mlx-lm leaves out if config.json, or its class without a word in config.json, ties the two.
func TestMLXOwnHead(t *testing.T) {
	bits, err := convert.MLXAsked{Bits: 4, Group: 32}.Options()
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct {
		model string
		tie   any // in config.json; nil: absent
		want  bool
		note  string
	}{
		{"llama3", true, false, "config.json ties the output"},
		{"llama3", nil, false, "mlx-lm ties the output"},
		{"llama3", false, false, ""},
		{"qwen3", true, true, ""}, // the embedding is stored twice
		{"smollm3", true, true, ""},
	} {
		files := onDisk(t, data+"whole-gguf/"+x.model)
		files["config.json"] = edits{"tie_word_embeddings": x.tie}.in(t, files["config.json"])
		m, err := openDirectory(memory.New(files))
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		for what, o := range map[string]convert.Options{"mlx": {}, "--mlx-bits 4": {MLX: bits}} {
			f := hf.MLX(m, o)
			i := slices.IndexFunc(f.List, func(file convert.File) bool { return file.Path == "config.json" })
			if i < 0 {
				t.Errorf("%s, %v, %s: no config.json: %s", x.model, x.tie, what, f.Reason)
				continue
			}
			tied := readJSONOf(t, testwhole.Read(t, f.List[i].Data))["tie_word_embeddings"]
			if said := tells(f, "other numbers"); tied != x.want || !tells(f, x.note) || said != (x.note != "") {
				t.Errorf("%s, %v, %s: tied %v, notes %q", x.model, x.tie, what, tied, f.Notes)
			}
		}
	}
}
