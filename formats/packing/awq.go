package packing

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/tensorfs/tensorfs"
)

// AWQ returns the numbers of a module of 4 bits in the layout "gemm":
//
//	codes    I32 [K, N/8]     8 rows in a word, see [awqOrder]
//	zeros    I32 [K/g, N/8]   the same; nil: 8
//	scales   [K/g, N]
func AWQ(group int, codes, zeros, scales *tensorfs.Tensor) (*tensorfs.Quant, error) {
	if len(codes.Shape) != 2 || codes.Shape[0] > maxSide || codes.Shape[1] > maxSide/8 {
		return nil, wrong(codes, "has shape %v, but should be a matrix", codes.Shape)
	}
	k, width := codes.Shape[0], codes.Shape[1]
	x, err := grouped(8*width, k, 4, int64(group), nil)
	if err != nil {
		return nil, err
	}
	if err := cmpErr(isFloat(scales), hasShape(scales, x.groups, x.rows)); err != nil {
		return nil, err
	}
	x.codes, x.zeros = awqWords{own(codes), width}, constant(8)
	if zeros != nil {
		if !slices.Contains(words, zeros.DType) {
			return nil, wrong(zeros, "is %s, and zero points are packed into I32", zeros.DType)
		}
		if err := hasShape(zeros, x.groups, width); err != nil {
			return nil, err
		}
		x.zeros = stored{codes: awqWords{own(zeros), width}}
	}
	x.scales = table{own(scales), x.rows, x.groups, true}
	return x.quant("awq", scales, codes, zeros, scales), nil
}

// awqOrder is by the row within a word: the number of its nibble.
var awqOrder = [8]int{0, 4, 1, 5, 2, 6, 3, 7}

// awqWords are words of 8 rows for each column, [K, N/8].
type awqWords struct {
	t     *tensorfs.Tensor
	width int64
}

func (x awqWords) codes(dst []byte, row, n, from, to int64) error {
	wide := to - from
	first := row / 8
	words := up(row+n, 8) - first
	strip := sized(int(wide * words * 4))
	defer strip.free()
	if err := copied(strip.b, x.t, 4*(from*x.width+first), 4*words, 4*x.width, wide); err != nil {
		return err
	}
	var lines [8][]byte
	for w := range words {
		for j := range lines {
			lines[j] = nil
			if r := 8*(first+w) + int64(j) - row; r >= 0 && r < n {
				lines[j] = dst[r*wide:][:wide]
			}
		}
		for j, line := range lines {
			shift := 4 * awqOrder[j]
			src := strip.b[4*w:]
			for k := range line {
				line[k] = byte(binary.LittleEndian.Uint32(src)>>shift) & 15
				src = src[min(4*words, int64(len(src))):]
			}
		}
	}
	return nil
}

// AWQLayout returns an error for a version of config.json with another layout.
func AWQLayout(version string) error {
	if version == "" || version == "gemm" {
		return nil
	}
	return fmt.Errorf("version is %s, and only the layout gemm can be read", tensorfs.Quote(version))
}
