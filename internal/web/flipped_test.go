package web

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/cache"
)

// flipBits flips a bit of every third cell of the only file of a cache.
func flipBits(t *testing.T, dir string) (flipped int64) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.Name() != "data" {
			return err
		}
		b, err := os.ReadFile(path)
		for off := 100; off < len(b); off += 3 * cache.CellSize {
			b[off] ^= 4
			flipped++
		}
		return errors.Join(err, os.WriteFile(path, b, 0o600))
	})
	if err != nil || flipped == 0 {
		t.Fatal(flipped, err)
	}
	return flipped
}

// Bytes that the disk changed are fetched again, part by part; if no server may be asked, reading
// them is an error that explains this. All other bytes stay as they were: mapped, if the file is
// complete.
func TestFlipped(t *testing.T) {
	s := newServer(t, 9*mib+77)
	dir := t.TempDir() + "/cache"
	open := func() (*File, *cache.Store) {
		store, err := cache.Open(cache.Options{Dir: dir, Budget: 1 << 30})
		if err != nil {
			t.Fatal(err)
		}
		f, _ := fileIn(t, store, s, Options{})
		return f, store
	}
	shut := func(f *File, store *cache.Store) {
		if err := errors.Join(f.Close(), store.Close()); err != nil {
			t.Fatal(err)
		}
	}
	f, store := open()
	if err := f.Verify(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	shut(f, store)
	flipped := flipBits(t, dir)

	f, store = open()
	f.origin = Offline("--offline")
	bad, good := 0, 0
	d := f.Section(0, f.Size())
	for off := int64(0); off < f.Size(); off += cache.CellSize {
		p := make([]byte, min(cache.CellSize, f.Size()-off))
		if _, ok, err := tensorfs.Slices(d, nil, off, int64(len(p))); ok || err != nil {
			t.Errorf("%d: a cell is mapped that nobody compared: %v", off, err)
		}
		switch _, err := d.ReadAt(p, off); {
		case err == nil:
			good++
			readRight(t, d, 0, off, int64(len(p)))
			if _, ok, err := tensorfs.Slices(d, nil, off, int64(len(p))); ok != (len(p) == cache.CellSize) || err != nil { // a short one is copied
				t.Errorf("%d: a proven cell is not mapped: %v", off, err)
			}
		case errors.Is(err, syscall.EIO) && strings.Contains(err.Error(), "--offline"):
			bad++
		default:
			t.Error(err)
		}
	}
	if bad != int(flipped) || good == 0 {
		t.Errorf("%d cells cannot be read, %d were changed", bad, flipped)
	}
	shut(f, store)

	s.sent.Store(0)
	f, store = open()
	readRight(t, f.Section(0, f.Size()), 0, 0, f.Size())
	if err := f.Verify(t.Context(), nil); err != nil {
		t.Error(err)
	}
	if sent := s.sent.Load(); sent != flipped*cache.CellSize {
		t.Errorf("%d bytes were sent for %d cells", sent, flipped)
	}
	shut(f, store)
	flipBits(t, dir)
	s.sent.Store(0)
	f, store = open()
	if err := f.Verify(t.Context(), nil); err != nil { // finds it before any read
		t.Error(err)
	}
	if sent := s.sent.Load(); sent != flipped*cache.CellSize || f.Absent() > 0 {
		t.Errorf("%d bytes were sent for %d cells, %d are absent", sent, flipped, f.Absent())
	}
	shut(f, store)
}
