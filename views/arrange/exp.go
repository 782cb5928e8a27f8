package arrange

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/tensorfs/tensorfs"
	"github.com/x448/float16"
)

// NegativeExp returns -exp(x) of the numbers of t, as F32: rounded once, of a result in
// double precision.
func NegativeExp(t *tensorfs.Tensor) (*tensorfs.Tensor, error) {
	return calculated("applied to", t, tensorfs.F32, numbersBy(func(x float32) float32 { return float32(-math.Exp(float64(x))) }))
}

// Exp returns exp(x) of the numbers of t as [NegativeExp] returns -exp(x).
func Exp(t *tensorfs.Tensor) (*tensorfs.Tensor, error) {
	return calculated("applied to", t, tensorfs.F32, numbersBy(exp32))
}

func exp32(x float32) float32 { return float32(math.Exp(float64(x))) }

// Multiply returns the numbers of t, each multiplied by the factors one after the other in
// F32, and rounded once to the type of t.
func Multiply(t *tensorfs.Tensor, factors ...float32) (*tensorfs.Tensor, error) {
	return calculated("multiplied in", t, t.DType, numbersBy(func(x float32) float32 {
		for _, f := range factors {
			x *= f
		}
		return x
	}))
}

// Centred returns the numbers of t without their mean, which is rounded to the type of t as
// they are. It reads the tensor to find the mean.
func Centred(t *tensorfs.Tensor) (*tensorfs.Tensor, error) {
	f := numbersBy(func(x float32) float32 { return x })[t.DType]
	if t.Quant != nil || f == nil || t.BigEndian || t.Opaque != "" || t.Data.Size() == 0 || t.Data.Size() > maxLog {
		return nil, fmt.Errorf("no mean is found of %d bytes of %s, but of up to %d of little-endian floats", t.Data.Size(), t.DType, maxLog)
	}
	b := make([]byte, t.Data.Size())
	if err := tensorfs.ReadFull(t.Data, b, 0); err != nil {
		return nil, err
	}
	sum, n, width := 0.0, 0, len(b)/int(product(t.Numbers()))
	for ; len(b) >= width; b = b[width:] {
		sum, n = sum+float64(f(b)), n+1
	}
	mean := float32(sum / float64(n))
	switch t.DType {
	case tensorfs.BF16:
		mean = roundedB16(mean)
	case tensorfs.F16:
		mean = float16.Fromfloat32(mean).Float32()
	}
	return calculated("centred in", t, t.DType, numbersBy(func(x float32) float32 { return x - mean }))
}

// numbersBy makes numbers by a function of what is stored.
func numbersBy(f func(x float32) float32) numbers {
	return numbers{
		tensorfs.F32:  func(src []byte) float32 { return f(number32(src)) },
		tensorfs.BF16: func(src []byte) float32 { return f(numberB16(src)) },
		tensorfs.F16:  func(src []byte) float32 { return f(number16(src)) },
	}
}

// maxLog is how many bytes of a tensor LogOfNegative reads.
const maxLog = 64 << 20

// LogOfNegative undoes [NegativeExp] for a tensor of F32: it returns log(-x), as BF16 where
// [NegativeExp] makes the same numbers of that, within one unit of the last place, and as
// F32 where it does not. It reads the tensor to find out. Numbers that are not below zero
// have no logarithm.
func LogOfNegative(t *tensorfs.Tensor) (*tensorfs.Tensor, error) {
	return undone(t, logOf, func(x float32) float32 { return float32(-math.Exp(float64(x))) }, func(x float32) error {
		if !(x < 0) || math.IsInf(float64(x), -1) {
			return fmt.Errorf("%v has no logarithm of its negative", x)
		}
		return nil
	})
}

// LogOf undoes [Exp] as [LogOfNegative] does [NegativeExp].
func LogOf(t *tensorfs.Tensor) (*tensorfs.Tensor, error) {
	return undone(t, func(x float32) float32 { return logOf(-x) }, exp32, func(x float32) error {
		if !(x > 0) || math.IsInf(float64(x), 1) {
			return fmt.Errorf("%v has no logarithm", x)
		}
		return nil
	})
}

// Unscale undoes [Scale] as [LogOfNegative] does [NegativeExp].
func Unscale(t *tensorfs.Tensor, x float32) (*tensorfs.Tensor, error) {
	return undone(t, func(y float32) float32 { return float32(float64(y) / float64(x)) }, func(y float32) float32 { return y * x }, func(float32) error { return nil })
}

// Softplus returns log(1+exp(x)) of the numbers of t, as F32: rounded once, of a result in
// double precision.
func Softplus(t *tensorfs.Tensor) (*tensorfs.Tensor, error) {
	return calculated("applied to", t, tensorfs.F32, numbersBy(softplus))
}

// InverseSoftplus undoes [Softplus] as [LogOfNegative] does [NegativeExp].
func InverseSoftplus(t *tensorfs.Tensor) (*tensorfs.Tensor, error) {
	inverse := func(y float32) float32 { return float32(float64(y) + math.Log(-math.Expm1(-float64(y)))) }
	return undone(t, inverse, softplus, func(y float32) error {
		if !(y > 0) || math.IsInf(float64(y), 1) {
			return fmt.Errorf("%v is not log(1+exp(x)) of a number", y)
		}
		return nil
	})
}

func softplus(x float32) float32 {
	return float32(math.Max(float64(x), 0) + math.Log1p(math.Exp(-math.Abs(float64(x)))))
}

// undone returns the numbers that a function makes the numbers of t of, which are F32, by its
// inverse: as BF16 where the function makes the same numbers of them, within one unit of the
// last place. refuse explains why a number has none.
func undone(t *tensorfs.Tensor, inverse, function func(float32) float32, refuse func(float32) error) (*tensorfs.Tensor, error) {
	if t.Quant != nil || t.DType != tensorfs.F32 || t.BigEndian || t.Opaque != "" || t.Data.Size() > maxLog {
		return nil, fmt.Errorf("the logarithm of %d bytes of %s cannot be computed, only of up to %d bytes of little-endian F32", t.Data.Size(), t.DType, maxLog)
	}
	b := make([]byte, t.Data.Size())
	if err := tensorfs.ReadFull(t.Data, b, 0); err != nil {
		return nil, err
	}
	to := tensorfs.BF16
	for ; len(b) > 0; b = b[4:] {
		x := number32(b)
		if err := refuse(x); err != nil {
			return nil, err
		}
		again := function(roundedB16(inverse(x)))
		if d := int64(math.Float32bits(again)) - int64(binary.LittleEndian.Uint32(b)); d < -1 || d > 1 {
			to = tensorfs.F32
		}
	}
	return calculated("applied to", t, to, numbersBy(inverse))
}

func logOf(x float32) float32 { return float32(math.Log(-float64(x))) }

// roundedB16 rounds to the nearest BF16, of two to the even one.
func roundedB16(x float32) float32 {
	bits := math.Float32bits(x)
	return math.Float32frombits((bits + 0x7FFF + bits>>16&1) &^ 0xFFFF)
}
