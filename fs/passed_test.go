package fs

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"syscall"
	"testing"

	"github.com/hanwen/go-fuse/v2/fuse"
	"github.com/tensorfs/tensorfs"
)

// wholeFile is Data with a descriptor. One below 0 is of nothing that the process has open.
type wholeFile struct {
	tensorfs.Bytes
	fd int
}

func (s wholeFile) Descriptor() int { return s.fd }
func (s wholeFile) Slow() bool      { return s.fd == onSlowDisk }

// onSlowDisk is the descriptor of a file of a slow disk.
const onSlowDisk = -9

// fakeKernel notes which descriptors are registered.
type fakeKernel struct {
	next   int32
	live   map[int32]int
	refuse error
}

func (k *fakeKernel) register(fd int) (int32, error) {
	if k.refuse != nil {
		return 0, k.refuse
	}
	k.next++
	k.live[k.next] = fd
	return k.next, nil
}

func (k *fakeKernel) unregister(id int32) {
	if _, ok := k.live[id]; !ok {
		panic(fmt.Sprintf("backing %d is unregistered twice", id))
	}
	delete(k.live, id)
}

// fakeImages are mounts of images: descriptors are counted.
type fakeImages struct {
	next  int
	live  map[int]string // by descriptor: the name of the image
	fails error
	ended bool
}

func (k *fakeImages) mount(name string) (int, error) {
	if k.fails != nil {
		return -1, k.fails
	}
	k.next++
	k.live[k.next] = name
	return k.next, nil
}

func (k *fakeImages) open(dir int, name string) (int, error) {
	if k.live[dir] == "" {
		panic("a file of an image that is not mounted")
	}
	return syscall.Open(os.DevNull, syscall.O_RDONLY, 0) // it is closed
}

func (k *fakeImages) unmount(dir int) { delete(k.live, dir) }
func (k *fakeImages) end()            { k.ended = true }

// passing is a tree with files that can be passed through: a text, a file of the model, and two for images.
func passing(t *testing.T) (*rawFS, *passedFiles, *fakeKernel, *fakeImages) {
	t.Helper()
	large := tensorfs.Bytes(make([]byte, minImaged))
	f := newTest(t, tensorfs.Entries{
		file("0.text", "text"), {Name: "1.stored", Data: wholeFile{tensorfs.Bytes("x"), -7}},
		{Name: "2.large", Data: large}, {Name: "3.large", Data: large}, {Name: "4.stored", Data: wholeFile{large, -8}},
		{Name: "5.rendered", Data: tensorfs.NewText(1, func(dst []byte, _ int) []byte { return append(dst, large...) })},
		{Name: "6.slow", Data: wholeFile{large, onSlowDisk}}, {Name: "7.small and slow", Data: wholeFile{large[1:], onSlowDisk}},
	}, Options{NoPassthrough: true})
	k, mounts := &fakeKernel{live: map[int32]int{}}, &fakeImages{live: map[int]string{}}
	images := newImagesOf(f)
	images.kernel = mounts
	f.passed = &passedFiles{log: slog.New(slog.DiscardHandler), kernel: k, images: images, open: map[uint64]*openFile{}, direct: map[uint64]bool{}}
	return f, f.passed, k, mounts
}

// openAs opens entry i and returns how it is read.
func openAs(t *testing.T, f *rawFS, i uint64, flags uint32) (out fuse.OpenOut, st fuse.Status) {
	t.Helper()
	in := fuse.OpenIn{InHeader: header(firstNode + i), Flags: flags}
	st = f.Open(nil, &in, &out)
	return out, st
}

func closeAs(f *rawFS, i uint64, open fuse.OpenOut) {
	f.Release(nil, &fuse.ReleaseIn{InHeader: header(firstNode + i), Fh: open.Fh})
}

func isPassed(o fuse.OpenOut) bool { return o.OpenFlags&fuse.FOPEN_PASSTHROUGH != 0 }

// TestPassed holds that a file has one backing as long as it is open, and is gone with the last open.
func TestPassed(t *testing.T) {
	f, s, k, mounts := passing(t)
	for i, want := range []bool{false, true, true, true, true, false} {
		var opens []fuse.OpenOut
		for range 3 {
			o, st := openAs(t, f, uint64(i), 0)
			if !st.Ok() || isPassed(o) != want || want && o.BackingID != k.next {
				t.Fatalf("entry %d: %+v, %v; backings %v", i, o, st, k.live)
			}
			opens = append(opens, o)
		}
		for n, o := range opens {
			closeAs(f, uint64(i), o)
			if len(k.live) != btoi(want && n < 2) {
				t.Errorf("entry %d, release %d: backings %v", i, n, k.live)
			}
		}
	}
	if len(s.open) != 0 || mounts.next != 1 {
		t.Errorf("open: %v; %d images of one directory", s.open, mounts.next)
	}
	f.OnUnmount()
	if len(mounts.live) != 0 || !mounts.ended {
		t.Errorf("left: %+v", mounts)
	}
}

// TestPassedSlow holds that a large file of a slow disk is read by the server, through an image if there are images, and
// a small one by the kernel.
func TestPassedSlow(t *testing.T) {
	f, s, k, mounts := passing(t)
	for range 2 {
		o, st := openAs(t, f, 6, 0)
		if fd := k.live[o.BackingID]; !st.Ok() || !isPassed(o) || mounts.next != 1 || fd == onSlowDisk {
			t.Errorf("%+v, %v; backing %d, %d images", o, st, fd, mounts.next)
		}
		again, _ := openAs(t, f, 6, 0)
		closeAs(f, 6, o)
		closeAs(f, 6, again)
		small, _ := openAs(t, f, 7, 0)
		if fd := k.live[small.BackingID]; fd != onSlowDisk {
			t.Errorf("a small file: backing %d", fd)
		}
		closeAs(f, 7, small)
		if len(k.live) != 0 {
			t.Errorf("backings %v are left", k.live)
		}
	}
	s.images = nil
	if o, st := openAs(t, f, 6, 0); !st.Ok() || isPassed(o) || len(k.live) != 0 {
		t.Errorf("without images: %+v, %v; backings %v", o, st, k.live)
	}
}

// TestPassedRefused holds that a way which was refused once is closed for good: another open of the file
// may be answered by the server.
func TestPassedRefused(t *testing.T) {
	f, _, k, mounts := passing(t)
	first, _ := openAs(t, f, 1, 0)
	image, _ := openAs(t, f, 2, 0)
	k.refuse = errors.New("too deep")
	for _, i := range []uint64{4, 3} { // the model's own first, which would have an image otherwise
		if o, st := openAs(t, f, i, 0); isPassed(o) || !st.Ok() {
			t.Errorf("entry %d was passed through: %v", i, st)
		}
	}
	k.refuse = nil
	for _, i := range []uint64{4, 3} {
		if o, _ := openAs(t, f, i, 0); isPassed(o) {
			t.Errorf("entry %d was passed through after one was refused", i)
		}
	}
	for i, o := range map[uint64]fuse.OpenOut{1: first, 2: image} {
		again, _ := openAs(t, f, i, 0)
		if !isPassed(again) || again.BackingID != o.BackingID {
			t.Errorf("entry %d, which is open, is no longer passed through", i)
		}
	}
	if !mounts.ended {
		t.Error("images stay mounted")
	}
}

// TestPassedChanged holds that an image whose model is gone fails the open, and no more than that.
func TestPassedChanged(t *testing.T) {
	f, _, _, mounts := passing(t)
	mounts.fails = syscall.ESTALE
	if _, st := openAs(t, f, 2, 0); st != fuse.Status(syscall.ESTALE) {
		t.Errorf("status %v", st)
	}
	mounts.fails = nil
	if o, st := openAs(t, f, 2, 0); !st.Ok() || !isPassed(o) {
		t.Errorf("later: %+v, %v", o, st)
	}
}

// TestPassedDirect holds that files are opened for direct I/O depending on how they are open already, and that the
// server answers reads of files in an image.
func TestPassedDirect(t *testing.T) {
	if directIO == 0 {
		t.Skip("there is no flag for it here")
	}
	f, s, k, _ := passing(t)
	for i, byServer := range map[uint64]bool{1: false, 2: true} {
		for _, first := range []uint32{0, directIO} {
			var opens []fuse.OpenOut
			for _, flags := range []uint32{first, 0, directIO, directIO, 0} {
				o, st := openAs(t, f, i, flags)
				if !st.Ok() || !isPassed(o) || o.BackingID != k.next {
					t.Fatalf("entry %d, flags %#x: %+v, %v", i, flags, o, st)
				}
				if answered := o.OpenFlags&fuse.FOPEN_DIRECT_IO != 0; answered != (byServer && flags == directIO) {
					t.Errorf("entry %d, flags %#x: the server answers reads: %v", i, flags, answered)
				}
				opens = append(opens, o)
			}
			for _, o := range opens {
				closeAs(f, i, o)
			}
			if len(s.open) != 0 || len(k.live) != 0 {
				t.Errorf("entry %d: %v, %v are left", i, s.open, k.live)
			}
		}
	}
}

// TestPassedAtOnce opens and closes files from several goroutines.
func TestPassedAtOnce(t *testing.T) {
	f, s, k, _ := passing(t)
	var wait sync.WaitGroup
	for g := range uint64(8) {
		wait.Go(func() {
			for range 200 {
				o, st := openAs(t, f, 1+g%3, 0)
				if !st.Ok() || !isPassed(o) {
					t.Errorf("%+v, %v", o, st)
				}
				closeAs(f, 1+g%3, o)
			}
		})
	}
	wait.Wait()
	if len(k.live) != 0 || len(s.open) != 0 {
		t.Errorf("%v, %v are left", k.live, s.open)
	}
}

// imagedTree has directories with a file for an image each.
func imagedTree(dirs int) tensorfs.Entries {
	large := tensorfs.Bytes(make([]byte, minImaged))
	var root tensorfs.Entries
	for i := range dirs {
		root = append(root, tensorfs.Entry{Name: fmt.Sprintf("%03d", i), Dir: tensorfs.Entries{{Name: "x", Data: large}}})
	}
	return root
}

// TestImagesRoom holds that the images of many directories make room for each other, the last used ones last.
func TestImagesRoom(t *testing.T) {
	f := newTest(t, imagedTree(maxImages+1), Options{NoPassthrough: true})
	k := &fakeImages{live: map[int]string{}}
	m := newImagesOf(f)
	m.kernel = k
	open := func(i uint64) {
		t.Helper()
		d := f.tree.dir(firstNode + i)
		fd, err := m.open(f.tree, d.base)
		if err != nil {
			t.Fatal(err)
		}
		syscall.Close(fd)
	}
	for i := range uint64(maxImages) {
		open(i)
	}
	open(0)
	open(maxImages)
	if m.len() != maxImages || len(k.live) != maxImages {
		t.Errorf("%d images, %d mounts", m.len(), len(k.live))
	}
	before := k.next
	open(0)
	if k.next != before {
		t.Error("the image that was used last made room")
	}
	open(1)
	if k.next != before+1 {
		t.Error("the image that was not used for the longest time stayed")
	}
}
