package views

import (
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/tensorfs/tensorfs"
)

// npyData is where the numbers begin in an .npy file: on a page, so that a
// mapped array is aligned to one.
const npyData = 4096

// npy shows f16/ as NumPy files.
func npy(ts []tensorfs.Tensor, opts Options) ([]tensorfs.Tensor, []Absent) {
	halves, absent := f16(ts, opts)
	for i := range absent {
		absent[i].Name += ".npy"
	}
	out := halves[:0]
	for _, t := range halves {
		t.Name += ".npy"
		if len(t.Shape) > 32 || !tensorfs.ValidName(t.Name) {
			absent = append(absent, Absent{t.Name, "NumPy arrays have at most 32 dimensions and file names 255 bytes; see f16/"})
			continue
		}
		t.Data = concat(npyHeader(t.Shape), t.Data)
		out = append(out, t)
	}
	return out, absent
}

// npyHeader returns version 1.0 of NumPy's header, padded to npyData:
//
//	\x93NUMPY 1 0 | u16 length of the rest | Python dict, spaces, newline
func npyHeader(shape []int64) Bytes {
	dims := make([]string, len(shape))
	for i, d := range shape {
		dims[i] = fmt.Sprint(d)
	}
	tuple := strings.Join(dims, ", ")
	if len(shape) == 1 {
		tuple += ","
	}
	h := make([]byte, 0, npyData)
	h = append(h, "\x93NUMPY\x01\x00"...)
	h = binary.LittleEndian.AppendUint16(h, npyData-10)
	h = fmt.Appendf(h, "{'descr': '<f2', 'fortran_order': False, 'shape': (%s), }", tuple)
	for len(h) < npyData-1 {
		h = append(h, ' ')
	}
	return append(h, '\n')
}
