//go:build !linux

package source

// read reads len(p) > 0 bytes for a reader of the section [start, end).
func (m *Mapped) read(p []byte, off, start, end int64) error { return m.pread(p, off, start, end) }
