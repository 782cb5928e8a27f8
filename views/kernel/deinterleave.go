package kernel

import "math"

// interleaves holds ggml's removed repackings of Q4_0: how many rows share a group and how many bytes of codes of one row
// are together.
var interleaves = map[string]struct{ rows, chunk int }{
	"Q4_0_4_4": {4, 4},
	"Q4_0_4_8": {4, 8},
	"Q4_0_8_8": {8, 8},
}

// Deinterleave returns, for one of ggml's removed types Q4_0_4_4, Q4_0_4_8 and Q4_0_8_8 and rows of the given number of
// columns, how many rows form a group and a function that turns whole groups into plain Q4_0 rows. A group is
// rows*cols/32*18 bytes before and after. It is false for other types and for columns that are not a multiple of 32.
//
// A group of R rows, for each block of 32 columns:
//
//	R halves d, one per row
//	16R bytes of codes: C bytes of row 0, C bytes of row 1, .. row R-1, the next C bytes of row 0, ..
//
// Nibbles are stored as two's complement, so bit 3 of each differs from Q4_0.
func Deinterleave(name string, cols int) (rows int, f func(dst, src []byte), ok bool) {
	layout, ok := interleaves[name]
	if !ok || cols <= 0 || cols%32 != 0 || cols > math.MaxInt/32 {
		return 0, nil, false
	}
	r, c, stride := layout.rows, layout.chunk, cols/32*18
	return r, func(dst, src []byte) {
		checkBlocks(name, len(dst), len(src), r*stride, r*stride)
		for ; len(dst) > 0; dst = dst[r*stride:] {
			for at := 0; at < stride; at, src = at+18, src[18*r:] {
				for row := range r {
					block := dst[row*stride+at:][:18]
					copy(block, src[2*row:][:2])
					for j := range 16 {
						block[2+j] = src[2*r+j/c*c*r+row*c+j%c] ^ 0x88
					}
				}
			}
		}
	}, true
}
