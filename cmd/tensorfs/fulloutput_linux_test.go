package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestFullOutput: output that cannot be written is a line and a failure, whatever the command prints.
func TestFullOutput(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skipf("NOT TESTED: %v", err)
	}
	defer full.Close()
	dir := mounted(t, q8)
	for _, line := range []string{
		"", "--help", "help remote", "help mount", "mount --help", "version", "--version", "status", "status --json", "info --architectures", "completion bash",
		"info " + q8, "info --json " + q8, "ls " + q8, "ls -l " + q8, "cat " + q8 + " config.json", "cat " + q8 + " raw/output_norm.weight", "verify " + q8, "verify --json " + q8,
		"stat " + q8, "stat --json " + q8, "diff " + q8 + " " + dir, "list " + filepath.Dir(q8), "list --json " + filepath.Dir(q8), "cache list --cache " + t.TempDir(),
	} {
		var stderr bytes.Buffer
		code := run(strings.Fields(line), full, &stderr)
		if text := stderr.String(); code == 0 || strings.Count(text, "\n") != 1 || !strings.HasPrefix(text, "tensorfs: ") || !strings.Contains(text, "standard output: no space left on device") {
			t.Errorf("%q: exit code %d, %q", line, code, text)
		}
	}
}
