package fs

import (
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
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
	opts    Options
	nodes   *nodes
	totals  totals
	reports reports
	health  health
	sent    sentReplies
	panics  atomic.Int32
	stored  *storedFiles // nil where the kernel passes nothing through
	hot     *hotFiles    // nil without Options.Hot
}

func newRawFS(tree Dir, opts Options) (*rawFS, error) {
	opts.setDefaults()
	t, err := newNodes(tree)
	if err != nil {
		return nil, fmt.Errorf("cannot serve this tree: %w", err)
	}
	f := &rawFS{
		RawFileSystem: fuse.NewDefaultRawFileSystem(),
		opts:          opts,
		nodes:         t,
	}
	f.health.mounted = time.Now()
	f.opts.Logger = slog.New(remembering{Handler: opts.Logger.Handler(), health: &f.health})
	f.stored = newStored(f.opts.Logger)
	if opts.Hot > 0 {
		if f.hot, err = newHot(opts.Hot, f.opts.Logger); err != nil {
			return nil, err
		}
	}
	return f, nil
}

// String names the file system in the messages of go-fuse.
func (f *rawFS) String() string { return subtype }

// Init learns what the kernel can do.
func (f *rawFS) Init(s *fuse.Server) {
	if f.stored != nil {
		f.stored.start(s)
	}
	if f.hot != nil {
		f.hot.start(s)
	}
}

// OnUnmount frees what the mount took.
func (f *rawFS) OnUnmount() {
	if f.hot != nil {
		f.hot.close()
	}
}

// maxPanics is how many panics are logged: they are bugs, and a few lines with
// stacks are enough.
const maxPanics = 3

// panicked turns a panic in a handler, a bug of this program, into EIO.
func (f *rawFS) panicked(v any) fuse.Status {
	if f.panics.Add(1) > maxPanics {
		return fuse.EIO
	}
	f.opts.Logger.Error("internal error while serving a request", "panic", v, "stack", string(debug.Stack()))
	return fuse.EIO
}

// dirMode, fileMode and linkMode are all there is in the tree.
const (
	dirMode  = syscall.S_IFDIR | 0o555
	fileMode = syscall.S_IFREG | 0o444
	linkMode = syscall.S_IFLNK | 0o777
)

// mode returns the mode of an entry.
func mode(e *Entry) uint32 {
	switch {
	case e.Dir != nil:
		return dirMode
	case e.Data != nil:
		return fileMode
	}
	return linkMode
}

// attr fills in the attributes of a node. Only here is a file asked for its
// size, which may mean rendering it.
func (f *rawFS) attr(id uint64, e *Entry, out *fuse.Attr) {
	*out = fuse.Attr{Ino: id, Mode: mode(e), Nlink: 1, Blksize: block}
	switch {
	case e.Dir != nil:
		if _, ok := e.Dir.(*Later); ok {
			break // the 1 of other file systems that do not count
		}
		out.Nlink = 2
		if d := f.nodes.dir(id); d != nil {
			out.Nlink += d.subdirs
		}
	case e.Data != nil:
		size := uint64(e.Data.Size())
		out.Size, out.Blocks = size, blocks(size)*(block/512)
	default:
		out.Size = uint64(len(e.Link))
	}
	l := f.opts.look
	out.Uid, out.Gid = l.uid, l.gid
	if e.Link == "" {
		out.Mode &^= l.umask
	}
	t := f.opts.ModTime
	out.SetTimes(&t, &t, &t)
}

// blocks returns how many blocks a file takes. A converted file takes them from
// no disk, but a reader who copies it needs them, and a file with fewer blocks
// than bytes would pass for a sparse one.
func blocks(size uint64) uint64 { return (size + block - 1) / block }

// root is the entry of the root directory.
func (f *rawFS) root() Entry { return Entry{Dir: f.nodes.dirs[0].Dir} }

// node returns any node's entry.
func (f *rawFS) node(id uint64) (Entry, bool) {
	if id == fuse.FUSE_ROOT_ID {
		return f.root(), true
	}
	return f.nodes.entry(id)
}

func (f *rawFS) entryOut(id uint64, e *Entry, out *fuse.EntryOut) {
	out.NodeId = id
	out.SetEntryTimeout(forever)
	out.SetAttrTimeout(forever)
	f.attr(id, e, &out.Attr)
}

// Lookup finds a name in a directory. A name that is not there is remembered by
// the kernel too: node 0 with a timeout.
func (f *rawFS) Lookup(_ <-chan struct{}, h *fuse.InHeader, name string, out *fuse.EntryOut) fuse.Status {
	d := f.nodes.dir(h.NodeId)
	if d == nil {
		return fuse.ENOTDIR
	}
	if len(name) > maxName { // the kernel passes on up to 1024 bytes and more
		return fuse.Status(syscall.ENAMETOOLONG)
	}
	i, ok := Lookup(d.Dir, name)
	if !ok {
		*out = fuse.EntryOut{}
		out.SetEntryTimeout(forever)
		return fuse.OK
	}
	e := d.Entry(i)
	f.entryOut(d.base+uint64(i), &e, out)
	return fuse.OK
}

// Forget does nothing: nodes have no state.
func (f *rawFS) Forget(uint64, uint64) {}

// GetAttr returns the attributes of a node.
func (f *rawFS) GetAttr(_ <-chan struct{}, in *fuse.GetAttrIn, out *fuse.AttrOut) fuse.Status {
	e, ok := f.node(in.NodeId)
	if !ok {
		return fuse.ENOENT
	}
	out.SetTimeout(forever)
	f.attr(in.NodeId, &e, &out.Attr)
	return fuse.OK
}

// Readlink returns the target of a symbolic link.
func (f *rawFS) Readlink(_ <-chan struct{}, h *fuse.InHeader) ([]byte, fuse.Status) {
	e, ok := f.node(h.NodeId)
	if !ok {
		return nil, fuse.ENOENT
	}
	if e.Link == "" {
		return nil, fuse.EINVAL
	}
	return []byte(e.Link), fuse.OK
}

// totals are the sums that df shows, made when first asked for.
type totals struct {
	once   sync.Once
	blocks uint64
}

// StatFs returns the size of the tree: as many blocks as du counts, none of them
// free. Directories that are made later do not count, made or not.
func (f *rawFS) StatFs(_ <-chan struct{}, _ *fuse.InHeader, out *fuse.StatfsOut) fuse.Status {
	f.totals.once.Do(func() {
		for k := range f.nodes.dirs {
			d := &f.nodes.dirs[k]
			if d.later != nil {
				continue
			}
			for i := range d.Len() {
				if e := d.Entry(i); e.Data != nil {
					f.totals.blocks += blocks(uint64(e.Data.Size()))
				}
			}
		}
	})
	*out = fuse.StatfsOut{
		Bsize:   block,
		Frsize:  block,
		Blocks:  f.totals.blocks,
		Files:   f.nodes.count,
		NameLen: maxName,
	}
	return fuse.OK
}

// OpenDir allows a directory to be read.
func (f *rawFS) OpenDir(_ <-chan struct{}, in *fuse.OpenIn, _ *fuse.OpenOut) fuse.Status {
	if f.nodes.dir(in.NodeId) == nil {
		return fuse.ENOTDIR
	}
	return fuse.OK
}

// ReadDir lists names. Offsets: 0 is ".", 1 is "..", 2+i is entry i.
func (f *rawFS) ReadDir(_ <-chan struct{}, in *fuse.ReadIn, out *fuse.DirEntryList) fuse.Status {
	return f.list(in, func(de fuse.DirEntry, _ *Entry) bool { return out.AddDirEntry(de) })
}

// ReadDirPlus lists names with attributes. The kernel asks for them where a
// reader looks at the files too (READDIRPLUS_AUTO).
func (f *rawFS) ReadDirPlus(_ <-chan struct{}, in *fuse.ReadIn, out *fuse.DirEntryList) fuse.Status {
	return f.list(in, func(de fuse.DirEntry, e *Entry) bool {
		eo := out.AddDirLookupEntry(de)
		if eo == nil {
			return false
		}
		if e != nil { // "." and ".." carry no node
			f.entryOut(de.Ino, e, eo)
		}
		return true
	})
}

// list hands the entries of a directory from in.Offset on to add until it has
// no room for more.
func (f *rawFS) list(in *fuse.ReadIn, add func(fuse.DirEntry, *Entry) bool) fuse.Status {
	d := f.nodes.dir(in.NodeId)
	if d == nil {
		return fuse.ENOTDIR
	}
	at := in.Offset
	for dots := []fuse.DirEntry{{Name: ".", Ino: d.id}, {Name: "..", Ino: d.parent}}; at < 2; at++ {
		de := dots[at]
		de.Mode, de.Off = dirMode, at+1
		if !add(de, nil) {
			return fuse.OK
		}
	}
	for ; at-2 < d.n; at++ {
		i := at - 2
		e := d.Entry(int(i))
		if !add(fuse.DirEntry{Name: e.Name, Mode: mode(&e), Ino: d.base + i, Off: at + 1}, &e) {
			break
		}
	}
	return fuse.OK
}
