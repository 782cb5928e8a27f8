package kernel

import (
	"encoding/binary"
	"math"
	"sync"
)

// MLX quantises in F32 on a GPU. On a CPU it does affine groups in F32 too, and composes the other modes of operations
// that round to the type of the weights each time.
//
//	             GPU                               CPU
//	affine       rounds ties away from zero,       rounds ties to even
//	             0 is one of the numbers           0 counts only if it is there
//	4-bit codes  thresholds, ties to even codes,   the first of the nearest of 16 values,
//	             the sign of the number            so code 8, which is -0, never
//	no scale     exponent -127                     exponent 0

// roundings round F32 to the dtypes of weights.
var roundings = map[string]func(x float32) float32{
	"F32":  func(x float32) float32 { return x },
	"F16":  func(x float32) float32 { return widen(half(math.Float32bits(x))) },
	"BF16": func(x float32) float32 { return numberBF16OfF32(x) },
}

// numberBF16OfF32 rounds to a BF16, nearest even.
func numberBF16OfF32(x float32) float32 {
	b := math.Float32bits(x)
	if b&0x7FFF_FFFF > 0x7F80_0000 {
		return math.Float32frombits(b&0xFFFF_0000 | 1<<22)
	}
	return math.Float32frombits((b + 0x7FFF + b>>16&1) &^ 0xFFFF)
}

// grouping is a group while it is quantised.
type grouping struct {
	*Quantiser
	cpu   bool
	round func(x float32) float32 // to the dtype of the weights, for CPU's rules

	x     []float32 // its numbers
	codes []uint8
	scale uint32 // bits of a number of the dtype, or the byte
	bias  uint32
	space [128]float32
	made  [128]uint8
}

var groupings = sync.Pool{New: func() any { return new(grouping) }}

// quantiseGroups makes n groups.
func quantiseGroups(q *Quantiser, rules Rules, group func(*grouping), n int, codes, scales, biases, src []byte) {
	g := groupings.Get().(*grouping)
	defer groupings.Put(g)
	g.Quantiser, g.cpu, g.round = q, rules == CPU, roundings[q.From]
	g.x, g.codes = g.space[:q.Elems], g.made[:q.Elems]
	for i := range n {
		for j := range g.x {
			g.x[j] = numberF32(src[4*(i*q.Elems+j):])
		}
		group(g)
		if len(codes) > 0 {
			packCodes(codes[i*q.Codes:][:q.Codes], g.codes, q.Bits)
		}
		if len(scales) > 0 {
			g.put(scales[i*q.Scale:], q.Scale, g.scale)
		}
		if len(biases) > 0 {
			g.put(biases[i*q.Bias:], q.Bias, g.bias)
		}
	}
}

// put stores the low bytes of a number.
func (g *grouping) put(dst []byte, size int, bits uint32) {
	switch size {
	case 1:
		dst[0] = byte(bits)
	case 2:
		binary.LittleEndian.PutUint16(dst, uint16(bits))
	default:
		binary.LittleEndian.PutUint32(dst, bits)
	}
}

// stored are the bits of a number in the dtype of the weights.
func (g *grouping) stored(x float32) uint32 {
	b := math.Float32bits(g.round(x))
	switch g.From {
	case "F16":
		return uint32(half(b))
	case "BF16":
		return b >> 16
	}
	return b
}

// packCodes puts codes into a little-endian stream of bits, low bits first.
func packCodes(dst []byte, codes []uint8, bits int) {
	w, n := uint32(0), 0
	for _, c := range codes {
		w |= uint32(c) << n
		for n += bits; n >= 8; n -= 8 {
			dst[0] = byte(w)
			dst, w = dst[1:], w>>8
		}
	}
}

// roundToWhole rounds to a whole number, by the rules.
func (g *grouping) roundToWhole(x float32) float32 {
	if g.cpu {
		return float32(math.RoundToEven(float64(x)))
	}
	return float32(math.Round(float64(x)))
}

// affine: the number of the largest absolute value is the one that is exact, and zero is a code.
func (g *grouping) affine() {
	low, high := float32(math.MaxFloat32), float32(0)
	if g.cpu {
		low, high = g.x[0], g.x[0]
	}
	for _, x := range g.x {
		if x < low {
			low = x
		}
		if x > high {
			high = x
		}
	}
	top := float32(uint32(1)<<g.Bits - 1)
	scale, edge := max((high-low)/top, 1e-7), low
	if !(abs32(low) > abs32(high)) {
		scale, edge = -scale, high
	}
	bias := float32(0)
	if zero := g.roundToWhole(edge / scale); zero != 0 {
		scale, bias = edge/zero, edge
	}
	for i, x := range g.x {
		switch c := g.roundToWhole((x - bias) / scale); {
		case !(c > 0):
			g.codes[i] = 0
		case c > top:
			g.codes[i] = uint8(top)
		default:
			g.codes[i] = uint8(c)
		}
	}
	g.scale, g.bias = g.stored(scale), g.stored(bias)
}

func abs32(x float32) float32 { return math.Float32frombits(math.Float32bits(x) &^ (1 << 31)) }

// largest is the largest absolute value of a group.
func (g *grouping) largest() (most float32) {
	for _, x := range g.x {
		if x = abs32(x); x > most {
			most = x
		}
	}
	return most
}

// mx: the scale is a power of two, the smallest by which no number is larger than the largest code.
func (g *grouping) mx() {
	levels := float32(6)
	if g.Bits == 8 {
		levels = 448
	}
	s := g.largest() / levels
	if g.cpu {
		s = g.round(s)
	}
	e := exponentAbove(s)
	switch {
	case s == 0 && g.cpu:
		e = 0
	case s == 0:
		e = -127
	}
	e = min(max(e, -127), 127)
	g.scale = uint32(e + 127)
	power := e8m0[g.scale]
	for i, x := range g.x {
		if g.cpu {
			g.codes[i] = g.code(g.round(x / power))
		} else {
			g.codes[i] = g.code(x * (1 / power))
		}
	}
}

// exponentAbove is the smallest e with 2^e >= s, for s > 0.
func exponentAbove(s float32) int {
	fraction, e := math.Frexp(float64(s))
	if fraction == 0.5 {
		e--
	}
	return e
}

// nvfp4: the scale is a float of 8 bits.
func (g *grouping) nvfp4() {
	s := g.largest() / 6
	if g.cpu {
		s = g.round(s)
	}
	c := toE4M3(s)
	g.scale = uint32(c)
	scale := e4m3[c]
	for i, x := range g.x {
		switch {
		case g.cpu:
			g.codes[i] = g.code(g.round(x / scale))
		case scale == 0:
			g.codes[i] = g.code(x * 0)
		default:
			g.codes[i] = g.code(x * (1 / scale))
		}
	}
}

// code is the code of a number that was divided by its scale.
func (g *grouping) code(x float32) uint8 {
	switch {
	case g.Bits == 8:
		return toE4M3(x)
	case g.cpu:
		return g.nearest(x)
	}
	c := uint8(0)
	for i, from := range fp4Steps {
		// A tie goes to the even code: if that is the upper one, the step is reached at the
		// tie.
		if a := abs32(x); a > from || i%2 == 1 && a == from {
			c = uint8(i + 1)
		}
	}
	return c | uint8(math.Float32bits(x)>>31)<<3
}

// fp4Steps are halfway between the values of E2M1.
var fp4Steps = [7]float32{0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5}

// nearest is the first of the nearest values of E2M1, each difference rounded.
func (g *grouping) nearest(x float32) (code uint8) {
	best := float32(math.Inf(1))
	for c, v := range e2m1 {
		if d := abs32(g.round(x - v)); d < best {
			best, code = d, uint8(c)
		}
	}
	return code
}

// toE4M3 rounds to an E4M3, nearest even; what is too large becomes the largest one.
func toE4M3(x float32) uint8 {
	sign := uint8(math.Float32bits(x) >> 24 & 0x80)
	a := float64(abs32(x))
	switch {
	case a == 0:
		return sign
	case !(a < 448):
		return sign | 0x7E
	}
	_, e := math.Frexp(a) // a < 2^e
	e = max(e, -5)
	m := int(math.RoundToEven(math.Ldexp(a, 4-e))) // in units of the last place: 8 to 16 of a normal number
	return sign | uint8(m+(e+5)<<3)
}
