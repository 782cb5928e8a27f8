package fs

import (
	"bytes"
	"errors"
	"fmt"
	iofs "io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/hanwen/go-fuse/v2/fuse"
	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/mounts"
	"github.com/tensorfs/tensorfs/internal/source"
)

// newTest makes a file system that is not mounted.
func newTest(t *testing.T, tree tensorfs.Dir, opts Options) *rawFS {
	t.Helper()
	f, err := newRawFS(tree, opts)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func header(id uint64) fuse.InHeader { return fuse.InHeader{NodeId: id} }

// walkTo looks a path up, name by name.
func walkTo(t *testing.T, f *rawFS, path string) fuse.EntryOut {
	t.Helper()
	var out fuse.EntryOut
	out.NodeId = fuse.FUSE_ROOT_ID
	for _, name := range strings.Split(path, "/") {
		h := header(out.NodeId)
		out = fuse.EntryOut{}
		if st := f.Lookup(nil, &h, name, &out); !st.Ok() || out.NodeId == 0 {
			t.Fatalf("%s: lookup of %s: %v, node %d", path, name, st, out.NodeId)
		}
	}
	return out
}

// readBytes reads as go-fuse would.
func readBytes(f *rawFS, id uint64, off int64, n int) ([]byte, fuse.Status) {
	buf := make([]byte, n)
	res, st := f.Read(nil, &fuse.ReadIn{InHeader: header(id), Offset: uint64(off), Size: uint32(n)}, buf)
	if !st.Ok() {
		return nil, st
	}
	defer res.Done()
	if s, ok := res.(interface {
		Slices() ([][]byte, fuse.Status)
	}); ok {
		parts, st := s.Slices()
		b := bytes.Join(parts, nil)
		if len(b) != res.Size() {
			return nil, fuse.ERANGE
		}
		return b, st
	}
	b, st := res.Bytes(buf)
	return bytes.Clone(b), st
}

func TestLookupAndAttr(t *testing.T) {
	f := newTest(t, nested(), Options{ModTime: modTime})
	for path, want := range map[string]fuse.Attr{
		"a":     {Ino: 2, Mode: syscall.S_IFDIR | 0o555, Nlink: 2},
		"b":     {Ino: 3, Mode: syscall.S_IFDIR | 0o555, Nlink: 4},
		"g":     {Ino: 4, Mode: syscall.S_IFLNK | 0o777, Nlink: 1, Size: 3},
		"b/f":   {Ino: 8, Mode: syscall.S_IFREG | 0o444, Nlink: 1, Size: 2, Blocks: 8},
		"b/d/e": {Ino: 9, Mode: syscall.S_IFREG | 0o444, Nlink: 1, Size: 1, Blocks: 8},
	} {
		want.Blksize = thisSystem.blksize
		want.Uid, want.Gid = uint32(os.Geteuid()), uint32(os.Getegid())
		want.SetTimes(&modTime, &modTime, &modTime)
		out := walkTo(t, f, path)
		if out.Attr != want || out.NodeId != want.Ino {
			t.Errorf("%s: %+v, want %+v", path, out.Attr, want)
		}
		if out.EntryTimeout() < 3600e9 || out.AttrTimeout() < 3600e9 {
			t.Errorf("%s: the kernel may keep it for %v and %v", path, out.EntryTimeout(), out.AttrTimeout())
		}
		var a fuse.AttrOut
		if st := f.GetAttr(nil, &fuse.GetAttrIn{InHeader: header(out.NodeId)}, &a); !st.Ok() || a.Attr != want {
			t.Errorf("%s: GetAttr: %v, %+v", path, st, a.Attr)
		}
	}
	h := header(fuse.FUSE_ROOT_ID)
	out := fuse.EntryOut{NodeId: 99}
	if st := f.Lookup(nil, &h, "nothing", &out); !st.Ok() || out.NodeId != 0 || out.EntryTimeout() < 3600e9 {
		t.Errorf("a name that is not there: %v, %+v", st, out)
	}
	for n, want := range map[int]fuse.Status{255: fuse.OK, 256: fuse.Status(syscall.ENAMETOOLONG), 4000: fuse.Status(syscall.ENAMETOOLONG)} {
		if st := f.Lookup(nil, &h, strings.Repeat("n", n), &out); st != want {
			t.Errorf("a name of %d bytes: %v, want %v", n, st, want)
		}
	}
	h = header(4)
	if st := f.Lookup(nil, &h, "x", &out); st != fuse.ENOTDIR {
		t.Errorf("lookup in a link: %v", st)
	}
	var a fuse.AttrOut
	if st := f.GetAttr(nil, &fuse.GetAttrIn{InHeader: header(1000)}, &a); st != fuse.ENOENT {
		t.Errorf("attributes of no node: %v", st)
	}
}

func TestReadlink(t *testing.T) {
	f := newTest(t, nested(), Options{})
	h := header(4)
	if b, st := f.Readlink(nil, &h); !st.Ok() || string(b) != "b/f" {
		t.Errorf("%q, %v", b, st)
	}
	h = header(3)
	if _, st := f.Readlink(nil, &h); st != fuse.EINVAL {
		t.Errorf("of a directory: %v", st)
	}
}

// TestReadDir reads directories with every size of buffer, from every offset.
func TestReadDir(t *testing.T) {
	f := newTest(t, tensorfs.Entries{{Name: "w", Dir: wide(20)}, {Name: "x", Dir: tensorfs.Entries{}}}, Options{})
	for _, dir := range []struct {
		id, parent uint64
		names      []string
	}{
		{1, 1, []string{".", "..", "w", "x"}},
		{2, 1, append([]string{".", ".."}, names(wide(20))...)},
		{3, 1, []string{".", ".."}},
	} {
		for size := 200; size < 2000; size += 56 {
			var got []string
			for off := uint64(0); ; {
				list := fuse.NewDirEntryList(make([]byte, size), off)
				if st := f.ReadDir(nil, &fuse.ReadIn{InHeader: header(dir.id), Offset: off}, list); !st.Ok() {
					t.Fatal(st)
				}
				des, err := fuse.ParseDirEntries(list.Bytes())
				if err != nil {
					t.Fatal(err)
				}
				if len(des) == 0 {
					break
				}
				for _, de := range des {
					got = append(got, de.Name)
					checkInode(t, f, dir.id, dir.parent, de)
					off = de.Off
				}
			}
			if !slices.Equal(got, dir.names) {
				t.Fatalf("node %d, buffer of %d: %q", dir.id, size, got)
			}
			got = nil
			for off := uint64(0); ; {
				list := fuse.NewDirEntryList(make([]byte, size+200), off)
				if st := f.ReadDirPlus(nil, &fuse.ReadIn{InHeader: header(dir.id), Offset: off}, list); !st.Ok() {
					t.Fatal(st)
				}
				des, outs, err := fuse.ParseDirLookupEntries(list.Bytes())
				if err != nil {
					t.Fatal(err)
				}
				if len(des) == 0 {
					break
				}
				for i, de := range des {
					got = append(got, de.Name)
					off = de.Off
					if strings.HasPrefix(de.Name, ".") {
						if outs[i].NodeId != 0 {
							t.Errorf("%s has a node", de.Name)
						}
						continue
					}
					var a fuse.AttrOut
					if st := f.GetAttr(nil, &fuse.GetAttrIn{InHeader: header(de.Ino)}, &a); !st.Ok() || a.Attr != outs[i].Attr || outs[i].NodeId != de.Ino {
						t.Errorf("%s: %+v, GetAttr says %+v", de.Name, outs[i].Attr, a.Attr)
					}
				}
			}
			if !slices.Equal(got, dir.names) {
				t.Fatalf("node %d, plus, buffer of %d: %q", dir.id, size, got)
			}
		}
	}
	if st := f.ReadDir(nil, &fuse.ReadIn{InHeader: header(4)}, fuse.NewDirEntryList(nil, 0)); st != fuse.ENOTDIR {
		t.Errorf("of a file: %v", st)
	}
	far := fuse.NewDirEntryList(make([]byte, 1000), 1<<62)
	if st := f.ReadDir(nil, &fuse.ReadIn{InHeader: header(1), Offset: 1 << 62}, far); !st.Ok() || len(far.Bytes()) != 0 {
		t.Errorf("far past the end: %v, %d bytes", st, len(far.Bytes()))
	}
}

func names(d tensorfs.Dir) []string {
	var all []string
	for i := range d.Len() {
		all = append(all, d.Entry(i).Name)
	}
	return all
}

func checkInode(t *testing.T, f *rawFS, id, parent uint64, de fuse.DirEntry) {
	t.Helper()
	want := id
	switch de.Name {
	case ".":
	case "..":
		want = parent
	default:
		h := header(id)
		var out fuse.EntryOut
		f.Lookup(nil, &h, de.Name, &out)
		want = out.NodeId
		if de.Mode != out.Mode&syscall.S_IFMT {
			t.Errorf("%s: type %o, attributes say %o", de.Name, de.Mode, out.Mode)
		}
	}
	if de.Ino != want {
		t.Errorf("%s: inode %d, want %d", de.Name, de.Ino, want)
	}
}

// TestRead reads every file of the tree at odd places.
func TestRead(t *testing.T) {
	const size = 3 << 20
	path := filepath.Join(t.TempDir(), "model")
	if err := writeModel(path, size); err != nil {
		t.Fatal(err)
	}
	m, err := source.Map(path, "model")
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	f := newTest(t, testTree(m, nil), Options{})
	for _, dir := range []string{"raw", "f16", "joined"} {
		for _, p := range parts(size) {
			path := dir + "/" + p.name
			out := walkTo(t, f, path)
			total := int64(out.Size)
			for _, off := range []int64{0, 1, 2, 3, 4095, 4096, 4097, total/3 - 1, total / 3, total/3 + 1, total - 1, total, total + 1, 1 << 62} {
				if off < 0 {
					continue
				}
				for _, n := range []int{1, 2, 7, 4096, 5000, 128 << 10, 1 << 20} {
					if n >= 128<<10 && off != 1 && off != total/3+1 {
						continue // computing the bytes takes long
					}
					wantN := max(0, min(int64(n), total-off))
					w := make([]byte, wantN)
					if wantN > 0 {
						if err := want(w, path, size, off); err != nil {
							t.Fatal(err)
						}
					}
					got, st := readBytes(f, out.NodeId, off, n)
					if !st.Ok() || !bytes.Equal(got, w) {
						t.Fatalf("%s: %d bytes at %d: %v, %d bytes, right: %v", path, n, off, st, len(got), bytes.Equal(got, w))
					}
				}
			}
		}
	}
	for id, st := range map[uint64]fuse.Status{1: fuse.EISDIR, 999: fuse.ENOENT} {
		if _, got := readBytes(f, id, 0, 1); got != st {
			t.Errorf("reading node %d: %v, want %v", id, got, st)
		}
	}
}

// crumbs is a Slicer whose bytes are in one-byte pieces.
type crumbs []byte

func (c crumbs) Size() int64 { return int64(len(c)) }
func (c crumbs) ReadAt(p []byte, off int64) (int, error) {
	return bytes.NewReader(c).ReadAt(p, off)
}

func (c crumbs) Slices(dst [][]byte, off, n int64) ([][]byte, error) {
	for i := off; i < off+n; i++ {
		dst = append(dst, c[i:i+1])
	}
	return dst, nil
}

// TestReadInManyPieces: one writev takes 1024 pieces, a file may have more.
func TestReadInManyPieces(t *testing.T) {
	data := make(crumbs, 5000)
	fill(data, 0)
	f := newTest(t, tensorfs.Entries{{Name: "x", Data: data}}, Options{})
	for _, n := range []int{1, 1021, 1022, 1023, 1024, 1025, 5000} {
		got, st := readBytes(f, 2, 0, n)
		if !st.Ok() || !bytes.Equal(got, data[:n]) {
			t.Errorf("%d pieces: %v, %d bytes", n, st, len(got))
		}
	}
}

// broken is Data that cannot be read.
type broken struct {
	size int64
	err  error
}

func (b broken) Size() int64                       { return b.size }
func (b broken) ReadAt([]byte, int64) (int, error) { return 0, b.err }

func TestErrors(t *testing.T) {
	var log bytes.Buffer
	f := newTest(t, tensorfs.Entries{
		{Name: "changed", Data: broken{9, fmt.Errorf("model: %w", tensorfs.ErrChanged)}},
		{Name: "device", Data: broken{9, syscall.EIO}},
		{Name: "short", Data: broken{9, nil}},
	}, Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	for id := uint64(2); id <= 4; id++ {
		for range 3 {
			if _, st := readBytes(f, id, 5, 2); st != fuse.EIO {
				t.Errorf("node %d: %v", id, st)
			}
		}
	}
	for _, want := range []string{"file=changed", "file=device offset=5", "file=short offset=5"} {
		if n := strings.Count(log.String(), want); n != 1 {
			t.Errorf("%q is in the log %d times:\n%s", want, n, &log)
		}
	}
	if errno(nil) != fuse.OK || errno(fmt.Errorf("x: %w", iofs.ErrNotExist)) != fuse.ENOENT || errno(errors.New("x")) != fuse.EIO {
		t.Error("errno")
	}
	if st := f.panicked("a bug"); st != fuse.EIO || !strings.Contains(log.String(), "a bug") {
		t.Errorf("a panic: %v", st)
	}
}

func TestXAttr(t *testing.T) {
	attrs := func() []tensorfs.Attr {
		return []tensorfs.Attr{{Name: "user.b", Value: []byte("value")}, {Name: "user.a", Value: nil}}
	}
	f := newTest(t, tensorfs.Entries{{Name: "x", Data: number(1), Attrs: attrs}, {Name: "y", Data: number(2)}}, Options{})
	for _, c := range []struct {
		id    uint64
		name  string
		room  int
		n     uint32
		st    fuse.Status
		value string
	}{
		{2, "user.b", 100, 5, fuse.OK, "value"},
		{2, "user.b", 5, 5, fuse.OK, "value"},
		{2, "user.b", 4, 5, fuse.ERANGE, ""},
		{2, "user.b", 0, 5, fuse.ERANGE, ""},
		{2, "user.a", 0, 0, fuse.OK, ""},
		{2, "user.c", 100, 0, fuse.ENOATTR, ""},
		{3, "user.b", 100, 0, fuse.ENOATTR, ""},
		{2, "security.selinux", 100, 0, noForeignAttr, ""},
		{1, "system.posix_acl_access", 0, 0, noForeignAttr, ""},
		{9, "user.b", 0, 0, fuse.ENOENT, ""},
	} {
		h := header(c.id)
		dest := make([]byte, c.room)
		n, st := f.GetXAttr(nil, &h, c.name, dest)
		if n != c.n || st != c.st || st.Ok() && string(dest[:n]) != c.value {
			t.Errorf("%d %s, room %d: %d, %v, %q", c.id, c.name, c.room, n, st, dest)
		}
	}
	h := header(2)
	dest := make([]byte, 14)
	if n, st := f.ListXAttr(nil, &h, dest); n != 14 || !st.Ok() || string(dest) != "user.b\x00user.a\x00" {
		t.Errorf("list: %d, %v, %q", n, st, dest)
	}
	if n, st := f.ListXAttr(nil, &h, dest[:13]); n != 14 || st != fuse.ERANGE {
		t.Errorf("list without room: %d, %v", n, st)
	}
	h = header(3)
	if n, st := f.ListXAttr(nil, &h, nil); n != 0 || !st.Ok() {
		t.Errorf("empty list: %d, %v", n, st)
	}
	h = header(1)
	if n, st := f.GetXAttr(nil, &h, mounts.AttrPrefix+"pid", dest); !st.Ok() || string(dest[:n]) != fmt.Sprint(os.Getpid()) {
		t.Errorf("pid: %v, %q", st, dest[:n])
	}
}

func TestLongValueFits(t *testing.T) {
	s := LibraryStatus{Models: 5000}
	for i := range s.Models {
		s.Open = append(s.Open, fmt.Sprintf("%0100d", i))
	}
	b := fit(&s)
	if len(b) > 60<<10 || !bytes.Contains(b, []byte(`"omitted":`)) {
		t.Errorf("%d bytes", len(b))
	}
}

func TestStatFs(t *testing.T) {
	f := newTest(t, tensorfs.Entries{file("a", "x"), {Name: "b", Dir: tensorfs.Entries{{Name: "c", Data: broken{1 << 40, nil}}, file("d", "")}}}, Options{})
	var out fuse.StatfsOut
	if st := f.StatFs(nil, &fuse.InHeader{NodeId: 1}, &out); !st.Ok() {
		t.Fatal(st)
	}
	want := fuse.StatfsOut{Blocks: 1 + 1<<28, Bsize: 4096, Frsize: 4096, Files: 5, NameLen: 255}
	if out != want {
		t.Errorf("%+v, want %+v", out, want)
	}
}

// TestLazySize: a file's size is computed when it is first requested.
func TestLazySize(t *testing.T) {
	rendered := false
	text := tensorfs.NewText(1, func(dst []byte, _ int) []byte { rendered = true; return append(dst, "text"...) })
	f := newTest(t, tensorfs.Entries{{Name: "lazy", Data: text}}, Options{})
	list := fuse.NewDirEntryList(make([]byte, 1000), 0)
	f.ReadDir(nil, &fuse.ReadIn{InHeader: header(1)}, list)
	if rendered {
		t.Error("mounting and listing names rendered a file")
	}
	if out := walkTo(t, f, "lazy"); out.Size != 4 || !rendered {
		t.Errorf("size %d", out.Size)
	}
}

func TestReadOnly(t *testing.T) {
	f := newTest(t, nested(), Options{})
	h := header(1)
	_, write := f.Write(nil, &fuse.WriteIn{InHeader: header(8)}, nil)
	_, writev := f.Writev(nil, &fuse.WriteIn{InHeader: header(8)}, nil)
	_, copied := f.CopyFileRange(nil, nil)
	for name, st := range map[string]fuse.Status{
		"SetAttr": f.SetAttr(nil, nil, nil), "Mknod": f.Mknod(nil, nil, "x", nil), "Mkdir": f.Mkdir(nil, nil, "x", nil),
		"Unlink": f.Unlink(nil, &h, "a"), "Rmdir": f.Rmdir(nil, &h, "a"), "Rename": f.Rename(nil, nil, "a", "b"),
		"Link": f.Link(nil, nil, "x", nil), "Symlink": f.Symlink(nil, &h, "x", "y", nil), "SetXAttr": f.SetXAttr(nil, nil, "user.x", nil),
		"RemoveXAttr": f.RemoveXAttr(nil, &h, "user.x"), "Create": f.Create(nil, nil, "x", nil), "Tmpfile": f.Tmpfile(nil, nil, nil),
		"Write": write, "Writev": writev, "CopyFileRange": copied, "Fallocate": f.Fallocate(nil, nil),
		"Open": f.Open(nil, &fuse.OpenIn{InHeader: header(8), Flags: syscall.O_WRONLY}, &fuse.OpenOut{}),
	} {
		if st != fuse.EROFS {
			t.Errorf("%s: %v", name, st)
		}
	}
	if f.Flush(nil, nil) != fuse.ENOSYS || f.Access(nil, nil) != fuse.ENOSYS || f.Statx(nil, nil, nil) != fuse.ENOSYS {
		t.Error("a needless request is answered: the kernel would go on sending it")
	}
}

// TestOpenChanged: a file whose source changed is not opened, whatever of it is
// cached or in memory.
func TestOpenChanged(t *testing.T) {
	d := &changing{Reader: bytes.NewReader(make([]byte, 9))}
	f := newTest(t, tensorfs.Entries{{Name: "x", Data: d}}, Options{})
	var out fuse.OpenOut
	if st := f.Open(nil, &fuse.OpenIn{InHeader: header(2)}, &out); !st.Ok() {
		t.Fatal(st)
	}
	d.err = &tensorfs.ChangedError{File: "model"}
	if st := f.Open(nil, &fuse.OpenIn{InHeader: header(2)}, &out); st != fuse.EIO {
		t.Errorf("%v, want EIO", st)
	}
}

// changing is Data whose source changes.
type changing struct {
	*bytes.Reader
	err error
}

func (c *changing) Check() error { return c.err }

func TestOpen(t *testing.T) {
	f := newTest(t, nested(), Options{})
	var out fuse.OpenOut
	if st := f.Open(nil, &fuse.OpenIn{InHeader: header(8)}, &out); !st.Ok() || out.OpenFlags&fuse.FOPEN_KEEP_CACHE == 0 {
		t.Errorf("%v, flags %x", st, out.OpenFlags)
	}
	if st := f.Open(nil, &fuse.OpenIn{InHeader: header(3)}, &out); st != fuse.EISDIR {
		t.Errorf("a directory: %v", st)
	}
	if f.OpenDir(nil, &fuse.OpenIn{InHeader: header(3)}, &out) != fuse.OK || f.OpenDir(nil, &fuse.OpenIn{InHeader: header(8)}, &out) != fuse.ENOTDIR {
		t.Error("OpenDir")
	}
}

func TestAllowOtherOnce(t *testing.T) {
	for _, extra := range [][]string{nil, {"allow_other"}} {
		o := Options{AllowOther: true, Extra: extra}
		if got, err := o.mountOptions(); err != nil || strings.Join(got.Data, ",") != "allow_other,default_permissions" {
			t.Errorf("%q: %+v, %v", extra, got, err)
		}
	}
}
