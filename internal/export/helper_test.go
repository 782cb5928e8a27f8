package export

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/source"
)

var modTime = time.Date(2024, 2, 29, 12, 0, 0, 123456789, time.UTC)

// options are the options of most tests: several workers, and small stretches.
func options() Options {
	return Options{Facts: []Fact{{"model", "/m"}, {"--type", "-"}}, ModTime: modTime, Jobs: 3, stretch: 4096}
}

func random(n int) []byte {
	r := rand.New(rand.NewPCG(1, uint64(n)))
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

// reader is Data that can only be read, and counts the bytes.
type reader struct {
	b    []byte
	read *atomic.Int64
}

func newReader(b []byte) reader { return reader{b, new(atomic.Int64)} }

func (r reader) Size() int64 { return int64(len(r.b)) }

func (r reader) ReadAt(p []byte, off int64) (int, error) {
	n, err := tensorfs.Bytes(r.b).ReadAt(p, off)
	r.read.Add(int64(n))
	return n, err
}

// changing is Data whose file is changed by the n-th read.
type changing struct {
	tensorfs.Bytes
	reads *atomic.Int64
	n     int64
}

func (c changing) ReadAt(p []byte, off int64) (int, error) {
	c.reads.Add(1)
	return c.Bytes.ReadAt(p, off)
}

func (c changing) Slices(dst [][]byte, off, n int64) ([][]byte, error) {
	c.reads.Add(1)
	return c.Bytes.Slices(dst, off, n)
}

func (c changing) Check() error {
	if c.reads.Load() >= c.n {
		return &tensorfs.ChangedError{File: "/m"}
	}
	return nil
}

// mapped is a file of this machine as Data.
func mapped(t *testing.T, b []byte) *source.Mapped {
	t.Helper()
	path := filepath.Join(t.TempDir(), "source")
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	m, err := source.Map(path, "source")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m
}

// must runs an export that has to succeed.
func must(t *testing.T, dir string, files []File, o Options) Report {
	t.Helper()
	r, err := Run(t.Context(), dir, files, o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// fails runs one that must not, and returns the error.
func fails(t *testing.T, dir string, files []File, o Options, parts ...string) error {
	t.Helper()
	_, err := Run(t.Context(), dir, files, o)
	if err == nil {
		t.Fatalf("no error, want one with %q", parts)
	}
	for _, p := range parts {
		if !strings.Contains(err.Error(), p) || strings.Contains(err.Error(), "\n") {
			t.Errorf("error %q, want one line with %q", err, p)
		}
	}
	return err
}

// holds checks that exactly these files are in a directory.
func holds(t *testing.T, dir string, want map[string][]byte) {
	t.Helper()
	got := map[string]bool{}
	err := filepath.WalkDir(dir, func(p string, d os.DirEntry, err error) error {
		rel, _ := filepath.Rel(dir, p)
		if err != nil || d.IsDir() || strings.HasPrefix(rel, stateDir) {
			return err
		}
		got[rel] = true
		b, err := os.ReadFile(p)
		if w, ok := want[rel]; !ok || !bytes.Equal(b, w) {
			t.Errorf("%s has %d bytes, %v; want %d", rel, len(b), err, len(w))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for name := range want {
		if !got[name] {
			t.Errorf("%s is missing", name)
		}
	}
}

func partials(t *testing.T, dir string) []string {
	t.Helper()
	list, err := filepath.Glob(filepath.Join(dir, stateDir, "*"+partialSuffix))
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// unreadable is Data that has a size and no bytes.
type unreadable struct{ d tensorfs.Data }

func (u unreadable) Size() int64                       { return u.d.Size() }
func (u unreadable) ReadAt([]byte, int64) (int, error) { return 0, errors.New("read") }
