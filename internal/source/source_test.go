package source_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/source"
	"github.com/tensorfs/tensorfs/internal/testing/memory"
)

// sample are the files that every FS of TestFS has.
var sample = map[string][]byte{"a": []byte("alpha"), "sub/b.bin": []byte(strings.Repeat("0123456789", 1000)), "sub/deep/c": {}, "z\nz\xff": []byte("odd")}

func write(t *testing.T, dir string, files map[string][]byte) string {
	t.Helper()
	for name, b := range files {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o777), os.WriteFile(path, b, 0o666)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// all returns every implementation with the same files.
func all(t *testing.T) map[string]source.FS {
	dir := write(t, t.TempDir(), sample)
	open := func(path string, links source.Links) *source.Directory {
		d, err := source.Dir(path, links)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { d.Close() })
		return d
	}
	anywhere := open(dir, source.Anywhere)
	first, err := anywhere.OpenFile("a")
	if err != nil {
		t.Fatal(err)
	}
	with := source.With(anywhere, "a", first)
	t.Cleanup(func() { with.Close() })
	return map[string]source.FS{"anywhere": anywhere, "inside": open(dir, source.Inside), "opened": with, "memory": memory.New(sample)}
}

// TestFS holds every FS to what a parser relies on.
func TestFS(t *testing.T) {
	for kind, src := range all(t) {
		t.Run(kind, func(t *testing.T) {
			for name, want := range sample {
				f, err := src.OpenFile(name)
				if err != nil {
					t.Fatal(err)
				}
				if f.Size() != int64(len(want)) || f.Path() != src.Location(name) || f.Label() != filepath.Base(name) || !filepath.IsAbs(f.Path()) || f.ModTime().IsZero() {
					t.Errorf("%q: %d bytes, path %q, label %q, time %v", name, f.Size(), f.Path(), f.Label(), f.ModTime())
				}
				if err := iotest.TestReader(&reader{Data: f}, want); err != nil {
					t.Errorf("%q: %v", name, err)
				}
				part := f.Section(f.Size()/3, f.Size()/2)
				f.SetLabel("label")
				if err := iotest.TestReader(&reader{Data: part}, want[len(want)/3:][:len(want)/2]); err != nil {
					t.Errorf("section of %q: %v", name, err)
				}
				if e := tensorfs.Extents(part); len(e) != 1 || e[0] != (tensorfs.Extent{File: "label", Offset: f.Size() / 3, Bytes: f.Size() / 2}) {
					t.Errorf("%q: extents %v", name, e)
				}
				func() {
					defer func() {
						if recover() == nil {
							t.Errorf("%q: a section goes beyond the file", name)
						}
					}()
					f.Section(1, f.Size())
				}()
				if err := errors.Join(f.Check(), f.Close()); err != nil {
					t.Error(err)
				}
				b, err := source.ReadSmall(src, name, int64(len(want)))
				if err != nil || string(b) != string(want) {
					t.Errorf("ReadSmall(%q): %q, %v", name, b, err)
				}
				if _, err := source.ReadSmall(src, name, int64(len(want))-1); !errors.Is(err, tensorfs.ErrFormat) || !strings.Contains(err.Error(), "may have at most") {
					t.Errorf("ReadSmall(%q) of less: %v", name, err)
				}
			}
			for name, kind := range map[string]error{"none": fs.ErrNotExist, "sub/none": fs.ErrNotExist, "none/none": fs.ErrNotExist, "sub": tensorfs.ErrFormat, ".": tensorfs.ErrFormat} {
				if _, err := src.OpenFile(name); !errors.Is(err, kind) || !strings.HasPrefix(err.Error(), src.Location(name)+": ") {
					t.Errorf("Open(%q): %v, want %v", name, err, kind)
				}
			}
			for name, want := range map[string]string{".": "a sub/ z\nz\xff", "sub": "b.bin deep/", "sub/deep": "c"} {
				entries, err := src.ReadDir(name)
				var got []string
				for _, e := range entries {
					if e.IsDir() != (e.Type() == fs.ModeDir) {
						t.Errorf("%q is of type %v", e.Name(), e.Type())
					}
					got = append(got, e.Name()+map[bool]string{true: "/"}[e.IsDir()])
				}
				if err != nil || strings.Join(got, " ") != want || !source.IsDir(src, name) {
					t.Errorf("ReadDir(%q): %q, %v", name, got, err)
				}
			}
			for name, kind := range map[string]error{"none": fs.ErrNotExist, "a": syscall.ENOTDIR} {
				if _, err := src.ReadDir(name); !errors.Is(err, kind) || source.IsDir(src, name) {
					t.Errorf("ReadDir(%q): %v, want %v", name, err, kind)
				}
			}
		})
	}
}

// reader gives Data the cursor that iotest wants.
type reader struct {
	tensorfs.Data
	off int64
}

func (r *reader) Read(p []byte) (int, error) {
	n, err := r.ReadAt(p, r.off)
	r.off += int64(n)
	if n > 0 {
		err = nil
	}
	return n, err
}

// TestWith opens a file once, however it is looked at before.
func TestWith(t *testing.T) {
	src := memory.New(sample)
	f, err := src.OpenFile("a")
	if err != nil {
		t.Fatal(err)
	}
	with := source.With(src, "a", f)
	if got, err := with.OpenFile("a"); err != nil || got != f || src.Opened["a"] != 1 {
		t.Errorf("%v, %v, opened %d times", got, err, src.Opened["a"])
	}
	if again, err := with.OpenFile("a"); err != nil || again == f || src.Opened["a"] != 2 {
		t.Errorf("the second time: %v, %v", again, err)
	}
	if err := with.Close(); err != nil || src.Closes.Load() != 0 {
		t.Errorf("a file that was taken is closed: %v", err)
	}
	with = source.With(src, "a", f)
	if err := with.Close(); err != nil || src.Closes.Load() != 1 {
		t.Errorf("a file that nobody took is not closed: %v", err)
	}
}

// TestJoin looks into directories by the first part of a name.
func TestJoin(t *testing.T) {
	a, b := memory.New(sample), memory.New(map[string][]byte{"x/y": []byte("why")})
	j := source.Join{"one": a, "two": b}
	if text, err := source.ReadSmall(j, "two/x/y", 10); err != nil || string(text) != "why" {
		t.Errorf("%q, %v", text, err)
	}
	if entries, err := j.ReadDir("one/sub"); err != nil || len(entries) != 2 {
		t.Errorf("%v, %v", entries, err)
	}
	if entries, err := j.ReadDir("two"); err != nil || !slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return e.Name() == "x" }) {
		t.Errorf("%v, %v", entries, err)
	}
	if at := j.Location("two/x"); at != "/memory/x" {
		t.Error(at)
	}
	_, err := j.OpenFile("three/x")
	_, derr := j.ReadDir("three")
	if !errors.Is(err, fs.ErrNotExist) || !errors.Is(derr, fs.ErrNotExist) {
		t.Error(err, derr)
	}
}
