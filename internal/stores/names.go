package stores

import (
	"path/filepath"
	"strings"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/hub"
	"github.com/tensorfs/tensorfs/formats/ollama"
)

// RepositoryOf returns ORG/NAME of a model of the Hub, "" for other models.
func RepositoryOf(model string) string {
	if text, ok := strings.CutPrefix(model, hub.Prefix); ok {
		if n, err := hub.ParseName(text); err == nil && IsRepository(n.Repository) {
			return n.Repository
		}
	}
	return ""
}

// LMStudioName returns PUBLISHER/NAME of a model, by its place if it has no publisher.
func LMStudioName(model string) string {
	if own := RepositoryOf(model); own != "" {
		return own
	}
	if text, ok := strings.CutPrefix(model, ollama.Prefix); ok {
		if n, err := ollama.ParseName(text); err == nil {
			publisher, name := n.Namespace, n.Model
			if !strings.Contains(n.String(), "/") {
				publisher = "ollama"
			}
			if n.Tag != "latest" {
				name += "-" + n.Tag
			}
			return publisher + "/" + name
		}
	}
	if abs, err := filepath.Abs(model); err == nil {
		model = abs
	}
	base := strings.TrimSuffix(strings.TrimSuffix(filepath.Base(model), ".gguf"), ".safetensors")
	if !tensorfs.ValidName(base) || base[0] == '.' || base == "/" {
		base = "model"
	}
	return "local/" + base
}
