package tensorfs_test

import (
	"context"
	"errors"
	"testing"

	"github.com/tensorfs/tensorfs"
)

// far is Data on another machine: a read waits until the bytes arrive, which never happens here, or
// until it is cancelled.
type far struct{ n int64 }

func (f far) Size() int64                       { return f.n }
func (f far) ReadAt([]byte, int64) (int, error) { panic("nobody waits for ever") }
func (f far) ReadAtContext(ctx context.Context, p []byte, off int64) (int, error) {
	<-ctx.Done()
	return 0, ctx.Err()
}

// TestComposedGiveUp holds that a reader of composed Data can give up waiting.
func TestComposedGiveUp(t *testing.T) {
	near := tensorfs.Bytes("12345678")
	for name, d := range map[string]tensorfs.Data{
		"section":               tensorfs.Section(far{8}, 2, 4),
		"concat":                tensorfs.Concat(near, far{8}),
		"interleave":            tensorfs.Interleave(4, near, far{8}),
		"section of interleave": tensorfs.Section(tensorfs.Interleave(2, far{8}, near), 1, 9),
	} {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		p := make([]byte, d.Size())
		if err := tensorfs.ReadFullContext(ctx, d, p, 0); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", name, err)
		}
		var buf []byte
		if _, _, err := tensorfs.ViewContext(ctx, d, 0, d.Size(), &buf); !errors.Is(err, context.Canceled) {
			t.Errorf("view of %s: %v", name, err)
		}
	}
}
