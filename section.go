package tensorfs

import "context"

// Section returns the bytes [off, off+n) of d:
//
//	d                       |·····|=========|······|
//	Section(d, off, n)      off → |=========| n bytes
//
// It can do whatever d can. A read beyond d is an error.
func Section(d Data, off, n int64) Data {
	return &section{d, off, n}
}

// Whole returns all of d. Of a file it is a section of the file's own kind: files
// that are elsewhere read ahead of those who read their sections.
func Whole(d Data) Data {
	if f, ok := d.(interface{ Section(off, n int64) Data }); ok {
		return f.Section(0, d.Size())
	}
	return d
}

// section is a part of d.
type section struct {
	d      Data
	off, n int64
}

func (s *section) Size() int64 { return s.n }

func (s *section) ReadAt(p []byte, off int64) (int, error) {
	return s.ReadAtContext(context.Background(), p, off)
}

func (s *section) ReadAtContext(ctx context.Context, p []byte, off int64) (int, error) {
	n, eof := ClipRange(s.n, p, off)
	if n == 0 {
		return 0, eof
	}
	if err := ReadFullContext(ctx, s.d, p[:n], s.off+off); err != nil {
		return 0, err
	}
	return n, eof
}

// unwrap returns the Data that a section, or a section of one, is a part of, and where
// in it the byte at off is.
func unwrap(d Data, off int64) (Data, int64) {
	for {
		s, ok := d.(*section)
		if !ok {
			return d, off
		}
		d, off = s.d, s.off+off
	}
}

func (s *section) Extents() []Extent { return cutExtents(Extents(s.d), s.off, s.n) }

func (s *section) Check() error { return Check(s.d) }

func (s *section) CheckPart(off, n int64) error { return CheckPart(s.d, s.off+off, n) }

func (s *section) SlicesIf(dst [][]byte, off, n int64) ([][]byte, bool, error) {
	if err := CheckRange(s, off, n); err != nil {
		return dst, false, err
	}
	return Slices(s.d, dst, s.off+off, n)
}

// cutExtents returns the part [off, off+n) of extents.
func cutExtents(extents []Extent, off, n int64) []Extent {
	var out []Extent
	for _, e := range extents {
		if off >= e.Bytes {
			off -= e.Bytes
			continue
		}
		take := min(n, e.Bytes-off)
		if take <= 0 {
			break
		}
		out = append(out, Extent{File: e.File, Offset: e.Offset + off, Bytes: take})
		off, n = 0, n-take
	}
	return out
}

var (
	_ Extenter        = (*section)(nil)
	_ Checker         = (*section)(nil)
	_ ContextReaderAt = (*section)(nil)
	_ PartSlicer      = (*section)(nil)
	_ PartChecker     = (*section)(nil)
)
