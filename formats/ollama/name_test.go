package ollama

import (
	"errors"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs"
)

func TestParseName(t *testing.T) {
	long := strings.Repeat
	tests := []struct{ name, path, short string }{
		{"gemma3", "registry.ollama.ai/library/gemma3/latest", "gemma3:latest"},
		{"gemma3:4b", "registry.ollama.ai/library/gemma3/4b", "gemma3:4b"},
		{"mike/x", "registry.ollama.ai/mike/x/latest", "mike/x:latest"},
		{"hf.co/user/repo:Q4", "hf.co/user/repo/Q4", "hf.co/user/repo:Q4"},
		{"hf.co/user/Repo.Name-GGUF", "hf.co/user/Repo.Name-GGUF/latest", "hf.co/user/Repo.Name-GGUF:latest"},
		{"localhost:5000/ns/m", "localhost:5000/ns/m/latest", "localhost:5000/ns/m:latest"},
		{"localhost:5000/ns/m:t", "localhost:5000/ns/m/t", "localhost:5000/ns/m:t"},
		{"https://hf.co/u/r:q", "hf.co/u/r/q", "hf.co/u/r:q"},
		{"registry.ollama.ai/library/gemma3:4b", "registry.ollama.ai/library/gemma3/4b", "gemma3:4b"},
		{"_x", "registry.ollama.ai/library/_x/latest", "_x:latest"},
		{"0:1", "registry.ollama.ai/library/0/1", "0:1"},
		{long("m", 80) + ":" + long("t", 80), "registry.ollama.ai/library/" + long("m", 80) + "/" + long("t", 80), long("m", 80) + ":" + long("t", 80)},
		{long("h", 350) + "/" + long("n", 80) + "/m", long("h", 350) + "/" + long("n", 80) + "/m/latest", long("h", 350) + "/" + long("n", 80) + "/m:latest"},
	}
	for _, tt := range tests {
		n, err := ParseName(tt.name)
		if err != nil {
			t.Errorf("ParseName(%q): %v", tt.name, err)
			continue
		}
		if n.Path() != tt.path || n.String() != tt.short {
			t.Errorf("ParseName(%q): path %q and text %q, want %q and %q", tt.name, n.Path(), n, tt.path, tt.short)
		}
		if again, err := ParseName(n.String()); err != nil || again != n {
			t.Errorf("ParseName(%q) = %v, %v, want %v", n, again, err, n)
		}
	}
}

func TestParseNameRefuses(t *testing.T) {
	long := strings.Repeat
	for _, name := range []string{
		"", "a/b/c/d", "../x", "a/../b", "x:..", ".x", "x:a:b", "na.me/x", "x@sha256:00", "x:", ":tag", ":", "/", "//", "/x", "x/", "a//b",
		"a/../../b", "library/..:latest", "..", ".", "-x", "x:-t", "x:.t", "a\x00b", "x:a\x00", "h\x00/n/m", "x\n", "x y", "é", "x:é", "a\\b",
		"://h/n/m", "1http://h/n/m", "http:///n/m", "http://x", "h:/n/m:", ".h/n/m", ":5000/n/m", "-n/m",
		long("m", 81), "x:" + long("t", 81), long("n", 81) + "/m", long("h", 351) + "/n/m",
	} {
		n, err := ParseName(name)
		if err == nil {
			t.Errorf("ParseName(%q) = %v, want an error", name, n)
		} else if !errors.Is(err, tensorfs.ErrFormat) || strings.ContainsAny(err.Error(), "\n\x00") {
			t.Errorf("ParseName(%q): %q is no one-line error of the format", name, err)
		}
	}
}

func FuzzParseName(f *testing.F) {
	for _, s := range []string{"gemma3:4b", "https://hf.co/u/r:q", "localhost:5000/ns/m", "../x", "x@sha256:00", ":", "a//b"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		n, err := ParseName(s)
		if err != nil {
			return
		}
		elems := strings.Split(n.Path(), "/")
		if len(elems) != 4 {
			t.Fatalf("ParseName(%q): path %q", s, n.Path())
		}
		for _, e := range elems {
			if e == "" || e[0] == '.' {
				t.Fatalf("ParseName(%q): path %q", s, n.Path())
			}
		}
		if again, err := ParseName(n.String()); err != nil || again != n {
			t.Fatalf("ParseName(%q) = %+v; its text %q gives %+v, %v", s, n, n, again, err)
		}
	})
}
