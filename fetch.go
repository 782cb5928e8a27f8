package tensorfs

import "context"

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
