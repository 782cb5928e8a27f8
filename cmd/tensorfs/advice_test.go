package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestAdvice walks the kinds of errors of models. "Damaged or incomplete: fetch it again" stands only where the
// bytes of a file contradict its format; every other error has a next step of its own.
func TestAdvice(t *testing.T) {
	const damaged = "the file is damaged or incomplete: fetch it again"
	apart(t)
	llama := func(name, text string) func(*testing.T) []string { // the golden model, with another text in a file
		return func(t *testing.T) []string {
			dir := copied(t, llama3)
			must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
			return []string{"info", dir}
		}
	}
	field := func(file, old, changed string) func(*testing.T) []string { // with a field of a file changed
		return func(t *testing.T) []string {
			dir := copied(t, llama3)
			text, err := os.ReadFile(filepath.Join(dir, file))
			must(t, err)
			out := strings.Replace(string(text), old, changed, 1)
			if out == string(text) {
				t.Fatalf("%s has no %s", file, old)
			}
			must(t, os.WriteFile(filepath.Join(dir, file), []byte(out), 0o600))
			return []string{"cat", dir, "gguf/model.gguf"}
		}
	}
	single := func(name, text string, args ...string) func(*testing.T) []string {
		return func(t *testing.T) []string {
			return append(append([]string{"info"}, args...), writtenAs(t, map[string][]byte{name: []byte(text)}, name))
		}
	}
	cut := func(of string, part int) func(*testing.T) []string {
		return func(t *testing.T) []string {
			b, err := os.ReadFile(of)
			must(t, err)
			return []string{"info", writtenAs(t, map[string][]byte{filepath.Base(of): b[:len(b)*part/100]}, filepath.Base(of))}
		}
	}
	adapter := func(dir string) func(*testing.T) []string {
		return func(t *testing.T) []string { return []string{"info", "--lora", dir, "../../testdata/whole-gguf/gpt2"} }
	}
	for _, x := range []struct {
		name   string
		args   func(*testing.T) []string
		advice string
	}{
		// Bytes against their format.
		{"the half of a safetensors file", cut(llama3+"/model.safetensors", 50), damaged},
		{"a part of its header", cut(llama3+"/model.safetensors", 1), damaged},
		{"a GGUF file of eight bytes", single("m.gguf", "GGUF\x03\x00\x00\x00"), damaged},
		{"a header that is no JSON", single("m.safetensors", "\x02\x00\x00\x00\x00\x00\x00\x00{]"), damaged},
		{"a config.json that is cut", llama("config.json", `{"model_type":`), damaged},
		// Sound bytes.
		{"a config.json with a byte order mark", llama("config.json", "\xef\xbb\xbf{}"), "save it as UTF-8 without a byte order mark"},
		{"a text for a number", field("config.json", `"num_attention_heads": 4`, `"num_attention_heads": "four"`), "correct the field"},
		{"an index that names a file that is not here", func(t *testing.T) []string {
			return []string{"info", writtenAs(t, map[string][]byte{"config.json": []byte(`{"model_type":"llama"}`), "model.safetensors.index.json": []byte(`{"weight_map":{"a":"nothere.safetensors"}}`)}, "")}
		}, "fetch the missing file, or the model again"},
		{"an older kind of file", single("m.ggml", "lmgg\x00\x00\x00\x00"), "convert it to GGUF"},
		{"a method that nobody knows", single("m.yml", "merge_method: foo\nmodels: [{model: a}]\n"), "change the recipe"},
		{"a recipe that is no YAML", single("m.yml", "merge_method: ["), "change the recipe"},
		{"an adapter of another model", adapter("../../testdata/lora/plain-bf16-f32/adapter0"), `the adapter was made for "x/y", and the model is `},
		{"a model for an adapter", adapter(llama3), "or a GGUF file of general.type adapter"},
		{"a folder without a model", func(t *testing.T) []string { return []string{"info", t.TempDir()} }, "name a GGUF or safetensors file, a model directory or an Ollama manifest"},
		{"a path that is not there", func(*testing.T) []string { return []string{"info", "/nothere/m.gguf"} }, "check the path (models in a store are named ollama:NAME or hf:ORG/NAME)"},
		{"a file of another program", single("m.bin", "PK\x03\x04"), "unpack it first"},
	} {
		t.Run(x.name, func(t *testing.T) {
			args := x.args(t)
			_, _, stderr := command(args...)
			line := strings.TrimSuffix(stderr, "\n")
			if !strings.Contains(line, x.advice) || strings.Contains(line, "\n") || x.advice != damaged && strings.Contains(line, damaged) {
				t.Errorf("%q says %q, want the advice %q", args, stderr, x.advice)
			}
		})
	}
}
