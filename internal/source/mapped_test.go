package source

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"
	"time"

	"github.com/tensorfs/tensorfs"
)

// write makes a file of n deterministic bytes.
func write(t *testing.T, n int) (string, []byte) {
	t.Helper()
	b := make([]byte, n)
	r := rand.New(rand.NewPCG(1, 2))
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	path := filepath.Join(t.TempDir(), "model.bin")
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return path, b
}

func open(t *testing.T, path string) *Mapped {
	t.Helper()
	f, err := Map(path, "label")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

func TestReads(t *testing.T) {
	path, want := write(t, 3*4096+123)
	f := open(t, path)
	if err := iotest.TestReader(newReader(f), want); err != nil {
		t.Error(err)
	}
	s := f.Section(4000, 5000).(*MappedSection)
	if err := iotest.TestReader(newReader(s), want[4000:9000]); err != nil {
		t.Error(err)
	}
	for _, r := range [][2]int64{{0, 0}, {0, 1}, {95, 200}, {4096, 904}, {5000, 0}} {
		slices, mapped, err := s.SlicesIf(nil, r[0], r[1])
		if err != nil || mapped && !bytes.Equal(bytes.Join(slices, nil), want[4000+r[0]:4000+r[0]+r[1]]) {
			t.Errorf("Slices(%d, %d): %v", r[0], r[1], err)
		}
	}
	for _, r := range [][2]int64{{-1, 1}, {0, 5001}, {5001, 0}, {4999, 2}, {1 << 62, 1 << 62}} {
		if _, _, err := s.SlicesIf(nil, r[0], r[1]); err == nil {
			t.Errorf("Slices(%d, %d) reads outside of the section", r[0], r[1])
		}
	}
	if e := s.Extents(); len(e) != 1 || e[0] != (tensorfs.Extent{File: "label", Offset: 4000, Bytes: 5000}) {
		t.Errorf("Extents: %v", e)
	}
}

func newReader(d tensorfs.Data) *sectionReader { return &sectionReader{Data: d} }

// sectionReader gives Data the cursor that iotest wants.
type sectionReader struct {
	tensorfs.Data
	off int64
}

func (r *sectionReader) Read(p []byte) (int, error) {
	n, err := r.ReadAt(p, r.off)
	r.off += int64(n)
	if n > 0 {
		err = nil
	}
	return n, err
}

// TestPread holds that system calls read what the mapping holds: systems without
// views read so.
func TestPread(t *testing.T) {
	path, want := write(t, 3*4096+123)
	f := open(t, path)
	for _, r := range [][2]int64{{0, 1}, {0, 3*4096 + 123}, {4095, 2}, {3*4096 + 122, 1}} {
		got := make([]byte, r[1])
		if err := f.pread(got, r[0], 0, f.Size()); err != nil || !bytes.Equal(got, want[r[0]:r[0]+r[1]]) {
			t.Errorf("%d bytes at %d: %v, or other bytes", r[1], r[0], err)
		}
	}
	buf := make([]byte, 4096)
	if n := testing.AllocsPerRun(100, func() {
		if err := f.pread(buf, 77, 0, f.Size()); err != nil {
			t.Fatal(err)
		}
	}); n > 0 {
		t.Errorf("a read allocates %v times", n)
	}
	if err := f.pread(buf, f.Size()-4, 0, f.Size()); !errors.Is(err, io.EOF) || !strings.Contains(err.Error(), path+": cannot read 4096 bytes at 12407") {
		t.Errorf("beyond the end of a file that did not change: %v", err)
	}
}

func TestEmptyFile(t *testing.T) {
	path, _ := write(t, 0)
	f := open(t, path)
	if n, err := f.ReadAt(make([]byte, 1), 0); n != 0 || err == nil {
		t.Errorf("ReadAt of an empty file: %d, %v", n, err)
	}
}

func TestRefusesWhatIsNoFile(t *testing.T) {
	dir := t.TempDir()
	fifo, loop := filepath.Join(dir, "fifo"), filepath.Join(dir, "loop")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(loop, loop); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{dir: "directory", fifo: "FIFO", loop: "loop", filepath.Join(dir, "none"): "no such file", "/dev/null": "device"} {
		if _, err := Map(path, ""); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Map(%s): %v, want an error with %q", path, err, want)
		}
	}
}

func TestChangedFile(t *testing.T) {
	for name, change := range map[string]func(path string) error{
		"truncated":        func(p string) error { return os.Truncate(p, 100) },
		"truncated to 0":   func(p string) error { return os.Truncate(p, 0) },
		"grown":            func(p string) error { return os.Truncate(p, 1<<20) },
		"cut and grown":    func(p string) error { return errors.Join(os.Truncate(p, 10), os.Truncate(p, 3*4096)) },
		"other time":       func(p string) error { return os.Chtimes(p, time.Time{}, time.Unix(1, 0)) },
		"written in place": func(p string) error { return writeAt(p, 5) },
	} {
		t.Run(name, func(t *testing.T) {
			path, _ := write(t, 3*4096)
			f := open(t, path)
			s := f.Section(4096, 4096).(*MappedSection)
			if err := change(path); err != nil {
				t.Fatal(err)
			}
			if n, err := s.ReadAt(make([]byte, 4096), 0); n != 0 || !errors.Is(err, tensorfs.ErrChanged) {
				t.Errorf("ReadAt: %d, %v, want ErrChanged", n, err)
			}
			if err := f.pread(make([]byte, 4096), 4096, 4096, 8192); !errors.Is(err, tensorfs.ErrChanged) || !strings.Contains(err.Error(), path) {
				t.Errorf("pread: %v, want ErrChanged of %s", err, path)
			}
			if _, _, err := s.SlicesIf(nil, 0, 10); !errors.Is(err, tensorfs.ErrChanged) {
				t.Errorf("Slices: %v, want ErrChanged", err)
			}
		})
	}
}

func writeAt(path string, off int64) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteAt([]byte("x"), off)
	return errors.Join(err, f.Close())
}

// A rename or an unlink changes no byte.
func TestUnlinkedFileGoesOn(t *testing.T) {
	path, want := write(t, 5000)
	f := open(t, path)
	if err := os.Rename(path, path+".old"); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(path + ".old"); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 5000)
	if err := tensorfs.ReadFull(f, b, 0); err != nil || !bytes.Equal(b, want) {
		t.Errorf("reading an unlinked file: %v", err)
	}
}

func TestReadAllocatesNothing(t *testing.T) {
	path, _ := write(t, 1<<16)
	s := open(t, path).Section(0, 1<<16)
	buf := make([]byte, 1<<14)
	if n := testing.AllocsPerRun(100, func() {
		if err := tensorfs.ReadFull(s, buf, 77); err != nil {
			t.Fatal(err)
		}
	}); n > 0 {
		t.Errorf("a read allocates %v times", n)
	}
}

// BenchmarkCheck looks at a file that did not change, as every read does.
func BenchmarkCheck(b *testing.B) {
	path := filepath.Join(b.TempDir(), "model.bin")
	if err := os.WriteFile(path, make([]byte, 1<<20), 0o600); err != nil {
		b.Fatal(err)
	}
	f, err := Map(path, "label")
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	f.Section(0, 1)
	b.ReportAllocs()
	for b.Loop() {
		if err := f.Check(); err != nil {
			b.Fatal(err)
		}
	}
}
