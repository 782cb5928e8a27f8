package fs

import (
	"bytes"
	"errors"
	iofs "io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tensorfs/tensorfs/internal/mounts"
	"github.com/tensorfs/tensorfs/internal/testing/testlimit"
	"golang.org/x/sys/unix"
)

// serveMade serves at a directory that is not there.
func serveMade(t *testing.T) *server {
	t.Helper()
	needFUSE(t)
	return serveAt(t, filepath.Join(tempDir(t), "made"), "model", newModel(t, 5<<20), "mkdir=")
}

func isThere(path string) bool {
	_, err := os.Lstat(path)
	return !errors.Is(err, iofs.ErrNotExist)
}

// TestMakeMountpoint: a missing directory is made, and is gone when the mount is,
// however that was ended.
func TestMakeMountpoint(t *testing.T) {
	for name, end := range map[string]func(t *testing.T, s *server) error{
		"server":  func(t *testing.T, s *server) error { s.ask("unmount"); return nil },
		"signal":  func(t *testing.T, s *server) error { return s.cmd.Process.Signal(syscall.SIGTERM) },
		"outside": func(t *testing.T, s *server) error { return mounts.Unmount(s.mountpoint, false) },
		"umount": func(t *testing.T, s *server) error {
			args := []string{"fusermount3", "-u", s.mountpoint}
			if os.Geteuid() == 0 {
				args = []string{"umount", s.mountpoint}
			}
			// Who lists all mounts, such as another test, is in each for a moment.
			for tries := 0; ; tries++ {
				out, err := exec.Command(args[0], args[1:]...).CombinedOutput()
				if tries == 10 || !bytes.Contains(bytes.ToLower(out), []byte("busy")) {
					return err
				}
				time.Sleep(50 * time.Millisecond)
			}
		},
		"lazily": func(t *testing.T, s *server) error {
			h := s.hold("f16/d.odd", "open")
			if err := mounts.Unmount(s.mountpoint, true); err != nil {
				return err
			}
			if hasMarks(t) && isThere(s.mountpoint) {
				t.Error("the directory waits for the users of a detached mount")
			}
			h.end()
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := serveMade(t)
			s.run("readall", s.mountpoint, s.sizeArg())
			if err := end(t, s); err != nil {
				t.Fatal(err)
			}
			s.ended(t)
			if isThere(s.mountpoint) {
				t.Error("the directory is left")
			}
		})
	}
	t.Run("existing", func(t *testing.T) {
		s := serve(t, "small", "small", "mkdir=")
		if got := s.ask("unmount"); got != "ok" {
			t.Fatal(got)
		}
		s.ended(t)
		if !isThere(s.mountpoint) {
			t.Error("a directory that was there is removed")
		}
	})
}

// hasMarks reports whether directories here can be marked.
func hasMarks(t *testing.T) bool {
	dir := t.TempDir()
	return unix.Setxattr(dir, "user.tensorfs.made", []byte("x"), 0) == nil
}

// TestMakeMountpointKilled: the directory of a server that was killed is removed with
// the dead mount, or when the next server there ends.
func TestMakeMountpointKilled(t *testing.T) {
	if !hasMarks(t) {
		t.Skip("NOT TESTED: no user attributes here")
	}
	for name, clean := range map[string]func(path string) error{
		"CleanStale":  func(path string) error { _, err := mounts.CleanStale(path); return err },
		"UnmountPath": func(path string) error { return mounts.Unmount(path, false) },
	} {
		t.Run(name, func(t *testing.T) {
			s := serveMade(t)
			s.kill()
			if err := clean(s.mountpoint); err != nil || isThere(s.mountpoint) {
				t.Errorf("%v, and the directory is left: %v", err, isThere(s.mountpoint))
			}
		})
	}
	for _, unmounted := range []bool{false, true} {
		s := serveMade(t)
		s.kill()
		if unmounted {
			if err := (&mounts.Mount{Mountpoint: s.mountpoint}).Unmount(true); err != nil {
				t.Fatal(err)
			}
		}
		next := serveAt(t, s.mountpoint, "small", "small")
		if got := next.ask("unmount"); got != "ok" {
			t.Fatal(got)
		}
		next.ended(t)
		if isThere(s.mountpoint) {
			t.Errorf("unmounted by somebody %v: the next server leaves the directory", unmounted)
		}
	}
}

// TestMakeMountpointAtOnce: of several servers that mount concurrently at one missing directory,
// one succeeds, and nothing is left when it ends.
func TestMakeMountpointAtOnce(t *testing.T) {
	needFUSE(t)
	for range 5 {
		path := filepath.Join(tempDir(t), "made")
		t.Cleanup(func() {
			for mounts.Unmount(path, true) == nil {
			}
		})
		ended := make(chan string)
		for range 4 {
			cmd := exec.Command(os.Args[0], path, "small", "small", "mkdir=")
			cmd.Env = childEnv("server")
			in, err := cmd.StdinPipe() // it serves until this is closed
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { in.Close() })
			go func() {
				out, _ := cmd.CombinedOutput() // three of four fail
				ended <- string(out)
			}()
		}
		for range 3 {
			if out := testlimit.Receive(t, "end of a server that came too late", ended); !strings.Contains(out, "small is mounted there already") {
				t.Errorf("a server that came too late says %q", out)
			}
		}
		if err := mounts.Unmount(path, false); err != nil {
			t.Error(err)
		}
		if out := testlimit.Receive(t, "end of the server", ended); !strings.HasPrefix(out, "ready") {
			t.Errorf("the first server says %q", out)
		}
		if isThere(path) {
			t.Errorf("the directory is left, mounted: %v", mounts.Unmount(path, true) == nil)
		}
	}
}

// TestMakeMountpointRefuses: only the last directory is made, and none for a mount
// that fails.
func TestMakeMountpointRefuses(t *testing.T) {
	dir := tempDir(t)
	closed, link, file := filepath.Join(dir, "closed"), filepath.Join(dir, "link"), filepath.Join(dir, "file")
	if err := errors.Join(os.Mkdir(closed, 0o555), os.Symlink("nowhere", link), os.WriteFile(file, nil, 0o644)); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		at, fsName, want string
		make, user       bool // user: not for root
	}{
		{at: "a/b/c", make: true, want: "a/b does not exist; mkdir -p " + dir + "/a/b makes it"},
		{at: "a", want: "a does not exist; mkdir -p " + dir + "/a makes it"},
		{at: "link", make: true, want: "nowhere does not exist; mkdir -p"},
		{at: "file", make: true, want: "not a directory"},
		{at: "file/a", make: true, want: "file/a: not a directory"},
		{at: "closed/a", make: true, user: true, want: "closed/a cannot be made: you may not write in " + closed},
		{at: "a", make: true, fsName: strings.Repeat("x", 70000), want: "a: "},
	} {
		if c.user && os.Geteuid() == 0 {
			continue
		}
		if c.fsName != "" {
			needFUSE(t)
		}
		s, err := Mount(nested(), filepath.Join(dir, c.at), Options{MakeMountpoint: c.make, FsName: c.fsName})
		if err == nil {
			s.UnmountLazy()
			t.Fatalf("%+v: mounted", c)
		}
		if !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want %q", c.at, err, c.want)
		}
		if isThere(filepath.Join(dir, "a")) || isThere(filepath.Join(dir, "nowhere")) {
			t.Fatalf("%s: a directory is left", c.at)
		}
	}
	if os.Geteuid() == 0 {
		return
	}
	if err := os.Chmod(closed, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := Mount(nested(), filepath.Join(closed, "a"), Options{MakeMountpoint: true}); err == nil || !strings.Contains(err.Error(), "cannot enter "+closed) {
		t.Error(err)
	}
}

// TestOwner: files look as uid=, gid= and umask= say.
func TestOwner(t *testing.T) {
	s := serve(t, "small", "small", "extra=uid=1234,gid=4321,umask=027")
	out := s.run("owner", s.path("b"), s.path("b/f"), s.path("g"))
	if want := "40550 1234 4321\n100440 1234 4321\n120777 1234 4321"; out != want {
		t.Errorf("%s\nwant\n%s", out, want)
	}
}
