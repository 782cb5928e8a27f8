package fs

import (
	"context"
	"errors"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"
	"github.com/tensorfs/tensorfs"
)

// Open allows only reading, and only files that have not changed. Where the kernel
// opens files for both, writing fails when it is tried. What the kernel
// has cached of a file is kept for the next reader that opens it.
func (f *rawFS) Open(_ <-chan struct{}, in *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	out.OpenFlags = fuse.FOPEN_KEEP_CACHE | fuse.FOPEN_NOFLUSH
	if f.library != nil && f.library.answers(in.NodeId) {
		return f.library.openFile(in, out)
	}
	t, id, st := f.enter(in.NodeId)
	if !st.Ok() {
		return st
	}
	defer f.leave(t)
	e, ok := t.get(id)
	switch {
	case !ok:
		return fuse.ENOENT
	case e.Data == nil:
		return fuse.EISDIR
	case !f.opts.system.opens(in.Flags):
		return fuse.EROFS
	}
	if err := tensorfs.Check(e.Data); err != nil {
		return f.failed(t, id, 0, err)
	}
	if err := f.passed.opened(t, id, e.Data, in.Flags&directIO != 0, in.Unique, out); err != nil {
		return f.failed(t, id, 0, err)
	}
	return fuse.OK
}

// Release ends what Open began.
func (f *rawFS) Release(_ <-chan struct{}, in *fuse.ReleaseIn) {
	switch {
	case f.library != nil && above(in.NodeId):
		f.library.levels.end(in.Fh)
	case in.Fh != 0:
		f.passed.released(in.NodeId, in.Fh)
	}
}

// Flush has nothing to write; after one ENOSYS the kernel asks no more.
func (f *rawFS) Flush(<-chan struct{}, *fuse.FlushIn) fuse.Status { return fuse.ENOSYS }

// Read answers a read. Interrupts are ignored, because Go programs cause them all the time
// and the answer is on its way, unless the Data may have to wait (tensorfs.ContextReaderAt)
// and the reader was sent a signal: see request.
func (f *rawFS) Read(cancel <-chan struct{}, in *fuse.ReadIn, buf []byte) (fuse.ReadResult, fuse.Status) {
	if f.library != nil && f.library.answers(in.NodeId) {
		d, ok := f.library.levels.file(in.Fh)
		if !ok {
			return nil, fuse.Status(syscall.ESTALE)
		}
		req := newRequest(cancel, in.Pid)
		defer req.end()
		res, err := f.read(req, d, int64(in.Offset), buf)
		return res, errno(err)
	}
	t, id, st := f.enter(in.NodeId)
	if !st.Ok() {
		return nil, st
	}
	inUse := false // beyond this function
	defer func() {
		if !inUse {
			f.leave(t)
		}
	}()
	e, ok := t.get(id)
	switch {
	case !ok:
		return nil, fuse.ENOENT
	case e.Data == nil:
		return nil, fuse.EISDIR
	}
	req := newRequest(cancel, in.Pid)
	defer req.end()
	res, err := f.read(req, e.Data, int64(in.Offset), buf)
	if errors.Is(err, context.Canceled) {
		return nil, fuse.EINTR
	}
	if err != nil {
		return nil, f.failed(t, id, int64(in.Offset), err)
	}
	f.counter.wasRead(t.nodes, id, res.Size())
	if m, ok := res.(*mapped); ok {
		m.data, m.id, m.off, m.fs, m.tree = e.Data, in.NodeId, int64(in.Offset), f, t
		inUse = true
	}
	return res, fuse.OK
}

// read makes the reply for up to len(buf) bytes at off. A server that keeps its mount
// copies them all. If it were killed while the kernel copies pages that are not in its
// tables, the kernel would not fetch them, and the reader would get an I/O error instead of
// the next server's answer (of a file of 512 MiB in raw/, in 5 of 100 kills).
func (f *rawFS) read(ctx context.Context, d tensorfs.Data, off int64, buf []byte) (fuse.ReadResult, error) {
	size := d.Size()
	if off < 0 || off >= size {
		return fuse.ReadResultData(nil), nil
	}
	buf = buf[:min(int64(len(buf)), size-off)]
	if canReplyMapped && f.opts.Keeper == nil && len(buf) > 0 {
		slices, all, err := tensorfs.Slices(d, nil, off, int64(len(buf)))
		if err != nil {
			return nil, err
		}
		if r := (&mapped{slices: slices, n: len(buf)}); all && r.fitsOneWrite() {
			return r, nil
		}
	}
	if err := tensorfs.ReadFullContext(ctx, d, buf, off); err != nil {
		return nil, err
	}
	return fuse.ReadResultData(buf), nil
}

// maxSlices is what one writev takes, less the two parts of the header.
const maxSlices = 1024 - 2

// mapped is a reply from mapped memory. Only the kernel touches it,
// in writev: a page that is lost there is EFAULT, and the kernel ends the
// reader's request with EIO.
//
// That go-fuse finds Slices on the type is essential. It calls Bytes on any
// other type and copies, which would touch the pages from Go.
type mapped struct {
	slices [][]byte
	n      int
	data   tensorfs.Data
	id     uint64 // of the file
	off    int64  // in the file
	fs     *rawFS
	tree   *served
	held   func() // ends what keeps other programs from changing the bytes, or nil
}

// fitsOneWrite reports whether one writev can take the reply.
func (m *mapped) fitsOneWrite() bool {
	n := 0
	for _, s := range m.slices {
		n += len(s)
	}
	return n == m.n && len(m.slices) <= maxSlices
}

// Slices returns the memory. It must not fail: go-fuse would send no reply.
func (m *mapped) Slices() ([][]byte, fuse.Status) { return m.slices, fuse.OK }

// Size returns the length of the reply.
func (m *mapped) Size() int { return m.n }

// Done runs when the kernel has copied the reply, or refused to. It remembers the reply,
// for that case, and ends the request: from here on the mapping may go.
func (m *mapped) Done() {
	if m.held != nil {
		m.held()
	}
	if m.fs == nil {
		return
	}
	if err := tensorfs.CheckPart(m.data, m.off, int64(m.n)); err != nil {
		m.fs.takeBack(m, err)
	}
	m.fs.sent.add(m)
	m.fs.leave(m.tree)
}

// takeBack has the kernel forget the pages of a reply whose source changed while it
// was copied: they may be of the new bytes, and later readers would get them without
// an error. Their own reads fail from here on, so there are only the replies that were
// under way. Older pages stay: they are of the old bytes, and a program that has mapped
// them goes on. It waits for the pages' locks, which requests hold that others answer,
// so it is not for the goroutine of a request.
func (f *rawFS) takeBack(m *mapped, err error) {
	f.failed(m.tree, local(m.id), m.off, err)
	if f.fuse != nil { // else nothing is mounted
		go f.fuse.InodeNotify(m.id, m.off, int64(m.n))
	}
}

// Bytes is never called on a type with Slices.
func (m *mapped) Bytes([]byte) ([]byte, fuse.Status) { return nil, fuse.EIO }

var (
	_ fuse.ReadResult = (*mapped)(nil)
)
