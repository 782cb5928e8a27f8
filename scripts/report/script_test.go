package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// fakeGo builds the report as Go does; one of its other commands fails, and one leaves
// a process behind.
const fakeGo = `#!/bin/sh
case "$1 $2 $GOOS/$GOARCH" in
  "build -o /" | env* | version*) exec "$REAL_GO" "$@" ;;
  vet*darwin/arm64) echo "it is wrong"; exit 1 ;;
  vet*linux/arm64) sleep 300 >/dev/null 2>&1 & ;;
esac
`

// TestScript: scripts/test goes on after a failure, sums up, and sees what is left behind.
func TestScript(t *testing.T) {
	for _, tool := range []string{"bash", "timeout"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("NOT TESTED: scripts/test: %v", err)
		}
	}
	if _, err := os.ReadFile("/proc/self/environ"); err != nil {
		t.Skipf("NOT TESTED: what scripts/test leaves behind: %v", err)
	}
	real, err := exec.LookPath("go")
	if err != nil {
		t.Skipf("NOT TESTED: scripts/test: %v", err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "go"), []byte(fakeGo), 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("../test", "platforms")
	cmd.Env = append(slices.DeleteFunc(os.Environ(), func(kv string) bool {
		return strings.HasPrefix(kv, "TENSORFS_TEST_") || strings.HasPrefix(kv, "GOOS=") || strings.HasPrefix(kv, "GOARCH=")
	}), "REAL_GO="+real, "PATH="+dir+":"+os.Getenv("PATH"))
	b, err := cmd.CombinedOutput()
	out := string(b)
	if m := regexp.MustCompile(`process (\d+): sleep 300`).FindStringSubmatch(out); m != nil {
		pid, _ := strconv.Atoi(m[1])
		syscall.Kill(pid, syscall.SIGKILL)
	}
	if cmd.ProcessState.ExitCode() != 1 {
		t.Errorf("it ends with %v", err)
	}
	inOrder(t, out, []string{"go vet for linux/arm64\n", "go vet for darwin/arm64\nit is wrong\n", "go build for darwin/amd64\n",
		"== what is left behind\nprocess ", ": sleep 300 \n", "failed, with the command that repeats it:\n",
		"  go vet for darwin/arm64\n      ./scripts/test platforms\n", "  what is left behind\n", "\n4 passed, 2 failed, 0 skipped\n"})
}
