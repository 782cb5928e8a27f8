package testremote

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/tensorfs/tensorfs/internal/testing/testlimit"
)

// Program returns the path of a server that scripts/setup installs for tests: in PATH, or
// below the user's cache. The test is skipped if it is missing.
func Program(t testing.TB, name string) string {
	t.Helper()
	if testing.Short() {
		t.Skipf("not in the short form: it needs %s", name)
	}
	if path, err := exec.LookPath(name); err == nil {
		return path
	}
	if dir, err := os.UserCacheDir(); err == nil {
		path := filepath.Join(dir, "tensorfs-tests", "bin", name)
		if _, err := os.Stat(path); err == nil {
			return path
		}
	}
	t.Skipf("NOT TESTED: %s is not installed; scripts/setup installs it", name)
	return ""
}

// Address returns an address of this machine that is free.
func Address(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// Serve starts a server, waits until it listens, and ends it with the test.
func Serve(t testing.TB, address string, cmd *exec.Cmd) {
	t.Helper()
	Start(t, address, cmd, func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
}

// Start is Serve for a server that ends in a way of its own.
func Start(t testing.TB, address string, cmd *exec.Cmd, end func()) {
	t.Helper()
	log, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		end()
		if b, err := os.ReadFile(log.Name()); err == nil && t.Failed() {
			t.Logf("%s: %s", cmd.Path, b[max(0, len(b)-4000):])
		}
	})
	testlimit.Wait(t, "that "+cmd.Path+" listens", func() bool {
		c, err := net.Dial("tcp", address)
		if err == nil {
			c.Close()
		}
		return err == nil
	})
}
