package kernel

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/x448/float16"
)

// Arithmetic over runs of F32 numbers, in place, each step rounded to nearest even as the
// processor does. Every implementation gives the same bits, but for NaN, which [Rounding]
// makes one.

// elementKernels are a processor's kernels for it, each for runs of eight numbers. They may
// be nil.
type elementKernels struct {
	add, subtract, divideEach func(dst, src *byte, runs int)
	multiply, divide          func(dst *byte, by float32, runs int)
	keepLarger                func(dst *byte, bits int32, runs int)
	elect                     func(sums, weights, src, signs *byte, weight float32, runs int)
	rounds                    map[string]func(dst *byte, runs int) // by the name of the type
}

// inPairs runs a kernel of two operands, and returns how many bytes are done.
func inPairs(k func(dst, src *byte, runs int), dst, src []byte) int {
	pair(dst, src)
	n := len(dst) / 32
	if k == nil || n == 0 {
		return 0
	}
	k(&dst[0], &src[0], n)
	return 32 * n
}

// byOne is the same with a number for all.
func byOne[T float32 | int32](k func(dst *byte, by T, runs int), dst []byte, by T) int {
	mustBeF32(dst)
	n := len(dst) / 32
	if k == nil || n == 0 {
		return 0
	}
	k(&dst[0], by, n)
	return 32 * n
}

// Add adds src to dst.
func Add(dst, src []byte) {
	n := inPairs(elements.add, dst, src)
	for dst, src = dst[n:], src[n:]; len(dst) > 0; dst, src = dst[4:], src[4:] {
		putSingle(dst, getSingle(dst)+getSingle(src))
	}
}

// Subtract subtracts src from dst.
func Subtract(dst, src []byte) {
	n := inPairs(elements.subtract, dst, src)
	for dst, src = dst[n:], src[n:]; len(dst) > 0; dst, src = dst[4:], src[4:] {
		putSingle(dst, getSingle(dst)-getSingle(src))
	}
}

// DivideEach divides each number of dst by the number of by at the same place, unless that
// is 0.
func DivideEach(dst, by []byte) {
	n := inPairs(elements.divideEach, dst, by)
	for dst, by = dst[n:], by[n:]; len(dst) > 0; dst, by = dst[4:], by[4:] {
		if y := getSingle(by); y != 0 {
			putSingle(dst, getSingle(dst)/y)
		}
	}
}

// Multiply multiplies dst by a number.
func Multiply(dst []byte, by float32) {
	for dst = dst[byOne(elements.multiply, dst, by):]; len(dst) > 0; dst = dst[4:] {
		putSingle(dst, getSingle(dst)*by)
	}
}

// Divide divides dst by a number.
func Divide(dst []byte, by float32) {
	for dst = dst[byOne(elements.divide, dst, by):]; len(dst) > 0; dst = dst[4:] {
		putSingle(dst, getSingle(dst)/by)
	}
}

// KeepLarger makes 0 of the numbers whose bits without the sign are at most those given, or of
// none for -1. These bits are in the order of the magnitudes, NaN above all others.
func KeepLarger(dst []byte, bits int32) {
	if mustBeF32(dst); bits < 0 {
		return
	}
	for dst = dst[byOne(elements.keepLarger, dst, bits):]; len(dst) > 0; dst = dst[4:] {
		if int32(binary.LittleEndian.Uint32(dst)&^(1<<31)) <= bits {
			putSingle(dst, 0)
		}
	}
}

// Elect adds a number of src to sums, and a weight to weights, if the number has the same
// sign as the number of signs at its place; otherwise it adds 0. Signs that are not at
// least 0 are negative, and NaN in src has no sign.
func Elect(sums, weights, src, signs []byte, weight float32) {
	pair(sums, weights)
	pair(sums, src)
	pair(sums, signs)
	at := 0
	if n := len(sums) / 32; n > 0 && elements.elect != nil {
		elements.elect(&sums[0], &weights[0], &src[0], &signs[0], weight, n)
		at = 32 * n
	}
	for ; at < len(sums); at += 4 {
		x, w := getSingle(src[at:]), weight
		if positive := getSingle(signs[at:]) >= 0; !(positive && x > 0 || !positive && x < 0) {
			x, w = 0, 0
		}
		putSingle(sums[at:], getSingle(sums[at:])+x)
		putSingle(weights[at:], getSingle(weights[at:])+w)
	}
}

// Rounding rounds F32 numbers to numbers that a type holds, to nearest even. Every NaN
// becomes 0x7FC00000.
type Rounding func(dst []byte)

// Roundings are by the name of the type.
var Roundings = map[string]Rounding{
	"F32":  rounding("F32", func(x float32) float32 { return x }),
	"F16":  rounding("F16", roundF16),
	"BF16": rounding("BF16", roundBF16),
}

func rounding(dtype string, one func(float32) float32) Rounding {
	k := elements.rounds[dtype]
	return func(dst []byte) {
		mustBeF32(dst)
		if n := len(dst) / 32; n > 0 && k != nil {
			k(&dst[0], n)
			dst = dst[32*n:]
		}
		for ; len(dst) > 0; dst = dst[4:] {
			x := getSingle(dst)
			if x == x {
				x = one(x)
			}
			putQuiet(dst, x)
		}
	}
}

func roundF16(x float32) float32 { return float16.Fromfloat32(x).Float32() }

func roundBF16(x float32) float32 {
	bits := math.Float32bits(x)
	return math.Float32frombits((bits + 0x7FFF + bits>>16&1) &^ 0xFFFF)
}

// fma is x*y + z, rounded once. The product of two F32 is exact in F64; the sum is rounded
// there, and once more to F32, which differs from one rounding only where the first one
// ended half-way between two F32, or below their normal range. Then it is made odd.
func fma(x, y, z float32) float32 {
	p := float64(x) * float64(y)
	s := p + float64(z)
	bits := math.Float64bits(s)
	if bits&(1<<29-1) != 1<<28 && bits>>52&0x7FF > 1023-126 {
		return float32(s)
	}
	t := s - p
	left := (p - (s - t)) + (float64(z) - t)
	if left != 0 && bits&1 == 0 && !math.IsInf(s, 0) {
		if (left > 0) == (s > 0) {
			bits++
		} else {
			bits--
		}
		s = math.Float64frombits(bits)
	}
	return float32(s)
}

func getSingle(p []byte) float32    { return math.Float32frombits(binary.LittleEndian.Uint32(p)) }
func putSingle(p []byte, x float32) { binary.LittleEndian.PutUint32(p, math.Float32bits(x)) }

// putQuiet is putSingle with one NaN for all.
func putQuiet(p []byte, x float32) {
	if x != x {
		binary.LittleEndian.PutUint32(p, quietNaN)
		return
	}
	putSingle(p, x)
}

// pair panics unless both hold as many whole numbers.
func pair(dst, src []byte) {
	mustBeF32(dst)
	if len(dst) != len(src) {
		panic(fmt.Sprintf("kernel: %d bytes and %d", len(dst), len(src)))
	}
}
