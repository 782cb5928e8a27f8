package fs

import (
	"io"
	"strings"
	"testing"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"github.com/tensorfs/tensorfs"
)

// A file above the trees that changes is read whole, as it was when it was opened, whatever size the kernel knows.
func TestLibraryFileChanges(t *testing.T) {
	text := "short"
	root := func() tensorfs.Dir { return tensorfs.Entries{file("about", text)} }
	f, err := newLibraryFS(Library{Root: root}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	var out fuse.EntryOut
	h := header(fuse.FUSE_ROOT_ID)
	if st := f.Lookup(nil, &h, "about", &out); !st.Ok() || out.Size != 5 || out.AttrValid != 0 || out.AttrValidNsec != 0 {
		t.Fatalf("%v, %+v", st, out)
	}
	open := func() fuse.OpenOut {
		var o fuse.OpenOut
		if st := f.Open(nil, &fuse.OpenIn{InHeader: header(out.NodeId)}, &o); !st.Ok() || o.OpenFlags&fuse.FOPEN_DIRECT_IO == 0 || o.OpenFlags&fuse.FOPEN_KEEP_CACHE != 0 {
			t.Fatalf("%v, %+v", st, o)
		}
		return o
	}
	read := func(o fuse.OpenOut) (all string, st fuse.Status) {
		for buf := make([]byte, 3); ; {
			res, st := f.Read(nil, &fuse.ReadIn{InHeader: header(out.NodeId), Fh: o.Fh, Offset: uint64(len(all)), Size: 3}, buf)
			if !st.Ok() {
				return all, st
			}
			b, st := res.Bytes(buf)
			if !st.Ok() || len(b) == 0 {
				return all, st
			}
			all += string(b)
		}
	}
	before := open()
	text = "a longer text"
	after := open()
	for _, c := range []struct {
		o    fuse.OpenOut
		want string
	}{{before, "short"}, {after, text}, {before, "short"}} {
		if got, st := read(c.o); got != c.want || !st.Ok() {
			t.Errorf("%q, %v; want %q", got, st, c.want)
		}
	}
	var attr fuse.AttrOut
	if st := f.GetAttr(nil, &fuse.GetAttrIn{InHeader: header(out.NodeId)}, &attr); !st.Ok() || attr.Size != uint64(len(text)) || attr.Timeout() != 0 {
		t.Errorf("%v, %+v", st, attr)
	}
	f.Release(nil, &fuse.ReleaseIn{InHeader: header(out.NodeId), Fh: before.Fh})
	if _, st := read(before); st.Ok() {
		t.Error("a file that was closed is read")
	}
	if got, st := read(after); got != text || !st.Ok() {
		t.Errorf("%q, %v", got, st)
	}
}

// A model's file that was looked at and then replaced by one of another size is not read with the size of the old one.
func TestLibrarySizeChanges(t *testing.T) {
	id, text := "1", "short"
	lazy := &tensorfs.Lazy{
		File:     true,
		Bytes:    func() (int64, bool) { return int64(len(text)), true },
		Identity: func() (string, time.Time, error) { return id, modTime, nil },
		Open: func() (tensorfs.Dir, io.Closer, error) {
			return tensorfs.Entries{file("m", text)}, io.NopCloser(strings.NewReader("")), nil
		},
	}
	f, err := newLibraryFS(Library{Root: func() tensorfs.Dir { return tensorfs.Entries{{Name: "m", Lazy: lazy}} }}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	look := func() (out fuse.EntryOut) {
		h := header(fuse.FUSE_ROOT_ID)
		if st := f.Lookup(nil, &h, "m", &out); !st.Ok() || out.Size != uint64(len(text)) {
			t.Fatalf("%v, %+v", st, out)
		}
		return out
	}
	open := func(node uint64) fuse.Status {
		var o fuse.OpenOut
		return f.Open(nil, &fuse.OpenIn{InHeader: header(node)}, &o)
	}
	old := look()
	id, text = "2", "a longer text"
	if st := open(old.NodeId); st.Ok() {
		t.Error("the new file is opened with the size of the old one")
	}
	if st := open(look().NodeId); !st.Ok() {
		t.Errorf("the new file: %v", st)
	}
}
