package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs/internal/cli"
)

// TestColours holds that a terminal gets colours for what is sound, changed and broken, unless NO_COLOR is set, and that
// files, pipes and --json never do.
func TestColours(t *testing.T) {
	dir := t.TempDir()
	b, err := os.ReadFile(q8)
	must(t, err)
	half := filepath.Join(dir, "half.gguf")
	must(t, os.WriteFile(half, append(slices.Clone(b[:len(b)/2]), make([]byte, len(b)-len(b)/2)...), 0o666))
	const green, yellow, red = "\x1b[32m", "\x1b[33m", "\x1b[31m"
	t.Setenv("TERM", "xterm")
	t.Setenv("NO_COLOR", "")
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"verify", q8}, green + "0 findings"},
		{[]string{"verify", half}, red + "layers."},
		{[]string{"verify", half, q8, "nothere.gguf"}, ": " + green + "ok\x1b[0m, 20 tensors"},
		{[]string{"verify", half, q8, "nothere.gguf"}, yellow + "not verified\x1b[0m: "},
		{[]string{"diff", q8, half}, yellow + "different ("},
		{[]string{"diff", q8, q8}, green + "20 tensors: 20 equal"},
	} {
		if _, shown, _ := onTerminal(t, 120, c.args...); !strings.Contains(shown, c.want) {
			t.Errorf("%s: a terminal gets no %q:\n%q", c.args, c.want, shown)
		}
		if _, out, stderr := command(c.args...); strings.Contains(out+stderr, "\x1b[") {
			t.Errorf("%s: a file gets colours:\n%q", c.args, out+stderr)
		}
		if _, shown, _ := onTerminal(t, 120, append(c.args, "--json")...); strings.Contains(shown, "\x1b[3") {
			t.Errorf("%s --json: it has colours:\n%q", c.args, shown)
		}
	}
	for name, value := range map[string]string{"NO_COLOR": "1", "TERM": "dumb"} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(name, value)
			if _, shown, _ := onTerminal(t, 120, "verify", half); strings.Contains(shown, "\x1b[3") {
				t.Errorf("%q", shown)
			}
		})
	}
}

// TestErrorsFold holds that an error is folded at words on a terminal, and is one line elsewhere.
func TestErrorsFold(t *testing.T) {
	args := []string{"info", "--offline", "ollama://gemma3"}
	t.Setenv("OLLAMA_MODELS", t.TempDir())
	_, _, line := command(args...)
	for _, columns := range []uint16{40, 80, 120} {
		shown := withTerminal(t, columns, func(tty *os.File) { run(args, new(bytes.Buffer), tty) })
		lines := strings.Split(strings.TrimSuffix(shown, "\n"), "\n")
		for i, l := range lines {
			if strings.Contains(strings.TrimLeft(l, " "), " ") && cli.Cells(l) >= int(columns) || i > 0 && !strings.HasPrefix(l, "  ") {
				t.Errorf("%d columns: %q", columns, l)
			}
		}
		if len(lines) < 2 || strings.Join(strings.Split(shown, "\n  "), " ") != line {
			t.Errorf("%d columns:\n%swant the words of\n%s", columns, shown, line)
		}
	}
	if strings.Count(line, "\n") != 1 {
		t.Errorf("a file gets %q", line)
	}
}
