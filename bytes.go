package tensorfs

// Bytes is Data in memory.
type Bytes []byte

// Size returns the length.
func (b Bytes) Size() int64 { return int64(len(b)) }

// ReadAt implements io.ReaderAt.
func (b Bytes) ReadAt(p []byte, off int64) (int, error) {
	n, eof := ClipRange(b.Size(), p, off)
	if n > 0 {
		copy(p, b[off:])
	}
	return n, eof
}

// View returns the bytes [off, off+n). See [Viewer].
func (b Bytes) View(off, n int64) ([]byte, Memory, error) {
	if err := checkRange(b.Size(), off, n); err != nil {
		return nil, nil, err
	}
	return b[off : off+n], nil, nil
}

// Slices appends the memory of [off, off+n). See [Slicer].
func (b Bytes) Slices(dst [][]byte, off, n int64) ([][]byte, error) {
	if err := checkRange(b.Size(), off, n); err != nil {
		return dst, err
	}
	return append(dst, b[off:off+n]), nil
}

var (
	_ Viewer = Bytes(nil)
	_ Slicer = Bytes(nil)
)
