package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs/fs"
)

// Names that are taken for something else by one who splits the mount table at
// every blank that Unicode knows, or prints what they hold.
func TestOddMountpoints(t *testing.T) {
	needFUSE(t)
	parent := t.TempDir()
	for _, name := range []string{"no\u00a0break", "wide\u3000blank", "next\u0085line", "vertical\vtab", "carriage\rreturn", "line\u2028separator", "a b\tc\nd\\e#f", "x\u202e\u009b31m"} {
		dir := filepath.Join(parent, name)
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { fs.UnmountPath(dir, true) })
		mountAt(t, dir, q8)
		st := statusOf(t, dir)
		if st == nil || !st.Healthy {
			t.Errorf("%q: status: %+v", name, st)
			continue
		}
		if code, _, stderr := command("mount", q8, dir); code != 1 || !strings.Contains(stderr, "mounted there already") {
			t.Errorf("%q: mounted over itself: %d %q", name, code, stderr)
		}
		if code, _, stderr := command("umount", dir); code != 0 || stderr != "" {
			t.Errorf("%q: umount: %d %q", name, code, stderr)
		}
		if statusOf(t, dir) != nil {
			t.Errorf("%q is still mounted", name)
		}
	}
}

// An empty argument is a variable that is not set, not the current directory.
func TestEmptyArguments(t *testing.T) {
	t.Setenv(asProgram, "1")
	model, err := filepath.Abs(q8)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	t.Chdir(dir)
	t.Cleanup(func() { fs.UnmountPath(dir, true) })
	for _, args := range [][]string{{"mount", model, ""}, {"mount", "", "m"}, {model, ""}, {"umount", ""}, {"umount", "-l", ""}, {"ls", ""}, {"info", ""}, {"cat", model, ""}} {
		code, _, stderr := command(args...)
		if code != exitUsage || !strings.Contains(stderr, "an argument is empty") || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%q: exit code %d, %q", args, code, stderr)
		}
	}
}

func TestMountpointIsNotTheRoot(t *testing.T) {
	needFUSE(t)
	t.Cleanup(func() { fs.UnmountPath("/", true) })
	for _, dir := range []string{"/", "//", "/tmp/.."} {
		code, _, stderr := command("mount", q8, dir)
		if code != exitFailed || !strings.Contains(stderr, "choose another directory") || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%s: exit code %d, %q", dir, code, stderr)
		}
	}
}
