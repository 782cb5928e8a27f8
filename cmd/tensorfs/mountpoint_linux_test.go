package main

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs/internal/cli"
	"github.com/tensorfs/tensorfs/internal/mounts"
	"golang.org/x/sys/unix"
)

// Names that a program misreads if it splits the mount table at every blank of Unicode, or prints
// names unchanged.
func TestOddMountpoints(t *testing.T) {
	t.Parallel()
	needFUSE(t)
	parent := t.TempDir()
	for _, name := range []string{"no\u00a0break", "wide\u3000blank", "next\u0085line", "vertical\vtab", "carriage\rreturn", "line\u2028separator", "a b\tc\nd\\e#f", "x\u202e\u009b31m"} {
		dir := filepath.Join(parent, name)
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { mounts.Unmount(dir, true) })
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
	model, err := filepath.Abs(q8)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	t.Chdir(dir)
	t.Cleanup(func() { mounts.Unmount(dir, true) })
	for _, args := range [][]string{{"mount", model, ""}, {"mount", "", "m"}, {model, ""}, {"umount", ""}, {"umount", "-l", ""}, {"ls", ""}, {"info", ""}, {"cat", model, ""}} {
		code, _, stderr := command(args...)
		if code != cli.ExitUsage || !strings.Contains(stderr, "an argument is empty") || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%q: exit code %d, %q", args, code, stderr)
		}
	}
}

func TestMountpointIsNotTheRoot(t *testing.T) {
	needFUSE(t)
	t.Cleanup(func() { mounts.Unmount("/", true) })
	for _, dir := range []string{"/", "//", "/tmp/.."} {
		code, _, stderr := command("mount", q8, dir)
		if code != cli.ExitFailed || !strings.Contains(stderr, "choose another directory") || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%s: exit code %d, %q", dir, code, stderr)
		}
	}
}

// What a mount would hide is refused in a line, in every form of the command and by
// every backend, unless its user knows better.
func TestMountpointIsEmpty(t *testing.T) {
	needFUSE(t)
	ownStates(t)
	model, err := filepath.Abs(q8)
	must(t, err)
	full, home := t.TempDir(), t.TempDir()
	must(t, os.WriteFile(filepath.Join(full, "mine"), nil, 0o600))
	t.Setenv("HOME", home)
	t.Cleanup(func() { mounts.Unmount(full, true) })
	helper := func(args ...string) (int, string, string) {
		var out, err bytes.Buffer
		code := helperExit[execute(system(runtime.GOOS).mountHelper(), args, &out, &err)]
		return code, out.String(), err.String()
	}
	forms := map[string]func(dir string) (int, string, string){
		"mount":          func(dir string) (int, string, string) { return command("mount", model, dir) },
		"foreground":     func(dir string) (int, string, string) { return foregroundFails(t, "mount", "-f", model, dir) },
		"nonempty":       func(dir string) (int, string, string) { return command("mount", "-o", "nonempty", model, dir) },
		"root form":      func(dir string) (int, string, string) { return command(model, dir, "-o", "ro") },
		"mount.tensorfs": func(dir string) (int, string, string) { return helper(model, dir, "-o", "ro,nofail") },
	}
	if os.Geteuid() == 0 {
		mountsNFS(t)
		forms["nfs"] = func(dir string) (int, string, string) { return command("mount", "--backend", "nfs", model, dir) }
	}
	for name, mount := range forms {
		for dir, why := range map[string]string{full: "is not empty; a mount hides", home: "home directory", "/etc": "belongs to the system", "/not-there": "belongs to the system", "/": "could not be reached"} {
			if name == "nonempty" && dir == full {
				continue
			}
			want := cli.ExitFailed
			if name == "mount.tensorfs" {
				want = 32
			}
			code, stdout, stderr := mount(dir)
			if code != want || stdout != "" || !strings.Contains(stderr, dir+": ") || !strings.Contains(stderr, why[3:]) || strings.Count(stderr, "\n") != 1 {
				t.Errorf("%s, %s: exit code %d, %q, %q", name, dir, code, stdout, stderr)
			}
			if isMounted(t, dir) {
				t.Fatalf("%s: %s is mounted", name, dir)
			}
		}
	}
	if code, _, stderr := forms["nonempty"](full); code != 0 || stderr != "" {
		t.Errorf("-o nonempty: %d, %q", code, stderr)
	}
	if st := statusOf(t, full); st == nil || !st.Healthy {
		t.Errorf("status: %+v", st)
	}
}

// foregroundFails runs a server that is expected to fail, as a process of its own.
func foregroundFails(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	c := program(t, args...)
	var out, err bytes.Buffer
	c.Stdout, c.Stderr = &out, &err
	_ = c.Run() // its exit code tells
	return c.ProcessState.ExitCode(), out.String(), err.String()
}

// A directory of a mount that is shown elsewhere is as healthy as the mount.
func TestBoundDirectory(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("NOT TESTED: only root binds directories")
	}
	dir, at, file := mounted(t, q8), t.TempDir(), filepath.Join(t.TempDir(), "file")
	must(t, os.WriteFile(file, nil, 0o600))
	for from, to := range map[string]string{"f16": at, "README": file} {
		must(t, unix.Mount(filepath.Join(dir, from), to, "", unix.MS_BIND, ""))
		t.Cleanup(func() { _ = unix.Unmount(to, unix.MNT_DETACH) })
		whole, bound := statusOf(t, dir), statusOf(t, to)
		if bound == nil || !bound.Healthy || bound.PID != whole.PID || bound.Mounted == nil {
			t.Errorf("%s: status %+v", from, bound)
		}
	}
	if code, _, stderr := command("umount", dir); code != 0 || !strings.Contains(stderr, "also mounted at") {
		t.Errorf("umount: %d %q", code, stderr)
	}
	if st := statusOf(t, at); st == nil || !st.Healthy {
		t.Errorf("without the other mount: %+v", st)
	}
}

// A copy of the program may have the name of mount(8)'s helper, as a link has.
func TestCopyNamedHelper(t *testing.T) {
	dir := mountDir(t)
	self, err := os.Executable()
	must(t, err)
	b, err := os.ReadFile(self)
	must(t, err)
	c := program(t, q8, dir, "-o", "ro,nofail")
	c.Path = filepath.Join(t.TempDir(), "mount.tensorfs")
	c.Args[0] = c.Path
	must(t, os.WriteFile(c.Path, b, 0o755))
	if out, err := c.CombinedOutput(); err != nil || len(out) > 0 {
		t.Fatalf("%v: %s", err, out)
	}
	if st := statusOf(t, dir); st == nil || !st.Healthy {
		t.Errorf("status: %+v", st)
	}
}
