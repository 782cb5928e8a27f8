package tokenizer_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs/internal/jsonobj"
)

// FuzzRead reads tokenizers of any files. What is accepted must be what
// llama.cpp takes: no two tokens equal, lists as long as one another, ids of
// tokens that are there.
func FuzzRead(f *testing.F) {
	names := []string{"tokenizer.json", "tokenizer.model", "tokenizer_config.json", "config.json", "added_tokens.json"}
	archs := []string{"llama", "qwen2", "gemma3", "phi3", "bert", "gpt2", "t5", "gemma4", "deepseek2", "glm4"}
	forms := []string{"tokenizer.model", "spiece.model", "sentencepiece.bpe.model", "tekken.json"} // of the second file
	add := func(g files, arch byte, rows uint16) {
		form := 0
		for i, name := range forms {
			if g[name] != "" {
				form = i
			}
		}
		f.Add([]byte(g[names[0]]), []byte(g[forms[form]]), []byte(g[names[2]]), []byte(g[names[3]]), []byte(g[names[4]]), arch, byte(form), rows)
	}
	add(load(f, filepath.Join(tekken, "mistral")), 0, tekkenRows)
	for _, c := range goldenCases(f) {
		g := load(f, filepath.Join(c.dir, c.name))
		for i := range archs {
			if archs[i] == c.arch || i == 0 {
				add(g, byte(i), uint16(c.rows))
			}
		}
	}
	for _, c := range unigramCases(f) {
		add(load(f, filepath.Join(unigrams, c.name)), 4, uint16(c.rows))
	}
	for _, d := range []doc{bytesDoc(), charsDoc(), wordsDoc()} {
		add(files{"tokenizer.json": d.text(f), "config.json": `{"type_vocab_size":2,"bos_token_id":1}`}, 0, 20)
	}
	f.Fuzz(func(t *testing.T, a, b, c, d, e []byte, arch, form byte, rows uint16) {
		g := files{}
		for i, text := range [][]byte{a, b, c, d, e} {
			name := names[i]
			if i == 1 {
				name = forms[int(form)%len(forms)]
			}
			if len(text) > 0 {
				g[name] = string(text)
			}
		}
		if _, err := jsonobj.Parse(d); err != nil {
			delete(g, "config.json")
		}
		got, err := g.read(t, archs[int(arch)%len(archs)], int(rows))
		if err != nil {
			if got != nil || err.Error() == "" || strings.ContainsAny(err.Error(), "\n\x1b") {
				t.Fatalf("%v, %q", got, err)
			}
			return
		}
		m := meta(got)
		if len(m) != len(got.Meta) {
			t.Fatal("a key is there twice")
		}
		if got.Count == 0 {
			if len(m) != 1 || m["tokenizer.ggml.model"] != "none" {
				t.Fatalf("%v", m)
			}
			return
		}
		model := m["tokenizer.ggml.model"]
		tokens, types := m["tokenizer.ggml.tokens"].([]string), m["tokenizer.ggml.token_type"].([]int32)
		scores, scored := m["tokenizer.ggml.scores"].([]float32)
		if len(tokens) != got.Count || len(types) != got.Count || scored && len(scores) != got.Count || got.Count > int(rows) || m["tokenizer.ggml.pre"] == "" || m["tokenizer.ggml.pre"] == nil && model != "gemma4" {
			t.Fatalf("%d tokens, %d types, %d scores of %d", len(tokens), len(types), len(scores), got.Count)
		}
		seen := map[string]bool{}
		for id, text := range tokens {
			if seen[text] || types[id] < 1 || types[id] > 6 {
				t.Fatalf("token %d, %q, is of type %d, seen %v", id, text, types[id], seen[text])
			}
			seen[text] = true
		}
		if _, ok := m["tokenizer.ggml.merges"].([]string); ok != (model == "gpt2" || model == "gemma4") {
			t.Fatal("merges")
		}
		for key, v := range m {
			switch v := v.(type) {
			case string, bool, []string, []int32, []float32, []uint8:
			case uint32:
				if strings.HasSuffix(key, "_token_id") && v >= uint32(got.Count) {
					t.Fatalf("%s is %d", key, v)
				}
			default:
				t.Fatalf("%s is %T", key, v)
			}
		}
	})
}
