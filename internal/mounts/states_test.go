package mounts

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/tensorfs/tensorfs/internal/nfsstate"
	"github.com/tensorfs/tensorfs/internal/testing/testnfs"
)

const someToken = "00112233445566778899aabbccddeeff"

// What was left behind is removed once its mount is gone, and nothing else is touched.
func TestCleanStates(t *testing.T) {
	dir := testnfs.StateDir(t)
	left := nfsstate.State{PID: 1, Port: testnfs.DeadPort(t), Token: someToken, Key: make([]byte, nfsstate.KeyBytes)}
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
