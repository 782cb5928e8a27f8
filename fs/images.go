package fs

import (
	"errors"
	"slices"
	"strconv"
	"sync"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"
	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/fs/internal/erofs"
)

// minImaged is the smallest file that is worth an image: smaller ones are read in a
// request or two.
const minImaged = 1 << 20

// errNoImage is the error that a directory has no image for any user.
var errNoImage = errors.New("no image")

// inImage reports whether a file is in the image of its directory. Texts are not: they
// would have to be rendered for their sizes.
func inImage(d tensorfs.Data) bool {
	if _, text := d.(*tensorfs.Text); text || d == nil {
		return false
	}
	return d.Size() >= minImaged
}

// images are directories of the tree in a form that the kernel can read without the
// server's views:
//
//	reader -> FUSE mount -(passthrough)-> EROFS of a directory -> private FUSE mount -> server
//	                                      large pages of what       one file for each
//	                                      was read stay here        directory, its image
//
// The private mount has no name anywhere. It is a mount of its own because the kernel stacks
// no file system on one that passes files through.
type images struct {
	fuse.RawFileSystem
	tree   *rawFS
	kernel imageMounts

	mu     sync.Mutex
	mounts []image // the last used one last
}

// image is a directory that is mounted.
type image struct {
	node uint64
	dir  int // a descriptor
}

// maxImages bounds the mounts that one server keeps. A model has some twenty directories; the one
// of a library that was not used for the longest time makes room, and takes its pages along.
const maxImages = 128

// imageMounts are the mounts of images.
type imageMounts interface {
	// mount mounts the image with that name and returns a descriptor of its directory.
	mount(name string) (dir int, err error)
	// open opens a file in it.
	open(dir int, name string) (fd int, err error)
	unmount(dir int)
	end()
}

// newImagesOf returns the images of a tree. Their mounts come later.
func newImagesOf(f *rawFS) *images {
	return &images{RawFileSystem: fuse.NewDefaultRawFileSystem(), tree: f}
}

// open opens a file through the image of its directory.
func (m *images) open(t *served, id uint64) (fd int, err error) {
	d, i, ok := t.directoryOf(id)
	if !ok || t.layout(d) == nil {
		return -1, errNoImage
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	dir, err := m.mounted(t.node | d.id)
	if err != nil {
		return -1, err
	}
	return m.kernel.open(dir, erofs.Name(i))
}

// mounted returns the mount of a directory's image. mu is held.
func (m *images) mounted(node uint64) (dir int, err error) {
	if i := slices.IndexFunc(m.mounts, func(d image) bool { return d.node == node }); i >= 0 {
		used := m.mounts[i]
		m.mounts = append(slices.Delete(m.mounts, i, i+1), used)
		return used.dir, nil
	}
	if dir, err = m.kernel.mount(strconv.FormatUint(node, 10)); err != nil {
		return -1, err
	}
	if len(m.mounts) == maxImages {
		m.kernel.unmount(m.mounts[0].dir)
		m.mounts = slices.Delete(m.mounts, 0, 1)
	}
	m.mounts = append(m.mounts, image{node, dir})
	return dir, nil
}

// len returns how many directories have an image now.
func (m *images) len() int {
	if m == nil {
		return 0
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.mounts)
}

// end unmounts all images. Files that are open stay readable.
func (m *images) end() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, d := range m.mounts {
		m.kernel.unmount(d.dir)
	}
	m.mounts = nil
	m.kernel.end()
}

// layout returns the layout of a directory's image, nil if it has none.
func (t *served) layout(d *dirNode) *erofs.Layout {
	if l, ok := t.layouts.Load(d.id); ok {
		return l.(*erofs.Layout)
	}
	sizes := make([]int64, d.Len())
	for i := range sizes {
		if data := d.Entry(i).Data; inImage(data) {
			sizes[i] = data.Size()
		}
	}
	l, _ := t.layouts.LoadOrStore(d.id, erofs.New(sizes))
	return l.(*erofs.Layout)
}

// imageNode is set in the numbers of images; the rest of the number is the directory's. The
// private mount has a root of its own.
const imageNode = 1 << 63

// String names the private mount in the messages of go-fuse.
func (m *images) String() string { return "images" }

// Lookup finds an image by the number of its directory. Only this server asks.
func (m *images) Lookup(_ <-chan struct{}, h *fuse.InHeader, name string, out *fuse.EntryOut) fuse.Status {
	node, err := strconv.ParseUint(name, 10, 63)
	if h.NodeId != fuse.FUSE_ROOT_ID || err != nil {
		return fuse.ENOENT
	}
	out.NodeId = node | imageNode
	out.SetEntryTimeout(forever)
	out.SetAttrTimeout(forever)
	return m.attr(out.NodeId, &out.Attr)
}

// GetAttr returns the attributes of an image or of the root.
func (m *images) GetAttr(_ <-chan struct{}, in *fuse.GetAttrIn, out *fuse.AttrOut) fuse.Status {
	out.SetTimeout(forever)
	return m.attr(in.NodeId, &out.Attr)
}

func (m *images) attr(node uint64, out *fuse.Attr) fuse.Status {
	*out = fuse.Attr{Ino: node, Mode: dirMode, Nlink: 2, Blksize: block}
	if node == fuse.FUSE_ROOT_ID {
		return fuse.OK
	}
	t, _, l, st := m.enter(node)
	if !st.Ok() {
		return st
	}
	defer m.tree.leave(t)
	out.Mode, out.Nlink, out.Size = syscall.S_IFREG|0o400, 1, uint64(l.Size())
	return fuse.OK
}

// enter returns the directory that an image is of, and keeps its tree open until leave.
func (m *images) enter(node uint64) (t *served, d *dirNode, l *erofs.Layout, st fuse.Status) {
	t, id, st := m.tree.enter(node &^ imageNode)
	if !st.Ok() {
		return nil, nil, nil, st
	}
	if d = t.dir(id); d != nil {
		l = t.layout(d)
	}
	if l == nil {
		m.tree.leave(t)
		return nil, nil, nil, fuse.ENOENT
	}
	return t, d, l, fuse.OK
}

// Open allows an image to be read.
func (m *images) Open(_ <-chan struct{}, in *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	out.OpenFlags = fuse.FOPEN_KEEP_CACHE | fuse.FOPEN_NOFLUSH
	return fuse.OK
}

// Read reads from an image. The kernel cannot be told to drop a page of EROFS whose source
// changed while it was copied, so the bytes are sent from a mapping only if no program can
// change them until the reply is done. All others are copied here before their source is checked.
func (m *images) Read(cancel <-chan struct{}, in *fuse.ReadIn, buf []byte) (fuse.ReadResult, fuse.Status) {
	t, d, l, st := m.enter(in.NodeId)
	if !st.Ok() {
		return nil, st
	}
	off := int64(in.Offset)
	if r := m.held(t, d, l, off, int64(len(buf))); r != nil {
		return r, fuse.OK
	}
	defer m.tree.leave(t)
	req := newRequest(cancel, in.Pid)
	defer req.end()
	if off >= l.Size() {
		return fuse.ReadResultData(nil), fuse.OK
	}
	buf = buf[:min(int64(len(buf)), l.Size()-off)]
	failed := fuse.OK
	err := l.Read(buf, off, func(i int, p []byte, off int64) error {
		data := d.Entry(i).Data
		err := tensorfs.ReadFullContext(req, data, p, off)
		if err == nil {
			err = tensorfs.CheckPart(data, off, int64(len(p)))
		}
		if err != nil {
			failed = m.tree.failed(t, d.base+uint64(i), off, err)
		}
		return err
	})
	if err != nil {
		return nil, failed
	}
	return fuse.ReadResultData(buf), fuse.OK
}

// held returns a reply from mapped memory for [off, off+n) of an image, whose source no program can
// change until the reply is done. It returns nil if the bytes have to be copied.
func (m *images) held(t *served, d *dirNode, l *erofs.Layout, off, n int64) *mapped {
	i, at, ok := l.File(off, n)
	if !ok || n == 0 || !canReplyMapped {
		return nil
	}
	data := d.Entry(i).Data
	slices, all, err := tensorfs.Slices(data, nil, at, n)
	r := &mapped{slices: slices, n: int(n), data: data, id: t.node | (d.base + uint64(i)), off: at, fs: m.tree, tree: t}
	if err != nil || !all || !r.fitsOneWrite() {
		return nil // the copy finds the error
	}
	if r.held, ok = tensorfs.Hold(data, at, n); !ok {
		return nil
	}
	if err := tensorfs.CheckPart(data, at, n); err != nil { // before it was held
		r.held()
		return nil
	}
	return r
}

// Forget does nothing: nodes have no state.
func (m *images) Forget(uint64, uint64) {}
