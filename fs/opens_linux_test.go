package fs

import (
	"log/slog"
	"slices"
	"testing"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// openKernel notes which backings are registered, and takes numbers that are not.
type openKernel struct {
	next int32
	live []int32
}

func (k *openKernel) register(int) (int32, error) {
	k.next++
	k.live = append(k.live, k.next)
	return k.next, nil
}

func (k *openKernel) unregister(id int32) {
	k.live = slices.DeleteFunc(k.live, func(i int32) bool { return i == id })
}

// followed returns a tree as passing does, and what a server has there that follows another one, which had old.
func followed(t *testing.T, k *openKernel, old *passedFiles) (*rawFS, *passedFiles) {
	t.Helper()
	f, _, _, _ := passing(t)
	f.passed = &passedFiles{log: slog.New(slog.DiscardHandler), kernel: k, open: map[uint64]*openFile{}, direct: map[uint64]bool{}}
	s := f.passed
	if old == nil {
		opens, err := newOpensFile()
		if err != nil {
			t.Fatal(err)
		}
		s.kept = opens
	} else {
		fd, err := unix.Dup(old.kept.fd)
		if err != nil {
			t.Fatal(err)
		}
		opens, err := openOpensFile(fd)
		if err != nil {
			t.Fatal(err)
		}
		s.resume(opens)
	}
	t.Cleanup(func() { unix.Close(s.kept.fd) })
	return f, s
}

// openBy is an open by the request of a number.
func openBy(t *testing.T, f *rawFS, i, unique uint64) fuse.OpenOut {
	t.Helper()
	in, out := fuse.OpenIn{InHeader: header(firstNode + i)}, fuse.OpenOut{}
	in.Unique = unique
	if st := f.Open(nil, &in, &out); !st.Ok() {
		t.Fatal(st)
	}
	return out
}

// A server goes on with the opens of another one, whenever that was killed.
func TestOpensResumed(t *testing.T) {
	k := &openKernel{}
	f, s := followed(t, k, nil)
	a := openBy(t, f, 1, 10)
	b := openBy(t, f, 1, 12)
	c := openBy(t, f, 4, 14)
	closeAs(f, 4, c)
	if a.BackingID != b.BackingID || a.Fh == b.Fh || !slices.Equal(k.live, []int32{1}) {
		t.Fatalf("%+v, %+v; %v", a, b, k.live)
	}
	k.register(0) // and killed before it was noted
	f, s = followed(t, k, s)
	if !slices.Equal(k.live, []int32{1}) {
		t.Errorf("backings %v: what was not noted is still there", k.live)
	}
	if again := openBy(t, f, 1, 12|resentBit); again.BackingID != b.BackingID || again.Fh != b.Fh {
		t.Errorf("the same request: %+v, want %+v", again, b)
	}
	d := openBy(t, f, 1, 16)
	if d.BackingID != a.BackingID {
		t.Errorf("another open has backing %d, want %d", d.BackingID, a.BackingID)
	}
	closeAs(f, 1, a)
	f, s = followed(t, k, s)
	closeAs(f, 1, a) // the kernel did not get the answer to the release
	e := openBy(t, f, 4, 18)
	closeAs(f, 1, a)
	closeAs(f, 1, b)
	if !slices.Contains(k.live, 1) {
		t.Error("a backing is gone that is in use")
	}
	closeAs(f, 1, d)
	if !slices.Equal(k.live, []int32{e.BackingID}) {
		t.Errorf("backings %v", k.live)
	}
	s.kept.remove(e.Fh) // and killed before it was unregistered
	if followed(t, k, s); len(k.live) > 0 {
		t.Errorf("backings %v are left", k.live)
	}
}

// A handle ends one open, and no other that has its place.
func TestOpensHandles(t *testing.T) {
	f, err := newOpensFile()
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(f.fd)
	seen := map[uint64]bool{}
	for unique := range uint64(300) {
		h, again, err := f.add(1, unique, 1)
		if err != nil || again || seen[h] {
			t.Fatalf("%d: %x, %v, %v", unique, h, again, err)
		}
		seen[h] = true
		if unique%3 > 0 && !f.remove(h) || unique%3 > 0 && f.remove(h) {
			t.Fatalf("%x is not removed once", h)
		}
	}
	for _, h := range []uint64{0, 1, keptHandle, keptHandle | 1<<62} {
		if f.remove(h) {
			t.Errorf("%x was removed", h)
		}
	}
	again, err := openOpensFile(f.fd)
	if err != nil || !slices.Equal(again.opens, f.opens) || again.generation != f.generation || len(again.free) != len(f.free) {
		t.Errorf("read as %+v, %v", again, err)
	}
}
