package views

import (
	"encoding/binary"
	"math"

	"github.com/tensorfs/tensorfs"
)

// Floats returns the numbers of a tensor, row after row: the F32 numbers that ggml
// or MLX computes, as the view f32 has them. It reads all of the tensor. It is an
// error for integers, and for types that cannot be decoded.
func Floats(t *tensorfs.Tensor) ([]float32, error) {
	d, err := Encode(t, tensorfs.F32)
	if err != nil {
		return nil, err
	}
	numbers := make([]float32, d.Size()/4)
	piece := make([]byte, min(d.Size(), 1<<20))
	for i := 0; i < len(numbers); {
		piece = piece[:min(len(piece), 4*(len(numbers)-i))]
		if err := tensorfs.ReadFull(d, piece, 4*int64(i)); err != nil {
			return nil, err
		}
		for p := piece; len(p) > 0; p = p[4:] {
			numbers[i] = math.Float32frombits(binary.LittleEndian.Uint32(p))
			i++
		}
	}
	return numbers, nil
}
