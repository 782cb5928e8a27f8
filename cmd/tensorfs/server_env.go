package main

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/tensorfs/tensorfs/internal/environ"
)

// placesEnv are the variables that say where models are.
var placesEnv = []string{"HF_HOME", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "OLLAMA_MODELS", "HOME", "XDG_CACHE_HOME"}

// absoluteEnv returns an environment whose variables mean the same in another directory, and without the variables
// that they refer to.
func absoluteEnv(all []string) []string {
	all = slices.Clone(all)
	for i, kv := range all {
		name, path, _ := strings.Cut(kv, "=")
		switch name {
		case "HF_HOME", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_TOKEN_PATH":
			if expanded, err := environ.Expand(path, environ.Process); err == nil {
				path = expanded
			}
		case "OLLAMA_MODELS":
		default:
			continue
		}
		if abs, err := filepath.Abs(path); err == nil && path != "" {
			all[i] = name + "=" + abs
		}
	}
	return all
}

// keptEnv is what else of the environment the server needs: where programs are, and
// the settings of the Go runtime. Everything else, which may hold secrets and can be
// read in /proc for as long as the server runs, is dropped.
var keptEnv = []string{
	"PATH", "TZ",
	"XDG_RUNTIME_DIR", "TMPDIR", // where the state of a server is
	"container", "KUBERNETES_SERVICE_HOST", // for advice
	"GOMEMLIMIT", "GOGC", "GODEBUG", "GOMAXPROCS", "GOTRACEBACK", "GORACE", "GOCOVERDIR",
}

// ownEnv begins the names of this program's own variables.
const ownEnv = "TENSORFS_"

// foregroundEnv is what a server in the foreground needs besides: how it tells systemd
// that it is ready and what systemd kept for it, which journal its messages go to, and the locale of its terminal.
var foregroundEnv = []string{"NOTIFY_SOCKET", "LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES", "JOURNAL_STREAM", "LC_ALL", "LC_CTYPE", "LANG", "TERM"}

// keepEnv returns the part of an environment that a server gets, with some variables
// besides.
func keepEnv(all, besides []string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		return !isKeptEnv(name) && !slices.Contains(besides, name)
	})
}

func isKeptEnv(name string) bool {
	return slices.Contains(placesEnv, name) || slices.Contains(keptEnv, name) || strings.HasPrefix(name, ownEnv)
}
