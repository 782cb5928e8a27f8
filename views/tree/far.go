package tree

import (
	"context"
	"sync"

	"github.com/tensorfs/tensorfs"
)

// farFile is a remote file of the model. It is opened when its size is first asked for,
// which costs no round trip.
type farFile struct {
	m    *tensorfs.Model
	name string

	once sync.Once
	data tensorfs.Data
	err  error
}

// open returns the content of the file.
func (f *farFile) open() (tensorfs.Data, error) {
	f.once.Do(func() {
		if f.data, f.err = f.m.File(f.name); f.err == nil {
			f.data = tensorfs.Whole(f.data)
		}
	})
	return f.data, f.err
}

// Size returns the file's length, 0 if it cannot be opened.
func (f *farFile) Size() int64 {
	d, err := f.open()
	if err != nil {
		return 0
	}
	return d.Size()
}

// ReadAt implements io.ReaderAt.
func (f *farFile) ReadAt(p []byte, off int64) (int, error) {
	d, err := f.open()
	if err != nil {
		return 0, err
	}
	return d.ReadAt(p, off)
}

// ReadAtContext reads as ReadAt does, until ctx ends.
func (f *farFile) ReadAtContext(ctx context.Context, p []byte, off int64) (int, error) {
	d, err := f.open()
	if err != nil {
		return 0, err
	}
	if c, ok := d.(tensorfs.ContextReaderAt); ok {
		return c.ReadAtContext(ctx, p, off)
	}
	return d.ReadAt(p, off)
}

// SlicesIf returns mapped memory where the file has it.
func (f *farFile) SlicesIf(dst [][]byte, off, n int64) ([][]byte, bool, error) {
	d, err := f.open()
	if err != nil {
		return dst, false, err
	}
	return tensorfs.Slices(d, dst, off, n)
}

// Check returns the error of opening, or the file's.
func (f *farFile) Check() error {
	d, err := f.open()
	if err != nil {
		return err
	}
	return tensorfs.Check(d)
}

var (
	_ tensorfs.ContextReaderAt = (*farFile)(nil)
	_ tensorfs.PartSlicer      = (*farFile)(nil)
	_ tensorfs.Checker         = (*farFile)(nil)
)
