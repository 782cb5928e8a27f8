package main

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/gguf"
	"github.com/tensorfs/tensorfs/internal/mounts"
	"golang.org/x/sys/unix"
)

// largeGGUF writes a GGUF file of some megabytes.
func largeGGUF(t *testing.T) (path string, content []byte) {
	t.Helper()
	const n = 2 << 20
	data := make([]byte, 4*n)
	random := rand.New(rand.NewPCG(1, 2))
	for i := range data {
		data[i] = byte(random.Uint32())
	}
	d, err := gguf.Compose([]tensorfs.Meta{{Key: "general.architecture", Value: "llama"}},
		[]gguf.Stored{{Name: "token_embd.weight", DType: tensorfs.I32, Shape: []int64{n}, Data: tensorfs.Bytes(data)}})
	if err != nil {
		t.Fatal(err)
	}
	content = make([]byte, d.Size())
	if err := tensorfs.ReadFull(d, content, 0); err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(t.TempDir(), "m.gguf")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return path, content
}

// TestStoredFile holds that the kernel itself reads gguf/model.gguf of a stored file if it can: an
// open file can be read to the end although the server was killed. A file that has changed can no
// longer be opened.
func TestStoredFile(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("NOT TESTED: passing files through needs root")
	}
	model, want := largeGGUF(t)
	var at unix.Statfs_t
	if err := unix.Statfs(model, &at); err != nil || at.Type == unix.OVERLAYFS_SUPER_MAGIC {
		t.Skipf("NOT TESTED: files on overlayfs are not passed through (%v)", err)
	}
	dir := mountDir(t)
	c := foreground(t, model, dir)
	file := dir + "/gguf/model.gguf"
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	mapped, err := unix.Mmap(int(f.Fd()), 0, len(want), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(mapped)

	// One byte, and the time of the file changes with it.
	w, err := os.OpenFile(model, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	last := len(want) - 1
	want[last]++
	if _, err := w.WriteAt(want[last:], int64(last)); err != nil {
		t.Fatal(err)
	}
	if other, err := os.Open(file); !errors.Is(err, syscall.EIO) {
		other.Close()
		t.Errorf("a file that has changed was opened: %v", err)
	}

	if err := c.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = c.Wait()
	if got, err := io.ReadAll(f); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%d bytes after the server's end, %v", len(got), err)
	}
	if !bytes.Equal(mapped, want) {
		t.Error("the mapping has other bytes")
	}
	if err := mounts.Unmount(dir, true); err != nil {
		t.Error(err)
	}
}
