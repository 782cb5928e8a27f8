package export

import (
	"context"
	"errors"
	"os"
	"strings"

	"github.com/tensorfs/tensorfs"
	"golang.org/x/sys/unix"
)

// piece is how much is read and written at a time.
const piece = 1 << 20

// minSlice is how long the runs of mapped memory have to be on average for the
// kernel to take them from there: shorter ones are gathered first.
const minSlice = 16 << 10

// copy writes the bytes [off, off+n) of a file.
func (w *worker) copy(ctx context.Context, f *output, out *os.File, off, n int64) error {
	if s, ok := f.Data.(storedFile); ok {
		copied, err := w.copyStored(ctx, s, out, off, n)
		if err != nil {
			return err
		}
		off, n = off+copied, n-copied
	}
	for n > 0 {
		if err := ctx.Err(); err != nil {
			return err
		}
		take := min(n, piece)
		if err := w.copyPiece(ctx, f, out, off, take); err != nil {
			return err
		}
		w.done(take)
		off, n = off+take, n-take
	}
	return nil
}

// copyPiece reads and writes a chunk. Mapped memory is written directly, which saves a
// copy.
func (w *worker) copyPiece(ctx context.Context, f *output, out *os.File, off, n int64) error {
	slices, mapped, err := tensorfs.Slices(f.Data, w.slices[:0], off, n)
	if err != nil {
		return err
	}
	if w.slices = slices; mapped && int64(len(slices))*minSlice <= max(n, minSlice) {
		for _, b := range slices {
			if err := w.pwrite(f, out, b, off); err != nil {
				return err
			}
			off += int64(len(b))
		}
		return nil
	}
	b := w.buf[:n]
	if err := tensorfs.ReadFullContext(ctx, f.Data, b, off); err != nil {
		return err
	}
	return w.pwrite(f, out, b, off)
}

func (w *worker) pwrite(f *output, out *os.File, b []byte, off int64) error {
	_, err := out.WriteAt(b, off)
	if errors.Is(err, unix.EFAULT) { // the page is gone, so the file is another
		if cerr := w.x.check(f.Data); cerr != nil {
			return cerr
		}
	}
	if err != nil {
		return w.x.failed(f.Path, err)
	}
	return nil
}

// storedFile is Data that is all of an open file of this machine.
type storedFile interface {
	tensorfs.Data
	Descriptor() int
}

// copyStored lets the kernel copy, as far as it does.
func (w *worker) copyStored(ctx context.Context, s storedFile, out *os.File, off, n int64) (copied int64, err error) {
	for copied < n {
		if err := ctx.Err(); err != nil {
			return copied, err
		}
		m := kernelCopy(s.Descriptor(), out, off+copied, min(n-copied, 4*piece))
		if m <= 0 {
			return copied, nil
		}
		w.done(m)
		copied += m
	}
	return copied, nil
}

// cloneStored makes a file share the blocks of its source file, if the file system can.
// Otherwise the file is written in the normal way.
func (x *exporter) cloneStored(f *output) bool {
	s, ok := f.Data.(storedFile)
	if !ok || f.have != nil || f.size == 0 {
		return false
	}
	out, err := x.clone(x.own, s.Descriptor(), f.partial)
	if err != nil {
		return false
	}
	if st, err := out.Stat(); err != nil || st.Size() != f.size {
		out.Close() // it changed, which is reported when it is read
		return false
	}
	f.out, f.cloned, f.pending = out, true, 0
	return true
}

// linkStored hard-links a file to its source file, if that is wanted and both are on one
// file system.
func (x *exporter) linkStored(f *output) {
	s, ok := f.Data.(storedFile)
	p, named := f.Data.(interface{ Path() string })
	if x.Link == nil || !ok || !named || f.size == 0 {
		return
	}
	fd, err := unix.FcntlInt(uintptr(s.Descriptor()), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return
	}
	open := os.NewFile(uintptr(fd), p.Path())
	defer open.Close()
	st, err := open.Stat()
	if err != nil || !st.Mode().IsRegular() || !x.Link(st) {
		return
	}
	name := strings.TrimSuffix(f.partial, partialSuffix) + linkSuffix
	if err := x.own.Remove(name); err != nil && !errors.Is(err, os.ErrNotExist) {
		return
	}
	if x.own.LinkOpen(fd, p.Path(), name) != nil {
		return
	}
	made, err := x.own.Lstat(name)
	if err != nil || !os.SameFile(made, st) || made.Size() != f.size {
		_ = x.own.Remove(name) // the path leads to another file by now
		return
	}
	f.linked, f.pending, f.have, f.partial = true, 0, nil, name
}
