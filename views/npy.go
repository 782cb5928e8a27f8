package views

import (
	"encoding/binary"
	"fmt"
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

// npyTypes are NumPy's names of the types that its files have here.
var npyTypes = map[tensorfs.DType]string{tensorfs.F16: "<f2", tensorfs.F32: "<f4"}

// npy shows the view of that name, of plain numbers, as NumPy files.
func npy(numbers string, to tensorfs.DType) func(b *basis) (Tensors, Absent) {
	return func(b *basis) (Tensors, Absent) {
		return b.floats(to).as(".npy", func(t *tensorfs.Tensor, opts Options) (tensorfs.Tensor, string) {
			return npyFile(t, opts, to)
		}, func(t *tensorfs.Tensor) string {
			switch shape := t.Numbers(); {
			case len(shape) > npyDims:
				return fmt.Sprintf("a NumPy array has at most %d dimensions, not %d; see %s/", npyDims, len(shape), numbers)
			case !tensorfs.ValidName(t.Weight() + ".npy"):
				return fmt.Sprintf("with .npy its name is longer than the 255 bytes of a file name; see %s/", numbers)
			}
			return ""
		}).all()
	}
}

func npyFile(t *tensorfs.Tensor, opts Options, to tensorfs.DType) (tensorfs.Tensor, string) {
	d, reason := dense(t, opts, to)
	if reason == "" {
		descr, begins := npyTypes[to], npyData
		if d.Data.Size() == 0 && len(npyHeader(descr, d.Shape, npyShort)) < npyShort {
			begins = npyShort
		}
		header := npyHeader(descr, d.Shape, begins)
		d.Name += ".npy"
		d.Data = tensorfs.Concat(header, npyPadding[npyData-begins+len(header):], d.Data)
	}
	return d, reason
}

// npyPadding ends every header. It is shared, because there are many headers.
var npyPadding = tensorfs.Bytes(strings.Repeat(" ", npyData-1) + "\n")

// npyHeader returns version 1.0 of NumPy's header up to the spaces that pad it to
// where the numbers begin:
//
//	\x93NUMPY 1 0 | u16 length of the rest | Python dict, spaces, newline
func npyHeader(descr string, shape []int64, begins int) tensorfs.Bytes {
	h := append(tensorfs.Bytes(nil), "\x93NUMPY\x01\x00"...)
	h = binary.LittleEndian.AppendUint16(h, uint16(begins-10))
	h = append(h, "{'descr': '"...)
	h = append(h, descr...)
	h = append(h, "', 'fortran_order': False, 'shape': ("...)
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
