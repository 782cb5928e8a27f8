package main

import (
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs/formats/gguf"
)

// TestExportGemma3 is the example in README.md: a model of the form that Ollama's own converter
// wrote, from a store, as a directory of Hugging Face's kind and as halves.
func TestExportGemma3(t *testing.T) {
	f, err := os.Open(testdata + "dialect/gemma3-vl.gguf.gz")
	must(t, err)
	defer f.Close()
	z, err := gzip.NewReader(f)
	must(t, err)
	model, err := io.ReadAll(z)
	must(t, err)
	store := t.TempDir()
	t.Setenv("OLLAMA_MODELS", store)
	blobs, manifest := filepath.Join(store, "blobs"), filepath.Join(store, "manifests/registry.ollama.ai/library/gemma3/latest")
	must(t, os.MkdirAll(blobs, 0o700))
	must(t, os.MkdirAll(filepath.Dir(manifest), 0o700))
	blob := func(kind string, b []byte) string {
		sum := sha256.Sum256(b)
		digest := hex.EncodeToString(sum[:])
		must(t, os.WriteFile(filepath.Join(blobs, "sha256-"+digest), b, 0o600))
		return fmt.Sprintf(`{"mediaType":%q,"digest":"sha256:%s","size":%d}`, kind, digest, len(b))
	}
	text := fmt.Sprintf(`{"schemaVersion":2,"mediaType":"application/vnd.docker.distribution.manifest.v2+json","config":%s,"layers":[%s]}`,
		blob("application/vnd.docker.container.image.v1+json", []byte(`{"model_format":"gguf","model_family":"gemma3"}`)), blob("application/vnd.ollama.image.model", model))
	must(t, os.WriteFile(manifest, []byte(text), 0o600))

	dir := filepath.Join(t.TempDir(), "gemma3")
	code, _, stderr := command("export", "ollama:gemma3", dir, "hf", "f16")
	if code != 0 {
		t.Fatalf("exit code %d, %s", code, stderr)
	}
	files := exported(t, dir)
	for _, name := range []string{"hf/config.json", "hf/model.safetensors", "hf/tokenizer.json", "f16/layers.0.attention.q.weight"} {
		if !slices.Contains(files, name) {
			t.Errorf("no %s of %q", name, files)
		}
	}

	home := t.TempDir()
	t.Setenv("HOME", home)
	code, out, stderr := command("export", "--to-lmstudio", "local/gemma3", "ollama:gemma3")
	if code != 0 || !strings.Contains(out+stderr, gguf.FromOllama) {
		t.Errorf("exit code %d, %s%s, want a note", code, out, stderr)
	}
	if files := exported(t, home); len(files) != 2 {
		t.Errorf("LM Studio gets %q, want a language model and a tower", files)
	}
}
