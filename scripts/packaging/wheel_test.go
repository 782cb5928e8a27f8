package packaging

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestWheelBeat: a build that takes long is not silent, and one that fails is named without a stack trace.
func TestWheelBeat(t *testing.T) {
	needPython(t)
	dir := t.TempDir()
	write(t, filepath.Join(dir, "go"), "#!/bin/sh\nsleep 1\nexit 3\n")
	if err := os.Chmod(filepath.Join(dir, "go"), 0o755); err != nil {
		t.Fatal(err)
	}
	c := exec.Command("../wheel", "musllinux_x86_64")
	c.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"), "BEAT=0.1", "DIST="+dir)
	out, err := c.CombinedOutput()
	if text := string(out); err == nil || !strings.Contains(text, "      ... building the program for musllinux_x86_64, ") || !strings.HasSuffix(text, "scripts/wheel: building the program for musllinux_x86_64: it failed with status 3\n") || strings.Contains(text, "Traceback") {
		t.Errorf("%v\n%s", err, text)
	}
}
