package fs

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/source"
	"golang.org/x/sys/unix"
)

// imaging serves a model whose large files the kernel reads through images.
func imaging(t *testing.T, size int64) *server {
	t.Helper()
	s := serve(t, "model", newModel(t, size))
	if s.ask("images") == "none" {
		t.Skip("NOT TESTED: images need root, Linux 6.15 and loop devices")
	}
	return s
}

// TestImages looks at images from both sides: a directory has one from the first look into a large file on.
func TestImages(t *testing.T) {
	s := imaging(t, 20<<20)
	for _, step := range []struct{ file, want string }{{"README", "0"}, {"f16/f.large", "1"}, {"f16/e.aligned", "1"}, {"raw/f.large", "2"}} {
		h := s.hold(step.file, "open")
		if got := s.ask("images"); got != step.want {
			t.Errorf("after opening %s: %s images, want %s", step.file, got, step.want)
		}
		h.end()
		_ = h.cmd.Wait()
	}
	s.run("readall", s.mountpoint, s.sizeArg())
	if got := s.ask("unmount"); got != "ok" {
		t.Fatal(got)
	}
	s.ended(t)
}

// TestImagesOutlive holds what a program that has a file open sees of a server that is killed: what the kernel
// has of the file, and for the rest an error.
func TestImagesOutlive(t *testing.T) {
	s := imaging(t, 20<<20)
	known, unknown := s.hold("f16/e.aligned", "open"), s.hold("f16/f.large", "open")
	fmt.Fprintln(known.in, "read")
	known.expect(t, "read 2097152")
	s.kill()
	fmt.Fprintln(known.in, "read")
	known.expect(t, "read 2097152")
	fmt.Fprintln(unknown.in, "read")
	if err := unknown.cmd.Wait(); err == nil {
		t.Error("the rest of a file was read without a server")
	}
}

// TestImagesKilled kills servers while they mount images, which has the kernel wait for them: their processes end, and
// so do the programs that were opening files.
func TestImagesKilled(t *testing.T) {
	imaging(t, 5<<20)
	for n := range 30 {
		s := serve(t, "imaged", "")
		done := make(chan struct{})
		go func() {
			defer close(done)
			_, _ = s.client("opens", s.mountpoint) // it fails when the server is gone
		}()
		time.Sleep(time.Duration(n) * 2 * time.Millisecond)
		s.kill()
		select {
		case <-done:
		case <-time.After(2 * time.Minute):
			t.Fatal("a program waits for a server that was killed")
		}
	}
}

// TestImagesHeld holds that bytes of an image come from the mapping only while no program can write to the
// model, and that programs can as soon as the reply is done.
func TestImagesHeld(t *testing.T) {
	const size = 4 << 20
	path := newModel(t, size)
	model, err := source.Map(path, "model")
	if err != nil {
		t.Fatal(err)
	}
	defer model.Close()
	f, err := newRawFS(tensorfs.Entries{{Name: "large", Data: tensorfs.Concat(tensorfs.Bytes("header"), model.Section(0, size))}}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	m := newImagesOf(f)
	const margin, n = 1 << 20, 1 << 20
	read := func() (*mapped, fuse.Status) {
		in := fuse.ReadIn{Offset: margin, Size: n}
		in.NodeId = fuse.FUSE_ROOT_ID | imageNode
		res, st := m.Read(nil, &in, make([]byte, n))
		r, _ := res.(*mapped)
		return r, st
	}
	write := func() (*os.File, error) { return os.OpenFile(path, os.O_WRONLY|unix.O_NONBLOCK, 0) }

	r, st := read()
	if r == nil || !st.Ok() {
		t.Skip("NOT TESTED: leases on files of this file system")
	}
	if w, err := write(); err == nil {
		w.Close()
		t.Error("opened for writing while the kernel copies")
	}
	if other, st := read(); other != nil || !st.Ok() {
		t.Error("sent from the mapping although a program waits: ", st)
	}
	r.Done()
	w, err := write()
	if err != nil {
		t.Fatal("the reply is done: ", err)
	}
	defer w.Close()
	if r, st := read(); r != nil || !st.Ok() {
		t.Error("sent from the mapping while a program can write: ", st)
	}
	if _, err := w.WriteAt([]byte("new"), 0); err != nil {
		t.Fatal(err)
	}
	w.Close()
	if _, st := read(); st.Ok() {
		t.Error("read from a model that changed")
	}
}

// TestLoopReadAhead holds that the next program that gets a loop device does not find the read-ahead of an image, not even after
// a server that was killed.
func TestLoopReadAhead(t *testing.T) {
	l, err := newLoops()
	if err != nil {
		t.Skip("NOT TESTED: no loop devices here: ", err)
	}
	defer l.close()
	f, err := os.Create(filepath.Join(t.TempDir(), "image"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Truncate(1 << 20); err != nil {
		t.Fatal(err)
	}
	device, err := l.attach(int(f.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(device)
	for _, before := range []int{usualReadAheadKiB, 64, defaultReadAheadKiB, 2 * defaultReadAheadKiB} {
		readAhead(device, before)
		want := before
		if before >= defaultReadAheadKiB {
			want = usualReadAheadKiB
		}
		if got := readAhead(device, defaultReadAheadKiB); got != want {
			t.Errorf("where it was %d KiB: %d, want %d", before, got, want)
		}
		readAhead(device, usualReadAheadKiB)
	}
}

// TestImageReadAhead holds that the option applies to images, which have the default if the kernel's own is to stay.
func TestImageReadAhead(t *testing.T) {
	for set, want := range map[int]int{0: defaultReadAheadKiB, 2048: 2048, -1: defaultReadAheadKiB} {
		o := Options{ReadAheadKiB: set}
		o.setDefaults()
		if got := o.imageReadAhead(); got != want {
			t.Errorf("%d: %d, want %d", set, got, want)
		}
	}
}
