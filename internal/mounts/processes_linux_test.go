package mounts

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// TestServes: by the number of the connection where the kernel tells it, else by
// the command line.
func TestServes(t *testing.T) {
	dir := t.TempDir()
	write := func(path, text string) {
		path = filepath.Join(dir, path)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	write("fdinfo/7", "pos:\t0\nflags:\t02100002\nfuse_connection:\t39\nmore:\t1\n")
	write("fdinfo/8", "pos:\t0\nflags:\t02100002\n")
	write("cmdline", "tensorfs\x00mount\x00--\x00/m.gguf\x00/mnt/m\x00")
	for _, c := range []struct {
		fd, connection, mountpoint string
		want                       bool
	}{
		{"7", "39", "/elsewhere", true},
		{"7", "3", "/mnt/m", false},
		{"7", "390", "/mnt/m", false},
		{"8", "39", "/mnt/m", true},
		{"8", "39", "/m", false},
		{"8", "39", "/elsewhere", false},
		{"9", "39", "/mnt/m", false},
	} {
		if got := serves(dir, c.fd, c.connection, c.mountpoint); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}
