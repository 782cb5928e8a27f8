package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tensorfs/tensorfs/internal/cli"
	"github.com/tensorfs/tensorfs/internal/mounts"
	"github.com/tensorfs/tensorfs/internal/testing/testlimit"
	"golang.org/x/sys/unix"
)

// A stopped server cannot be asked: umount names the process and the remedy, and the remedy works.
func TestUmountOfHungServer(t *testing.T) {
	t.Parallel()
	dir := mounted(t, q8)
	pid := statusOf(t, dir).PID
	signal := func(sig syscall.Signal) {
		t.Helper()
		if err := syscall.Kill(pid, sig); err != nil {
			t.Error(err)
		}
	}
	signal(syscall.SIGSTOP)
	t.Cleanup(func() { syscall.Kill(pid, syscall.SIGCONT) })
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		if stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)); err != nil || strings.Contains(string(stat), ") T ") || time.Now().After(end) {
			break
		}
	}
	code, _, stderr := command("umount", dir)
	for _, want := range []string{fmt.Sprintf("its server (process %d) does not answer", pid), "tensorfs umount -l " + dir} {
		if code != cli.ExitFailed || !strings.Contains(stderr, want) || strings.Count(stderr, "\n") != 1 {
			t.Errorf("umount: %d %q, want %q", code, stderr, want)
		}
	}
	if m, err := mounts.At(dir); m == nil || err != nil {
		t.Errorf("the mount is gone: %v", err)
	}
	if code, _, stderr := command("umount", "-l", dir); code != 0 || stderr != "" {
		t.Errorf("umount -l: %d %q", code, stderr)
	}
	if m, err := mounts.At(dir); m != nil || err != nil {
		t.Errorf("it is still mounted: %+v, %v", m, err)
	}
	signal(syscall.SIGCONT)
	ended(t, pid)
}

// A server that copies of the mount keep is named, with the place of one. A namespace has copies of all mounts, so
// no other test runs beside it.
func TestUmountWithCopies(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("NOT TESTED: copying a mount takes root")
	}
	copies := map[string]func(t *testing.T, dir string) (end func(), rest, want string){
		"bind mount": func(t *testing.T, dir string) (func(), string, string) {
			at := t.TempDir()
			if err := unix.Mount(dir, at, "", unix.MS_BIND, ""); err != nil {
				t.Skipf("NOT TESTED: a bind mount: %v", err)
			}
			end := func() { unix.Unmount(at, unix.MNT_DETACH) }
			t.Cleanup(end)
			return end, at, "also mounted at " + at
		},
		"mount namespace": func(t *testing.T, dir string) (func(), string, string) {
			cmd := exec.Command("sh", "-c", "echo; read line")
			cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS} // Go makes its mounts private
			in, err := cmd.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Skipf("NOT TESTED: a mount namespace: %v", err)
			}
			end := func() { in.Close(); cmd.Wait() }
			t.Cleanup(end)
			if _, err := io.ReadFull(out, make([]byte, 1)); err != nil {
				t.Fatal(err)
			}
			return end, fmt.Sprintf("/proc/%d/root%s", cmd.Process.Pid, dir), fmt.Sprintf("also mounted at %s in the mount namespace of process %d", dir, cmd.Process.Pid)
		},
	}
	for name, copyTo := range copies {
		t.Run(name, func(t *testing.T) {
			needFUSE(t)
			dir := filepath.Join(t.TempDir(), "made") // by mount, which removes it again
			mountAt(t, dir, q8)
			t.Cleanup(func() { unix.Unmount(dir, unix.MNT_DETACH) })
			pid := statusOf(t, dir).PID
			end, rest, want := copyTo(t, dir)
			code, stdout, stderr := command("umount", dir)
			if code != 0 || stdout != "" || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, want) || !strings.Contains(stderr, fmt.Sprintf("its server (process %d) keeps running", pid)) {
				t.Errorf("umount: %d %q %q, want %q", code, stdout, stderr, want)
			}
			if m, err := mounts.At(dir); m != nil || err != nil {
				t.Errorf("it is still mounted: %+v, %v", m, err)
			}
			if text, err := os.ReadFile(filepath.Join(rest, "README")); err != nil || len(text) == 0 {
				t.Errorf("the copy cannot be read: %v", err)
			}
			end()
			ended(t, pid)
			testlimit.Wait(t, "the directory is removed", func() bool { _, err := os.Lstat(dir); return err != nil })
		})
	}
}

func TestUmountOfNothing(t *testing.T) {
	dir := t.TempDir()
	if err := os.Symlink("loop", filepath.Join(dir, "loop")); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{dir: "no tensorfs is mounted there", filepath.Join(dir, "none"): "none does not exist", filepath.Join(dir, "loop"): "too many levels", "/proc": "no tensorfs is mounted there"} {
		if code, _, stderr := command("umount", path); code != cli.ExitFailed || !strings.Contains(stderr, want) || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%s: %d %q, want %q", path, code, stderr, want)
		}
	}
}

// What an ordinary user sees of other users' mounts, and does to his own.
func TestOwnMounts(t *testing.T) {
	_, out := ordinaryUser(t, `
for m in a b c; do as mkdir "$dir/home/$m"; done; mkdir "$dir/roots"
as "$dir/tensorfs" mount --read-ahead 10 "$dir/model.gguf" "$dir/home/a"; echo $?
as "$dir/tensorfs" mount -v -r "$dir/model.gguf" "$dir/home/a"
as "$dir/tensorfs" mount --verbose --read-only "$dir/model.gguf" "$dir/home/b"
"$dir/tensorfs" mount "$dir/model.gguf" "$dir/roots"
as "$dir/tensorfs" status | grep "$dir/" | sed "s|$dir/||g" | awk '{print ($1 == "-" ? $1 : "pid"), $2, ($2 == "not" ? $3 : ""), $(NF-1)}' | sort
as "$dir/tensorfs" status --json | tr -d ' \n' | grep -o "[^{]*/roots[^}]*\"state\":\"[a-z]*" | grep -o '"pid":0.*' 
as "$dir/tensorfs" umount -a; echo $?
grep -c "$dir/home" /proc/mounts
as "$dir/tensorfs" umount -a x; echo $?
as "$dir/tensorfs" umount -a; echo $?
"$dir/tensorfs" umount "$dir/roots"; echo $?
`)
	want := `tensorfs: the kernel's read-ahead needs root: leave --read-ahead out
1
- not yours roots
pid ok  home/a
pid ok  home/b
"pid":0,"backend":"fuse","healthy":false,"state":"notyours
0
0
tensorfs: too many arguments; usage: tensorfs umount [-l] {MOUNTPOINT... | -a} [flags]
2
0
0
`
	if out != want {
		t.Errorf("%s\nwant\n%s", out, want)
	}
}
