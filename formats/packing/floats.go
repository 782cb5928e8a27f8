package packing

import (
	"fmt"
	"math"

	"github.com/tensorfs/tensorfs"
)

// NVFP4 returns the numbers of floats of 4 bits with two scales:
//
//	codes    U8 [..., K/2]      the low nibble first
//	scales   F8_E4M3 [..., K/16]
//	global   F32, one number
//
// A number is e2m1 * s, where s is scale/global or, times, scale*global, each rounded to F32.
func NVFP4(mode string, times bool, codes, scales, global *tensorfs.Tensor) (*tensorfs.Quant, error) {
	last := len(codes.Shape) - 1
	if last < 1 || codes.Shape[last] > maxSide || codes.Shape[last]%8 != 0 {
		return nil, wrong(codes, "has shape %v, which are not rows of groups of 8 bytes", codes.Shape)
	}
	shape := append([]int64(nil), codes.Shape...)
	shape[last] *= 2
	n, ok := tensorfs.Elements(shape)
	if !ok {
		return nil, wrong(codes, "has shape %v, which is too large", codes.Shape)
	}
	groups := append([]int64(nil), codes.Shape...)
	groups[last] /= 8
	if scales.DType != tensorfs.F8_E4M3 {
		return nil, wrong(scales, "is %s, and scales of NVFP4 are F8_E4M3", scales.DType)
	}
	if one, _ := tensorfs.Elements(global.Shape); one != 1 || global.DType != tensorfs.F32 {
		return nil, wrong(global, "is %s of shape %v, and not one F32", global.DType, global.Shape)
	}
	if err := hasShape(scales, groups...); err != nil {
		return nil, err
	}
	x := nvfp4{own(codes), own(scales), own(global), times}
	return &tensorfs.Quant{Mode: mode, Bits: 4, GroupSize: 16, Shape: shape, Float: tensorfs.BF16,
		Numbers: numbersOf(x, n, codes, scales, global), Companions: []*tensorfs.Tensor{scales, global}}, nil
}

type nvfp4 struct {
	codes, scales, global *tensorfs.Tensor
	times                 bool
}

func (x nvfp4) make(dst []byte, first int64) error {
	var one [4]byte
	if err := tensorfs.ReadFull(x.global.Data, one[:], 0); err != nil {
		return err
	}
	var g [1]float32
	floats[tensorfs.F32](g[:], one[:])
	end := first + int64(len(dst)/4)
	start, groups := first/16, up(end, 16)-first/16
	buf := sized(int(9 * groups))
	defer buf.free()
	scales, codes := buf.b[:groups], buf.b[groups:]
	if err := tensorfs.ReadFull(x.scales.Data, scales, start); err != nil {
		return err
	}
	if err := tensorfs.ReadFull(x.codes.Data, codes, 8*start); err != nil {
		return err
	}
	var values [16]uint32
	var nibbles [16]byte
	for i, s := range scales {
		scale := e4m3[s] / g[0]
		if x.times {
			scale = e4m3[s] * g[0]
		}
		for c, v := range e2m1 {
			values[c] = math.Float32bits(v * scale)
		}
		unpack(nibbles[:], codes[8*i:8*i+8], 4, 0)
		from := max(first-16*(start+int64(i)), 0)
		to := min(end-16*(start+int64(i)), 16)
		look(dst, nibbles[from:to], &values)
		dst = dst[4*(to-from):]
	}
	return nil
}

// MXFP4 returns the numbers of floats of 4 bits with a power of two for each 32:
//
//	codes    U8 or I8 [..., K/2]          the low nibble first
//	scales   U8 or F8_E8M0 [..., K/32]    2^(s-127)
//
// These are bytes of MLX's mode of that name.
func MXFP4(codes, scales *tensorfs.Tensor) (*tensorfs.Quant, error) {
	last := len(codes.Shape) - 1
	if last < 1 || codes.Shape[last] > maxSide || codes.Shape[last]%16 != 0 {
		return nil, wrong(codes, "has shape %v, which are not rows of groups of 16 bytes", codes.Shape)
	}
	shape, groups := append([]int64(nil), codes.Shape...), append([]int64(nil), codes.Shape...)
	shape[last] *= 2
	groups[last] /= 16
	if scales.DType != tensorfs.U8 && scales.DType != tensorfs.F8_E8M0 {
		return nil, wrong(scales, "is %s, and scales of MXFP4 are U8 or F8_E8M0", scales.DType)
	}
	if err := hasShape(scales, groups...); err != nil {
		return nil, err
	}
	if _, ok := tensorfs.Elements(shape); !ok {
		return nil, fmt.Errorf("shape %v is too large", codes.Shape)
	}
	return &tensorfs.Quant{Mode: "mxfp4", Bits: 4, GroupSize: 32, Shape: shape, Scales: scales, Float: tensorfs.BF16}, nil
}

// e2m1 is the float of 4 bits, e4m3 the float of 8.
var (
	e2m1 = [16]float32{0, 0.5, 1, 1.5, 2, 3, 4, 6, float32(math.Copysign(0, -1)), -0.5, -1, -1.5, -2, -3, -4, -6}
	e4m3 = func() (t [256]float32) {
		for c := range t {
			m, e := float64(c&7), c>>3&15
			v := math.Ldexp(m, -9)
			if e > 0 {
				v = math.Ldexp(8+m, e-10)
			}
			if c&0x7F == 0x7F {
				v = math.NaN()
			}
			t[c] = float32(math.Copysign(v, float64(0x7F-c)))
		}
		return t
	}()
)

// MXFP8 returns the numbers of floats of 8 bits with a power of two for each 32:
//
//	codes    F8_E4M3 [..., K]
//	scales   U8 [..., K/32]    2^(s-127)
//
// MLX's mode of that name has numbers where E4M3 has none, and is another.
func MXFP8(codes, scales *tensorfs.Tensor) (*tensorfs.Quant, error) {
	last := len(codes.Shape) - 1
	if last < 1 || codes.Shape[last]%32 != 0 || codes.DType != tensorfs.F8_E4M3 {
		return nil, wrong(codes, "is %s of shape %v, which are not rows of groups of 32", codes.DType, codes.Shape)
	}
	groups := append([]int64(nil), codes.Shape...)
	groups[last] /= 32
	if scales.DType != tensorfs.U8 {
		return nil, wrong(scales, "is %s, and scales of MXFP8 are U8", scales.DType)
	}
	if err := hasShape(scales, groups...); err != nil {
		return nil, err
	}
	n, _ := tensorfs.Elements(codes.Shape)
	return &tensorfs.Quant{Mode: "mxfp8-quantized", Bits: 8, GroupSize: 32, Shape: codes.Shape, Float: tensorfs.BF16,
		Numbers: numbersOf(mxfp8{own(codes), own(scales)}, n, codes, scales), Companions: []*tensorfs.Tensor{scales}}, nil
}

type mxfp8 struct{ codes, scales *tensorfs.Tensor }

func (x mxfp8) make(dst []byte, first int64) error {
	n := int64(len(dst) / 4)
	group := first / 32
	groups := up(first+n, 32) - group
	buf := sized(int(n + groups))
	defer buf.free()
	codes, scales := buf.b[:n], buf.b[n:]
	if err := tensorfs.ReadFull(x.codes.Data, codes, first); err != nil {
		return err
	}
	if err := tensorfs.ReadFull(x.scales.Data, scales, group); err != nil {
		return err
	}
	for i, c := range codes {
		putF32(dst[4*i:], e4m3[c]*e8m0[scales[(first+int64(i))/32-group]])
	}
	return nil
}

// e8m0 are powers of two. The last one is infinite.
var e8m0 = func() (t [256]float32) {
	for c := range t {
		t[c] = float32(math.Ldexp(1, c-127))
	}
	return t
}()
