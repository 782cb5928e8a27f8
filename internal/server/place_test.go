package server

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs/formats/library"
	"github.com/tensorfs/tensorfs/internal/conceal"
)

// Every model's mount has one name, whatever the model's own is.
func TestPlaceNames(t *testing.T) {
	models := append([]string{
		"/", "/a/.gguf", "/.safetensors", "hf:", "hf:o/r", "hf:o/r:Q4_K_M", "hf:o/r@main:x.gguf", "hf:..", "ollama:.", "ollama:..", "lmstudio:a/b", "ollama:/",
		"https://host", "https://host/", "https://host/..", "https://host/a/m.gguf?download=true", "https://host/a/?x=/..", "s3://bucket/", "s3://bucket/a/m.gguf", "gs://bucket/", "gs://bucket/a/m.gguf",
		"oci://host/a/b:tag", "https://host/" + strings.Repeat("ä", 300),
	}, library.Stores...)
	for _, model := range models {
		name := placeName(conceal.Name(model))
		if !isPlaceName(name) || len(name) > maxPlace || filepath.Dir(filepath.Join("/d", name)) != "/d" || strings.ContainsAny(name, "?#") {
			t.Errorf("%s is mounted as %q", model, name)
		}
	}
	for model, want := range map[string]string{
		"hf:": "hf", "ollama:": "ollama", "lmstudio:": "lmstudio", "https://host/a/m.gguf?download=true": "m", "/": "model", "/a/.gguf": ".gguf", "hf:o/r:Q4": "r:Q4",
		"/a/b.gguf": "b", "/a/b": "b", "ollama:gemma3:4b": "gemma3:4b", "ollama:me/x": "x", "hf:o/r": "r", "m.safetensors": "m",
	} {
		if got := placeName(conceal.Name(model)); got != want {
			t.Errorf("%s is mounted as %s, want %s", model, got, want)
		}
	}
}
