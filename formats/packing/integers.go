package packing

import (
	"encoding/binary"
	"math"
	"unsafe"

	"github.com/tensorfs/tensorfs"
)

// integers are codes with a scale for each group of columns, and a zero point:
// (code - zero) * scale.
type integers struct {
	rows, cols int64
	bits       int
	group      int64  // columns per scale, unless order is set
	groups     int64  // of a row
	codes      coder  // one byte each
	scales     params // of rows and groups
	zeros      params
	order      *order  // the group of each column; nil if they are one after the other
	stated     *stated // the shape that a tensor of the module states; nil without one
}

// coder reads codes, one byte each: columns [from, to) of n rows.
type coder interface {
	codes(dst []byte, row, n, from, to int64) error
}

// params reads numbers of the groups [from, to) of n rows.
type params interface {
	params(dst []float32, row, n, from, to int64) error
}

// maxCodes bounds the codes that are read at a time, which the CPU's cache holds.
const maxCodes = 1 << 18

// rectangles calls fn with the rectangles of a matrix that make a run of n elements:
// the end of a row, whole rows, the start of a row.
func rectangles(first, n, cols int64, fn func(row, rows, from, to int64) error) error {
	for n > 0 {
		row, col := first/cols, first%cols
		rows, to := int64(1), min(cols, col+n)
		if col == 0 && n >= cols {
			rows = min(n/cols, max(maxCodes/cols, 1))
		}
		to = min(to, col+max(maxCodes, 32)) // of rows that are longer
		if err := fn(row, rows, col, to); err != nil {
			return err
		}
		done := rows * (to - col)
		first, n = first+done, n-done
	}
	return nil
}

func (x *integers) make(dst []byte, first int64) error {
	if err := x.stated.check(); err != nil {
		return err
	}
	order, err := x.order.load()
	if err != nil {
		return err
	}
	return rectangles(first, int64(len(dst)/4), x.cols, func(row, rows, from, to int64) error {
		n := 4 * rows * (to - from)
		err := x.rectangle(dst[:n], row, rows, from, to, order)
		dst = dst[n:]
		return err
	})
}

// rectangle makes the columns [from, to) of n rows.
func (x *integers) rectangle(dst []byte, row, n, from, to int64, order []int32) error {
	first, last := from/x.group, (to-1)/x.group+1
	if order != nil {
		first, last = 0, x.groups
	}
	wide, groups := to-from, last-first
	buf := sized(int(n * (wide + 8*groups)))
	defer buf.free()
	numbers, codes := floatsIn(buf.b, int(2*n*groups))
	scales, zeros := numbers[:n*groups], numbers[n*groups:]
	if err := x.codes.codes(codes, row, n, from, to); err != nil {
		return err
	}
	if err := x.scales.params(scales, row, n, first, last); err != nil {
		return err
	}
	if err := x.zeros.params(zeros, row, n, first, last); err != nil {
		return err
	}
	for ; n > 0; n-- {
		out, c, s, z := dst[:4*wide], codes[:wide], scales[:groups], zeros[:groups]
		dst, codes, scales, zeros = dst[4*wide:], codes[wide:], scales[groups:], zeros[groups:]
		if order != nil {
			for k, g := range order[from:to] {
				putF32(out[4*k:], (float32(c[k])-z[g])*s[g])
			}
			continue
		}
		for at := from; at < to; {
			g := at / x.group
			end := min((g+1)*x.group, to)
			scaled(out[4*(at-from):4*(end-from)], c[at-from:end-from], s[g-first], z[g-first], x.bits)
			at = end
		}
	}
	return nil
}

// scaled makes numbers of codes with one scale and zero point. The products of up to 4
// bits are looked up.
func scaled(dst, codes []byte, scale, zero float32, bits int) {
	if bits > 4 || len(codes) < 16 {
		for i, c := range codes {
			putF32(dst[4*i:], (float32(c)-zero)*scale)
		}
		return
	}
	var values [16]uint32
	for c := range values {
		values[c] = math.Float32bits((float32(c) - zero) * scale)
	}
	look(dst, codes, &values)
}

// look writes the value of each code.
func look(dst, codes []byte, values *[16]uint32) {
	for ; len(codes) >= 4; dst, codes = dst[16:], codes[4:] {
		d, c := dst[:16:16], codes[:4:4]
		binary.LittleEndian.PutUint64(d, uint64(values[c[0]&15])|uint64(values[c[1]&15])<<32)
		binary.LittleEndian.PutUint64(d[8:], uint64(values[c[2]&15])|uint64(values[c[3]&15])<<32)
	}
	for i, c := range codes {
		binary.LittleEndian.PutUint32(dst[4*i:], values[c&15])
	}
}

// floatsIn returns the first n floats of a buffer's memory, and the bytes after them.
func floatsIn(b []byte, n int) ([]float32, []byte) {
	if n == 0 {
		return nil, b
	}
	return unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(b))), n), b[4*n:]
}

// constant is one number for all rows and groups.
type constant float32

func (c constant) params(dst []float32, _, _, _, _ int64) error {
	for i := range dst {
		dst[i] = float32(c)
	}
	return nil
}

// table is a tensor of floats of rows and groups: [N, G], [G, N] where rows are columns,
// or one number.
type table struct {
	t            *tensorfs.Tensor
	rows, groups int64
	turned       bool
}

func (x table) params(dst []float32, row, n, from, to int64) error {
	width := x.t.DType.Bits() / 8
	read := floats[x.t.DType]
	buf := sized(len(dst) * int(width))
	defer buf.free()
	wide := to - from
	switch {
	case x.rows == 1 && x.groups == 1 && !x.turned: // one number
		if err := tensorfs.ReadFull(x.t.Data, buf.b[:width], 0); err != nil {
			return err
		}
		read(dst[:1], buf.b)
		for i := range dst {
			dst[i] = dst[0]
		}
		return nil
	case !x.turned:
		if err := copied(buf.b, x.t, (row*x.groups+from)*width, wide*width, x.groups*width, n); err != nil {
			return err
		}
		read(dst, buf.b)
		return nil
	}
	if err := copied(buf.b, x.t, (from*x.rows+row)*width, n*width, x.rows*width, wide); err != nil {
		return err
	}
	line := sized(4 * int(n))
	defer line.free()
	numbers, _ := floatsIn(line.b, int(n))
	for g := range wide {
		read(numbers, buf.b[g*n*width:])
		for i, v := range numbers {
			dst[int64(i)*wide+g] = v
		}
	}
	return nil
}

// stored are zero points that are codes themselves, plus a number.
type stored struct {
	codes  coder // of rows and groups
	offset float32
	wrap   float32 // the sum that is 0; 0: none
}

func (x stored) params(dst []float32, row, n, from, to int64) error {
	buf := sized(len(dst))
	defer buf.free()
	if err := x.codes.codes(buf.b, row, n, from, to); err != nil {
		return err
	}
	for i, c := range buf.b {
		dst[i] = float32(c) + x.offset
		if x.wrap > 0 && dst[i] == x.wrap {
			dst[i] = 0
		}
	}
	return nil
}
