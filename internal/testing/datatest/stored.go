package datatest

import "github.com/tensorfs/tensorfs"

// Stored returns b as Data with all abilities of a part of a mapped file: its bytes begin
// at off in a file of that label.
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
