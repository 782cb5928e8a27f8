package metal

import (
	"errors"
	"fmt"
	"io"
	"os"
)

// Buffer is a tensor in a buffer of the device. It is valid until it is
// released; copies of the value are the same buffer.
type Buffer struct {
	Handle   uintptr // the device's object (id<MTLBuffer>), not retained for the caller; 0 of a Host
	Offset   int64   // of the tensor in the device's buffer
	Size     int64   // bytes of the tensor
	Contents []byte  // the tensor as the CPU sees it, read-only: a write is a fault
	Copied   bool    // the device declined the mapping, so this is a copy of the bytes
	File     string  // path of the file that the bytes are from: the mounted one or the model's

	slot *slot[Ref, *tensor]
}

// tensor is what the buffers of one tensor share.
type tensor struct {
	path   string
	region *slot[regionKey, *region] // nil for a copy
	own    DeviceBuffer              // the copy; nil without one
	offset int64
	size   int64
}

func (t *tensor) drop() error {
	if t.own != nil {
		return t.own.Release()
	}
	return t.region.release()
}

// regionKey is a part of a file that one device buffer wraps.
type regionKey struct {
	file  fileKey
	start int64
}

// region is a device buffer over a part of a mapping, which it keeps mapped.
type region struct {
	buffer  DeviceBuffer
	mapping *mapping
}

// place is where a tensor's bytes are mapped.
type place struct {
	file   fileKey
	start  int64 // of the window in the file
	offset int64 // of the tensor in the window
	open   func() (*os.File, error)
	size   int64 // bytes of the file to map
}

// Tensor returns a tensor as a buffer. Asking again gives the same buffer until
// it was released as often as it was asked for.
func (l *Loader) Tensor(view, name string) (Buffer, error) {
	ref := Ref{view, name}
	e, err := l.find(ref)
	if err != nil {
		return Buffer{}, fmt.Errorf("metal: %w", err)
	}
	s, err := l.tensors.acquire(ref, func() (*tensor, error) { return l.load(ref, e) })
	if err != nil {
		return Buffer{}, fmt.Errorf("metal: %s: %w", ref, err)
	}
	t := s.val
	b := Buffer{Offset: t.offset, Size: t.size, Copied: t.own != nil, File: t.path, slot: s}
	device := t.own
	if device == nil {
		device = t.region.val.buffer
	}
	b.Handle = device.Handle()
	b.Contents = device.Bytes()[t.offset : t.offset+t.size : t.offset+t.size]
	return b, nil
}

// load makes the buffer of a tensor.
func (l *Loader) load(ref Ref, e *entry) (*tensor, error) {
	if e.bytes > l.info.MaxBufferLength {
		return nil, fmt.Errorf("%d bytes, and %s takes buffers of at most %d", e.bytes, l.info.Name, l.info.MaxBufferLength)
	}
	p := l.locate(ref, e)
	t, err := l.wrap(p, e.bytes)
	if !errors.Is(err, ErrDeclined) {
		return t, err
	}
	return l.copy(p, e.bytes)
}

// locate decides where a tensor is mapped: in the model's own file where that is
// possible, in the mounted file otherwise.
func (l *Loader) locate(ref Ref, e *entry) place {
	mounted := place{
		file: fileKey{ref: ref, source: -1},
		open: func() (*os.File, error) { return l.openMounted(ref, e) },
		size: e.bytes,
	}
	if l.opts.MountedOnly || e.file < 0 || e.bytes == 0 || e.offset%l.align(e) != 0 {
		return mounted
	}
	p := l.plan(e.file)
	if p.err != nil {
		return mounted
	}
	start, ok := windowOf(p.starts, l.limit, e.offset, e.bytes)
	if !ok {
		return mounted
	}
	return place{
		file:   fileKey{source: e.file},
		start:  start,
		offset: e.offset - start,
		open:   func() (*os.File, error) { return l.openSource(e.file, p.size) },
		size:   p.size,
	}
}

// wideElements are the types whose elements exceed the least alignment.
var wideElements = map[string]int64{"F64": 8, "I64": 8, "U64": 8, "C64": 8}

// align returns what a tensor's offset in a buffer must be a multiple of. Block
// types hold nothing wider than 4 bytes.
func (l *Loader) align(e *entry) int64 {
	if l.opts.OffsetAlign > 0 {
		return l.opts.OffsetAlign
	}
	return max(4, wideElements[l.index.dtypes[e.dtype]])
}

// wrap makes a buffer over mapped memory, shared with the other tensors of the
// same window.
func (l *Loader) wrap(p place, bytes int64) (*tensor, error) {
	s, err := l.regions.acquire(regionKey{p.file, p.start}, func() (*region, error) {
		file, err := l.acquireFile(p)
		if err != nil {
			return nil, err
		}
		m := file.val
		mem := m.bytes(p.start, min(l.limit, m.length-p.start))
		// The mapping lives as long as the device's buffer. Unmapping whole
		// mappings of our own cannot fail.
		b, err := l.device.Wrap(mem, func() { _ = file.release() })
		if err != nil {
			return nil, errors.Join(err, file.release())
		}
		return &region{b, m}, nil
	})
	if err != nil {
		return nil, err
	}
	return &tensor{path: s.val.mapping.path, region: s, offset: p.offset, size: bytes}, nil
}

// acquireFile maps the file of a place.
func (l *Loader) acquireFile(p place) (*slot[fileKey, *mapping], error) {
	return l.files.acquire(p.file, func() (*mapping, error) {
		f, err := p.open()
		if err != nil {
			return nil, err
		}
		defer f.Close() // a mapping needs no descriptor
		return mapFile(f, f.Name(), p.size, l.info.PageSize)
	})
}

// copy reads a tensor into memory of the device. It reads the file instead of
// the mapping, so a lost page is an error of the read.
func (l *Loader) copy(p place, bytes int64) (*tensor, error) {
	f, err := p.open()
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := l.device.Alloc(max(1, bytes))
	if err != nil {
		return nil, err
	}
	if _, err := io.ReadFull(io.NewSectionReader(f, p.start+p.offset, bytes), b.Bytes()[:bytes]); err != nil {
		return nil, errors.Join(reword(fmt.Errorf("%s: %w", f.Name(), err)), b.Release())
	}
	return &tensor{path: f.Name(), own: b, size: bytes}, nil
}

// Release ends the use of the buffer, once for each Loader.Tensor that gave it.
// With the last one Contents and Handle become invalid; work that the GPU was
// already given keeps the memory until it is done.
func (b Buffer) Release() error {
	if b.slot == nil {
		return errors.New("metal: the zero Buffer cannot be released")
	}
	if err := b.slot.release(); err != nil {
		return fmt.Errorf("metal: %s: %w", b.slot.key, err)
	}
	return nil
}

// View calls fn with the tensor's bytes. A page that is lost under fn makes View
// return an error. fn must read the bytes in its own goroutine.
func (b Buffer) View(fn func(p []byte) error) (err error) {
	if b.slot == nil {
		return errors.New("metal: the zero Buffer has no bytes")
	}
	if err := b.slot.hold(); err != nil {
		return fmt.Errorf("metal: %s: %w", b.slot.key, err)
	}
	defer func() {
		if rerr := b.slot.release(); rerr != nil {
			err = errors.Join(err, rerr)
		}
	}()
	if b.Copied {
		return fn(b.Contents)
	}
	return b.slot.val.region.val.mapping.read(func() error { return fn(b.Contents) })
}

// ReadAt reads as io.ReaderAt demands. A page that is lost is an error.
func (b Buffer) ReadAt(p []byte, off int64) (n int, err error) {
	if off < 0 {
		return 0, fmt.Errorf("metal: negative offset %d", off)
	}
	err = b.View(func(bytes []byte) error {
		if off < int64(len(bytes)) {
			n = copy(p, bytes[off:])
		}
		if n < len(p) {
			return io.EOF
		}
		return nil
	})
	if err != nil && err != io.EOF {
		n = 0
	}
	return n, err
}

var _ io.ReaderAt = Buffer{}
