package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs/internal/cli"
	"github.com/tensorfs/tensorfs/internal/mounts"
)

// hostileName acts on a terminal that shows it: it turns the order of the text
// and, where control sequences of one byte are understood, its colour.
const hostileName = "x\u202e\u009b31m\u2066\u200f\u061c\u2028\u2029\x1b[31m\x9b"

// shown fails a test where a text would act on a terminal.
func shown(t *testing.T, what, text string) {
	t.Helper()
	for i, r := range text {
		if r != '\n' && !strconv.IsPrint(r) || strings.HasPrefix(text[i:], "\x9b") {
			t.Errorf("%s prints %U: %q", what, r, text)
			return
		}
	}
}

// Names from paths and files are quoted wherever a terminal may show them.
func TestHostileNames(t *testing.T) {
	needFUSE(t)
	parent := filepath.Join(t.TempDir(), hostileName)
	model := filepath.Join(parent, hostileName+".gguf")
	dir := filepath.Join(parent, "mnt")
	b, err := os.ReadFile(q8)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(model, b, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { mounts.Unmount(dir, true) })
	mountAt(t, dir, model)
	type step struct {
		code int
		args []string
	}
	for _, s := range []step{
		{0, []string{"status"}},
		{0, []string{"status", "--json"}},
		{0, []string{"ls", model}},
		{0, []string{"ls", "-l", model}},
		{0, []string{"ls", "--json", model}},
		{0, []string{"info", model}},
		{0, []string{"info", "--json", model}},
		{0, []string{"cat", model, "README"}},
		{0, []string{"verify", model}},
		{0, []string{"export", model, filepath.Join(parent, "out"), "raw", "metadata"}},
		{0, []string{"export", "--json", model, filepath.Join(parent, "out"), "raw"}},
		{1, []string{"export", q8, filepath.Join(parent, "out"), "raw"}},
		{1, []string{"export", model, model, "raw"}},
		{1, []string{"export", model, dir, "none" + hostileName[:8]}},
		{2, []string{"export", model, dir, hostileName}},
		{1, []string{"mount", model, dir}},
		{1, []string{"mount", model, model}},
		{1, []string{"mount", model, filepath.Join(parent, "none", "m")}},
		{1, []string{"mount", "--no-mkdir", model, filepath.Join(parent, "none")}},
		{2, []string{"mount", "-o", hostileName, model, dir}},
		{2, []string{"mount", "-o", "env." + hostileName + "=1", model, dir}},
		{1, []string{"mount", "-o", "log=" + filepath.Join(parent, "none", "log"), model, dir}},
		{1, []string{"umount", parent}},
		{1, []string{"umount", filepath.Join(parent, "none", hostileName)}},
		{0, []string{"info", parent}},
		{1, []string{"info", parent + hostileName}},
		{1, []string{"info", "hf:" + hostileName}},
		{1, []string{"info", "ollama:" + hostileName}},
		{1, []string{"cat", model, hostileName}},
		{1, []string{"cat", parent, hostileName}},
		{2, []string{"ls", model, hostileName}},
		{2, []string{hostileName}},
		{2, []string{"ls", "--" + hostileName}},
		{2, []string{"info", "--i2s", hostileName, model}},
		{2, []string{"mount", "--cache-size", hostileName, model, dir}},
	} {
		code, stdout, stderr := command(s.args...)
		what := "tensorfs " + strconv.Quote(strings.Join(s.args, " "))
		if code != s.code {
			t.Errorf("%s: exit code %d, want %d: %s", what, code, s.code, stderr)
		}
		shown(t, what, stdout)
		shown(t, what, stderr)
		if strings.Contains(strings.Join(s.args, " "), "--json") {
			var v any
			if err := json.Unmarshal([]byte(stdout), &v); err != nil {
				t.Errorf("%s: %v", what, err)
			}
		}
	}
	// A name in JSON is the name.
	_, stdout, _ := command("ls", "--json", model, "source/*")
	var rows []lsRow
	if err := json.Unmarshal([]byte(stdout), &rows); err != nil || len(rows) != 1 || !strings.HasPrefix(rows[0].Path, "source/"+strings.TrimSuffix(hostileName, "\x9b")) {
		t.Errorf("ls --json: %+v, %v", rows, err)
	}
	// What ls prints is what cat takes.
	_, stdout, _ = command("ls", model, "source/*")
	path := strings.TrimSpace(stdout)
	if !strings.HasPrefix(path, `"source/x\u202e\u009b31m`) {
		t.Errorf("ls prints %q", path)
	}
	if code, stdout, stderr := command("cat", model, path); code != 0 || !bytes.Equal([]byte(stdout), b) {
		t.Errorf("cat of a path as ls prints it: exit code %d, %d bytes, %q", code, len(stdout), stderr)
	}
	if code, stdout, stderr := command("cat", model, "source/"+hostileName+".gguf"); code != 0 || !bytes.Equal([]byte(stdout), b) {
		t.Errorf("cat of the path itself: exit code %d, %d bytes, %q", code, len(stdout), stderr)
	}
	if code, _, stderr := command("umount", dir); code != 0 || stderr != "" {
		t.Errorf("umount: %d %q", code, stderr)
	}
}

func TestEscapeJSON(t *testing.T) {
	for s, want := range map[string]string{
		"a\"b\\ü":                     `"a\"b\\ü"`,
		"\u202e\u009b\x7f\U000e0041z": `"\u202e\u009b\u007f\udb40\udc41z"`,
		"模型\u00a0":                    `"模型\u00a0"`,
	} {
		b, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		got := cli.EscapeJSON(b)
		var back string
		if err := json.Unmarshal(got, &back); err != nil || string(got) != want || back != s {
			t.Errorf("%q: %s, want %s (%q, %v)", s, got, want, back, err)
		}
	}
}
