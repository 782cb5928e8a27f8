package ollama

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// emptyStore makes a store with manifests of no content.
func emptyStore(t *testing.T, dir string, manifests ...string) string {
	t.Helper()
	for _, m := range manifests {
		p := filepath.Join(dir, "manifests", m)
		if err := errors.Join(os.MkdirAll(filepath.Dir(p), 0o755), os.WriteFile(p, nil, 0o644), os.MkdirAll(filepath.Join(dir, "blobs"), 0o755)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// whereIs is locate, as a path.
func whereIs(n Name) (string, error) {
	at, err := locate(n, true)
	if err != nil {
		return "", err
	}
	if at.file != nil {
		at.file.Close()
	}
	return at.store.files.Location(at.name), at.store.Close()
}

func TestLocate(t *testing.T) {
	dir := emptyStore(t, t.TempDir(),
		"registry.ollama.ai/library/gemma3/latest", "registry.ollama.ai/library/Two/latest", "registry.ollama.ai/library/TWO/latest",
		"registry.ollama.ai/Mike/x/Q4", "registry.ollama.ai/library/gemma3/4B", "HF.co/a/b/latest", "registry.ollama.ai/library/file")
	tests := []struct{ name, path, want string }{
		{"gemma3", "registry.ollama.ai/library/gemma3/latest", ""},
		{"GEMMA3", "registry.ollama.ai/library/gemma3/latest", ""},
		{"Gemma3:LATEST", "registry.ollama.ai/library/gemma3/latest", ""},
		{"gemma3:4b", "registry.ollama.ai/library/gemma3/4B", ""},
		{"Two", "registry.ollama.ai/library/Two/latest", ""},
		{"TWO", "registry.ollama.ai/library/TWO/latest", ""},
		{"two", "", "differ only in case"},
		{"mike/X:q4", "registry.ollama.ai/Mike/x/Q4", ""},
		{"hf.CO/A/B", "HF.co/a/b/latest", ""},
		{"gemma3:8b", "", `gemma3 has the tags 4B, latest, not 8b; name one, such as ollama:gemma3:4B, or fetch it with "ollama pull gemma3:8b"`},
		{"gemma", "", `there is no such model in `},
		{"gemma", "", `; did you mean ollama:gemma3? If not, fetch it with "ollama pull gemma:latest"`},
		{"gema3:4b", "", `did you mean ollama:gemma3:4B?`},
		{"mike/xx:q4", "", `did you mean ollama:Mike/x:Q4?`},
		{"other", "", `(OLLAMA_MODELS); fetch it with "ollama pull other:latest", or set OLLAMA_MODELS`},
		{"file:x", "", "no such model"},
		{"../gemma3", "", "not allowed"},
	}
	for _, quoted := range []string{dir, " " + dir + "\t", `"` + dir + `"`, "'" + dir + "'"} {
		t.Setenv("OLLAMA_MODELS", quoted)
		for _, tt := range tests {
			n, err := ParseName(tt.name)
			var got string
			if err == nil {
				got, err = whereIs(n)
			}
			if tt.want != "" {
				if err == nil || !strings.Contains(err.Error(), tt.want) {
					t.Errorf("%s: %q, %v, want an error about %q", tt.name, got, err, tt.want)
				}
			} else if want := filepath.Join(dir, "manifests", tt.path); err != nil || got != want {
				t.Errorf("%s: %q, %v, want %q", tt.name, got, err, want)
			}
		}
	}
}

func TestStores(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("OLLAMA_MODELS", " \" ")
	emptyStore(t, filepath.Join(home, ".ollama", "models"), "registry.ollama.ai/library/x/latest")
	n := Name{defaultHost, defaultNamespace, "x", defaultTag}
	if got, err := whereIs(n); err != nil || !strings.HasPrefix(got, home) {
		t.Errorf("locate = %q, %v", got, err)
	}
	n.Model = "no-such-model-anywhere"
	_, err := whereIs(n)
	if !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), home) || !strings.Contains(err.Error(), "the home directory") || !strings.Contains(err.Error(), "no-such-model-anywhere:latest") {
		t.Errorf("error %v", err)
	}
	t.Setenv("OLLAMA_MODELS", filepath.Join(home, "nothing"))
	_, err = whereIs(Name{defaultHost, defaultNamespace, "x", defaultTag})
	if !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "nothing (OLLAMA_MODELS)") || strings.Contains(err.Error(), "home") {
		t.Errorf("error %v", err)
	}
}

func TestInStore(t *testing.T) {
	dir := emptyStore(t, t.TempDir(), "h/manifests/m/t")
	emptyStore(t, filepath.Join(dir, "manifests", "h"), "inner/n/m/t") // a store inside a store
	for path, want := range map[string]string{
		"manifests/h/manifests/m/t":          "inner",
		"manifests/h/manifests/inner/n/m/t":  "inner",
		"manifests/h/x/m/t":                  "outer",
		"manifests/manifests/x/m/t":          "outer",
		"blobs/sha256-x":                     "",
		"x/y/z":                              "",
		"manifests/h/x/m/../../x/manifests":  "outer",
		"manifests/h/x/m/../../../../blobs/": "",
	} {
		store, name, ok := inStore(filepath.Join(dir, path))
		got := ""
		if ok && store == dir {
			got = "outer"
		} else if ok && store == filepath.Join(dir, "manifests", "h") {
			got = "inner"
		}
		if got != want {
			t.Errorf("%s: %s in %s, %v, want the %s store", path, name, store, ok, want)
		}
	}
}
