package main

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"unsafe"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/testing/testmodel"
	"github.com/tensorfs/tensorfs/internal/testing/testmount"
	"golang.org/x/sys/unix"
)

// residentPages returns how many pages of a file are in the page cache, and of how many.
func residentPages(t *testing.T, path string) (in, all int) {
	t.Helper()
	f, err := os.Open(path)
	must(t, err)
	defer f.Close()
	mem, err := unix.Mmap(int(f.Fd()), 0, int(statOf(t, path).Size()), unix.PROT_READ, unix.MAP_SHARED)
	must(t, err)
	defer unix.Munmap(mem)
	vec := make([]byte, (len(mem)+os.Getpagesize()-1)/os.Getpagesize())
	if _, _, errno := syscall.Syscall(syscall.SYS_MINCORE, uintptr(unsafe.Pointer(unsafe.SliceData(mem))), uintptr(len(mem)), uintptr(unsafe.Pointer(unsafe.SliceData(vec)))); errno != 0 {
		t.Fatal(errno)
	}
	for _, b := range vec {
		in += int(b & 1)
	}
	return in, len(vec)
}

// TestColdStreams reads files of a model that is not in the page cache from the beginning
// to the end, while nothing, or one of the faults, happens to it: every byte is right or
// is an error, in stored and in converted files.
func TestColdStreams(t *testing.T) {
	data := make([]byte, 24<<20+512)
	rand.NewChaCha8([32]byte{7}).Read(data)
	for i := 1; i < len(data); i += 2 {
		data[i] &= 0xbf // no infinity, so that halves can be compared
	}
	g := testmodel.GGUF{Meta: []tensorfs.Meta{llama}}
	g.Tensors = append(g.Tensors, testmodel.GGUFTensor{Name: "output.weight", Shape: []int64{int64(len(data)) / 512, 256}, Type: 30, Data: data})
	original := filepath.Join(t.TempDir(), "m.gguf")
	must(t, os.WriteFile(original, g.Bytes(), 0o600))
	wanted := slices.DeleteFunc(slices.Clone(faults), func(f fault) bool {
		return !slices.Contains([]string{"truncated", "truncated and grown again", "overwritten in place", "a hole punched", "replaced by renaming", "removed"}, f.name)
	})
	for _, f := range append(wanted, fault{"nothing", func(*testing.T, string) {}, same}) {
		t.Run(f.name, func(t *testing.T) {
			// Not the machine's own disk, whose read-ahead may be large.
			m := newFaultModelIn(t, testmount.NewDisk(t, 128<<20).Dir, original)
			forget(t, m.file)
			if in, _ := residentPages(t, m.file); in > 0 {
				t.Skip("NOT TESTED: the page cache of this file system cannot be emptied")
			}
			files := slices.DeleteFunc(slices.Clone(m.files), func(x *exercised) bool {
				view := filepath.Base(filepath.Dir(x.path))
				return view != "raw" && view != "f16"
			})
			var open []*os.File
			for _, x := range files {
				r, err := os.Open(x.path)
				must(t, err)
				defer r.Close()
				open = append(open, r)
			}
			// A part of the way, the fault, and the rest.
			b := make([]byte, 1<<20)
			read := func(i int, from, to int64) (failed int) {
				for off := from; off < to; off += int64(len(b)) {
					n, err := open[i].ReadAt(b, off)
					if !bytes.Equal(b[:n], files[i].want[off:off+int64(n)]) {
						t.Fatalf("%s: wrong bytes at %d", files[i].path, off)
					}
					switch {
					case errors.Is(err, syscall.EIO):
						failed++
					case err != nil && err != io.EOF:
						t.Fatalf("%s: at %d: %v", files[i].path, off, err)
					}
				}
				return failed
			}
			for i := range files {
				if failed := read(i, 0, 6<<20); failed > 0 {
					t.Errorf("%s: %d reads fail before the fault", files[i].path, failed)
				}
			}
			f.do(t, m.file)
			for i, x := range files {
				if failed := read(i, 6<<20, int64(len(x.want))); (failed > 0) != (f.want == fails) {
					t.Errorf("%s: %d reads fail, want %s", x.path, failed, f.want)
				}
			}
			if len(files) < 2 {
				t.Errorf("only %d files were read", len(files))
			}
			if f.name != "nothing" {
				return
			}
			if in, all := residentPages(t, m.file); in > all/2 {
				t.Errorf("%d of %d pages of the model are in the page cache: it was not read past it", in, all)
			}
		})
	}
}
