package fs

import (
	"hash/fnv"
	"path"
	"sync"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"github.com/tensorfs/tensorfs"
)

// levels are the directories above the trees of a library, and the files beside
// them. Whatever has had a name there keeps its number.
type levels struct {
	mu     sync.Mutex
	ids    map[string]uint64        // by path; the top is ""
	paths  map[uint64]string        // the other way round
	open   map[uint64]tensorfs.Dir  // listings under way, by handle
	read   map[uint64]tensorfs.Data // files under way, by handle
	handle uint64
}

func (v *levels) init() {
	v.ids = map[string]uint64{"": fuse.FUSE_ROOT_ID}
	v.paths = map[uint64]string{fuse.FUSE_ROOT_ID: ""}
	v.open = map[uint64]tensorfs.Dir{}
	v.read = map[uint64]tensorfs.Data{}
}

// id returns the node id of a path, a number of inoBits bits: the hash of the path,
// unless another path has that number.
func (v *levels) id(at string) uint64 {
	v.mu.Lock()
	defer v.mu.Unlock()
	if id, ok := v.ids[at]; ok {
		return id
	}
	h := fnv.New32a()
	h.Write([]byte(at))
	id := uint64(h.Sum32())
	for _, taken := v.paths[id]; taken || id == 0; _, taken = v.paths[id] {
		id = (id + 1) & (1<<inoBits - 1)
	}
	v.ids[at], v.paths[id] = id, at
	return id
}

// path returns the path of a node id.
func (v *levels) path(id uint64) (string, bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	at, ok := v.paths[id]
	return at, ok
}

// ino returns the inode number of what is at a path: of a directory or file above the
// trees, or of a tree's own directory.
func (v *levels) ino(at string) uint64 {
	if at == "" {
		return fuse.FUSE_ROOT_ID
	}
	return v.id(at)<<inoBits | fuse.FUSE_ROOT_ID
}

// begin keeps a directory for a listing, so that its offsets mean the same until
// it ends, whatever comes and goes.
func (v *levels) begin(d tensorfs.Dir) uint64 {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.handle++
	v.open[v.handle] = d
	return v.handle
}

// listing returns the directory of a listing. One that begins again gets fresh.
func (v *levels) listing(handle, offset uint64, fresh func() (tensorfs.Dir, bool)) (tensorfs.Dir, bool) {
	if offset == 0 {
		d, ok := fresh()
		if ok {
			v.mu.Lock()
			v.open[handle] = d
			v.mu.Unlock()
		}
		return d, ok
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	d, ok := v.open[handle]
	return d, ok
}

func (v *levels) end(handle uint64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.open, handle)
	delete(v.read, handle)
}

// parent returns the path of the directory that a path is in.
func parent(at string) string {
	if dir := path.Dir(at); dir != "." {
		return dir
	}
	return ""
}

// above reports whether a node is one of the levels.
func above(node uint64) bool { return node>>slotBits == 0 }

// answers reports whether the library answers requests about a node's attributes,
// so that no tree is opened for them: it is one of the levels, or a tree's own
// directory.
func (l *library) answers(node uint64) bool { return above(node) || local(node) == fuse.FUSE_ROOT_ID }

// level returns a directory among the levels, and its path.
func (l *library) level(node uint64) (d tensorfs.Dir, at string, ok bool) {
	e, at, ok := l.entry(node)
	return e.Dir, at, ok && e.Dir != nil
}

// entry returns what is at a node among the levels now.
func (l *library) entry(node uint64) (e tensorfs.Entry, at string, ok bool) {
	at, ok = l.levels.path(node)
	if !ok {
		return tensorfs.Entry{}, "", false
	}
	root := l.Root()
	if at == "" {
		return tensorfs.Entry{Dir: root}, at, true
	}
	e, err := tensorfs.Find(root, at)
	if err != nil && l.OnDemand != nil && l.OnDemand.Dir(at) {
		return tensorfs.Entry{Dir: tensorfs.Entries{}}, at, true
	}
	return e, at, err == nil
}

// out fills in the answer about an entry at a path. A tree that is gone has none: ENOENT.
func (l *library) out(at string, e *tensorfs.Entry, out *fuse.EntryOut) fuse.Status {
	*out = fuse.EntryOut{}
	out.SetEntryTimeout(l.Fresh)
	out.SetAttrTimeout(l.Fresh)
	if e.Lazy != nil {
		s, err := l.generation(at, e.Lazy)
		if err != nil {
			return fuse.ENOENT
		}
		if s.file {
			if st := l.sizeOf(s, e.Lazy); !st.Ok() {
				return st
			}
		}
		out.NodeId = s.node()
		l.slotAttr(s, &out.Attr)
		return fuse.OK
	}
	out.NodeId = l.levels.id(at)
	out.SetAttrTimeout(l.kept(e))
	l.attr(at, e, &out.Attr)
	return fuse.OK
}

// listed is out for a listing, which opens nothing to say how large files are.
func (l *library) listed(at string, e *tensorfs.Entry, out *fuse.EntryOut) bool {
	if e.Lazy != nil && e.Lazy.File {
		known := e.Lazy.Bytes != nil
		if known {
			_, known = e.Lazy.Bytes()
		}
		if !known {
			*out = fuse.EntryOut{}
			return false
		}
	}
	return l.out(at, e, out).Ok()
}

// slotAttr fills in the attributes of a tree's directory, or of the file in its place whose
// size is known. It opens nothing. One link is what file systems say that do not count: two
// would let find skip what is inside.
func (l *library) slotAttr(s *slot, out *fuse.Attr) {
	l.mu.Lock()
	t, size := s.modTime, uint64(max(s.size, 0))
	l.mu.Unlock()
	if !s.file {
		l.fs.plainAttr(s.ino|fuse.FUSE_ROOT_ID, dirMode, t, out)
		return
	}
	l.fs.plainAttr(s.ino|fileNode, fileMode, t, out)
	out.Size, out.Blocks = size, blocks(size)*(block/512)
}

// attr fills in the attributes of a directory or file above the trees.
func (l *library) attr(at string, e *tensorfs.Entry, out *fuse.Attr) {
	t := l.fs.opts.ModTime
	if d, ok := e.Dir.(interface{ ModTime() time.Time }); ok {
		t = d.ModTime()
	}
	l.fs.plainAttr(l.levels.ino(at), mode(e), t, out)
	if e.Data != nil {
		size := uint64(e.Data.Size())
		out.Size, out.Blocks = size, blocks(size)*(block/512)
	}
}

// kept is how long the kernel may keep the attributes of what is above the trees. A file's size may change at any time.
func (l *library) kept(e *tensorfs.Entry) time.Duration {
	if e.Data != nil {
		return 0
	}
	return l.Fresh
}

// lookup finds a name in one of the levels.
func (l *library) lookup(cancel <-chan struct{}, h *fuse.InHeader, name string, out *fuse.EntryOut) fuse.Status {
	d, at, ok := l.level(h.NodeId)
	if !ok {
		return fuse.Status(syscall.ESTALE) // makes the kernel look the path up again
	}
	if len(name) > maxName {
		return fuse.Status(syscall.ENAMETOOLONG)
	}
	if i, ok := tensorfs.Lookup(d, name); ok {
		e := d.Entry(i)
		if st := l.out(path.Join(at, name), &e, out); st != fuse.ENOENT {
			return st
		}
	}
	if l.OnDemand != nil {
		return l.demand(cancel, h, path.Join(at, name), out)
	}
	*out = fuse.EntryOut{}
	out.SetEntryTimeout(l.Fresh)
	return fuse.OK
}

// getAttr returns the attributes of a node that the library answers for.
func (l *library) getAttr(node uint64, out *fuse.AttrOut) fuse.Status {
	out.SetTimeout(l.Fresh)
	if !above(node) { // a tree's directory, or the file in its place
		s := l.slotOf(node)
		if s == nil {
			return fuse.Status(syscall.ESTALE)
		}
		l.slotAttr(s, &out.Attr)
		return fuse.OK
	}
	e, at, ok := l.entry(node)
	if !ok || e.Lazy != nil {
		return fuse.Status(syscall.ESTALE)
	}
	out.SetTimeout(l.kept(&e))
	l.attr(at, &e, &out.Attr)
	return fuse.OK
}

// openDir begins a listing.
func (l *library) openDir(in *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	if !above(in.NodeId) {
		return fuse.OK // its listing will open the tree
	}
	d, _, ok := l.level(in.NodeId)
	if !ok {
		return fuse.Status(syscall.ESTALE)
	}
	out.Fh = l.levels.begin(d)
	return fuse.OK
}

// list lists one of the levels, as rawFS.list does a directory.
func (l *library) list(in *fuse.ReadIn, add func(de fuse.DirEntry, fill func(*fuse.EntryOut) bool) bool) fuse.Status {
	at, ok := l.levels.path(in.NodeId)
	if !ok {
		return fuse.Status(syscall.ESTALE)
	}
	d, ok := l.levels.listing(in.Fh, in.Offset, func() (tensorfs.Dir, bool) {
		d, _, ok := l.level(in.NodeId)
		return d, ok
	})
	if !ok {
		return fuse.Status(syscall.ESTALE)
	}
	dots := []fuse.DirEntry{{Name: ".", Ino: l.levels.ino(at)}, {Name: "..", Ino: l.levels.ino(parent(at))}}
	for off := in.Offset; off < uint64(2+d.Len()); off++ {
		if off < 2 {
			de := dots[off]
			de.Mode, de.Off = dirMode, off+1
			if !add(de, nil) {
				return fuse.OK
			}
			continue
		}
		e := d.Entry(int(off - 2))
		below := path.Join(at, e.Name)
		de := fuse.DirEntry{Name: e.Name, Mode: mode(&e), Ino: l.levels.ino(below), Off: off + 1}
		if e.Lazy != nil && e.Lazy.File {
			de.Ino = l.levels.id(below)<<inoBits | fileNode
		}
		if !add(de, func(out *fuse.EntryOut) bool { return l.listed(below, &e, out) }) {
			break
		}
	}
	return fuse.OK
}

// openFile begins to read a file of the levels, which may have another text and another size at any time. Its reader gets the text of
// this moment to its end, so the kernel neither keeps pages of it nor cuts it off at a size that it remembers.
func (l *library) openFile(in *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	if !above(in.NodeId) {
		return fuse.EISDIR
	}
	e, _, ok := l.entry(in.NodeId)
	switch {
	case !ok:
		return fuse.Status(syscall.ESTALE)
	case e.Data == nil:
		return fuse.EISDIR
	case !l.fs.opts.system.opens(in.Flags):
		return fuse.EROFS
	}
	out.OpenFlags = fuse.FOPEN_DIRECT_IO | fuse.FOPEN_NOFLUSH
	v := &l.levels
	v.mu.Lock()
	defer v.mu.Unlock()
	v.handle++
	v.read[v.handle] = e.Data
	out.Fh = v.handle
	return fuse.OK
}

// file returns what openFile began to read.
func (v *levels) file(handle uint64) (tensorfs.Data, bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	d, ok := v.read[handle]
	return d, ok
}
