package datatest

import "github.com/tensorfs/tensorfs"

// Stored returns b as Data that can do all that a part of a mapped file can: its
// bytes are those from off on of a file of that label.
func Stored(label string, off int64, b []byte) tensorfs.Data {
	return &stored{tensorfs.Bytes(b), tensorfs.Extent{File: label, Offset: off, Bytes: int64(len(b))}}
}

type stored struct {
	tensorfs.Bytes
	extent tensorfs.Extent
}

func (s *stored) Extents() []tensorfs.Extent { return []tensorfs.Extent{s.extent} }

var (
	_ tensorfs.Extenter = (*stored)(nil)
	_ tensorfs.Viewer   = (*stored)(nil)
	_ tensorfs.Slicer   = (*stored)(nil)
)
