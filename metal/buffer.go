package metal

import (
	"errors"
	"fmt"
	"io"

	"github.com/tensorfs/tensorfs"
)

// Buffer is a tensor in a buffer of the device. It is valid until it is
// released; copies of the value are the same buffer.
type Buffer struct {
	Handle   uintptr // the device's object (id<MTLBuffer>), not retained for the caller; 0 of a Host
	Offset   int64   // of the tensor in the device's buffer
	Size     int64   // bytes of the tensor
	Contents []byte  // the tensor as the CPU sees it; read-only, except of [Loader.Private]: a write is a fault where a file is mapped
	Origin   Origin  // where the bytes are from
	Copied   bool    // a copy of what could have been mapped, if the device had not declined that
	File     string  // path of the file that has the bytes; "" where they were converted

	lease *lease
}

// Release ends the use of the buffer, once for each Loader.Tensor that gave one.
// Contents and Handle become invalid; work that the GPU was already given keeps
// the memory until it is done. Buffers of a Set are released with it.
func (b Buffer) Release() error {
	if b.lease == nil {
		return errors.New("metal: the zero Buffer cannot be released")
	}
	if b.lease.set {
		return fmt.Errorf("metal: %s: it belongs to a Set, which is released as a whole", b.lease.ref)
	}
	return b.lease.end()
}

// View calls fn with the tensor's bytes. A page that is lost under fn makes View
// return an error. fn must read the bytes in its own goroutine.
func (b Buffer) View(fn func(p []byte) error) (err error) {
	if b.lease == nil {
		return errors.New("metal: the zero Buffer has no bytes")
	}
	if err := b.lease.hold(); err != nil {
		return err
	}
	r := b.lease.region
	defer func() {
		if rerr := b.lease.loader.release(r); rerr != nil {
			err = errors.Join(err, rerr)
		}
	}()
	if r.mapping == nil {
		return fn(b.Contents)
	}
	return tensorfs.Guard(func() error { return fn(b.Contents) }, r.mapping)
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
