package fs

import (
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/mounts"
)

// forever is how long the kernel may keep what never changes. Nothing in the
// tree does; the limit only keeps clear of overflows in the kernel.
const forever = 30 * 24 * time.Hour

// block is the unit of sizes on disk, as on ext4.
const block = 4096

// maxName is the longest name of a file.
const maxName = 255

// rawFS answers the kernel's requests. What it does not define is answered with
// ENOSYS, which makes the kernel stop asking: Access, Flush, Statx, Lseek, ...
type rawFS struct {
	fuse.RawFileSystem
	*Faults
	opts    Options
	mount   mounts.Options // from Options.Extra
	tree    *served        // nil in a library
	library *library       // nil otherwise
	sent    sentReplies
	fuse    *fuse.Server
	passed  *passedFiles // nil if the kernel passes nothing through
	kept    *stateFile   // nil if the mount ends with its server
	counter *counter     // nil in a library
}

func newRawFS(tree tensorfs.Dir, opts Options) (*rawFS, error) {
	t, err := newNodes(tree)
	if err != nil {
		return nil, fmt.Errorf("cannot serve this tree: %w", err)
	}
	f, err := newRaw(opts)
	if err != nil {
		return nil, err
	}
	f.tree = &served{nodes: t, modTime: f.opts.ModTime}
	f.counter = newCounter(t)
	return f, nil
}

// newRaw returns a file system without a tree or a library.
func newRaw(opts Options) (*rawFS, error) {
	if opts.ReadAheadKiB > 0 && os.Geteuid() != 0 {
		return nil, mounts.Advised{Text: "the kernel's read-ahead needs root: leave --read-ahead out", Cause: syscall.EPERM}
	}
	opts.setDefaults()
	parsed, err := opts.mountOptions()
	if err != nil {
		return nil, err
	}
	f := &rawFS{RawFileSystem: fuse.NewDefaultRawFileSystem(), Faults: NewFaults(opts.Logger), opts: opts, mount: parsed}
	f.opts.Logger = f.Logger()
	f.passed = newPassed(f)
	return f, nil
}

// String names the file system in the messages of go-fuse.
func (f *rawFS) String() string { return mounts.Program }

// Init learns what the kernel can do.
func (f *rawFS) Init(s *fuse.Server) {
	f.fuse = s
	if f.passed != nil {
		f.passed.start(f, s)
	}
}

// OnUnmount frees what the mount took.
func (f *rawFS) OnUnmount() {
	f.passed.end()
	if f.library != nil {
		f.library.end()
	}
}

// panicked turns a panic in a handler, a bug of this program, into EIO.
func (f *rawFS) panicked(v any) fuse.Status {
	f.Panicked(v)
	return fuse.EIO
}

// dirMode, fileMode and linkMode are all there is in the tree.
const (
	dirMode  = syscall.S_IFDIR | 0o555
	fileMode = syscall.S_IFREG | 0o444
	linkMode = syscall.S_IFLNK | 0o777
)

// mode returns the mode of an entry.
func mode(e *tensorfs.Entry) uint32 {
	switch {
	case e.Dir != nil || e.Lazy != nil && !e.Lazy.File:
		return dirMode
	case e.Data != nil || e.Lazy != nil:
		return fileMode
	}
	return linkMode
}

// attr fills in the attributes of a node. Only here is a file asked for its
// size, which may mean rendering it.
func (f *rawFS) attr(t *served, id uint64, e *tensorfs.Entry, out *fuse.Attr) {
	f.plainAttr(t.ino|id, mode(e), t.modTime, out)
	switch {
	case e.Dir != nil:
		out.Nlink = t.links(id, e)
	case e.Data != nil:
		size := uint64(e.Data.Size())
		out.Size, out.Blocks = size, blocks(size)*(block/512)
	default:
		out.Size = uint64(len(e.Link))
	}
}

// plainAttr fills in the attributes of anything, without a size.
func (f *rawFS) plainAttr(ino uint64, mode uint32, modTime time.Time, out *fuse.Attr) {
	l := f.mount.Look
	*out = fuse.Attr{Ino: ino, Mode: mode, Nlink: 1, Blksize: f.opts.system.blksize}
	out.Uid, out.Gid = l.UID, l.GID
	if mode&syscall.S_IFMT != syscall.S_IFLNK {
		out.Mode &^= l.Umask
	}
	out.SetTimes(&modTime, &modTime, &modTime)
}

// blocks returns how many blocks a file takes. A converted file takes them from
// no disk, but a reader who copies it needs them, and a file with fewer blocks
// than bytes would pass for a sparse one.
func blocks(size uint64) uint64 { return (size + block - 1) / block }

func (f *rawFS) entryOut(t *served, id uint64, e *tensorfs.Entry, out *fuse.EntryOut) {
	out.NodeId = t.node | id
	out.SetEntryTimeout(forever)
	out.SetAttrTimeout(forever)
	f.attr(t, id, e, &out.Attr)
}

// Lookup finds a name in a directory. A name that is not there is remembered by
// the kernel too: node 0 with a timeout.
func (f *rawFS) Lookup(cancel <-chan struct{}, h *fuse.InHeader, name string, out *fuse.EntryOut) fuse.Status {
	if f.library != nil && above(h.NodeId) {
		return f.library.lookup(cancel, h, name, out)
	}
	t, id, st := f.enter(h.NodeId)
	if !st.Ok() {
		return st
	}
	defer f.leave(t)
	d := t.dir(id)
	if d == nil {
		return fuse.ENOTDIR
	}
	if len(name) > maxName { // the kernel passes on up to 1024 bytes and more
		return fuse.Status(syscall.ENAMETOOLONG)
	}
	i, ok := tensorfs.Lookup(d.Dir, name)
	if !ok {
		*out = fuse.EntryOut{}
		out.SetEntryTimeout(forever)
		return fuse.OK
	}
	e := d.Entry(i)
	f.entryOut(t, d.base+uint64(i), &e, out)
	return fuse.OK
}

// Forget does nothing: nodes have no state.
func (f *rawFS) Forget(uint64, uint64) {}

// GetAttr returns the attributes of a node.
func (f *rawFS) GetAttr(_ <-chan struct{}, in *fuse.GetAttrIn, out *fuse.AttrOut) fuse.Status {
	if f.library != nil && (f.library.answers(in.NodeId) || f.library.sized(in.NodeId)) {
		return f.library.getAttr(in.NodeId, out)
	}
	t, id, st := f.enter(in.NodeId)
	if !st.Ok() {
		return st
	}
	defer f.leave(t)
	e, ok := t.get(id)
	if !ok {
		return fuse.ENOENT
	}
	out.SetTimeout(forever)
	f.attr(t, id, &e, &out.Attr)
	return fuse.OK
}

// Readlink returns the target of a symbolic link.
func (f *rawFS) Readlink(_ <-chan struct{}, h *fuse.InHeader) ([]byte, fuse.Status) {
	if f.library != nil && f.library.answers(h.NodeId) {
		return nil, fuse.EINVAL
	}
	t, id, st := f.enter(h.NodeId)
	if !st.Ok() {
		return nil, st
	}
	defer f.leave(t)
	e, ok := t.get(id)
	if !ok {
		return nil, fuse.ENOENT
	}
	if e.Link == "" {
		return nil, fuse.EINVAL
	}
	return []byte(e.Link), fuse.OK
}

// StatFs returns the size of the tree: as many blocks as du counts, none of them
// free. The trees of a library do not count above them.
func (f *rawFS) StatFs(_ <-chan struct{}, h *fuse.InHeader, out *fuse.StatfsOut) fuse.Status {
	if f.library != nil && f.library.answers(h.NodeId) {
		*out = fuse.StatfsOut{Bsize: block, Frsize: block, NameLen: maxName}
		return fuse.OK
	}
	t, _, st := f.enter(h.NodeId)
	if !st.Ok() {
		return st
	}
	defer f.leave(t)
	*out = fuse.StatfsOut{
		Bsize:   block,
		Frsize:  block,
		Blocks:  t.blocks(),
		Files:   t.count,
		NameLen: maxName,
	}
	return fuse.OK
}

// OpenDir allows a directory to be read.
func (f *rawFS) OpenDir(_ <-chan struct{}, in *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	if f.library != nil && f.library.answers(in.NodeId) {
		return f.library.openDir(in, out)
	}
	t, id, st := f.enter(in.NodeId)
	if !st.Ok() {
		return st
	}
	defer f.leave(t)
	if t.dir(id) == nil {
		return fuse.ENOTDIR
	}
	return fuse.OK
}

// ReleaseDir ends what OpenDir began.
func (f *rawFS) ReleaseDir(in *fuse.ReleaseIn) {
	if f.library != nil && above(in.NodeId) {
		f.library.levels.end(in.Fh)
	}
}

// ReadDir lists names. Offsets: 0 is ".", 1 is "..", 2+i is entry i.
func (f *rawFS) ReadDir(_ <-chan struct{}, in *fuse.ReadIn, out *fuse.DirEntryList) fuse.Status {
	return f.list(in, func(de fuse.DirEntry, _ func(*fuse.EntryOut) bool) bool { return out.AddDirEntry(de) })
}

// ReadDirPlus lists names with attributes. The kernel asks for them where a
// reader looks at the files too (READDIRPLUS_AUTO).
func (f *rawFS) ReadDirPlus(_ <-chan struct{}, in *fuse.ReadIn, out *fuse.DirEntryList) fuse.Status {
	return f.list(in, func(de fuse.DirEntry, fill func(*fuse.EntryOut) bool) bool {
		eo := out.AddDirLookupEntry(de)
		if eo == nil {
			return false
		}
		if fill == nil || !fill(eo) { // "." and ".." carry no node
			*eo = fuse.EntryOut{}
		}
		return true
	})
}

// list passes the entries of a directory from in.Offset on to add until its buffer is full.
// fill (nil with "." and "..") fills in an entry's node and attributes, if there
// are any.
func (f *rawFS) list(in *fuse.ReadIn, add func(de fuse.DirEntry, fill func(*fuse.EntryOut) bool) bool) fuse.Status {
	if f.library != nil && above(in.NodeId) {
		return f.library.list(in, add)
	}
	t, id, st := f.enter(in.NodeId)
	if !st.Ok() {
		return st
	}
	defer f.leave(t)
	d := t.dir(id)
	if d == nil {
		return fuse.ENOTDIR
	}
	dots := []fuse.DirEntry{{Name: ".", Ino: t.ino | d.id}, {Name: "..", Ino: t.ino | d.parent}}
	if t.slot != nil && d.id == fuse.FUSE_ROOT_ID {
		dots[1].Ino = f.library.levels.ino(parent(t.slot.path))
	}
	at := in.Offset
	for ; at < 2; at++ {
		de := dots[at]
		de.Mode, de.Off = dirMode, at+1
		if !add(de, nil) {
			return fuse.OK
		}
	}
	for ; at-2 < d.n; at++ {
		i := at - 2
		e, id := d.Entry(int(i)), d.base+i
		de := fuse.DirEntry{Name: e.Name, Mode: mode(&e), Ino: t.ino | id, Off: at + 1}
		if !add(de, func(out *fuse.EntryOut) bool { f.entryOut(t, id, &e, out); return true }) {
			break
		}
	}
	return fuse.OK
}
