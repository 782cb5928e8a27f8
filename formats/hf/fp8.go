package hf

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/packing"
)

// fp8 attaches the scale of 8-bit floats [..., N, K]. Their value is element times scale,
// even if the scale is named inverse:
//
//	one element                        one scale for the tensor
//	[..., N, 1], or [N] beside [N, K]  one per row
//	[..., 1, 1]                        one per matrix of a stack
//	[..., ceil(N/R), ceil(K/C)]        one per block of R x C, where config.json names R and C
//	[S*ceil(N/S/R), ceil(K/C)]         the same in each of S shards of rows, for S processors, of MiMo's q, k and v
func fp8(_ *builder, q *quantConfig, m *module) (*tensorfs.Quant, error) {
	w, s := m.main, m.parts[0]
	if !slices.Contains([]tensorfs.DType{tensorfs.F32, tensorfs.BF16, tensorfs.F16, tensorfs.F8_E8M0}, s.DType) {
		return nil, fmt.Errorf("its scales are %s", s.DType)
	}
	quant := &tensorfs.Quant{Mode: "fp8", Bits: 8, Shape: w.Shape, Scales: s, Float: packing.FloatOf(s.DType)}
	n, _ := tensorfs.Elements(s.Shape)
	block := q.blockOf(m)
	switch last := len(w.Shape) - 1; {
	case block[0] > 0:
		fits := last > 0 && slices.Equal(s.Shape, scaleShape(w.Shape, block))
		if !fits && last == 1 && strings.HasSuffix(m.stem, ".qkv_proj.weight") {
			quant.Shards = shardsOf(w.Shape, s.Shape, block)
		}
		if !fits && quant.Shards == 0 {
			return nil, fmt.Errorf("scales of shape %v do not fit blocks of %d x %d in shape %v", s.Shape, block[0], block[1], w.Shape)
		}
		quant.Block = block
	case n == 1:
	default:
		if last < 1 {
			return nil, fmt.Errorf("scales of shape %v do not fit shape %v", s.Shape, w.Shape)
		}
		rows, columns := int(w.Shape[last-1]), int(w.Shape[last])
		if last == 1 && slices.Equal(s.Shape, w.Shape[:1]) && columns > 0 {
			quant.Block = [2]int{1, columns}
			return quant, nil
		}
		for _, block := range [][2]int{{1, columns}, {rows, columns}} {
			if block[0] > 0 && block[1] > 0 && slices.Equal(s.Shape, scaleShape(w.Shape, block)) {
				quant.Block = block
				break
			}
		}
		if quant.Block[0] == 0 {
			return nil, fmt.Errorf("scales of shape %v fit neither the tensor, nor its rows, and %s names no block size", s.Shape, q.where)
		}
	}
	return quant, nil
}

// scaleShape returns the shape of the scales of shape for blocks of that size.
func scaleShape(shape []int64, block [2]int) []int64 {
	s := slices.Clone(shape)
	for i, size := range block {
		d := &s[len(s)-2+i]
		*d = *d/int64(size) + min(*d%int64(size), 1)
	}
	return s
}

// shardsOf returns into how many shards a matrix is divided if its scales are the shards'
// scales, one after the other; 0 if no known number of shards has such scales.
func shardsOf(shape, scales []int64, block [2]int) int {
	for _, n := range []int64{8, 4} { // as llama.cpp's converter tries them
		shard := scaleShape([]int64{shape[0] / n, shape[1]}, block)
		if shape[0]%n == 0 && slices.Equal(scales, []int64{n * shard[0], shard[1]}) {
			return int(n)
		}
	}
	return 0
}
