package fs

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"github.com/tensorfs/tensorfs"
)

// warehouse is a library that has nothing until it is looked up.
type warehouse struct {
	mu     sync.Mutex
	models tensorfs.Entries // below org
	asked  []string
	logger *slog.Logger
	opens  int
}

func (w *warehouse) root() tensorfs.Dir {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.models) == 0 {
		return tensorfs.Entries{}
	}
	return tensorfs.Entries{{Name: "org", Dir: w.models}}
}

func (w *warehouse) LogTo(logger *slog.Logger) { w.logger = logger }

func (w *warehouse) Dir(at string) bool { return !strings.Contains(at, "/") && at != "none" }

func (w *warehouse) Open(ctx context.Context, at string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asked = append(w.asked, at)
	switch at {
	case "org/model":
		w.models = tensorfs.Entries{{Name: "model", Lazy: &tensorfs.Lazy{
			Identity: func() (string, time.Time, error) { return "one", time.Unix(1, 0), nil },
			Open: func() (tensorfs.Dir, io.Closer, error) {
				w.opens++ // by the look-up, which has ended
				return tensorfs.Entries{{Name: "file", Data: tensorfs.Bytes("text")}}, io.NopCloser(nil), nil
			},
		}}}
		return nil
	case "org/slow":
		<-ctx.Done()
		return syscall.EINTR
	case "org/odd":
		return context.DeadlineExceeded
	case "org/lost": // it is not in the root afterwards
		return nil
	}
	return fmt.Errorf("%s: %w", at, map[string]syscall.Errno{"org/secret": syscall.EACCES, "org/far": syscall.EIO, "none": syscall.ENOENT}[at])
}

func newWarehouse(t *testing.T) (*warehouse, *rawFS) {
	w := &warehouse{}
	f, err := newLibraryFS(Library{Root: w.root, OnDemand: w}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	return w, f
}

// TestOnDemand opens what is looked up, and lists only that.
func TestOnDemand(t *testing.T) {
	w, f := newWarehouse(t)
	if w.logger == nil {
		t.Error("it got no logger")
	}
	names := func(node uint64) (all []string) {
		h := header(node)
		var open fuse.OpenOut
		if st := f.OpenDir(nil, &fuse.OpenIn{InHeader: h}, &open); !st.Ok() {
			t.Fatal(st)
		}
		st := f.list(&fuse.ReadIn{InHeader: h, Fh: open.Fh}, func(de fuse.DirEntry, _ func(*fuse.EntryOut) bool) bool {
			all = append(all, de.Name)
			return true
		})
		if !st.Ok() {
			t.Fatal(st)
		}
		return all[2:]
	}
	org := walkTo(t, f, "org")
	if org.Mode != dirMode || len(names(Root)) != 0 || len(names(org.NodeId)) != 0 || len(w.asked) != 0 {
		t.Errorf("%o, asked for %q", org.Mode, w.asked)
	}
	var attr fuse.AttrOut
	if st := f.GetAttr(nil, &fuse.GetAttrIn{InHeader: header(org.NodeId)}, &attr); !st.Ok() || attr.Ino != org.Ino {
		t.Errorf("%v, number %d and %d", st, attr.Ino, org.Ino)
	}
	for name, want := range map[string]fuse.Status{
		"secret": fuse.EACCES, "far": fuse.EIO, "odd": fuse.EIO, "lost": fuse.ENOENT,
	} {
		h := header(org.NodeId)
		if st := f.Lookup(nil, &h, name, &fuse.EntryOut{}); st != want {
			t.Errorf("%s: %v, want %v", name, st, want)
		}
	}
	h := header(Root)
	out := fuse.EntryOut{NodeId: 9}
	if st := f.Lookup(nil, &h, "none", &out); !st.Ok() || out.NodeId != 0 || out.EntryValid+uint64(out.EntryValidNsec) == 0 {
		t.Errorf("a missing name: %v, %+v", st, out)
	}
	cancelled := make(chan struct{})
	close(cancelled)
	h = header(org.NodeId)
	if st := f.Lookup(cancelled, &h, "slow", &out); st != fuse.EINTR {
		t.Errorf("interrupted: %v", st)
	}

	model := walkTo(t, f, "org/model")
	if l := f.library.status(); model.Mode != dirMode || w.opens != 1 || len(l.Open) != 1 || l.Models != 1 {
		t.Errorf("%o, opened %d times, %+v", model.Mode, w.opens, l)
	}
	n := len(w.asked)
	if again := walkTo(t, f, "org/model/file"); again.Size != 4 || len(w.asked) != n || w.opens != 1 {
		t.Errorf("asked for %q, opened %d times", w.asked, w.opens)
	}
	if got := fmt.Sprint(names(Root), names(org.NodeId)); got != "[org] [model]" {
		t.Error(got)
	}
	if listed := walkTo(t, f, "org"); listed.NodeId != org.NodeId || listed.Ino != org.Ino {
		t.Errorf("the directory became another one: %+v, %+v", org, listed)
	}
	f.library.end()
}

// TestManyDirectories refuses more directories that nothing is in than there is memory for.
func TestManyDirectories(t *testing.T) {
	_, f := newWarehouse(t)
	first := walkTo(t, f, "a")
	for i := len(f.library.levels.ids); i < maxUnlisted; i++ {
		f.library.levels.ids[fmt.Sprint(i)] = uint64(i)
	}
	h := header(Root)
	if st := f.Lookup(nil, &h, "b", &fuse.EntryOut{}); st != fuse.Status(syscall.ENFILE) {
		t.Error(st)
	}
	if again := walkTo(t, f, "a"); again.NodeId != first.NodeId {
		t.Error("a known directory is another one")
	}
}
