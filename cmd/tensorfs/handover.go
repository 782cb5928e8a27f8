package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
)

// handed is what a server of a mount must know and others must not see, who can read
// its command line and, some of them, its environment for as long as it runs: an
// address may have a password, and the variables are tokens and keys.
type handed struct {
	Model string            `json:"model"`
	Env   map[string]string `json:"env"`
}

// handedEnv are the variables that say how servers are asked, handedPrefixes how the
// names of others begin.
var (
	handedEnv = []string{
		"HF_TOKEN", "HF_TOKEN_PATH", "HF_ENDPOINT", "HF_HUB_DISABLE_IMPLICIT_TOKEN", "HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE",
		"HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY", "https_proxy", "http_proxy", "no_proxy",
		"SSL_CERT_FILE", "SSL_CERT_DIR", "NETRC", "DOCKER_CONFIG",
	}
	handedPrefixes = []string{"AWS_"}
)

// handOver returns the standard input of a server.
func handOver(model string, environ []string) (*os.File, error) {
	h := handed{model, map[string]string{}}
	for _, kv := range environ {
		name, value, _ := strings.Cut(kv, "=")
		if slices.Contains(handedEnv, name) || slices.ContainsFunc(handedPrefixes, func(p string) bool { return strings.HasPrefix(name, p) }) {
			h.Env[name] = value
		}
	}
	text, err := json.Marshal(h)
	if err != nil {
		return nil, err
	}
	r, w, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("cannot start the server: %w", err)
	}
	go func() {
		defer w.Close()
		_, _ = w.Write(text) // a server that ends before it has read it says why
	}()
	return r, nil
}

// maxHanded bounds it: the kernel bounds each variable to 128 KiB.
const maxHanded = 8 << 20

// takeOver reads what was handed over, and sets the variables for this process
// alone.
func takeOver(stdin io.Reader) (model string, err error) {
	var h handed
	if err := json.NewDecoder(io.LimitReader(stdin, maxHanded)).Decode(&h); err != nil {
		return "", fmt.Errorf("the mount command handed nothing over: %w", err)
	}
	for name, value := range h.Env {
		if err := os.Setenv(name, value); err != nil {
			return "", err
		}
	}
	return h.Model, nil
}
