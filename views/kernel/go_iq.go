package kernel

import (
	_ "embed"
	"encoding/binary"
	"math/bits"
)

// The codebooks of the IQ types: rows of 8 (IQ3: 4) bytes, one byte an element. IQ1's are signed.
var (
	//go:embed tables/iq1s_grid.i8
	iq1sGrid string // 2048 rows of -1, 0, 1
	//go:embed tables/iq2xxs_grid.u8
	iq2xxsGrid string // 256 rows
	//go:embed tables/iq2xs_grid.u8
	iq2xsGrid string // 512 rows
	//go:embed tables/iq2s_grid.u8
	iq2sGrid string // 1024 rows
	//go:embed tables/iq3xxs_grid.u8
	iq3xxsGrid string // 256 rows
	//go:embed tables/iq3s_grid.u8
	iq3sGrid string // 512 rows
)

// ksigns expands a 7-bit sign index to 8 signs: bit 7 makes the number of negative elements even.
var ksigns = func() (t [128]byte) {
	for i := range t {
		t[i] = byte(i | bits.OnesCount(uint(i))%2<<7)
	}
	return t
}()

// iq4Levels are the levels of IQ4_NL and IQ4_XS.
var iq4Levels = [16]float32{-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113}

// IQ1: groups of 8 elements, each a codebook row plus or minus an eighth.
//
//	IQ1_S   d  qs[32]  qh u16[8]         qh of 32 elements: 4 x 3 high bits of the row, 3 bits scale, 1 bit delta's sign
//	IQ1_M   qs[32]  qh[16]  sc u16[4]    nibble of qh per group: 3 high bits of the row, 1 bit delta's sign;
//	                                     sc: four 3-bit scales (16 elements each) and a nibble of d each

// iq1Group sets 8 values from a codebook row; negative is bit 0 of its argument.
func iq1Group(v []float32, d float32, row int, negative byte) {
	delta := flip(0.125, negative, 0)
	for j, g := range []byte(iq1sGrid[8*row:][:8]) {
		v[j] = d * (float32(int8(g)) + delta)
	}
}

func iq1_S(dst, src []byte, to Float) {
	var v [256]float32
	for ; len(src) > 0; src = src[50:] {
		d := wide(src)
		for k, low := range src[2:34] {
			w := binary.LittleEndian.Uint16(src[34+k/4*2:])
			row := int(low) | int(w>>(k%4*3)&7)<<8
			iq1Group(v[8*k:], d*float32(w>>12&7*2+1), row, byte(w>>15))
		}
		dst = to.put(dst, v[:])
	}
}

func iq1_M(dst, src []byte, to Float) {
	var v [256]float32
	for ; len(src) > 0; src = src[56:] {
		sc := binary.LittleEndian.Uint64(src[48:])
		d := widen(uint16(sc>>12&0xF | sc>>28&0xF<<4 | sc>>44&0xF<<8 | sc>>60<<12))
		for k, low := range src[:32] {
			n := src[32+k/2] >> (k % 2 * 4)
			scale := sc >> (k/8*16 + k%8/2*3) & 7
			iq1Group(v[8*k:], d*float32(scale*2+1), int(low)|int(n&7)<<8, n>>3)
		}
		dst = to.put(dst, v[:])
	}
}

// IQ2: groups of 8 elements, each a codebook row of magnitudes with 8 signs.
//
//	IQ2_XXS  d  8 x (rows[4]  a u32)           a: 4 x 7 bits sign index, 4 bits scale
//	IQ2_XS   d  qs u16[32]  scales[8]          qs: 9 bits row, 7 bits sign index; a scale nibble per 16 elements
//	IQ2_S    d  qs[32]  signs[32]  qh[8]  scales[8]   qh: two high bits of the row per group

// iq2Group sets 8 values from a codebook row.
func iq2Group(v []float32, d float32, grid string, row int, signs byte) {
	for j, g := range []byte(grid[8*row:][:8]) {
		v[j] = flip(d*float32(g), signs, j)
	}
}

// iq2Scale is the factor for a 4-bit scale.
func iq2Scale(d float32, s uint32) float32 { return d * (0.5 + float32(s)) * 0.25 }

func iq2_XXS(dst, src []byte, to Float) {
	var v [256]float32
	for ; len(src) > 0; src = src[66:] {
		d := wide(src)
		for t := range 8 {
			rows, a := src[2+8*t:][:4], binary.LittleEndian.Uint32(src[6+8*t:])
			for l, row := range rows {
				iq2Group(v[32*t+8*l:], iq2Scale(d, a>>28), iq2xxsGrid, int(row), ksigns[a>>(7*l)&127])
			}
		}
		dst = to.put(dst, v[:])
	}
}

func iq2_XS(dst, src []byte, to Float) {
	var v [256]float32
	for ; len(src) > 0; src = src[74:] {
		d := wide(src)
		for k := range 32 {
			q := binary.LittleEndian.Uint16(src[2+2*k:])
			s := src[66+k/4] >> (k % 4 / 2 * 4) & 15
			iq2Group(v[8*k:], iq2Scale(d, uint32(s)), iq2xsGrid, int(q&511), ksigns[q>>9])
		}
		dst = to.put(dst, v[:])
	}
}

func iq2_S(dst, src []byte, to Float) {
	var v [256]float32
	for ; len(src) > 0; src = src[82:] {
		d := wide(src)
		for k := range 32 {
			row := int(src[2+k]) | int(src[66+k/4]>>(k%4*2)&3)<<8
			s := src[74+k/4] >> (k % 4 / 2 * 4) & 15
			iq2Group(v[8*k:], iq2Scale(d, uint32(s)), iq2sGrid, row, src[34+k])
		}
		dst = to.put(dst, v[:])
	}
}

// IQ3: groups of 4 elements, each a codebook row of magnitudes; 8 signs for two groups.
//
//	IQ3_XXS  d  qs[64]  a u32[8]                         a as in IQ2_XXS
//	IQ3_S    d  qs[64]  qh[8]  signs[32]  scales[4]      qh: one high bit of the row per group; a scale nibble per 32

// iq3Group sets 8 values from two codebook rows.
func iq3Group(v []float32, d float32, grid string, row0, row1 int, signs byte) {
	for j, g := range []byte(grid[4*row0:][:4]) {
		v[j] = flip(d*float32(g), signs, j)
	}
	for j, g := range []byte(grid[4*row1:][:4]) {
		v[j+4] = flip(d*float32(g), signs, j+4)
	}
}

func iq3_XXS(dst, src []byte, to Float) {
	var v [256]float32
	for ; len(src) > 0; src = src[98:] {
		d := wide(src)
		for k := range 32 {
			a := binary.LittleEndian.Uint32(src[66+k/4*4:])
			dl := d * (0.5 + float32(a>>28)) * 0.5
			iq3Group(v[8*k:], dl, iq3xxsGrid, int(src[2+2*k]), int(src[3+2*k]), ksigns[a>>(k%4*7)&127])
		}
		dst = to.put(dst, v[:])
	}
}

func iq3_S(dst, src []byte, to Float) {
	var v [256]float32
	for ; len(src) > 0; src = src[110:] {
		d := wide(src)
		for k := range 32 {
			high := int(src[66+k/4]) >> (k % 4 * 2)
			dl := d * float32(src[106+k/8]>>(k%8/4*4)&15*2+1)
			iq3Group(v[8*k:], dl, iq3sGrid, int(src[2+2*k])|high&1<<8, int(src[3+2*k])|high>>1&1<<8, src[74+k])
		}
		dst = to.put(dst, v[:])
	}
}

// IQ4: a level per nibble.
//
//	IQ4_NL  32    d  qs[16]                                    nibbles as in Q4_0
//	IQ4_XS  256   d  scales_h u16  scales_l[4]  qs[128]        per 32 elements: 6-bit scale, 16 bytes as in Q4_0

func iq4_NL(dst, src []byte, to Float) {
	var v [32]float32
	for ; len(src) > 0; src = src[18:] {
		d := wide(src)
		for j, b := range src[2:18] {
			v[j] = d * iq4Levels[b&15]
			v[j+16] = d * iq4Levels[b>>4]
		}
		dst = to.put(dst, v[:])
	}
}

func iq4_XS(dst, src []byte, to Float) {
	var v [256]float32
	for ; len(src) > 0; src = src[136:] {
		d, high := wide(src), binary.LittleEndian.Uint16(src[2:])
		for t := range 8 {
			scale := int(src[4+t/2]>>(t%2*4)&15) | int(high>>(2*t)&3)<<4
			dl := d * float32(scale-32)
			for j, b := range src[8+16*t:][:16] {
				v[32*t+j] = dl * iq4Levels[b&15]
				v[32*t+j+16] = dl * iq4Levels[b>>4]
			}
		}
		dst = to.put(dst, v[:])
	}
}
