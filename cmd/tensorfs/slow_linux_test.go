package main

import (
	"bytes"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/testing/testmodel"
	"github.com/tensorfs/tensorfs/internal/testing/testslow"
	"golang.org/x/sys/unix"
)

// TestSlowDisk holds that who reads a model of a slow disk through a mount, or by a command, has many requests under way
// at once, also of files that the kernel would read past the server.
func TestSlowDisk(t *testing.T) {
	data := make([]byte, 24<<20)
	rand.NewChaCha8([32]byte{9}).Read(data)
	g := testmodel.GGUF{Meta: []tensorfs.Meta{llama}, Tensors: []testmodel.GGUFTensor{{Name: "output.weight", Shape: []int64{int64(len(data)) / 512, 256}, Type: 30, Data: data}}}
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "m.gguf"), g.Bytes(), 0o600))
	wants := map[string][]byte{"gguf/model.gguf": g.Bytes(), "raw/output.weight": data}
	slow := func(t *testing.T) (model string, disk *testslow.Mounted) {
		mnt := t.TempDir()
		disk, err := testslow.Disk{Latency: 40 * time.Millisecond, Rate: 1e9, AtOnce: 64}.Mount(dir, mnt)
		if err != nil {
			t.Skipf("NOT TESTED: there is no slow disk: %v", err)
		}
		t.Cleanup(func() { must(t, disk.Unmount()) })
		return filepath.Join(mnt, "m.gguf"), disk
	}
	check := func(t *testing.T, got, want []byte, disk *testslow.Mounted) {
		if !bytes.Equal(got, want) {
			t.Errorf("%d bytes, not the file's %d", len(got), len(want))
		}
		if most := disk.Most(); most < 8 {
			t.Errorf("at most %d requests were under way at once, want 8 or more", most)
		}
	}
	for _, flags := range [][]string{nil, {"--no-passthrough"}} {
		for path, want := range wants {
			for how, read := range map[string]func(path string) ([]byte, error){"read": os.ReadFile, "mapped": bytesMapped} {
				t.Run(strings.Join(append(flags, path, how), " "), func(t *testing.T) {
					model, disk := slow(t)
					got, err := read(filepath.Join(mounted(t, model, flags...), path))
					must(t, err)
					check(t, got, want, disk)
				})
			}
		}
	}
	t.Run("cat", func(t *testing.T) {
		model, disk := slow(t)
		c := program(t, "cat", model, "raw/output.weight")
		var got bytes.Buffer
		c.Stdout = &got
		must(t, c.Run())
		check(t, got.Bytes(), data, disk)
		if in, all := residentPages(t, model); in > all/2 {
			t.Errorf("%d of %d pages of the model are in the page cache: it was not read past it", in, all)
		}
	})
}

// bytesMapped reads a file through a mapping, from its beginning to its end.
func bytesMapped(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	mem, err := unix.Mmap(int(f.Fd()), 0, int(st.Size()), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil, err
	}
	defer unix.Munmap(mem)
	return io.ReadAll(bytes.NewReader(mem))
}
