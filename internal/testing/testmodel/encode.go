package testmodel

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/tensorfs/tensorfs"
	"github.com/x448/float16"
)

// Encode returns values in a stored type, little-endian. step is the scale of
// every block, 0 to choose one for each as ggml does.
func Encode(d tensorfs.DType, values []float32, step float32) []byte {
	var b []byte
	switch d {
	case tensorfs.F32:
		for _, v := range values {
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
		}
	case tensorfs.F16:
		for _, v := range values {
			b = binary.LittleEndian.AppendUint16(b, float16.Fromfloat32(v).Bits())
		}
	case tensorfs.BF16:
		for _, v := range values {
			bits := math.Float32bits(v)
			b = binary.LittleEndian.AppendUint16(b, uint16((bits+0x7fff+bits>>16&1)>>16)) // to nearest even
		}
	case tensorfs.Q8_0:
		for block := range slices.Chunk(values, 32) {
			scale := step
			if scale == 0 {
				scale = largest(block) / 127
			}
			b = binary.LittleEndian.AppendUint16(b, float16.Fromfloat32(scale).Bits())
			for _, v := range block {
				b = append(b, byte(int8(math.RoundToEven(float64(v/scale)))))
			}
		}
	case tensorfs.Q4_0:
		for block := range slices.Chunk(values, 32) {
			scale := step
			if scale == 0 {
				scale = largest(block) / 7
			}
			b = binary.LittleEndian.AppendUint16(b, float16.Fromfloat32(scale).Bits())
			code := func(v float32) byte { return byte(max(0, min(15, math.RoundToEven(float64(v/scale))+8))) }
			for i := range 16 {
				b = append(b, code(block[i])|code(block[16+i])<<4)
			}
		}
	default:
		panic(fmt.Sprintf("test values of type %v", d))
	}
	return b
}

func largest(values []float32) (m float32) {
	for _, v := range values {
		m = max(m, v, -v)
	}
	return max(m, 1e-6)
}

// swap turns what Encode returned into big-endian.
func swap(d tensorfs.DType, b []byte) {
	_, size := d.Block()
	scale := int(size) // of the number at the start of each block
	if d.Kind() == tensorfs.KindBlock {
		scale = 2
	}
	for at := 0; at < len(b); at += int(size) {
		slices.Reverse(b[at : at+scale])
	}
}

// Affine quantises as MLX does: a value is code*scale + bias. The codes of all
// rows are one stream of bits, the lowest first. step is the scale of every
// group, with a bias of half of all codes; 0 to choose both for each group.
func Affine(bits, group int, values []float32, step float32) (codes []byte, scales, biases []float32) {
	n := float32(int(1)<<bits - 1)
	codes = make([]byte, len(values)*bits/8)
	at := 0
	for g := range slices.Chunk(values, group) {
		low, high := slices.Min(g), slices.Max(g)
		scale, bias := max((high-low)/n, 1e-7), low
		if step > 0 {
			scale, bias = step, -step*float32(int(1)<<bits/2)
		}
		scales, biases = append(scales, scale), append(biases, bias)
		for _, v := range g {
			code := uint(max(0, min(n, float32(math.RoundToEven(float64((v-bias)/scale))))))
			for j := range bits {
				codes[at/8] |= byte(code>>j&1) << (at % 8)
				at++
			}
		}
	}
	return codes, scales, biases
}
