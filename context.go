package tensorfs

import "context"

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
