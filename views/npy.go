package views

import (
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"

	"github.com/tensorfs/tensorfs"
)

// npyData is where the numbers begin in an .npy file: on a page, so that a
// mapped array is aligned to one.
const npyData = 4096

// npy shows f16/ as NumPy files.
func npy(ts []tensorfs.Tensor, opts Options) ([]tensorfs.Tensor, []Absent) {
	out, absent := each(ts, opts, func(t *tensorfs.Tensor, opts Options) (tensorfs.Tensor, string) {
		h, reason := half(t, opts)
		h.Name += ".npy"
		switch {
		case reason != "":
		case len(h.Shape) > 32:
			reason = fmt.Sprintf("a NumPy array has at most 32 dimensions, not %d; see f16/", len(h.Shape))
		case !tensorfs.ValidName(h.Name):
			reason = "with .npy its name is longer than the 255 bytes of a file name; see f16/"
		default:
			h.Data = concat(append(npyHeader(h.Shape), h.Data)...)
		}
		return h, reason
	})
	for i := range absent {
		absent[i].Name += ".npy"
	}
	return out, absent
}

// npyPadding ends every header. It is shared, because headers are many.
var npyPadding = Bytes(strings.Repeat(" ", npyData-1) + "\n")

// npyHeader returns version 1.0 of NumPy's header, padded to npyData:
//
//	\x93NUMPY 1 0 | u16 length of the rest | Python dict, spaces, newline
func npyHeader(shape []int64) []tensorfs.Data {
	dims := make([]string, len(shape))
	for i, d := range shape {
		dims[i] = strconv.FormatInt(d, 10)
	}
	tuple := strings.Join(dims, ", ")
	if len(shape) == 1 {
		tuple += ","
	}
	h := append(make(Bytes, 0, 128), "\x93NUMPY\x01\x00"...)
	h = binary.LittleEndian.AppendUint16(h, npyData-10)
	h = fmt.Appendf(h, "{'descr': '<f2', 'fortran_order': False, 'shape': (%s), }", tuple)
	return []tensorfs.Data{h, npyPadding[len(h):]}
}
