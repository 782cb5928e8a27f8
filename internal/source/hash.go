package source

import (
	"context"
	"hash"

	"github.com/tensorfs/tensorfs"
)

// hashRun is how many bytes are hashed in one go: little enough to stay in a
// processor's own cache where they were decoded.
const hashRun = 1 << 18

// Hash hashes all of d. What h holds counts only without an error. read is told how many
// bytes were read.
func Hash(ctx context.Context, h hash.Hash, d tensorfs.Data, read func(n int64)) error {
	var buf []byte
	for off := int64(0); off < d.Size(); {
		if err := ctx.Err(); err != nil {
			return err
		}
		n := min(hashRun, d.Size()-off)
		b, memory, err := tensorfs.ViewContext(ctx, d, off, n, &buf)
		if err != nil {
			return err
		}
		if err := tensorfs.Guard(func() error { _, err := h.Write(b); return err }, memory); err != nil {
			return err
		}
		off += n
		read(n)
	}
	return nil
}
