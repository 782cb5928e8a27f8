package tensorfs

import (
	"context"
	"fmt"
	"io"
)

// Data is a run of bytes of known length: a tensor, a converted tensor, a text.
// It is immutable and safe for concurrent use. *bytes.Reader and
// *io.SectionReader are Data.
//
// What a Data can do beyond reading is found by type assertion: [Extenter],
// [Viewer], [Slicer], [ContextReaderAt], [Checker].
//
// Data can be composed with [Section], [Concat] and [Interleave]; [Bytes] and
// [Text] are Data without a file.
type Data interface {
	io.ReaderAt
	Size() int64
}

// Extent is a run of bytes stored unchanged in a file of the model.
type Extent struct {
	File   string `json:"file"`   // name below source/
	Offset int64  `json:"offset"` // bytes from the start of that file
	Bytes  int64  `json:"bytes"`
}

// Extenter is Data whose bytes are stored unchanged in the model's files.
type Extenter interface {
	// Extents returns where the bytes are, in order. Nil means that not all of them are in files.
	Extents() []Extent
}

// Viewer is Data whose bytes are in memory, or can be, without a copy.
type Viewer interface {
	// View returns the bytes [off, off+n) and the memory that holds them: nil if that
	// memory cannot be lost. Read the bytes only under [Guard]. View returns no bytes and
	// no error if reading them is better than waiting for the memory: the function [View]
	// does that.
	View(off, n int64) ([]byte, Memory, error)
}

// Slicer is Data in mapped memory that the kernel may read but Go code must not
// touch, because a page of it may be gone. See [Slices] for Data of any kind.
type Slicer interface {
	// Slices appends to dst the memory that holds the bytes [off, off+n).
	Slices(dst [][]byte, off, n int64) ([][]byte, error)
}

// PartSlicer is Data with some of its bytes in mapped memory, or all, such as Data that
// is composed of others.
type PartSlicer interface {
	// SlicesIf is Slices of a [Slicer] where all of [off, off+n) is in mapped memory,
	// and otherwise returns dst and false.
	SlicesIf(dst [][]byte, off, n int64) (_ [][]byte, ok bool, err error)
}

// Slices appends the mapped memory of [off, off+n) to dst if d is a [Slicer], or a
// [PartSlicer] that has these bytes in mapped memory. Otherwise it returns dst and
// false.
func Slices(d Data, dst [][]byte, off, n int64) (_ [][]byte, ok bool, err error) {
	switch d := d.(type) {
	case Slicer:
		dst, err = d.Slices(dst, off, n)
		return dst, err == nil, err
	case PartSlicer:
		return d.SlicesIf(dst, off, n)
	}
	return dst, false, nil
}

// Extents returns where the bytes of d are in the model's files, or nil.
func Extents(d Data) []Extent {
	if e, ok := d.(Extenter); ok {
		return e.Extents()
	}
	return nil
}

// ReadFull reads len(p) bytes at off; fewer is an error.
func ReadFull(d Data, p []byte, off int64) error {
	n, err := d.ReadAt(p, off)
	return orShort(n == len(p), err)
}

// orShort is the error of a read that has to be complete.
func orShort(complete bool, err error) error {
	switch {
	case complete:
		return nil
	case err == nil || err == io.EOF:
		return io.ErrUnexpectedEOF
	}
	return err
}

// CheckRange returns an error unless [off, off+n) lies inside d.
func CheckRange(d Data, off, n int64) error {
	return checkRange(d.Size(), off, n)
}

// checkRange is CheckRange for data of the given size.
func checkRange(size, off, n int64) error {
	if off < 0 || n < 0 || off > size || n > size-off {
		return fmt.Errorf("range of %d bytes at %d is outside data of %d bytes", n, off, size)
	}
	return nil
}

// ClipRange returns how many of len(p) bytes at off lie inside data of the
// given size, and the error that an io.ReaderAt returns with that count.
func ClipRange(size int64, p []byte, off int64) (int, error) {
	switch {
	case off < 0:
		return 0, fmt.Errorf("negative offset %d", off)
	case off >= size:
		return 0, io.EOF
	case int64(len(p)) > size-off:
		return int(size - off), io.EOF
	}
	return len(p), nil
}

// ContextReaderAt is Data whose readers may have to wait for bytes and may give
// up: ReadAtContext is ReadAt until ctx ends, and then returns the error of ctx.
type ContextReaderAt interface {
	ReadAtContext(ctx context.Context, p []byte, off int64) (int, error)
}

// ReadFullContext is ReadFull, but stops when ctx ends if d is a [ContextReaderAt].
func ReadFullContext(ctx context.Context, d Data, p []byte, off int64) error {
	c, ok := d.(ContextReaderAt)
	if !ok {
		return ReadFull(d, p, off)
	}
	n, err := c.ReadAtContext(ctx, p, off)
	return orShort(n == len(p), err)
}

// Holder is Data of files that it can keep other programs from changing for a moment.
type Holder interface {
	// Hold returns false if a program can change [off, off+n) now. Otherwise no program can
	// until the caller calls release, soon: programs that want to write wait for it.
	Hold(off, n int64) (release func(), ok bool)
}

// Hold keeps the bytes [off, off+n) of d as they are if d is [Bytes] or a [Holder] that can.
// Check d afterwards: it may have changed before.
func Hold(d Data, off, n int64) (release func(), ok bool) {
	switch d := d.(type) {
	case Bytes:
		return func() {}, true
	case Holder:
		return d.Hold(off, n)
	}
	return nil, false
}

// Checker is Data that knows, without reading, whether its bytes can still be read.
type Checker interface {
	// Check returns an error that wraps ErrChanged once a file that the bytes come
	// from has changed since it was opened.
	Check() error
}

// PartChecker is Data that can check only some of its bytes, because it combines several
// files or is one among several.
type PartChecker interface {
	// CheckPart is Checker.Check for the bytes [off, off+n).
	CheckPart(off, n int64) error
}

// CheckPart asks d whether [off, off+n) can still be read, or, where d does not know
// that, whether all of it can.
func CheckPart(d Data, off, n int64) error {
	if c, ok := d.(PartChecker); ok {
		return c.CheckPart(off, n)
	}
	return Check(d)
}

// Check asks d whether its bytes can still be read. It returns nil unless d knows of a file
// that changed.
func Check(d Data) error {
	if c, ok := d.(Checker); ok {
		return c.Check()
	}
	return nil
}

// Fetcher is Data whose bytes may have to come from somewhere slow before they can
// be read: from a disk into the page cache, or from a server.
type Fetcher interface {
	// Fetch brings in the bytes [off, off+n) and returns when they are there, or ctx
	// ends.
	Fetch(ctx context.Context, off, n int64) error
}

// Fetch brings in the bytes [off, off+n) of d if it is a [Fetcher] or a [Section]
// of one. Of other Data there is nothing to bring in.
func Fetch(ctx context.Context, d Data, off, n int64) error {
	if err := CheckRange(d, off, n); err != nil {
		return err
	}
	d, off = unwrap(d, off)
	if f, ok := d.(Fetcher); ok {
		return f.Fetch(ctx, off, n)
	}
	return nil
}
