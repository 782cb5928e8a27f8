package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/tensorfs/tensorfs/internal/testing/testmodel"
)

// list runs tensorfs list, which must succeed.
func list(t *testing.T, args ...string) string {
	t.Helper()
	code, out, stderr := command(append([]string{"list"}, args...)...)
	if code != 0 || stderr != "" {
		t.Fatalf("list %q: exit code %d, %q", args, code, stderr)
	}
	return out
}

func TestListModels(t *testing.T) {
	store, err := filepath.Abs(testdata + "ollama/models")
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("OLLAMA_MODELS", store)
	t.Setenv("HF_HUB_CACHE", filepath.Join(t.TempDir(), "none"))
	const want = `NAME                       FORMAT  ARCHITECTURE  PARAMS  QUANT              SIZE
ollama:hf.co/Acme-Org/Tiny.Model-GGUF:F16
                           ollama  llama          45248  F16            88.8 KiB
ollama:tiny:bf16           ollama  qwen3moe       70209  BF16          137.1 KiB
ollama:tiny:feb            ollama  qwen3moe       45120  affine 4-bit   34.0 KiB
`
	if got := list(t); !strings.HasPrefix(got, want) || strings.Count(got, "\n") != 13 {
		t.Errorf("%s\nwant the beginning\n%s", got, want)
	}
	if list(t) != list(t, "ollama:") {
		t.Error("without an argument it lists something else")
	}
	var rows []listedModel
	if err := json.Unmarshal([]byte(list(t, "--json", "ollama:")), &rows); err != nil || len(rows) != 11 {
		t.Fatalf("%d models, %v", len(rows), err)
	}
	r := rows[0]
	if r.Name != "hf.co/Acme-Org/Tiny.Model-GGUF/F16" || r.Model != "ollama:hf.co/Acme-Org/Tiny.Model-GGUF:F16" || r.Path != filepath.Join(store, "manifests/hf.co/Acme-Org/Tiny.Model-GGUF/F16") ||
		r.Format != "ollama" || r.Architecture != "llama" || *r.Parameters != 45248 || r.Quant != "F16" || r.Error != "" {
		t.Errorf("%+v", r)
	}
	for _, r := range rows { // the list agrees with info
		var info struct { // a modelInfo, as others read it
			Format, Architecture, Quant string
			Parameters, Bytes           int64
		}
		code, out, stderr := command("info", "--json", r.Model)
		if code != 0 {
			t.Fatalf("info %s: %s", r.Model, stderr)
		}
		if err := json.Unmarshal([]byte(out), &info); err != nil {
			t.Fatal(err)
		}
		if info.Format != r.Format || info.Architecture != r.Architecture || info.Parameters != *r.Parameters || info.Quant != r.Quant || info.Bytes != *r.Bytes {
			t.Errorf("%s: listed as %+v", r.Model, r)
		}
	}
}

// TestListBroken holds that models that cannot be opened are lines of the list, and
// that no line is too long or controls the terminal.
func TestListBroken(t *testing.T) {
	dir := t.TempDir()
	good, err := os.ReadFile(q8)
	if err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("a-long-name-", 10)
	files := map[string][]byte{"good.gguf": good, "sub/broken.gguf": good[:1000], "sub/" + hostileName + ".gguf": good, long + ".gguf": good}
	if err := testmodel.Write(dir, files); err != nil {
		t.Fatal(err)
	}
	out := list(t, dir)
	shown(t, "list", out)
	for line := range strings.Lines(out) {
		if n := utf8.RuneCountInString(line); n > 81 && !strings.HasPrefix(line, long) && !strings.HasPrefix(line, `"sub/x`) {
			t.Errorf("%d characters: %s", n, line)
		}
	}
	for _, want := range []string{"good.gguf ", "sub/broken.gguf\n  ", "the file", " llama "} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	var rows []listedModel
	if err := json.Unmarshal([]byte(list(t, "--json", dir)), &rows); err != nil || len(rows) != 4 {
		t.Fatalf("%d models, %v", len(rows), err)
	}
	for _, r := range rows {
		if broken := strings.HasSuffix(r.Name, "broken"); (r.Error != "") != broken || broken == (r.Bytes != nil) {
			t.Errorf("%+v", r)
		}
	}
}

// TestFolderWithOneAtTop holds that a folder with one GGUF model and directories that
// have more is a library for all commands, and without these a model. verify takes all.
func TestFolderWithOneAtTop(t *testing.T) {
	dir := t.TempDir()
	must(t, testmodel.Write(dir, map[string][]byte{"top.gguf": modelOf(1, 32), "docs/notes.txt": nil}))
	if code, _, stderr := command("info", dir); code != 0 {
		t.Errorf("one model: %s", stderr)
	}
	must(t, testmodel.Write(dir, map[string][]byte{"more/below.gguf": modelOf(2, 32)}))
	if out := list(t, dir); !strings.Contains(out, "\nmore/below.gguf ") || !strings.Contains(out, "\ntop.gguf ") {
		t.Errorf("list: %s", out)
	}
	want := fmt.Sprintf("tensorfs: %[1]s: it is a folder with 2 models: %[1]s/top.gguf, %[1]s/more/below.gguf; name one of them; tensorfs list %[1]s describes all, and tensorfs mount mounts all\n", dir)
	for _, args := range [][]string{{"info", dir}, {dir}, {"ls", dir}, {"cat", dir, "README"}, {"stat", dir}} {
		if code, out, stderr := command(args...); code != 1 || out != "" || stderr != want {
			t.Errorf("%q: exit code %d, %q", args, code, stderr)
		}
	}
	if out := succeeds(t, "verify", dir); !strings.Contains(out, "2 models: 2 ok") {
		t.Errorf("verify: %s", out)
	}
	needFUSE(t)
	at := mounted(t, dir)
	for _, path := range []string{"top/raw/t", "more/below/raw/t"} {
		if _, err := os.Stat(filepath.Join(at, path)); err != nil {
			t.Error(err)
		}
	}
}

// TestListNothing holds the output without models.
func TestListNothing(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("OLLAMA_MODELS", filepath.Join(dir, "none"))
	t.Setenv("HF_HUB_CACHE", filepath.Join(dir, "none"))
	if got, want := list(t), "no models on this machine: there is no Ollama store (OLLAMA_MODELS) and no\nHugging Face cache (HF_HOME); name a folder\n"; got != want {
		t.Errorf("%q", got)
	}
	if got := list(t, "--json"); got != "[]\n" {
		t.Errorf("%q", got)
	}
	if got, want := list(t, dir), "no models in "+dir+"\n"; strings.Join(strings.Fields(got), " ") != strings.TrimSpace(want) {
		t.Errorf("%q", got)
	}
	for _, x := range []struct {
		code int
		args []string
		want string
	}{
		{1, []string{"list", "ollama:"}, "set OLLAMA_MODELS"},
		{1, []string{"list", "hf:"}, "set HF_HOME"},
		{1, []string{"list", filepath.Join(dir, "none")}, "no such file"},
		{1, []string{"list", q8}, "it is not a directory; name a folder with models, ollama: or hf:"},
		{2, []string{"list", "a", "b"}, "usage: tensorfs list"},
	} {
		if code, out, stderr := command(x.args...); code != x.code || out != "" || !strings.Contains(stderr, x.want) || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%q: exit code %d, %q, %q", x.args, code, out, stderr)
		}
	}
}
