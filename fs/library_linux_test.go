package fs

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/mounts"
	"github.com/tensorfs/tensorfs/internal/testing/testlimit"
	"golang.org/x/sys/unix"
)

// shelf is a library for tests: models by path, each with one file in mapped memory. Reading a
// closed model therefore crashes.
type shelf struct {
	t  *testing.T
	mu sync.Mutex
	at map[string]*book

	open, most atomic.Int32
}

// book is a model of a shelf.
type book struct {
	shelf         *shelf
	identity      atomic.Int64
	opens, closes atomic.Int32
	mu            sync.Mutex
	fail          error         // of opening
	names         []string      // of the files beside it
	hold          chan struct{} // opening waits for it
	changed       atomic.Bool   // its data is
}

func newShelf(t *testing.T, paths ...string) *shelf {
	s := &shelf{t: t, at: map[string]*book{}}
	for _, p := range paths {
		s.put(p)
	}
	return s
}

func (s *shelf) put(path string) *book {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.at[path] = &book{shelf: s}
	return s.at[path]
}

func (s *shelf) remove(path string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.at, path)
}

// root lays the shelf out.
func (s *shelf) root() tensorfs.Dir {
	s.mu.Lock()
	defer s.mu.Unlock()
	type level map[string]any
	top := level{"README": tensorfs.Entry{Data: tensorfs.Bytes("a shelf")}}
	for path, b := range s.at {
		at := top
		parts := strings.Split(path, "/")
		for _, p := range parts[:len(parts)-1] {
			if at[p] == nil {
				at[p] = level{}
			}
			at = at[p].(level)
		}
		at[parts[len(parts)-1]] = tensorfs.Entry{Lazy: &tensorfs.Lazy{Identity: b.id, Open: b.open}}
	}
	var entries func(l level) tensorfs.Entries
	entries = func(l level) tensorfs.Entries {
		var out tensorfs.Entries
		for name, x := range l {
			e, ok := x.(tensorfs.Entry)
			if !ok {
				e = tensorfs.Entry{Dir: entries(x.(level))}
			}
			e.Name = name
			out = append(out, e)
		}
		slices.SortFunc(out, func(a, b tensorfs.Entry) int { return strings.Compare(a.Name, b.Name) })
		return out
	}
	return entries(top)
}

func (b *book) id() (string, time.Time, error) {
	if b.identity.Load() < 0 {
		return "", time.Time{}, syscall.ENOENT
	}
	return fmt.Sprint(b.identity.Load()), modTime.Add(time.Duration(b.identity.Load()) * time.Second), nil
}

// bookSize is the size of the file data of a model.
const bookSize = 3 * 4096

// page is data in memory that will be unmapped.
type page struct {
	lostData
	book *book
}

func (p page) Check() error {
	if p.book.changed.Load() {
		return &tensorfs.ChangedError{File: "book"}
	}
	return nil
}

func (p page) Slices(dst [][]byte, off, n int64) ([][]byte, error) {
	if err := p.Check(); err != nil {
		return nil, err
	}
	return p.lostData.Slices(dst, off, n)
}

type closer func() error

func (c closer) Close() error { return c() }

func (b *book) open() (tensorfs.Dir, io.Closer, error) {
	b.opens.Add(1)
	b.mu.Lock()
	fail, names, hold := b.fail, b.names, b.hold
	b.mu.Unlock()
	if hold != nil {
		<-hold
	}
	if fail != nil {
		return nil, nil, fail
	}
	mem, err := unix.Mmap(-1, 0, bookSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return nil, nil, err
	}
	for i := range mem {
		mem[i] = byte(b.identity.Load())
	}
	s := b.shelf
	for n := s.open.Add(1); ; {
		if m := s.most.Load(); n <= m || s.most.CompareAndSwap(m, n) {
			break
		}
	}
	tree := tensorfs.Entries{{Name: "data", Data: page{lostData(mem), b}}, {Name: "dir", Dir: tensorfs.Entries{file("x", "xx")}}}
	for _, n := range names {
		tree = append(tree, file(n, n))
	}
	var once atomic.Bool
	return tree, closer(func() error {
		if once.Swap(true) {
			return errors.New("it was closed twice")
		}
		b.closes.Add(1)
		s.open.Add(-1)
		return unix.Munmap(mem)
	}), nil
}

// browser sends requests to a library.
type browser struct {
	t  testing.TB
	fs *rawFS
}

func browse(t *testing.T, s *shelf, l Library) (*browser, *lockedBuffer) {
	t.Helper()
	log := new(lockedBuffer)
	l.Root = s.root
	f, err := newLibraryFS(l, Options{ModTime: modTime, Logger: slog.New(slog.NewTextHandler(log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		f.OnUnmount()
		if n := s.open.Load(); n != 0 {
			t.Errorf("%d models are left open", n)
		}
		for path, b := range s.at {
			if b.opens.Load() < b.closes.Load() {
				t.Errorf("%s was opened %d times and closed %d times", path, b.opens.Load(), b.closes.Load())
			}
		}
	})
	return &browser{t, f}, log
}

// try looks a path up from the top.
func (b *browser) try(path string) (out fuse.EntryOut, st fuse.Status) {
	out.NodeId = fuse.FUSE_ROOT_ID
	for name := range strings.SplitSeq(path, "/") {
		if out, st = b.lookup(out.NodeId, name); st != fuse.OK || out.NodeId == 0 {
			return out, st
		}
	}
	return out, st
}

func (b *browser) lookup(parent uint64, name string) (out fuse.EntryOut, st fuse.Status) {
	st = b.fs.Lookup(nil, &fuse.InHeader{NodeId: parent}, name, &out)
	return out, st
}

// node returns the node of a path, which must be there.
func (b *browser) node(path string) uint64 {
	b.t.Helper()
	out, st := b.try(path)
	if st != fuse.OK || out.NodeId == 0 {
		b.t.Fatalf("%s: node %d, %v", path, out.NodeId, st)
	}
	return out.NodeId
}

// read reads a byte as the kernel does: it looks at the reply before it is done.
func (b *browser) read(node uint64, meanwhile func()) (byte, fuse.Status) {
	buf := make([]byte, 4096)
	res, st := b.fs.Read(nil, &fuse.ReadIn{InHeader: fuse.InHeader{NodeId: node}, Offset: 4096, Size: 4096}, buf)
	if !st.Ok() {
		return 0, st
	}
	if meanwhile != nil {
		meanwhile()
	}
	m := res.(*mapped)
	c := m.slices[0][0]
	for _, x := range m.slices[0] {
		if x != c {
			b.t.Error("a reply has bytes of two models")
		}
	}
	m.Done()
	return c, st
}

func (b *browser) expect(path string, want byte, wantSt fuse.Status) {
	b.t.Helper()
	node := b.node(path + "/data")
	if c, st := b.read(node, nil); st != wantSt || c != want {
		b.t.Errorf("%s: byte %d, %v; want %d, %v", path, c, st, want, wantSt)
	}
}

// listed lists a directory, with the inode numbers.
func (b *browser) listed(node uint64) (map[string]uint64, fuse.Status) {
	var open fuse.OpenOut
	if st := b.fs.OpenDir(nil, &fuse.OpenIn{InHeader: fuse.InHeader{NodeId: node}}, &open); st != fuse.OK {
		return nil, st
	}
	defer b.fs.ReleaseDir(&fuse.ReleaseIn{InHeader: fuse.InHeader{NodeId: node}, Fh: open.Fh})
	all := map[string]uint64{}
	st := b.fs.list(&fuse.ReadIn{InHeader: fuse.InHeader{NodeId: node}, Fh: open.Fh}, func(de fuse.DirEntry, fill func(*fuse.EntryOut) bool) bool {
		var out fuse.EntryOut
		if fill != nil && fill(&out) && (out.Attr.Ino != de.Ino || out.NodeId == 0) {
			b.t.Errorf("%s has the inode numbers %d and %d", de.Name, de.Ino, out.Attr.Ino)
		}
		all[de.Name] = de.Ino
		return true
	})
	return all, st
}

func (b *browser) status() LibraryStatus {
	b.t.Helper()
	buf := make([]byte, 64<<10)
	n, st := b.fs.GetXAttr(nil, &fuse.InHeader{NodeId: fuse.FUSE_ROOT_ID}, mounts.AttrPrefix+"library", buf)
	var s LibraryStatus
	if err := json.Unmarshal(buf[:n], &s); err != nil || st != fuse.OK {
		b.t.Fatalf("status: %v, %v", err, st)
	}
	return s
}

// TestLibraryAbove holds that nothing is opened above the models, and what is said
// of them there.
func TestLibraryAbove(t *testing.T) {
	s := newShelf(t, "a", "org/b", "org/sub/c")
	b, log := browse(t, s, Library{})
	inodes := map[uint64]string{}
	for _, path := range []string{"README", "a", "org", "org/b", "org/sub", "org/sub/c"} {
		out, st := b.try(path)
		fresh := time.Second
		if path == "README" { // a file may change at any time
			fresh = 0
		}
		if st != fuse.OK || out.NodeId == 0 || out.EntryTimeout() != time.Second || out.AttrTimeout() != fresh {
			t.Errorf("%s: %v, %+v", path, st, out)
		}
		if out.Nlink != 1 || (path == "README") != (out.Mode == fileMode) || path != "README" && out.Mode != dirMode {
			t.Errorf("%s: %d links, mode %o", path, out.Nlink, out.Mode)
		}
		if other, taken := inodes[out.Ino]; taken {
			t.Errorf("%s and %s have one inode number", path, other)
		}
		inodes[out.Ino] = path
		var attr fuse.AttrOut
		if st := b.fs.GetAttr(nil, &fuse.GetAttrIn{InHeader: fuse.InHeader{NodeId: out.NodeId}}, &attr); st != fuse.OK || attr.Attr != out.Attr || attr.Timeout() != fresh {
			t.Errorf("%s: %v, %+v and %+v", path, st, attr.Attr, out.Attr)
		}
		h := &fuse.InHeader{NodeId: out.NodeId}
		if _, st := b.fs.GetXAttr(nil, h, "user.x", nil); st != fuse.ENOATTR {
			t.Errorf("%s: attribute: %v", path, st)
		}
		if n, st := b.fs.ListXAttr(nil, h, nil); n != 0 || st != fuse.OK {
			t.Errorf("%s: attributes: %d, %v", path, n, st)
		}
		var fsOut fuse.StatfsOut
		if st := b.fs.StatFs(nil, h, &fsOut); st != fuse.OK || fsOut.Blocks != 0 {
			t.Errorf("%s: %v, %+v", path, st, fsOut)
		}
		if _, st := b.fs.Readlink(nil, h); st != fuse.EINVAL {
			t.Errorf("%s: link: %v", path, st)
		}
		var open fuse.OpenOut
		st = b.fs.Open(nil, &fuse.OpenIn{InHeader: *h}, &open)
		if (path == "README") != st.Ok() {
			t.Errorf("%s: open: %v", path, st)
		}
		if st := b.fs.Open(nil, &fuse.OpenIn{InHeader: *h, Flags: syscall.O_RDWR}, &open); st.Ok() {
			t.Errorf("%s was opened for writing", path)
		}
		if path != "README" {
			if st := b.fs.OpenDir(nil, &fuse.OpenIn{InHeader: *h}, &open); st != fuse.OK {
				t.Errorf("%s: opendir: %v", path, st)
			}
			b.fs.ReleaseDir(&fuse.ReleaseIn{InHeader: *h, Fh: open.Fh})
		}
	}
	for path, want := range map[string]string{"": ". .. README a org", "org": ". .. b sub", "org/sub": ". .. c"} {
		node := uint64(fuse.FUSE_ROOT_ID)
		if path != "" {
			node = b.node(path)
		}
		all, st := b.listed(node)
		var names []string
		for name, ino := range all {
			names = append(names, name)
			if out, _ := b.lookup(node, name); name[0] != '.' && out.Ino != ino {
				t.Errorf("%s in %q has two inode numbers", name, path)
			}
		}
		slices.Sort(names)
		if got := strings.Join(names, " "); got != want || st != fuse.OK {
			t.Errorf("%q has %s, %v; want %s", path, got, st, want)
		}
	}
	for _, path := range []string{"none", "org/none", "org/sub/none"} {
		if out, st := b.try(path); st != fuse.OK || out.NodeId != 0 || out.EntryTimeout() != time.Second {
			t.Errorf("%s: %v, %+v", path, st, out)
		}
	}
	if out, st := b.lookup(fuse.FUSE_ROOT_ID, strings.Repeat("x", 256)); st != fuse.Status(syscall.ENAMETOOLONG) {
		t.Errorf("a long name: %v, %+v", st, out)
	}
	buf := make([]byte, 100)
	readme := fuse.InHeader{NodeId: b.node("README")}
	var opened fuse.OpenOut
	if st := b.fs.Open(nil, &fuse.OpenIn{InHeader: readme}, &opened); st != fuse.OK {
		t.Errorf("README: %v", st)
	}
	res, st := b.fs.Read(nil, &fuse.ReadIn{InHeader: readme, Fh: opened.Fh, Size: 100}, buf)
	if m, ok := res.(*mapped); !ok || string(m.slices[0]) != "a shelf" || st != fuse.OK {
		t.Errorf("README: %v, %v", res, st)
	}
	if st := b.status(); st.Models != 3 || len(st.Open) != 0 {
		t.Errorf("status %+v", st)
	}
	for path, book := range s.at {
		if n := book.opens.Load(); n != 0 {
			t.Errorf("%s was opened %d times", path, n)
		}
	}
	if log.String() != "" {
		t.Errorf("log: %s", log)
	}
}

// TestLibraryInside holds that a model is opened by the first look inside, once, and
// has the inode numbers of its own tree.
func TestLibraryInside(t *testing.T) {
	s := newShelf(t, "a", "org/b")
	b, _ := browse(t, s, Library{})
	root := b.node("a")
	var wait sync.WaitGroup
	for range 32 {
		wait.Go(func() {
			if out, st := b.lookup(root, "data"); st != fuse.OK || out.NodeId == 0 || out.Size != bookSize || out.EntryTimeout() != forever {
				t.Errorf("%v, %+v", st, out)
			}
		})
	}
	wait.Wait()
	if n := s.at["a"].opens.Load(); n != 1 {
		t.Errorf("it was opened %d times", n)
	}
	all, st := b.listed(b.node("org/b"))
	if len(all) != 4 || st != fuse.OK || s.at["org/b"].opens.Load() != 1 {
		t.Errorf("%v, %v", all, st)
	}
	org, _ := b.try("org")
	if all[".."] != org.Ino {
		t.Errorf(".. has the number %d, the directory %d", all[".."], org.Ino)
	}
	seen := map[uint64]string{}
	for _, path := range []string{"a", "a/data", "a/dir", "a/dir/x", "org", "org/b", "org/b/data", "org/b/dir", "org/b/dir/x"} {
		out, _ := b.try(path)
		if other, taken := seen[out.Ino]; taken || out.Ino == 0 {
			t.Errorf("%s and %s have the number %d", path, other, out.Ino)
		}
		seen[out.Ino] = path
	}
	again, _ := browse(t, newShelf(t, "org/b", "other"), Library{})
	if one, other := b.node("org/b/data"), again.node("org/b/data"); one == other {
		t.Log("the same node, which is all right")
	}
	one, _ := b.try("org/b/dir/x")
	other, _ := again.try("org/b/dir/x")
	if one.Ino != other.Ino {
		t.Errorf("the inode number %d is %d in another mount", one.Ino, other.Ino)
	}
	if st := b.status(); !slices.Equal(st.Open, []string{"a", "org/b"}) {
		t.Errorf("open: %v", st.Open)
	}
	for _, node := range []uint64{99 << slotBits, 99<<slotBits | 5} {
		if _, st := b.lookup(node, "x"); st != fuse.Status(syscall.ESTALE) {
			t.Errorf("node %d of no model: %v", node, st)
		}
	}
	if _, st := b.lookup(b.node("a/data"), "x"); st != fuse.ENOTDIR {
		t.Errorf("a look into a file: %v", st)
	}
	if out, st := b.lookup(b.node("a"), "none"); st != fuse.OK || out.NodeId != 0 {
		t.Errorf("what is not there: %v, %+v", st, out)
	}
}

// TestLibraryLimit holds that no more models are open than may be, that the longest
// unused one goes first, and that every request is answered all the same.
func TestLibraryLimit(t *testing.T) {
	var paths []string
	for i := range 20 {
		paths = append(paths, fmt.Sprintf("m%02d", i))
	}
	s := newShelf(t, paths...)
	b, _ := browse(t, s, Library{MaxOpen: 3})
	nodes := map[string]uint64{}
	for _, p := range paths {
		nodes[p] = b.node(p + "/data")
	}
	if st := b.status(); !slices.Equal(st.Open, paths[17:]) {
		t.Errorf("open: %v", st.Open)
	}
	b.read(nodes["m17"], nil)
	b.read(nodes["m00"], nil)
	if st := b.status(); !slices.Equal(st.Open, []string{"m19", "m17", "m00"}) {
		t.Errorf("open: %v", st.Open)
	}
	var wait sync.WaitGroup
	for i := range 10 {
		wait.Go(func() {
			r := rand.New(rand.NewPCG(1, uint64(i)))
			for range 300 {
				if _, st := b.read(nodes[paths[r.IntN(len(paths))]], nil); st != fuse.OK {
					t.Error(st)
				}
			}
		})
	}
	testlimit.Return("reads of more models than may be open", wait.Wait)
	if n := s.most.Load(); n > 3 {
		t.Errorf("%d models were open", n)
	}
}

// TestLibraryReply holds that a model stays open until its reply was sent.
func TestLibraryReply(t *testing.T) {
	s := newShelf(t, "a", "b")
	b, _ := browse(t, s, Library{MaxOpen: 1, Idle: time.Millisecond})
	s.at["a"].identity.Store(7)
	a, other := b.node("a/data"), b.node("b")
	done := make(chan fuse.Status)
	c, st := b.read(a, func() {
		go func() {
			_, st := b.lookup(other, "data")
			done <- st
		}()
		time.Sleep(20 * time.Millisecond) // it would be closed by now
		if n := s.at["a"].closes.Load(); n >= s.at["a"].opens.Load() {
			t.Error("it was closed before its reply was sent")
		}
		if s.at["b"].opens.Load() != 0 {
			t.Error("two are open, one may be")
		}
	})
	if c != 7 || st != fuse.OK {
		t.Errorf("byte %d, %v", c, st)
	}
	if st := testlimit.Receive(t, "answer about the other model", done); st != fuse.OK {
		t.Error(st)
	}
}

// TestLibraryIdle holds that an unused model is closed, and that any request opens it again.
func TestLibraryIdle(t *testing.T) {
	s := newShelf(t, "a")
	s.at["a"].identity.Store(5)
	b, _ := browse(t, s, Library{Idle: time.Millisecond})
	for range 3 {
		node := b.node("a/data")
		testlimit.Wait(t, "the closing of an idle model", func() bool { return s.open.Load() == 0 })
		if c, st := b.read(node, nil); c != 5 || st != fuse.OK {
			t.Errorf("byte %d, %v", c, st)
		}
		if out, st := b.try("a/data"); out.NodeId != node || st != fuse.OK {
			t.Errorf("another node: %d and %d, %v", out.NodeId, node, st)
		}
	}
	for i := range b.fs.sent.last {
		testlimit.Wait(t, "the closing of an idle model", func() bool { return s.open.Load() == 0 })
		if b.fs.sent.last[i].Load() != nil {
			t.Error("a reply of a closed model is remembered")
		}
	}
	b.fs.lost() // touches nothing that is closed
}

// TestLibraryReplaced holds that a changed model's name leads to the new one, and its
// old nodes to the old one as long as it is open, and to nothing afterwards.
func TestLibraryReplaced(t *testing.T) {
	s := newShelf(t, "a", "b")
	b, log := browse(t, s, Library{MaxOpen: 2})
	old := b.node("a/data")
	first, _ := b.try("a")
	s.at["a"].identity.Store(9)
	if c, st := b.read(old, nil); c != 0 || st != fuse.OK {
		t.Errorf("the old model, which is open: byte %d, %v", c, st)
	}
	b.expect("a", 9, fuse.OK)
	second, _ := b.try("a")
	if first.NodeId == second.NodeId || first.Ino != second.Ino || first.Mtime == second.Mtime {
		t.Errorf("%+v and then %+v", first.Attr, second.Attr)
	}
	b.expect("b", 0, fuse.OK) // now the old one is closed
	if _, st := b.read(old, nil); st != fuse.Status(syscall.ESTALE) {
		t.Errorf("the old model, which is closed: %v", st)
	}
	if _, st := b.lookup(first.NodeId, "data"); st != fuse.Status(syscall.ESTALE) {
		t.Errorf("a look into it: %v", st)
	}
	s.at["a"].identity.Store(0) // as it was before
	if _, st := b.read(old, nil); st != fuse.Status(syscall.ESTALE) {
		t.Errorf("the old model, after another one and the same again: %v", st)
	}
	b.expect("a", 0, fuse.OK)
	// A model that was never open has no old nodes.
	s.put("c")
	c := b.node("c")
	s.at["c"].identity.Store(4)
	if b.node("c") != c {
		t.Error("it has another node after a change")
	}
	s.at["c"].identity.Store(5)
	if _, st := b.listed(c); st != fuse.OK {
		t.Errorf("a model that changed before it was opened: %v", st)
	}
	if b.node("c") != c {
		t.Error("it has another node")
	}
	// The node is read without a lookup of its name.
	node := b.node("a/data")
	b.node("b/data")
	b.node("c/data")
	s.at["a"].identity.Store(6)
	if _, st := b.read(node, nil); st != fuse.Status(syscall.ESTALE) {
		t.Errorf("a model that was replaced while it was closed: %v", st)
	}
	b.expect("a", 6, fuse.OK)
	if log.String() != "" {
		t.Errorf("log: %s", log)
	}
}

// TestLibraryRemoved holds that a removed model can be read as long as it is open.
func TestLibraryRemoved(t *testing.T) {
	s := newShelf(t, "org/a", "b")
	b, _ := browse(t, s, Library{MaxOpen: 1})
	node, dir, level := b.node("org/a/data"), b.node("org/a"), b.node("org")
	s.remove("org/a")
	if out, st := b.try("org"); st != fuse.OK || out.NodeId != 0 {
		t.Errorf("its directory: %v, %+v", st, out)
	}
	if _, st := b.lookup(level, "a"); st != fuse.Status(syscall.ESTALE) {
		t.Errorf("a look into its directory: %v", st)
	}
	if _, st := b.listed(level); st != fuse.Status(syscall.ESTALE) {
		t.Errorf("a listing of its directory: %v", st)
	}
	if c, st := b.read(node, nil); c != 0 || st != fuse.OK {
		t.Errorf("byte %d, %v", c, st)
	}
	b.expect("b", 0, fuse.OK)
	if _, st := b.read(node, nil); st != fuse.Status(syscall.ESTALE) {
		t.Errorf("after it was closed: %v", st)
	}
	var attr fuse.AttrOut
	if st := b.fs.GetAttr(nil, &fuse.GetAttrIn{InHeader: fuse.InHeader{NodeId: dir}}, &attr); st != fuse.OK || attr.Mode != dirMode {
		t.Errorf("its directory: %v", st) // a process's working directory
	}
	s.put("org/a").identity.Store(3)
	b.expect("org/a", 3, fuse.OK)
	s.at["b"].identity.Store(-1) // its files are gone, and not noticed yet
	if out, st := b.try("b"); st != fuse.OK || out.NodeId != 0 {
		t.Errorf("a model without files: %v, %+v", st, out)
	}
	if _, st := b.listed(fuse.FUSE_ROOT_ID); st != fuse.OK {
		t.Errorf("a listing with it: %v", st)
	}
}

// TestLibraryBroken holds that a model that cannot be opened is its own failure, said
// once, and opened when it can be.
func TestLibraryBroken(t *testing.T) {
	s := newShelf(t, "bad", "good")
	bad := s.at["bad"]
	bad.fail = errors.New("it is damaged")
	b, log := browse(t, s, Library{Fresh: 5 * time.Millisecond})
	for range 5 {
		if _, st := b.try("bad/data"); st != fuse.EIO {
			t.Errorf("a look inside: %v", st)
		}
		if _, st := b.listed(b.node("bad")); st != fuse.EIO {
			t.Errorf("a listing: %v", st)
		}
		b.expect("good", 0, fuse.OK)
		time.Sleep(6 * time.Millisecond)
	}
	if n := bad.opens.Load(); n < 2 || n > 5 {
		t.Errorf("it was tried %d times", n)
	}
	if n := strings.Count(log.String(), "\n"); n != 1 || !strings.Contains(log.String(), `msg="a model cannot be opened" model=bad error="it is damaged"`) {
		t.Errorf("log: %s", log)
	}
	if h := b.fs.checkHealth(); len(h.Errors) != 1 || len(h.Changed) != 0 {
		t.Errorf("health %+v", h)
	}
	bad.mu.Lock()
	bad.fail = nil
	bad.mu.Unlock()
	testlimit.Wait(t, "a model that can be opened", func() bool { _, st := b.try("bad/data"); return st == fuse.OK })
	// Few descriptors: others are closed for it.
	s.put("many").fail = fmt.Errorf("open: %w", syscall.EMFILE)
	if _, st := b.try("many/data"); st != fuse.EIO || s.open.Load() != 0 {
		t.Errorf("%v, %d are open", st, s.open.Load())
	}
}

// TestLibraryOther holds that a changed tree is not used as the old one, even with the same
// identity, and neither is a tree that changes while it is opened.
func TestLibraryOther(t *testing.T) {
	s := newShelf(t, "a", "b")
	b, _ := browse(t, s, Library{MaxOpen: 1})
	node := b.node("a/data")
	b.node("b/data")
	s.at["a"].names = []string{"more"}
	if _, st := b.read(node, nil); st != fuse.Status(syscall.ESTALE) {
		t.Errorf("another tree: %v", st)
	}
	b.node("a/more")
	s.at["b"].hold = make(chan struct{})
	opens, root, done := s.at["b"].opens.Load(), b.node("b"), make(chan fuse.Status)
	go func() {
		_, st := b.lookup(root, "data")
		done <- st
	}()
	testlimit.Wait(t, "opening", func() bool { return s.at["b"].opens.Load() > opens })
	s.at["b"].identity.Add(1)
	close(s.at["b"].hold)
	if st := testlimit.Receive(t, "answer", done); st != fuse.Status(syscall.ESTALE) {
		t.Errorf("a model that changes while it is opened: %v", st)
	}
	s.at["b"].names = []string{"twice", "twice"}
	if _, st := b.try("b/data"); st != fuse.EIO {
		t.Errorf("a tree that breaks a rule: %v", st)
	}
}

// TestLibraryChanged holds that data that changed under an open model fails as stale
// and gives the name to a new one.
func TestLibraryChanged(t *testing.T) {
	s := newShelf(t, "a")
	b, _ := browse(t, s, Library{})
	old := b.node("a/data")
	s.at["a"].changed.Store(true)
	for range 2 {
		if _, st := b.read(old, nil); st != fuse.Status(syscall.ESTALE) {
			t.Errorf("changed data: %v", st)
		}
		var open fuse.OpenOut
		if st := b.fs.Open(nil, &fuse.OpenIn{InHeader: fuse.InHeader{NodeId: old}}, &open); st != fuse.Status(syscall.ESTALE) {
			t.Errorf("opening it: %v", st)
		}
	}
	s.at["a"].changed.Store(false)
	b.expect("a", 0, fuse.OK)
	if h := b.fs.checkHealth(); len(h.Changed)+len(h.Errors) != 0 {
		t.Errorf("health %+v", h)
	}
}

// TestLibraryBug holds that a panic of what opens a model is that model's failure.
func TestLibraryBug(t *testing.T) {
	l := Library{Root: func() tensorfs.Dir {
		return tensorfs.Entries{{Name: "a", Lazy: &tensorfs.Lazy{Identity: func() (string, time.Time, error) { return "1", modTime, nil }, Open: func() (tensorfs.Dir, io.Closer, error) { panic("a bug") }}}}
	}, MaxOpen: 1}
	f, err := newLibraryFS(l, Options{})
	if err != nil {
		t.Fatal(err)
	}
	b := &browser{t, f}
	for range 3 {
		if _, st := b.try("a/data"); st != fuse.EIO {
			t.Error(st)
		}
	}
}

// TestLibraryListing holds that a listing is of one moment.
func TestLibraryListing(t *testing.T) {
	s := newShelf(t, "b", "d", "f")
	b, _ := browse(t, s, Library{})
	var open fuse.OpenOut
	in := fuse.ReadIn{InHeader: fuse.InHeader{NodeId: fuse.FUSE_ROOT_ID}}
	b.fs.OpenDir(nil, &fuse.OpenIn{InHeader: in.InHeader}, &open)
	in.Fh = open.Fh
	var got []string
	take := func(n int) {
		if st := b.fs.list(&in, func(de fuse.DirEntry, _ func(*fuse.EntryOut) bool) bool {
			if n == 0 {
				return false
			}
			n--
			got, in.Offset = append(got, de.Name), de.Off
			return true
		}); st != fuse.OK {
			t.Error(st)
		}
	}
	take(4) // . .. README b
	s.put("a")
	s.remove("d")
	take(9)
	if want := ". .. README b d f"; strings.Join(got, " ") != want {
		t.Errorf("%v, want %s", got, want)
	}
	got, in.Offset = nil, 0
	take(9)
	if want := ". .. README a b f"; strings.Join(got, " ") != want {
		t.Errorf("from the beginning: %v, want %s", got, want)
	}
	b.fs.ReleaseDir(&fuse.ReleaseIn{InHeader: in.InHeader, Fh: in.Fh})
	if len(b.fs.library.levels.open) != 0 {
		t.Error("a listing is left")
	}
}

// TestLibraryAtOnce does everything at once: models are read, listed, replaced and
// removed, closed because they are idle and because there are too many.
func TestLibraryAtOnce(t *testing.T) {
	var paths []string
	for i := range 12 {
		paths = append(paths, fmt.Sprintf("org%d/m%d", i%3, i))
	}
	s := newShelf(t, paths...)
	s.put("bad").fail = errors.New("damaged")
	b, _ := browse(t, s, Library{MaxOpen: 4, Idle: time.Millisecond, Fresh: time.Millisecond})
	stale := fuse.Status(syscall.ESTALE)
	var reads, stales atomic.Int32
	var wait sync.WaitGroup
	for i := range 8 {
		wait.Go(func() {
			r := rand.New(rand.NewPCG(2, uint64(i)))
			known := map[string]uint64{}
			for range 400 {
				path := paths[r.IntN(len(paths))]
				switch node := known[path]; {
				case node == 0 || r.IntN(8) == 0:
					if out, st := b.try(path + "/data"); st == fuse.OK {
						known[path] = out.NodeId
					} else if st != stale {
						t.Errorf("%s: %v", path, st)
					}
				case r.IntN(40) == 0:
					time.Sleep(2 * time.Millisecond)
				case r.IntN(50) == 0:
					s.mu.Lock()
					s.at[path].identity.Add(1)
					s.mu.Unlock()
				case r.IntN(50) == 0:
					s.put(path).identity.Store(int64(r.IntN(100)))
				case r.IntN(20) == 0:
					b.try("bad/data")
					b.status()
					b.fs.lost()
				case r.IntN(20) == 0:
					if _, st := b.listed(node - local(node) + fuse.FUSE_ROOT_ID); st != fuse.OK && st != stale {
						t.Errorf("%s: %v", path, st)
					}
				default:
					_, st := b.read(node, nil)
					reads.Add(1)
					switch st {
					case fuse.OK:
					case stale:
						stales.Add(1)
						delete(known, path)
					default:
						t.Errorf("%s: %v", path, st)
					}
				}
			}
		})
	}
	testlimit.Return("all requests", wait.Wait)
	if n := s.most.Load(); n > 4 {
		t.Errorf("%d models were open", n)
	}
	if reads.Load() < 500 || stales.Load() == 0 || stales.Load() > reads.Load()/2 {
		t.Errorf("%d reads, %d of them stale", reads.Load(), stales.Load())
	}
}

// TestLibraryNumbers holds that paths whose hashes are the same have numbers of their
// own.
func TestLibraryNumbers(t *testing.T) {
	var v levels
	v.init()
	seen := map[uint64]string{0: ""}
	for i := range 200_000 {
		path := fmt.Sprint("model", i)
		n := v.id(path)
		if other, taken := seen[n]; taken {
			t.Fatalf("%s and %s have the number %d", path, other, n)
		}
		seen[n] = path
		if v.id(path) != n {
			t.Fatalf("%s has two numbers", path)
		}
	}
}

// TestLibraryStatusFits holds that the status of many open models is still an
// attribute.
func TestLibraryStatusFits(t *testing.T) {
	s := LibraryStatus{Models: 5000}
	for i := range 5000 {
		s.Open = append(s.Open, strings.Repeat("x", 100)+fmt.Sprint(i))
	}
	var back LibraryStatus
	if b := fit(&s); len(b) > maxAttr || json.Unmarshal(b, &back) != nil || len(back.Open)+back.Omitted != 5000 || len(back.Open) < 50 {
		t.Errorf("%d bytes, %d open, %d omitted", len(b), len(back.Open), back.Omitted)
	}
}
