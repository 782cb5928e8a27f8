package source

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tensorfs/tensorfs"
	"golang.org/x/sys/unix"
)

// quietly does something to a file and puts its times back.
func quietly(do func(path string) error) func(path string) error {
	return func(path string) error {
		st, err := os.Stat(path)
		if err != nil {
			return err
		}
		return errors.Join(do(path), os.Chtimes(path, st.ModTime(), st.ModTime()))
	}
}

// overwritten writes one byte in the middle.
func overwritten(path string) error { return writeAt(path, 5000) }

func mappedWrite(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	b, err := unix.Mmap(int(f.Fd()), 0, 3*4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return err
	}
	b[5000]++
	return errors.Join(unix.Msync(b, unix.MS_SYNC), unix.Munmap(b))
}

// both returns the errors of reading in both ways.
func both(s *MappedSection) (read, slices error) {
	_, _, slices = s.SlicesIf(nil, 0, 10)
	_, read = s.ReadAt(make([]byte, 100), 0)
	return read, slices
}

// TestNoticed changes a file in ways that must be noticed, also if its mtime is unchanged or
// meaningless.
func TestNoticed(t *testing.T) {
	for name, x := range map[string]struct {
		change  func(path string) error
		touched bool   // mtime is set back
		quiet   bool   // only the kernel's queue tells
		why     string // it is told; "" for any
	}{
		"written":                           {overwritten, false, false, ""},
		"written by a mapping":              {mappedWrite, false, false, ""},
		"written, mtime put back":           {quietly(overwritten), false, true, "it was written to: "},
		"written twice, mtime put back":     {quietly(func(p string) error { return errors.Join(overwritten(p), overwritten(p)) }), false, true, ""},
		"cut and grown, mtime put back":     {quietly(func(p string) error { return errors.Join(os.Truncate(p, 10), os.Truncate(p, 3*4096)) }), false, true, ""},
		"hole, mtime put back":              {quietly(punchHole), false, true, ""},
		"cut, mtime put back":               {quietly(func(p string) error { return os.Truncate(p, 4096) }), false, false, ""},
		"touched and written":               {overwritten, true, true, "it was written to: "},
		"touched and written, mtime back":   {quietly(overwritten), true, true, ""},
		"touched and cut":                   {func(p string) error { return os.Truncate(p, 4096) }, true, false, ""},
		"touched, chmod and then written":   {func(p string) error { return errors.Join(os.Chmod(p, 0o640), overwritten(p)) }, true, true, ""},
		"touched, renamed and then written": {func(p string) error { return errors.Join(os.Rename(p, p+"x"), overwritten(p+"x")) }, true, true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			path, _ := write(t, 3*4096)
			f := open(t, path)
			if x.touched {
				f.IgnoreModTime()
			}
			s := f.Section(4096, 4096).(*MappedSection)
			if x.quiet {
				needWatch(t, f)
			}
			if read, slices := both(s); read != nil || slices != nil {
				t.Fatal(read, slices)
			}
			if err := x.change(path); errors.Is(err, unix.ENOTSUP) {
				t.Skipf("NOT TESTED: %v", err)
			} else if err != nil {
				t.Fatal(err)
			}
			for range 2 { // it stays so
				read, slices := both(s)
				for _, err := range []error{read, slices, f.Check()} {
					var changed *tensorfs.ChangedError
					if !errors.Is(err, tensorfs.ErrChanged) || !errors.As(err, &changed) || changed.File != path || !strings.Contains(err.Error(), x.why) || strings.Contains(err.Error(), "\n") {
						t.Errorf("error %v", err)
					}
				}
			}
		})
	}
}

// TestNoWrongAlarm does to a file what changes none of its bytes. ctime moves every
// time.
func TestNoWrongAlarm(t *testing.T) {
	st := func(path string) os.FileInfo {
		st, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		return st
	}
	for name, x := range map[string]struct {
		change  func(path string) error
		touched bool
	}{
		"chmod":              {func(p string) error { return os.Chmod(p, 0o644) }, false},
		"chmod to the same":  {func(p string) error { return os.Chmod(p, 0o600) }, false},
		"chown to the same":  {func(p string) error { return os.Chown(p, os.Getuid(), os.Getgid()) }, false},
		"linked":             {func(p string) error { return os.Link(p, p+"2") }, false},
		"linked and removed": {func(p string) error { return errors.Join(os.Link(p, p+"2"), os.Remove(p+"2")) }, false},
		"renamed":            {func(p string) error { return os.Rename(p, p+"2") }, false},
		"renamed and back":   {func(p string) error { return errors.Join(os.Rename(p, p+"2"), os.Rename(p+"2", p)) }, false},
		"removed":            {os.Remove, false},
		"replaced": {func(p string) error {
			return errors.Join(os.WriteFile(p+"2", []byte("another"), 0o600), os.Rename(p+"2", p))
		}, false},
		"atime put back": {func(p string) error { return os.Chtimes(p, time.Unix(1, 0), st(p).ModTime()) }, false},
		"labelled":       {func(p string) error { return unix.Setxattr(p, "user.label", []byte("x"), 0) }, false},
		"opened for writing": {func(p string) error {
			f, err := os.OpenFile(p, os.O_RDWR, 0)
			return errors.Join(err, f.Close())
		}, false},
		"touched": {func(p string) error { return os.Chtimes(p, time.Now(), time.Now().Add(time.Hour)) }, true},
		"another file written": {func(p string) error {
			return errors.Join(os.Chmod(p, 0o644), os.WriteFile(p+"2", []byte("another"), 0o600), overwritten(p+"2"))
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			path, _ := write(t, 3*4096)
			f := open(t, path)
			if x.touched {
				f.IgnoreModTime()
			}
			s := f.Section(4096, 4096).(*MappedSection)
			if f.changes.watch != nil { // else the system never has one
				needWatch(t, f)
			}
			if err := x.change(path); errors.Is(err, unix.ENOTSUP) {
				t.Skipf("NOT TESTED: %v", err)
			} else if err != nil {
				t.Fatal(err)
			}
			if read, slices := both(s); read != nil || slices != nil {
				t.Error(read, slices)
			}
		})
	}
}

func punchHole(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return errors.Join(fallocate(int(f.Fd()), 4096, 4096), f.Close())
}

// TestSharedWatch maps a file twice: closing one does not end the other's watch.
// After the last file the queue is closed.
func TestSharedWatch(t *testing.T) {
	path, _ := write(t, 3*4096)
	other := filepath.Join(t.TempDir(), "link")
	if err := os.Link(path, other); err != nil {
		t.Fatal(err)
	}
	a, err := Map(path, "a")
	if err != nil {
		t.Fatal(err)
	}
	b := open(t, other)
	a.Section(0, 1)
	s := b.Section(0, 4096).(*MappedSection)
	needWatch(t, b)
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	if err := quietly(overwritten)(path); err != nil {
		t.Fatal(err)
	}
	if read, slices := both(s); !errors.Is(read, tensorfs.ErrChanged) || !errors.Is(slices, tensorfs.ErrChanged) {
		t.Error(read, slices)
	}
	// For a file that is opened now it is not a change.
	c := open(t, path).Section(0, 4096).(*MappedSection)
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	if read, slices := both(c); read != nil || slices != nil {
		t.Error(read, slices)
	}
}
