package server

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/tensorfs/tensorfs/formats"
	"github.com/tensorfs/tensorfs/internal/conceal"
)

// handed is what a server of a mount must know and others must not see, who can read
// its command line and, some of them, its environment for as long as it runs: an
// address may have a password, and the variables are tokens and keys.
type handed struct {
	Model string            `json:"model"`
	LoRA  []string          `json:"lora,omitempty"`
	Env   map[string]string `json:"env"`
}

// handedEnv are the variables that say how servers are asked, handedPrefixes how the
// names of others begin.
var (
	handedEnv = []string{
		"HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "HF_TOKEN_PATH", "HF_ENDPOINT", "HF_HUB_DISABLE_IMPLICIT_TOKEN", "HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE",
		"HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY", "https_proxy", "http_proxy", "no_proxy",
		"SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "NETRC", "DOCKER_CONFIG", "DOCKER_AUTH_CONFIG",
		"MODELSCOPE_API_TOKEN", "MODELSCOPE_ENDPOINT", "MODELSCOPE_DOMAIN",
		"GOOGLE_APPLICATION_CREDENTIALS", "GOOGLE_CREDENTIALS", "GOOGLE_CLOUD_QUOTA_PROJECT", "CLOUDSDK_CONFIG", "CLOUDSDK_AUTH_DISABLE_CREDENTIALS", "STORAGE_EMULATOR_HOST", "GCE_METADATA_HOST", "NO_GCE_CHECK",
		"AZURE_SKIP_SIGNATURE", "AZURE_TENANT_ID", "AZURE_CLIENT_ID", "AZURE_CLIENT_SECRET", "AZURE_CLIENT_CERTIFICATE_PATH", "AZURE_FEDERATED_TOKEN_FILE", "AZURE_AUTHORITY_HOST", "AZURE_POD_IDENTITY_AUTHORITY_HOST", "AZURE_TOKEN_CREDENTIALS",
	}
	handedPrefixes = []string{"AWS_", "AZURE_STORAGE_"}
)

// line returns the command line of a server and its standard input, which may be nil:
// the name of a remote model is passed there. The line begins with the program's own name,
// because a copy's may be mount.tensorfs.
func (s *Spec) line(kind string) (args []string, stdin *os.File, err error) {
	args = []string{"tensorfs", s.Command}
	if kind != "" {
		args = append(args, kind)
	}
	args = append(args, s.Flags...)
	if s.hasNames() {
		args = slices.DeleteFunc(args, func(arg string) bool { return strings.HasPrefix(arg, "--lora=") })
		args = append(args, "--hand-over")
		if stdin, err = handOver(s.Model, s.Adapters, absoluteEnv(os.Environ())); err != nil {
			return nil, nil, err
		}
	}
	if len(s.Extra) > 0 {
		args = append(args, "-o", strings.Join(s.Extra, ","))
	}
	args = append(append(args, conceal.Name(s.Model)), s.More...)
	if s.Mountpoint != "" {
		args = append(args, s.Mountpoint)
	}
	return args, stdin, nil
}

// hasNames reports whether the model or an adapter is one of a store or of another machine.
func (s *Spec) hasNames() bool {
	return formats.IsName(s.Model) || slices.ContainsFunc(s.Adapters, formats.IsName)
}

// handOver returns the standard input of a server.
func handOver(model string, adapters []string, environ []string) (*os.File, error) {
	h := handed{model, adapters, map[string]string{}}
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
	f, err := unnamed(text)
	if err != nil {
		return nil, fmt.Errorf("cannot start the server: %w", err)
	}
	return f, nil
}

// StartAgain replaces this process by another program. Tests that run commands in their
// own process set it to nil: there a server is what it is.
var StartAgain = syscall.Exec

// Become starts this program again in this process, as a server in the
// foreground, if its command line or its environment has something that others must
// not read. Otherwise it returns nil.
func (s *Spec) Become(kind string) error {
	environ := os.Environ()
	env := keepEnv(environ, foregroundEnv)
	if StartAgain == nil || s.HandedOver || !s.hasNames() && len(env) == len(environ) {
		return nil
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	args, stdin, err := s.line(kind)
	if err != nil {
		return err
	}
	if stdin != nil {
		if err := replace(os.Stdin, stdin); err != nil {
			return err
		}
	}
	return fmt.Errorf("cannot start the server: %w", StartAgain(self, args, env))
}

// maxHanded bounds it: the kernel bounds each variable to 128 KiB.
const maxHanded = 8 << 20

// Handed reads what was handed over, sets the variables only for this process, and leaves
// nothing of it readable.
func Handed(stdin *os.File) (model string, adapters []string, err error) {
	var h handed
	if err := json.NewDecoder(io.LimitReader(stdin, maxHanded)).Decode(&h); err != nil {
		return "", nil, fmt.Errorf("the mount command handed nothing over: %w", err)
	}
	for name, value := range h.Env {
		if err := os.Setenv(name, value); err != nil {
			return "", nil, err
		}
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		return "", nil, err
	}
	defer null.Close()
	return h.Model, h.LoRA, replace(stdin, null)
}
