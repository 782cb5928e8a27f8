package source

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	"github.com/tensorfs/tensorfs"
)

// Place is a directory where another program keeps its models.
type Place struct {
	Path  string
	Known string // how it was found, for messages
}

// HuggingFaceCache returns the directory of the Hugging Face cache:
// $HF_HUB_CACHE, $HF_HOME/hub or ~/.cache/huggingface/hub.
func HuggingFaceCache() (string, error) {
	if dir := os.Getenv("HF_HUB_CACHE"); dir != "" {
		return dir, nil
	}
	if dir := os.Getenv("HF_HOME"); dir != "" {
		return filepath.Join(dir, "hub"), nil
	}
	if dir := os.Getenv("XDG_CACHE_HOME"); dir != "" {
		return filepath.Join(dir, "huggingface", "hub"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("where is the Hugging Face cache? %w; set HF_HOME", err)
	}
	return filepath.Join(home, ".cache", "huggingface", "hub"), nil
}

// OllamaStores returns where Ollama keeps its models: only OLLAMA_MODELS if it is
// set, otherwise the home directory and, on Linux, the directory of Ollama's
// service.
func OllamaStores() []Place {
	// Ollama strips blanks and quotes, which shells on Windows leave in.
	if dir := strings.Trim(strings.TrimSpace(os.Getenv("OLLAMA_MODELS")), `"'`); dir != "" {
		return []Place{{dir, "OLLAMA_MODELS"}}
	}
	var places []Place
	if home, err := os.UserHomeDir(); err == nil {
		places = append(places, Place{filepath.Join(home, ".ollama", "models"), "the home directory"})
	}
	if runtime.GOOS == "linux" {
		places = append(places, Place{"/usr/share/ollama/.ollama/models", "Ollama's service"})
	}
	return places
}

// Abs returns the absolute path of path, and that of its target through symbolic
// links, "" if the target does not exist.
func Abs(path string) (abs, real string, err error) {
	if abs, err = filepath.Abs(path); err != nil {
		return "", "", err
	}
	if real, err = filepath.EvalSymlinks(abs); err != nil {
		real = ""
	}
	return abs, real, nil
}

// HasDir reports whether there is a directory at path.
func HasDir(path string) bool {
	st, err := os.Stat(path)
	return err == nil && st.IsDir()
}

// Room returns an error when the process may not open n more files, n being the
// number of files in the model at path. Go raised the limit as far as it is
// allowed to when the program started.
func Room(path string, n int) error {
	const others = 64 // files that the process needs besides them
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil || uint64(n)+others <= uint64(limit.Cur) {
		return nil
	}
	return &tensorfs.FormatError{File: path, Offset: -1, Kind: syscall.EMFILE,
		Problem: fmt.Sprintf("the model has %d blobs, and each stays open, but this process may open %d files", n, limit.Cur),
		Advice:  fmt.Sprintf("raise the limit with 'ulimit -n %d'", n+others)}
}

// Exists reports whether there is anything at a path, even a link that leads nowhere.
func Exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
