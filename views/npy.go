package views

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/tensorfs/tensorfs"
)

// npyData is where the numbers begin in an .npy file: at a page boundary, so that
// a mapped array is page-aligned.
const npyData = 4096

// npyShort is the length of a file without numbers. NumPy maps from the last page
// boundary before the numbers, and some versions refuse that at the end of a file.
const npyShort = 128

// npyDims is the number of dimensions that every NumPy accepts.
const npyDims = 32

// npy shows f16/ as NumPy files.
func npy(b *basis) (Tensors, []Absent) {
	halves, absent := b.f16()
	absent = slices.Clone(absent)
	for i := range absent {
		absent[i].Name += ".npy"
	}
	files := *halves
	files.suffix, files.show, files.index = ".npy", npyFile, nil
	for _, i := range halves.index {
		t := &halves.from[i]
		name := t.Weight() + files.suffix
		switch shape := t.Numbers(); {
		case len(shape) > npyDims:
			absent = append(absent, Absent{name, fmt.Sprintf("a NumPy array has at most %d dimensions, not %d; see f16/", npyDims, len(shape)), true})
		case !tensorfs.ValidName(name):
			absent = append(absent, Absent{name, "with .npy its name is longer than the 255 bytes of a file name; see f16/", true})
		default:
			files.index = append(files.index, i)
		}
	}
	files.sort()
	sortAbsent(absent)
	return &files, absent
}

func npyFile(t *tensorfs.Tensor, opts Options) (tensorfs.Tensor, string) {
	h, reason := half(t, opts)
	if reason == "" {
		begins := npyData
		if h.Data.Size() == 0 && len(npyHeader(h.Shape, npyShort)) < npyShort {
			begins = npyShort
		}
		header := npyHeader(h.Shape, begins)
		h.Name += ".npy"
		h.Data = tensorfs.Concat(header, npyPadding[npyData-begins+len(header):], h.Data)
	}
	return h, reason
}

// npyPadding ends every header. It is shared, because there are many headers.
var npyPadding = tensorfs.Bytes(strings.Repeat(" ", npyData-1) + "\n")

// npyHeader returns version 1.0 of NumPy's header up to the spaces that pad it to
// where the numbers begin:
//
//	\x93NUMPY 1 0 | u16 length of the rest | Python dict, spaces, newline
func npyHeader(shape []int64, begins int) tensorfs.Bytes {
	h := append(tensorfs.Bytes(nil), "\x93NUMPY\x01\x00"...)
	h = binary.LittleEndian.AppendUint16(h, uint16(begins-10))
	h = append(h, "{'descr': '<f2', 'fortran_order': False, 'shape': ("...)
	for i, d := range shape {
		if i > 0 {
			h = append(h, ", "...)
		}
		h = strconv.AppendInt(h, d, 10)
	}
	if len(shape) == 1 {
		h = append(h, ',')
	}
	return append(h, "), }"...)
}
