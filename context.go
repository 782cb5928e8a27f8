package tensorfs

import (
	"context"
	"io"
)

// ContextReaderAt is Data whose bytes may have to be waited for, and whose
// readers may give up: ReadAtContext is ReadAt until ctx ends, and its error is
// that of ctx then.
type ContextReaderAt interface {
	ReadAtContext(ctx context.Context, p []byte, off int64) (int, error)
}

// ReadFullContext is ReadFull that ends with ctx where d is a [ContextReaderAt].
func ReadFullContext(ctx context.Context, d Data, p []byte, off int64) error {
	c, ok := d.(ContextReaderAt)
	if !ok {
		return ReadFull(d, p, off)
	}
	n, err := c.ReadAtContext(ctx, p, off)
	if n == len(p) {
		return nil
	}
	if err == nil || err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}
