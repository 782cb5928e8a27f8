package source

import (
	"errors"
	"os"
	"testing"

	"github.com/tensorfs/tensorfs"
	"golang.org/x/sys/unix"
)

func fallocate(fd int, off, n int64) error {
	return unix.Fallocate(fd, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, off, n)
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
		if f.changes.watch == nil {
			t.Skip("NOT TESTED: this system keeps no queue of writes")
		}
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
	open(t, path).Section(0, 1)
	queue, others := writes.fd, len(writes.files)
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
