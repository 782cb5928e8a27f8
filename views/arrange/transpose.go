package arrange

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/tensorfs/tensorfs"
)

// Transpose swaps the last two dimensions of plain numbers of 2 or 4 bytes.
func Transpose(t *tensorfs.Tensor) (*tensorfs.Tensor, error) {
	elems, width := t.DType.Block()
	rank := len(t.Shape)
	switch {
	case t.Opaque != "" || t.Quant != nil || elems != 1 || width != 2 && width != 4:
		return nil, fmt.Errorf("%s cannot be transposed: only plain numbers of 2 or 4 bytes are", t.DType)
	case rank < 2:
		return nil, fmt.Errorf("shape %v has no two dimensions to swap", t.Shape)
	}
	to := *t
	to.Parts, to.Apart = nil, ""
	to.Shape = slices.Clone(t.Shape)
	to.Shape[rank-2], to.Shape[rank-1] = t.Shape[rank-1], t.Shape[rank-2]
	if t.Data.Size() > 0 && t.Shape[rank-2] > 1 && t.Shape[rank-1] > 1 {
		to.Data = &transposed{t.Data, width, t.Shape[rank-2], t.Shape[rank-1]}
	}
	return &to, nil
}

// transposed is each matrix of d, of rows x cols elements, with its columns as rows.
type transposed struct {
	d                 tensorfs.Data
	width, rows, cols int64
}

func (t *transposed) Size() int64 { return t.d.Size() }

func (t *transposed) Check() error { return tensorfs.Check(t.d) }

func (t *transposed) ReadAt(p []byte, off int64) (int, error) {
	return readElements(t, t.width, t.Size(), p, off)
}

// maxWindow bounds the source that is looked at at a time.
const maxWindow = 4 << 20

// make writes whole elements. What it writes consists of runs of columns of one
// matrix:
//
//	end of a column | whole columns | start of a column
func (t *transposed) make(dst []byte, first int64) error {
	for len(dst) > 0 {
		matrix, at := first/(t.rows*t.cols), first%(t.rows*t.cols)
		col, row := at/t.rows, at%t.rows
		left := int64(len(dst)) / t.width
		cols, rows := int64(1), min(t.rows-row, left)
		if row == 0 && left >= t.rows {
			cols, rows = min(left/t.rows, t.cols-col), t.rows
		}
		n := cols * rows
		if t.perBand() > 0 && n*t.width < bandBytes {
			done, err := t.fromBand(dst[:n*t.width], matrix, col, row)
			if err != nil {
				return err
			}
			dst, first = dst[done:], first+int64(done)/t.width
			continue
		}
		if err := t.columns(dst[:n*t.width], matrix, row, col, rows, cols); err != nil {
			return err
		}
		dst, first = dst[n*t.width:], first+n
	}
	return nil
}

// columns writes the elements of some rows of some columns of a matrix, column by
// column.
func (t *transposed) columns(dst []byte, matrix, row, col, rows, cols int64) error {
	pitch := t.cols * t.width
	strip := max(maxWindow/pitch, 1) // rows looked at at a time
	for from := int64(0); from < rows; from += strip {
		n := min(strip, rows-from)
		start := (matrix*t.rows+row+from)*pitch + col*t.width
		err := viewed(t.d, start, (n-1)*pitch+cols*t.width, func(src []byte) error {
			copyTransposed[t.width](dst, src, int(from), int(rows), int(pitch), int(n), int(cols))
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// tile is the side of the squares that are copied at a time, so that the lines of
// source and destination stay in the CPU's cache.
const tile = 16

// copyTransposed, by the width of elements, copies n rows of cols elements, pitch
// bytes apart in src, to the places from on of columns of rows elements in dst.
var copyTransposed = map[int64]func(dst, src []byte, from, rows, pitch, n, cols int){
	2: func(dst, src []byte, from, rows, pitch, n, cols int) {
		for c0 := 0; c0 < cols; c0 += tile {
			for r0 := 0; r0 < n; r0 += tile {
				for c := c0; c < min(c0+tile, cols); c++ {
					to := dst[2*(c*rows+from+r0):][:2*min(tile, n-r0)]
					for at := r0*pitch + 2*c; len(to) > 0; at, to = at+pitch, to[2:] {
						binary.NativeEndian.PutUint16(to, binary.NativeEndian.Uint16(src[at:]))
					}
				}
			}
		}
	},
	4: func(dst, src []byte, from, rows, pitch, n, cols int) {
		for c0 := 0; c0 < cols; c0 += tile {
			for r0 := 0; r0 < n; r0 += tile {
				for c := c0; c < min(c0+tile, cols); c++ {
					to := dst[4*(c*rows+from+r0):][:4*min(tile, n-r0)]
					for at := r0*pitch + 4*c; len(to) > 0; at, to = at+pitch, to[4:] {
						binary.NativeEndian.PutUint32(to, binary.NativeEndian.Uint32(src[at:]))
					}
				}
			}
		}
	},
}

var _ tensorfs.Checker = (*transposed)(nil)
