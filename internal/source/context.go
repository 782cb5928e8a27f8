package source

import (
	"context"

	"github.com/tensorfs/tensorfs"
)

// contextSection is a section of a file whose readers may stop waiting.
type contextSection struct{ section }

// ReadAtContext reads as ReadAt does, until ctx ends.
func (s contextSection) ReadAtContext(ctx context.Context, p []byte, off int64) (int, error) {
	f := s.file.(tensorfs.ContextReaderAt)
	return s.clip(p, off, func(p []byte, off int64) (int, error) { return f.ReadAtContext(ctx, p, off) })
}

var _ tensorfs.ContextReaderAt = contextSection{}
