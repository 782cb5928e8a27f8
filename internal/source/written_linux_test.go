package source

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/testing/testwatch"
	"golang.org/x/sys/unix"
)

func fallocate(fd int, off, n int64) error {
	return unix.Fallocate(fd, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, off, n)
}

// needWatch skips a test of what only a watch tells, where a file got none.
func needWatch(t *testing.T, f *Mapped) {
	t.Helper()
	if f.changes.watch.lost {
		t.Skipf("NOT TESTED: %s", Unwatched())
	}
}

// TestUnwatched has files whose changes show only in their times, because no inotify instance is
// left: any difference counts as a change.
func TestUnwatched(t *testing.T) {
	if !testwatch.Without(t) {
		return
	}
	for name, x := range map[string]struct {
		change  func(path string) error
		touched bool // mtime is set back
		want    error
	}{
		"left alone":                  {func(string) error { return nil }, false, nil},
		"another file written":        {func(p string) error { return os.WriteFile(p+"2", []byte("another"), 0o600) }, false, nil},
		"written":                     {overwritten, false, tensorfs.ErrChanged},
		"cut":                         {quietly(func(p string) error { return os.Truncate(p, 10) }), false, tensorfs.ErrChanged},
		"written, mtime put back":     {quietly(overwritten), false, tensorfs.ErrChanged},
		"by a mapping, mtime back":    {quietly(mappedWrite), false, tensorfs.ErrChanged},
		"hole, mtime put back":        {quietly(punchHole), false, tensorfs.ErrChanged},
		"touched and written":         {overwritten, true, tensorfs.ErrChanged},
		"by a mapping, mtime ignored": {mappedWrite, true, tensorfs.ErrChanged},
		"chmod, a false alarm":        {func(p string) error { return os.Chmod(p, 0o644) }, false, tensorfs.ErrChanged},
	} {
		t.Run(name, func(t *testing.T) {
			path, _ := write(t, 3*4096)
			f := open(t, path)
			if x.touched {
				f.IgnoreModTime()
			}
			s := f.Section(0, 1000).(*MappedSection)
			if why := Unwatched(); !strings.Contains(why, "raise fs.inotify.max_user_instances (now ") || strings.Contains(why, "\n") {
				t.Errorf("it is unwatched because of %q", why)
			}
			if err := x.change(path); errors.Is(err, unix.ENOTSUP) {
				t.Skipf("NOT TESTED: %v", err)
			} else if err != nil {
				t.Fatal(err)
			}
			if read, slices := both(s); !errors.Is(read, x.want) || !errors.Is(slices, x.want) {
				t.Errorf("%v, %v", read, slices)
			}
		})
		if why := Unwatched(); why != "" {
			t.Errorf("after the last file was closed: %q", why)
		}
	}
}

// TestWatchIsLost has the kernel end a watch: from then on any move of ctime is a
// change.
func TestWatchIsLost(t *testing.T) {
	path, _ := write(t, 3*4096)
	f := open(t, path)
	s := f.Section(0, 1000).(*MappedSection)
	needWatch(t, f)
	if _, err := unix.InotifyRmWatch(writes.fd, uint32(f.changes.watch.id)); err != nil {
		t.Fatal(err)
	}
	if why := Unwatched(); why != "the kernel has ended its watch for writes; open the model again" {
		t.Errorf("it is unwatched because of %q", why)
	}
	if read, slices := both(s); read != nil || slices != nil {
		t.Error(read, slices)
	}
	if err := quietly(overwritten)(path); err != nil {
		t.Fatal(err)
	}
	if read, slices := both(s); !errors.Is(read, tensorfs.ErrChanged) || !errors.Is(slices, tensorfs.ErrChanged) {
		t.Error(read, slices)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if why := Unwatched(); why != "" {
		t.Errorf("after it was closed: %q", why)
	}
}

// TestQueueOverflows writes to two files in turns more often than the queue is
// long: neither is taken for unchanged.
func TestQueueOverflows(t *testing.T) {
	var paths [3]string
	var sections [3]*MappedSection
	for i := range paths {
		paths[i], _ = write(t, 3*4096)
		f := open(t, paths[i])
		sections[i] = f.Section(0, 4096).(*MappedSection)
		needWatch(t, f)
	}
	err := quietly(func(string) error {
		var files [2]*os.File
		for i := range files {
			var err error
			if files[i], err = os.OpenFile(paths[i], os.O_WRONLY, 0); err != nil {
				return err
			}
			defer files[i].Close()
		}
		for range 20_000 {
			for _, f := range files {
				if _, err := f.WriteAt([]byte("x"), 5000); err != nil {
					return err
				}
			}
		}
		return nil
	})(paths[0])
	if err != nil {
		t.Fatal(err)
	}
	if why := Unwatched(); !strings.Contains(why, "overflowed") {
		t.Errorf("it is unwatched because of %q", why)
	}
	for i, s := range sections[:2] {
		if read, slices := both(s); !errors.Is(read, tensorfs.ErrChanged) || !errors.Is(slices, tensorfs.ErrChanged) {
			t.Errorf("file %d: %v, %v", i, read, slices)
		}
	}
	if read, slices := both(sections[2]); read != nil || slices != nil {
		t.Errorf("a file that was left alone: %v, %v", read, slices)
	}
}

// TestQueueEnds holds that watches are given back, and that there is one queue.
func TestQueueEnds(t *testing.T) {
	path, _ := write(t, 5000)
	first := open(t, path)
	first.Section(0, 1)
	needWatch(t, first)
	queue, others := writes.fd, len(writes.files)
	if queue < 256 {
		t.Errorf("descriptor %d watches files, before those of mounts: see closedEarly", queue)
	}
	for range 3 {
		path, _ := write(t, 5000)
		f, err := Map(path, "label")
		if err != nil {
			t.Fatal(err)
		}
		f.Section(0, 1)
		f.Section(1, 1)
		if err := os.Chmod(path, 0o644); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(f.Check(), f.Close()); err != nil {
			t.Fatal(err)
		}
	}
	if writes.fd != queue || len(writes.files) != others {
		t.Errorf("the queue %d has %d watches, and %d had %d", writes.fd, len(writes.files), queue, others)
	}
}
