package environ

import (
	"path/filepath"
	"runtime"
	"strings"
)

// OllamaStores returns where Ollama keeps its models: only OLLAMA_MODELS if it is set, otherwise the home
// directory and, on Linux, the directory of Ollama's service. Like Ollama it takes ~ in OLLAMA_MODELS for a name.
func OllamaStores(env Env) []Place {
	if dir := OllamaPath(env("OLLAMA_MODELS")); dir != "" {
		return []Place{{dir, "OLLAMA_MODELS"}}
	}
	var places []Place
	if home, err := homeDir(env); err == nil {
		places = append(places, Place{filepath.Join(home, ".ollama", "models"), "the home directory"})
	}
	if runtime.GOOS == "linux" {
		places = append(places, Place{"/usr/share/ollama/.ollama/models", "Ollama's service"})
	}
	return places
}

// OllamaPath returns the path in OLLAMA_MODELS as Ollama reads it: without blanks and quotes around it, which shells
// on Windows leave in.
func OllamaPath(path string) string { return strings.Trim(strings.TrimSpace(path), `"'`) }
