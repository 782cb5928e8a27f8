package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tensorfs/tensorfs"

	"github.com/tensorfs/tensorfs/internal/testing/testwatch"
	"golang.org/x/sys/unix"
)

// answer is what a reader gets from a file of the tree after a fault.
type answer string

const (
	same  answer = "the same bytes"
	fails answer = "EIO, by mmap SIGBUS"
)

// fault is something that happens to a file of the model while it is mounted.
type fault struct {
	name string
	do   func(t *testing.T, path string)
	want answer // from what needs that file and was not read before
}

// faults are the rows of the first table of docs/guarantees.md.
var faults = []fault{
	{"truncated", func(t *testing.T, p string) { must(t, os.Truncate(p, 5000)) }, fails},
	{"extended", func(t *testing.T, p string) { appendTo(t, p) }, fails},
	{"truncated and grown again", func(t *testing.T, p string) {
		st := statOf(t, p)
		must(t, os.Truncate(p, 5000))
		must(t, os.Truncate(p, st.Size()))
	}, fails},
	{"overwritten in place", func(t *testing.T, p string) { overwrite(t, p) }, fails},
	{"overwritten through a mapping", overwriteMapped, fails},
	{"overwritten, and the times put back", func(t *testing.T, p string) {
		st := statOf(t, p)
		overwrite(t, p)
		must(t, os.Chtimes(p, st.ModTime(), st.ModTime()))
	}, fails},
	{"truncated and grown again, mtime put back", func(t *testing.T, p string) {
		st := statOf(t, p)
		must(t, os.Truncate(p, 5000))
		must(t, os.Truncate(p, st.Size()))
		must(t, os.Chtimes(p, st.ModTime(), st.ModTime()))
	}, fails},
	{"a hole punched", func(t *testing.T, p string) {
		f, err := os.OpenFile(p, os.O_RDWR, 0)
		must(t, err)
		defer f.Close()
		must(t, unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, 8192, 1<<16))
	}, fails},
	{"touched", func(t *testing.T, p string) { must(t, os.Chtimes(p, time.Time{}, time.Now())) }, fails},
	{"replaced by renaming", func(t *testing.T, p string) {
		must(t, os.WriteFile(p+".new", []byte("something else"), 0o600))
		must(t, os.Rename(p+".new", p))
	}, same},
	{"renamed", func(t *testing.T, p string) { must(t, os.Rename(p, p+".old")) }, same},
	{"linked", func(t *testing.T, p string) { must(t, os.Link(p, p+".link")) }, same},
	{"removed", func(t *testing.T, p string) { must(t, os.Remove(p)) }, same},
	{"given to its owner again", func(t *testing.T, p string) { must(t, os.Chown(p, os.Getuid(), os.Getgid())) }, same},
	{"linked, and the link removed", func(t *testing.T, p string) {
		must(t, os.Link(p, p+".link"))
		must(t, os.Remove(p+".link"))
	}, same},
	{"atime put back", func(t *testing.T, p string) { must(t, os.Chtimes(p, time.Unix(1, 0), statOf(t, p).ModTime())) }, same},
	{"made unreadable", func(t *testing.T, p string) { must(t, os.Chmod(p, 0)) }, same},
}

func statOf(t *testing.T, path string) os.FileInfo {
	t.Helper()
	st, err := os.Stat(path)
	must(t, err)
	return st
}

func appendTo(t *testing.T, path string) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	must(t, err)
	_, err = f.Write([]byte("more"))
	must(t, errors.Join(err, f.Close()))
}

func overwrite(t *testing.T, path string) {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	must(t, err)
	_, err = f.WriteAt(bytes.Repeat([]byte{0xee}, int(statOf(t, path).Size())-8192), 8192)
	must(t, errors.Join(err, f.Close()))
}

func overwriteMapped(t *testing.T, path string) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	must(t, err)
	defer f.Close()
	mem, err := unix.Mmap(int(f.Fd()), 0, int(statOf(t, path).Size()), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	must(t, err)
	for i := 8192; i < len(mem); i += 100 {
		mem[i] ^= 0xff
	}
	must(t, unix.Munmap(mem))
}

// faultModel is a copy of a model that the test may damage, mounted.
type faultModel struct {
	file  string // that the fault happens to
	mount string
	files []*exercised // of the views, with what they held
}

func newFaultModel(t *testing.T, original string, flags ...string) *faultModel {
	t.Helper()
	return newFaultModelIn(t, t.TempDir(), original, flags...)
}

// newFaultModelIn is newFaultModel with the copy in a directory.
func newFaultModelIn(t *testing.T, dir, original string, flags ...string) *faultModel {
	t.Helper()
	b, err := os.ReadFile(original)
	must(t, err)
	m := &faultModel{file: filepath.Join(dir, "m.gguf")}
	must(t, os.WriteFile(m.file, b, 0o600))
	m.mount = mounted(t, m.file, flags...)
	tree, err := (&modelFlags{}).open(original)
	must(t, err)
	defer tree.Model.Close()
	m.files, err = exercisedFiles(tree.Root, m.mount, func(path string) bool {
		view, _, nested := strings.Cut(path, "/")
		return nested && view != "metadata" && !namesModel(path) && filepath.Base(path) != "tensorfs.json"
	})
	must(t, err)
	return m
}

// look reads a part of x by one of the readers, for which a lost page of a mapping may be a fault.
func look(x *exercised, how int, rng *rand.Rand) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil {
			if _, ok := r.(interface{ Addr() uintptr }); !ok {
				panic(r)
			}
			err = errFault
		}
	}()
	if x.f, err = os.Open(x.path); err != nil {
		return err
	}
	defer func() { x.f.Close() }()
	n := int64(70_000)
	off := rng.Int64N(int64(len(x.want)) - n)
	got, err := readers[how].read(x, off, n, rng)
	if err != nil {
		return err
	}
	if len(got) == 0 || !bytes.Equal(got, x.want[off:off+int64(len(got))]) {
		return fmt.Errorf("%d bytes, not those of before", len(got))
	}
	return nil
}

// asWanted reports whether a reader's error is the promised answer.
func asWanted(want answer, err error) bool {
	if want == same {
		return err == nil
	}
	return errors.Is(err, syscall.EIO) || errors.Is(err, errFault)
}

// ways are the readers of the exerciser that give bytes.
func ways() (list []int) {
	for i, r := range readers {
		switch r.name {
		case "pread", "readv", "lseek and read", "mmap", "sendfile", "O_DIRECT":
			list = append(list, i)
		}
	}
	return list
}

// TestFaults does each fault to a mounted GGUF file and reads every file of
// every view in every way. Nothing was read before.
func TestFaults(t *testing.T) {
	t.Parallel()
	testwatch.Need(t)
	original := largeModel(t)
	for _, f := range faults {
		t.Run(f.name, func(t *testing.T) {
			m := newFaultModel(t, original)
			f.do(t, m.file)
			rng := rand.New(rand.NewPCG(1, 2))
			views := map[string]int{}
			for i, x := range m.files {
				how := ways()[i%len(ways())]
				if err := look(x, how, rng); !asWanted(f.want, err) {
					t.Errorf("%s by %s: %v; want %s", x.path, readers[how].name, err, f.want)
				}
				views[filepath.Base(filepath.Dir(x.path))]++
			}
			if len(views) < 6 {
				t.Errorf("only the views %v were read", views)
			}
			for _, path := range []string{"README", "config.json", "index.json", "views/f16.json", "metadata.json", "metadata/general.architecture"} {
				if _, err := os.ReadFile(filepath.Join(m.mount, path)); err != nil {
					t.Errorf("texts stay: %v", err)
				}
			}
			if entries, err := os.ReadDir(filepath.Join(m.mount, "f16")); err != nil || len(entries) == 0 {
				t.Errorf("listings stay: %d, %v", len(entries), err)
			}
		})
	}
}

// TestFaultsCached reads files, lets their source change, and reads them again:
// none can be opened any more, and a reader that has one open gets the old bytes as far as
// the kernel keeps them, and none that are new.
func TestFaultsCached(t *testing.T) {
	original := largeModel(t)
	m := newFaultModel(t, original, "--no-passthrough")
	held := map[*exercised]*os.File{}
	for _, x := range m.files {
		f, err := os.Open(x.path)
		must(t, err)
		defer f.Close()
		b, err := io.ReadAll(f)
		if err != nil || !bytes.Equal(b, x.want) {
			t.Fatalf("%s: %v", x.path, err)
		}
		held[x] = f
	}
	overwrite(t, m.file)
	direct := 0
	for x, f := range held {
		if _, err := os.Open(x.path); !errors.Is(err, syscall.EIO) {
			t.Errorf("%s is opened again: %v, want EIO", x.path, err)
		}
		// The kernel may have given cached pages back by now.
		b := make([]byte, len(x.want))
		if n, err := f.ReadAt(b, 0); !bytes.Equal(b[:n], x.want[:n]) || err != nil && !errors.Is(err, syscall.EIO) {
			t.Errorf("%s, which was open: %d bytes, %v", x.path, n, err)
		}
		// Past the cache.
		if _, err := unix.FcntlInt(f.Fd(), unix.F_SETFL, unix.O_DIRECT); err != nil {
			t.Fatal(err)
		}
		block, err := unix.Mmap(-1, 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
		must(t, err)
		if n, err := f.ReadAt(block, 8192); !errors.Is(err, syscall.EIO) { // npy begins with a page that needs no file
			t.Errorf("%s past the cache: %d bytes, %v, want EIO", x.path, n, err)
		} else {
			direct++
		}
		must(t, unix.Munmap(block))
	}
	if direct == 0 {
		t.Error("nothing was read")
	}
}

// TestFaultsImaged holds that a file of an image cannot be opened any more once its source has
// changed, and that readers who have it open get the old bytes, where the kernel still has them, or EIO.
func TestFaultsImaged(t *testing.T) {
	m := newFaultModel(t, largeModel(t))
	x := m.files[0]
	for _, y := range m.files {
		if len(y.want) > len(x.want) && filepath.Base(filepath.Dir(y.path)) != "gguf" { // not a copy
			x = y
		}
	}
	held, err := os.Open(x.path)
	must(t, err)
	defer held.Close()
	if os.Getuid() == 0 && statusOf(t, m.mount).Images == 0 {
		t.Skip("NOT TESTED: this kernel has no images")
	}
	b := make([]byte, 64<<10)
	if _, err := held.ReadAt(b, 0); err != nil || !bytes.Equal(b, x.want[:len(b)]) {
		t.Fatalf("before the change: %v", err)
	}
	overwrite(t, m.file)
	if _, err := os.Open(x.path); !errors.Is(err, syscall.EIO) {
		t.Errorf("opening a file of a changed model: %v, want EIO", err)
	}
	if n, err := held.ReadAt(b, 0); !bytes.Equal(b[:n], x.want[:n]) || err != nil && !errors.Is(err, syscall.EIO) {
		t.Errorf("what was read before: %d bytes, %v", n, err)
	}
	// The kernel has read a part of a window of 1 MiB ahead.
	end := int64(len(x.want)) - 4096
	if n, err := held.ReadAt(b[:4096], end); !errors.Is(err, syscall.EIO) {
		t.Errorf("what was not read before: %d bytes, %v, want EIO", n, err)
	}
}

// TestFaultsOllama damages a blob of a store. Ollama touches blobs, so their
// times say nothing: the kernel's queue of writes does.
func TestFaultsOllama(t *testing.T) {
	testwatch.Need(t)
	for _, f := range []struct {
		name   string
		do     func(t *testing.T, path string)
		want   answer
		verify string // verify's report about it
	}{
		{"truncated", func(t *testing.T, p string) { must(t, os.Truncate(p, statOf(t, p).Size()-1)) }, fails, "bytes"},
		{"extended", appendTo, fails, "bytes"},
		{"touched", func(t *testing.T, p string) { must(t, os.Chtimes(p, time.Now(), time.Now())) }, same, ""},
		{"removed", func(t *testing.T, p string) { must(t, os.Remove(p)) }, same, "no such file"},
		{"overwritten in place", func(t *testing.T, p string) {
			b, err := os.ReadFile(p)
			must(t, err)
			b[len(b)-1] ^= 1
			f, err := os.OpenFile(p, os.O_WRONLY, 0)
			must(t, err)
			_, err = f.WriteAt(b, 0)
			must(t, errors.Join(err, f.Close()))
		}, fails, "sha256"},
	} {
		t.Run(f.name, func(t *testing.T) {
			store := t.TempDir()
			must(t, os.CopyFS(store, os.DirFS("../../testdata/ollama/models")))
			manifest := filepath.Join(store, "manifests/registry.ollama.ai/library/tiny/bf16")
			mount := mounted(t, manifest)
			names, err := os.ReadDir(filepath.Join(mount, "raw"))
			must(t, err)
			blobOf := func(name string) string {
				var b [1024]byte
				n, err := unix.Getxattr(filepath.Join(mount, "raw", name), "user.tensorfs.extents", b[:])
				must(t, err)
				var extents []tensorfs.Extent
				must(t, json.Unmarshal(b[:n], &extents))
				target, err := os.Readlink(filepath.Join(mount, "source", extents[0].File))
				must(t, err)
				return target
			}
			damaged := blobOf(names[0].Name())
			tree, err := (&modelFlags{}).open(manifest)
			must(t, err)
			defer tree.Model.Close()
			before := map[string][]byte{}
			for _, name := range names {
				e, err := tensorfs.Find(tree.Root, "raw/"+name.Name())
				must(t, err)
				before[name.Name()] = make([]byte, e.Data.Size())
				must(t, tensorfs.ReadFull(e.Data, before[name.Name()], 0))
			}
			f.do(t, damaged)
			others := 0
			for _, name := range names {
				want := f.want
				if blobOf(name.Name()) != damaged {
					want = same
					others++
				}
				got, err := os.ReadFile(filepath.Join(mount, "raw", name.Name()))
				switch want {
				case fails:
					if !errors.Is(err, syscall.EIO) {
						t.Errorf("%s: %v; want EIO", name.Name(), err)
					}
				case same:
					if err != nil || !bytes.Equal(got, before[name.Name()]) {
						t.Errorf("%s: %v, %d bytes; want %s", name.Name(), err, len(got), same)
					}
				}
			}
			if others == 0 {
				t.Error("all tensors are in one blob")
			}
			code, out, stderr := command("verify", manifest)
			if f.verify == "" && code != 0 || f.verify != "" && (code != 1 || !strings.Contains(out+stderr, f.verify)) {
				t.Errorf("verify: %d %s%s, want %q", code, out, stderr, f.verify)
			}
		})
	}
}
