package server

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/tensorfs/tensorfs/internal/environ"
)

// PlacesEnv are the variables that say where models are.
var PlacesEnv = []string{"HF_HOME", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "OLLAMA_MODELS", "HOME", "XDG_CACHE_HOME"}

// pathsEnv are the variables that hold a path, with the function that reads it as the variable's program does. nil
// means that the program takes the path as it is written.
var pathsEnv = map[string]func(path string, env environ.Env) (string, error){
	"HF_HOME": environ.Expand, "HF_HUB_CACHE": environ.Expand, "HUGGINGFACE_HUB_CACHE": environ.Expand, "HF_TOKEN_PATH": environ.Expand,
	"XDG_CACHE_HOME":  environ.Expand,
	"AWS_CONFIG_FILE": environ.Expand, "AWS_SHARED_CREDENTIALS_FILE": environ.Expand, "AWS_CA_BUNDLE": nil, "AWS_WEB_IDENTITY_TOKEN_FILE": nil,
	"AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE": nil, "REQUESTS_CA_BUNDLE": nil, "SSL_CERT_FILE": nil, "DOCKER_CONFIG": nil,
	"GOOGLE_APPLICATION_CREDENTIALS": nil, "CLOUDSDK_CONFIG": environ.ExpandHome, "AZURE_FEDERATED_TOKEN_FILE": nil,
	"NETRC":         environ.ExpandHome,
	"OLLAMA_MODELS": func(path string, _ environ.Env) (string, error) { return environ.OllamaPath(path), nil },
}

// absoluteEnv returns an environment whose variables mean the same in another directory, and without the variables
// that they refer to.
func absoluteEnv(all []string) []string {
	all = slices.Clone(all)
	for i, kv := range all {
		name, path, _ := strings.Cut(kv, "=")
		read, ok := pathsEnv[name]
		if !ok {
			continue
		}
		if read != nil {
			if expanded, err := read(path, environ.Process); err == nil {
				path = expanded
			}
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
		return !IsKeptEnv(name) && !slices.Contains(besides, name)
	})
}

func IsKeptEnv(name string) bool {
	return slices.Contains(PlacesEnv, name) || slices.Contains(keptEnv, name) || strings.HasPrefix(name, ownEnv)
}
