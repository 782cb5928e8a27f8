package views

import "github.com/tensorfs/tensorfs"

// slice returns the bytes [off, off+n) of d as Data that can do what d can.
func slice(d tensorfs.Data, off, n int64) tensorfs.Data {
	s := &span{d, off, n}
	if _, ok := d.(tensorfs.Slicer); ok {
		return mappedSpan{s}
	}
	return s
}

// span is a part of d.
type span struct {
	d      tensorfs.Data
	off, n int64
}

func (s *span) Size() int64 { return s.n }

func (s *span) ReadAt(p []byte, off int64) (int, error) {
	n, eof := tensorfs.ClipRange(s.n, p, off)
	if n == 0 {
		return 0, eof
	}
	if err := tensorfs.ReadFull(s.d, p[:n], s.off+off); err != nil {
		return 0, err
	}
	return n, eof
}

func (s *span) View(off, n int64, fn func(b []byte) error) error {
	if err := tensorfs.CheckRange(s, off, n); err != nil {
		return err
	}
	return tensorfs.View(s.d, s.off+off, n, fn)
}

// mappedSpan is a span of Data that stands in mapped memory.
type mappedSpan struct{ *span }

func (s mappedSpan) Slices(dst [][]byte, off, n int64) ([][]byte, error) {
	if err := tensorfs.CheckRange(s, off, n); err != nil {
		return dst, err
	}
	return s.d.(tensorfs.Slicer).Slices(dst, s.off+off, n)
}

func (s *span) Extents() []tensorfs.Extent {
	return cut(tensorfs.Extents(s.d), s.off, s.n)
}

// cut returns the part [off, off+n) of extents.
func cut(extents []tensorfs.Extent, off, n int64) []tensorfs.Extent {
	var out []tensorfs.Extent
	for _, e := range extents {
		if off >= e.Bytes {
			off -= e.Bytes
			continue
		}
		take := min(n, e.Bytes-off)
		if take <= 0 {
			break
		}
		out = append(out, tensorfs.Extent{File: e.File, Offset: e.Offset + off, Bytes: take})
		off, n = 0, n-take
	}
	return out
}
