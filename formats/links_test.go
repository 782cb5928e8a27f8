package formats_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats"
	"github.com/tensorfs/tensorfs/internal/testing/testmodel"
)

// TestLinksThatLeave opens models with a link out of their directory, as links are
// followed wherever they lead and as they are kept inside.
func TestLinksThatLeave(t *testing.T) {
	const config, index = `{"model_type":"llama"}`, `{"weight_map":{"model.norm.weight":"w.safetensors"}}`
	s := string(tensorFile)
	files := map[string]string{
		"out/config.json": config, "out/model.safetensors": s, "out/index.json": index, "out/x.json": "{}", "out/a.gguf": string(ggufFile),
		"config/config.json": "->../out/config.json", "config/model.safetensors": s,
		"quant/config.json": config, "quant/model.safetensors": s, "quant/hf_quant_config.json": "->../out/x.json",
		"generation/config.json": config, "generation/model.safetensors": s, "generation/generation_config.json": "->../out/x.json",
		"tokenizer/config.json": config, "tokenizer/model.safetensors": s, "tokenizer/tokenizer.json": "->../out/x.json",
		"folder/config.json": config, "folder/model.safetensors": s, "folder/1_Pooling": "->../out",
		"template/config.json": config, "template/model.safetensors": s, "template/additional_chat_templates/x.jinja": "->../../out/x.json",
		"weights/config.json": config, "weights/model.safetensors": "->../out/model.safetensors",
		"index/config.json": config, "index/w.safetensors": s, "index/model.safetensors.index.json": "->../out/index.json",
		"shard/config.json": config, "shard/w.safetensors": "->../out/model.safetensors", "shard/model.safetensors.index.json": index,
		"bare/model-x.safetensors": "->../out/model.safetensors",
		"inner/config.json":        "->real/config.json", "inner/real/config.json": config, "inner/model.safetensors": "->real/m", "inner/real/m": s,
		"link": "->out", "a.gguf": "->out/a.gguf", "m.safetensors": "->out/model.safetensors",
	}
	dir := tempFiles(t, files)
	shards := testmodel.NewLogical("llama", 0).AsGGUF(tensorfs.F16, false).Shards("m", 2)
	if err := testmodel.Write(filepath.Join(dir, "set"), shards); err != nil {
		t.Fatal(err)
	}
	for from, to := range map[string]string{"half/m-00001-of-00002.gguf": "set", "linked/m-00001-of-00002.gguf": "set", "linked/m-00002-of-00002.gguf": "set"} {
		path := filepath.Join(dir, from)
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(filepath.Join("..", to, filepath.Base(from)), path); err != nil {
			t.Fatal(err)
		}
	}
	second := "m-00002-of-00002.gguf"
	if err := os.WriteFile(filepath.Join(dir, "out", "elsewhere.gguf"), shards[second], 0o666); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("../out/elsewhere.gguf", filepath.Join(dir, "half", second)); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]struct {
		file string // that is refused; "" where the model opens
		warn string // what is said then
	}{
		"config": {file: "config/config.json"}, "quant": {file: "quant/hf_quant_config.json"}, "weights": {file: "weights/model.safetensors"},
		"config/model.safetensors": {file: "config/config.json"}, "index": {file: "index/model.safetensors.index.json"}, "shard": {file: "shard/w.safetensors"},
		"bare": {file: "bare/model-x.safetensors"}, "half/m-00001-of-00002.gguf": {file: "half/" + second},
		"generation": {warn: "generation_config.json: it is a symbolic link that leaves"}, "tokenizer": {warn: "tokenizer.json is left out: "},
		"folder": {warn: "1_Pooling is left out: "}, "template": {warn: "additional_chat_templates/x.jinja is left out: "},
		"inner": {}, "link": {}, "a.gguf": {}, "m.safetensors": {}, "weights/model.safetensors": {}, "linked/m-00001-of-00002.gguf": {}, "linked/" + second: {},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(dir, name)
			m, err := formats.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			m.Close()
			if len(m.Warnings) > 0 {
				t.Errorf("warnings %q", m.Warnings)
			}
			m, err = formats.Options{KeepInside: true}.Open(path)
			if want.file != "" {
				refused(t, m, err, formats.ErrLink, filepath.Join(dir, want.file)+": it is a symbolic link that leaves "+filepath.Dir(filepath.Join(dir, want.file)), "allow such links with --follow-links")
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			m.Close()
			if got := strings.Join(m.Warnings, "\n"); (got != "") != (want.warn != "") || !strings.Contains(got, want.warn) {
				t.Errorf("warnings %q, want %q", got, want.warn)
			}
			for _, s := range m.Sources {
				if want.warn != "" && (strings.HasPrefix(s.Name, "tokenizer") || strings.Contains(s.Name, "/")) {
					t.Errorf("%s is shown", s.Name)
				}
			}
		})
	}
}

// TestStoreLinksThatLeave has a blob, and a manifest, that are links out of an
// Ollama store. By its path a manifest is what the user named.
func TestStoreLinksThatLeave(t *testing.T) {
	l := testmodel.NewLogical("llama", 0)
	made, manifest := testmodel.Ollama("tiny", []testmodel.OllamaLayer{{Kind: "model", Content: l.AsGGUF(tensorfs.F16, false).Bytes()}})
	for what, want := range map[string]struct{ byName, byPath bool }{"blob": {false, false}, "manifest": {false, true}, "nothing": {true, true}} {
		t.Run(what, func(t *testing.T) {
			dir := t.TempDir()
			if err := testmodel.Write(filepath.Join(dir, "store"), made); err != nil {
				t.Fatal(err)
			}
			for name := range made {
				if path := filepath.Join(dir, "store", name); (name == manifest) == (what == "manifest") && what != "nothing" {
					out := filepath.Join(dir, filepath.Base(name))
					if err := os.Rename(path, out); err != nil {
						t.Fatal(err)
					}
					if err := os.Symlink(out, path); err != nil {
						t.Fatal(err)
					}
				}
			}
			t.Setenv("OLLAMA_MODELS", filepath.Join(dir, "store"))
			for path, ok := range map[string]bool{"ollama:tiny": want.byName, filepath.Join(dir, "store", manifest): want.byPath} {
				m, err := formats.Open(path)
				if err != nil {
					t.Fatal(err)
				}
				m.Close()
				m, err = formats.Options{KeepInside: true}.Open(path)
				if !ok {
					refused(t, m, err, formats.ErrLink, "it is a symbolic link that leaves "+filepath.Join(dir, "store"))
				} else if err != nil {
					t.Error(err)
				} else {
					m.Close()
				}
			}
		})
	}
}
