package mounts

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/tensorfs/tensorfs/internal/nfsstate"
	"golang.org/x/sys/unix"
)

const someToken = "00112233445566778899aabbccddeeff"

// ownPlace gives states a place of their own, short enough for a socket.
func ownPlace(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "tfs")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	t.Setenv("XDG_RUNTIME_DIR", dir)
	return filepath.Join(dir, "tensorfs")
}

// deadPort returns a port that is taken until the test ends, and at which nobody listens.
func deadPort(t *testing.T) int {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	at, err := unix.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	return at.(*unix.SockaddrInet4).Port
}

// What was left behind is removed once its mount is gone, and nothing else is touched.
func TestCleanStates(t *testing.T) {
	dir := ownPlace(t)
	left := nfsstate.State{PID: 1, Port: deadPort(t), Token: someToken, Key: make([]byte, nfsstate.KeyBytes)}
	socket, err := left.Listen()
	if err != nil {
		t.Fatal(err)
	}
	socket.Close()
	if err := left.Write(); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"0.json", "1.json", "x.json", "99999.json"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("{}"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := CleanStates(); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 4 {
		t.Errorf("%v, %v", entries, err)
	}
}
