//go:build linux

package stores

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/tensorfs/tensorfs/internal/opendir"
	"golang.org/x/sys/unix"
)

// TestTextUmask holds that the files of an export get the mode that the umask leaves them.
func TestTextUmask(t *testing.T) {
	defer unix.Umask(unix.Umask(0o077))
	dir := t.TempDir()
	at, err := opendir.Make(dir, dirMode, true)
	if err != nil {
		t.Fatal(err)
	}
	defer at.Close()
	s, err := openStage(at, ".tensorfs-x", Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.close(nil)
	f, err := s.text("manifest", []byte("x"))
	if err != nil {
		t.Fatal(err)
	}
	st, err := os.Stat(filepath.Join(dir, ".tensorfs-x", f.base))
	if err != nil || st.Mode().Perm() != 0o600 {
		t.Error(st, err)
	}
}
