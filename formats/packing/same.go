package packing

import (
	"encoding/binary"
	"math"

	"github.com/tensorfs/tensorfs"
)

// sameGroups are the groups that MLX has, the largest first.
var sameGroups = []int64{128, 64, 32}

// same returns a function that returns the numbers as a module of MLX's affine mode,
// code*scale + bias, with bias = -zero*scale. It returns nil unless the type of the scales
// holds the biases exactly, columns are in their order, and rows are whole groups of MLX's.
//
//	codes    U32 [N, K*bits/32]
//	scales   [N, K/g], each as often as a group of the packing has groups of MLX's
//	biases   [N, K/g]
//
// F32 holds the product of a code and a half, and of a zero point and one, so that the
// sum is exact where the bias is. A scale that is not positive would give the other zero.
func (x *integers) same(scales tensorfs.DType, of []*tensorfs.Tensor) func() (*tensorfs.Tensor, error) {
	group := int64(0)
	for _, g := range sameGroups {
		if x.group%g == 0 && x.cols%g == 0 {
			group = g
			break
		}
	}
	if group == 0 || x.cols%x.group != 0 || x.bits == 1 || x.bits == 7 || scales == tensorfs.F32 {
		return nil
	}
	name := own(of[0])
	of = present(of)
	return func() (*tensorfs.Tensor, error) {
		if err := x.stated.check(); err != nil {
			return nil, err
		}
		if at, err := x.order.load(); err != nil || at != nil {
			return nil, err
		}
		if ok, err := x.holds(scales); err != nil || !ok {
			return nil, err
		}
		each := x.cols / group
		part := func(m maker, dtype tensorfs.DType, width, n, cols int64) *tensorfs.Tensor {
			return &tensorfs.Tensor{Name: name.Name, Source: name.Source, DType: dtype, Shape: []int64{x.rows, cols}, Data: &computed{m, width, n, of}}
		}
		t := part(sameCodes{x}, tensorfs.U32, int64(4*x.bits), x.rows*x.cols/32, x.cols*int64(x.bits)/32)
		t.Quant = &tensorfs.Quant{Mode: "affine", Bits: x.bits, GroupSize: int(group), Shape: []int64{x.rows, x.cols},
			Scales: part(sameScales{x, scales, each, false}, scales, 2, x.rows*each, each),
			Biases: part(sameScales{x, scales, each, true}, scales, 2, x.rows*each, each)}
		return t, nil
	}
}

// least is the smallest scale whose products F32 holds exactly.
const least = 0x1p-100

// holds reports whether the type of the scales holds all biases, and none of the
// scales is one that makes other zeros.
func (x *integers) holds(scales tensorfs.DType) (bool, error) {
	good := true
	bits := rounders[scales]
	err := x.eachScale(0, x.rows*x.groups, x.groups, func(s, z float32) {
		b := -z * s
		good = good && s >= least && !math.IsInf(float64(s), 0) && valueOf(scales, bits(b)) == b
	})
	return good, err
}

// eachScale calls fn with the scales and zero points of a run of rows of groups.
func (x *integers) eachScale(first, n, groups int64, fn func(s, z float32)) error {
	return rectangles(first, n, groups, func(row, rows, from, to int64) error {
		count := int(rows * (to - from))
		buf := sized(8 * count)
		defer buf.free()
		numbers, _ := floatsIn(buf.b, 2*count)
		s, z := numbers[:count], numbers[count:]
		if err := x.scales.params(s, row, rows, from, to); err != nil {
			return err
		}
		if err := x.zeros.params(z, row, rows, from, to); err != nil {
			return err
		}
		for i := range s {
			fn(s[i], z[i])
		}
		return nil
	})
}

// sameCodes makes the codes of all rows one bit stream, 32 at a time.
type sameCodes struct{ x *integers }

func (c sameCodes) make(dst []byte, first int64) error {
	x := c.x
	n := int64(len(dst) / (4 * x.bits))
	return rectangles(first*32, n*32, x.cols, func(row, rows, from, to int64) error {
		count := rows * (to - from)
		buf := sized(int(count))
		defer buf.free()
		if err := x.codes.codes(buf.b, row, rows, from, to); err != nil {
			return err
		}
		size := count * int64(x.bits) / 8
		pack(dst[:size], buf.b, x.bits)
		dst = dst[size:]
		return nil
	})
}

// sameScales makes scales of MLX's groups, or biases.
type sameScales struct {
	x      *integers
	dtype  tensorfs.DType
	each   int64 // groups of a row
	biases bool
}

func (c sameScales) make(dst []byte, first int64) error {
	x, bits := c.x, rounders[c.dtype]
	per := c.each / x.groups // of MLX's groups in one of x
	for n := int64(len(dst) / 2); n > 0; {
		skip := first % per
		run := min(per-skip, n)
		whole := int64(1)
		if skip == 0 {
			whole = max(n/per, 1)
		}
		err := x.eachScale(first/per, whole, x.groups, func(s, z float32) {
			if c.biases {
				s = -z * s
			}
			for range run {
				binary.LittleEndian.PutUint16(dst, bits(s))
				dst = dst[2:]
			}
		})
		if err != nil {
			return err
		}
		first, n = first+run*whole, n-run*whole
	}
	return nil
}

// rounders return the bits of a number in a type of 2 bytes. A number that the type does
// not hold is rounded to one near it.
var rounders = map[tensorfs.DType]func(v float32) uint16{
	tensorfs.BF16: func(v float32) uint16 { return uint16(math.Float32bits(v) >> 16) },
	tensorfs.F16: func(v float32) uint16 {
		b := math.Float32bits(v)
		sign, exp := uint16(b>>16)&0x8000, int(b>>23&255)-112
		frac := b & 0x7FFFFF
		switch {
		case exp >= 31:
			return sign | 0x7C00
		case exp <= 0 && exp > -11:
			return sign | uint16((frac|0x800000)>>(14-exp))
		case exp <= 0:
			return sign
		}
		return sign | uint16(exp)<<10 | uint16(frac>>13)
	},
}

// valueOf is the number with some bits.
func valueOf(t tensorfs.DType, bits uint16) float32 {
	var v [1]float32
	floats[t](v[:], []byte{byte(bits), byte(bits >> 8)})
	return v[0]
}
