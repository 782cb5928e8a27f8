package demand

import (
	"strings"
	"testing"
)

// TestNames tells names of models from directories and from all else that programs look up.
func TestNames(t *testing.T) {
	const dir, nothing = "a directory", ""
	for _, tt := range []struct {
		store, orgs string
		paths       map[string]string // to the model's name
	}{
		{"hf:", "", map[string]string{
			"Qwen": dir, "01-ai": dir, "my_org": dir, "a.b": dir,
			"Qwen/Qwen3-4B": "hf:Qwen/Qwen3-4B", "a/b.c_d-e": "hf:a/b.c_d-e", "Qwen/Qwen3-4B@main": "hf:Qwen/Qwen3-4B@main",
			"a/b@refs%2Fpr%2F1": "hf:a/b@refs%2Fpr%2F1", "a/b:Q4_K_M": "hf:a/b:Q4_K_M", "a/b@v1.0:Q4_K_M": "hf:a/b@v1.0:Q4_K_M",
			"a/b.gguf": "hf:a/b.gguf", "gpt2@main": "hf:gpt2@main", "gpt2:Q4_K_M": "hf:gpt2:Q4_K_M", "gpt2@v1.0:Q4_K_M": "hf:gpt2@v1.0:Q4_K_M",
			"gpt2": dir, "gpt2/gguf": "hf:gpt2/gguf",

			"": nothing, ".git": nothing, ".hidden": nothing, ".Trash-1000": nothing, "-a": nothing, "a-": nothing, "a--b": nothing, "a..b": nothing,
			"a b": nothing, "ä": nothing, "a%2Fb": nothing, "$RECYCLE.BIN": nothing, "lost+found": nothing, "~a": nothing, "a~": nothing, "#a#": nothing,
			"datasets": nothing, "spaces": nothing, "models": nothing, "api": nothing, strings.Repeat("a", 97): nothing,
			"Qwen/": nothing, "a/b/c": nothing, "a//b": nothing, "a/.git": nothing, "a/.directory": nothing, "a/b@": nothing, "a/b:": nothing,
			"a/@main": nothing, "a/:Q4": nothing, "a/b@..": nothing, "a/b@a%2F..%2Fb": nothing, "a/b@.x": nothing, "a/b:.x": nothing, "a/b:c/d": nothing, "a/b@c@d": nothing,
			"a@b/c": nothing, "a:b/c": nothing, "a@": nothing, "a:": nothing, "@a": nothing, ":a": nothing, "a@b:": nothing, "C:": nothing, "models@main": nothing, "README@main": nothing,
			".git@main": nothing, "a@b@c": nothing, "a:b:c": nothing, "a@b.txt": nothing, "a/b\n": nothing, "a/b\x00": nothing, "a/" + strings.Repeat("b", 97): nothing, "datasets/squad": nothing, "models/x": nothing,

			"HEAD": nothing, "objects": nothing, "CVS": nothing, "autorun.inf": nothing, "Desktop.ini": nothing, "desktop.ini": nothing, "Thumbs.db": nothing, "node_modules": nothing,
			"package.json": nothing, "__pycache__": nothing, "libc.so.6": nothing, "x.so": nothing, "tags": nothing, "glibc-hwcaps": nothing, "README": nothing, "tensorfs.json": nothing,
			"a/HEAD": nothing, "a/CVS": nothing, "a/autorun.inf": nothing, "a/node_modules": nothing, "a/package.json": nothing, "a/__pycache__": nothing, "a/folder.jpg": nothing,
			"a/libtorch.so": nothing, "a/libtorch.so.2": nothing, "a/tsconfig.json": nothing, "a/setup.py": nothing, "a/Makefile": nothing, "a/tags": nothing, "a/x.swp": nothing,
			"node_modules/express": nothing, "HEAD/x": nothing, "a/Thumbs.db": nothing, "a/b.git": nothing,
		}},
		{"hf:", "Qwen meta-llama", map[string]string{
			"Qwen": dir, "qwen": dir, "meta-llama": dir, "meta": nothing, "evil": nothing,
			"Qwen/x": "hf:Qwen/x", "QWEN/x": "hf:QWEN/x", "meta-llama/x@v1": "hf:meta-llama/x@v1", "evil/x": nothing, "Qwen2/x": nothing,
			"Qwen@main": nothing, "gpt2@main": nothing, // the Hub may redirect to any organisation
		}},
		{"ollama:", "", map[string]string{
			"gemma3": dir, "mike": dir, "hf.co": dir, "hf.co/user": dir, "registry.ollama.ai": dir,
			"gemma3:4b": "ollama:gemma3:4b", "mike/x:latest": "ollama:mike/x:latest", "hf.co/user/repo:Q4_K_M": "ollama:hf.co/user/repo:Q4_K_M",
			"registry.ollama.ai/library/x:1": "ollama:registry.ollama.ai/library/x:1",

			"gemma3/4b": nothing, "mike/x": nothing, "hf.co/user/repo": nothing, "": nothing, ".git": nothing, "gemma3:": nothing, ":4b": nothing, "a b:c": nothing,
			"evil.example/a": nothing, "evil.example/a/b:c": nothing, "127.0.0.1:80/a/b:c": nothing, "169.254.169.254/a/b:c": nothing, "a/b/c/d:e": nothing,
			"HEAD": nothing, "package.json": nothing, "libc.so.6": nothing, "node_modules/x:1": nothing, "a:b/c:d": nothing,
		}},
		{"ollama:", "library hf.co/bartowski 127.0.0.1:80/ns", map[string]string{
			"gemma3:4b": "ollama:gemma3:4b", "library/gemma3:4b": "ollama:library/gemma3:4b", "mike/x:latest": nothing, "mike": nothing,
			"hf.co": dir, "hf.co/bartowski": dir, "hf.co/bartowski/x:Q4": "ollama:hf.co/bartowski/x:Q4", "hf.co/evil/x:Q4": nothing, "hf.co/evil": nothing, "hf": nothing,
			"127.0.0.1:80": dir, "127.0.0.1:80/ns": dir, "127.0.0.1:80/ns/x:1": "ollama:127.0.0.1:80/ns/x:1", "127.0.0.1:80/b/x:1": nothing, "127.0.0.1:81/lib/x:1": nothing,
		}},
	} {
		n, err := NewNames(tt.store, strings.Fields(tt.orgs))
		if err != nil {
			t.Fatal(err)
		}
		for path, want := range tt.paths {
			got, _ := n.Model(path)
			if n.Dir(path) {
				got += dir
			}
			if got != want {
				t.Errorf("%s %s: %q is %q, want %q", tt.store, tt.orgs, path, got, want)
			}
		}
	}
}

// TestWrongNames refuses stores without a server, and organisations that cannot be.
func TestWrongNames(t *testing.T) {
	for _, tt := range []struct{ store, org, want string }{
		{"lmstudio:", "", `"lmstudio:": no server is asked for such names; there are hf: and ollama:`},
		{"hf:", "a/b", `"a/b" is not the name of an organisation`},
		{"hf:", "..", `".." is not the name of an organisation`},
		{"ollama:", "a/b/c", `"a/b/c" is not the name of an organisation`},
		{"ollama:", "a b", `"a b" is not the name of an organisation`},
	} {
		if _, err := NewNames(tt.store, strings.Split(tt.org, ",")); err == nil || err.Error() != tt.want {
			t.Errorf("%+v: %v", tt, err)
		}
	}
}

// FuzzNames holds that a model's name has no more parts than its path, and is never a directory too.
func FuzzNames(f *testing.F) {
	f.Add("Qwen/Qwen3-4B@main:Q4_K_M")
	f.Add("hf.co/user/repo:Q4")
	var all []*Names
	for _, store := range Stores() {
		n, err := NewNames(store, nil)
		if err != nil {
			f.Fatal(err)
		}
		all = append(all, n)
	}
	f.Fuzz(func(t *testing.T, path string) {
		for _, n := range all {
			call, ok := n.Model(path)
			if ok && (call != n.prefix+path || n.Dir(path) || strings.ContainsAny(path, "\x00\n \\?#") || strings.Contains(path, "..")) {
				t.Errorf("%q is the model %q", path, call)
			}
		}
	})
}
