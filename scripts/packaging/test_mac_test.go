package packaging

import (
	"os/exec"
	"runtime"
	"strings"
	"testing"
)

// TestMacScript holds what of scripts/test-mac can be held elsewhere: it is a script
// of a plain shell, and it refuses a system that is not macOS in one line.
func TestMacScript(t *testing.T) {
	const script = "../test-mac"
	if out, err := exec.Command("sh", "-n", script).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	if runtime.GOOS == "darwin" {
		return // the script runs this test
	}
	c := exec.Command(script)
	var stdout, stderr strings.Builder
	c.Stdout, c.Stderr = &stdout, &stderr
	err := c.Run()
	if c.ProcessState == nil || c.ProcessState.ExitCode() != 1 || stdout.Len() > 0 {
		t.Errorf("%v, %q", err, stdout.String())
	}
	if said := stderr.String(); strings.Count(said, "\n") != 1 || !strings.Contains(said, "run it on a Mac") {
		t.Errorf("it says %q", said)
	}
}
