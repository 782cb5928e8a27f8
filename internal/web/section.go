package web

import (
	"context"

	"github.com/tensorfs/tensorfs"
)

// section is a part of a file: the bytes of a tensor.
type section struct {
	f      *File
	off, n int64 // in the server's file
}

func (s *section) Size() int64 { return s.n }

// ReadAt implements io.ReaderAt.
func (s *section) ReadAt(p []byte, off int64) (int, error) {
	return s.ReadAtContext(context.Background(), p, off)
}

// ReadAtContext reads as ReadAt does, until ctx ends.
func (s *section) ReadAtContext(ctx context.Context, p []byte, off int64) (int, error) {
	n, eof := tensorfs.ClipRange(s.n, p, off)
	if n == 0 {
		return 0, eof
	}
	if s.f.whole.Load() == nil {
		s.f.readAhead(s.off+off, int64(n), s.off, s.off+s.n)
	}
	if err := s.f.read(ctx, p[:n], s.off+off, dataWants); err != nil {
		return 0, err
	}
	return n, eof
}

// SlicesIf returns mapped memory once all of the file is here. What was not read since it
// was opened is read first: ReadAt compares it with its checksums.
func (s *section) SlicesIf(dst [][]byte, off, n int64) ([][]byte, bool, error) {
	if err := tensorfs.CheckRange(s, off, n); err != nil {
		return dst, false, err
	}
	m := s.f.whole.Load()
	if m == nil || !s.f.entry.Proven(s.off+off, n) {
		return dst, false, nil
	}
	return m.SlicesIf(dst, s.off+off, n)
}

// Extents returns the section's place in its file.
func (s *section) Extents() []tensorfs.Extent {
	return []tensorfs.Extent{{File: s.f.label, Offset: s.off - s.f.base, Bytes: s.n}}
}

// Fetch brings in the bytes [off, off+n) of the section.
func (s *section) Fetch(ctx context.Context, off, n int64) error {
	if err := tensorfs.CheckRange(s, off, n); err != nil {
		return err
	}
	return s.f.Fetch(ctx, s.off-s.f.base+off, n)
}

// Check returns an error once the received bytes proved to be wrong. Cached bytes do not
// change otherwise, and reading absent bytes detects a change.
func (s *section) Check() error { return s.f.entry.Failed() }

var (
	_ tensorfs.ContextReaderAt = (*section)(nil)
	_ tensorfs.PartSlicer      = (*section)(nil)
	_ tensorfs.Fetcher         = (*section)(nil)
	_ tensorfs.Extenter        = (*section)(nil)
	_ tensorfs.Checker         = (*section)(nil)
)
