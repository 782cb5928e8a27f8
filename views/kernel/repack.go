package kernel

import "fmt"

// Repack puts groups as MLX stores them, codes apart from scales and biases, into blocks of one of ggml's types that
// has the same codes, scales and minima.
type Repack struct {
	Type               string // ggml's name of the type
	Elems              int    // elements per unit: the smallest run of whole groups that becomes whole blocks
	Codes, Scale, Bias int    // bytes per unit in each stream; Bias 0: none
	Bytes              int    // bytes that a unit becomes

	// Repack writes n units: len(codes) = n*Codes, len(scales) = n*Scale, len(biases) = n*Bias, len(dst) = n*Bytes,
	// any n >= 0. It returns the number of leading units that the type holds exactly: after fewer than n, dst is
	// not to be used.
	Repack func(dst, codes, scales, biases []byte) (exact int)
	// Scales returns the number of leading units that are exact whatever their codes.
	Scales func(scales, biases []byte) (exact int)
}

// LookupRepack returns the fastest repacking of this machine for a mode, bits per code,
// group size and dtype of the scales, as in [LookupGroup]. It is false if no type of ggml
// has such codes in such groups.
//
//	affine 2, 3, 4 bits   Q4_1    groups of a multiple of 32; exact where scale and bias are halves, or all codes are 0 and the bias is one
//	affine 5 bits         Q5_1    the same
//	mxfp4                 MXFP4   exact unless a scale is 0xFF
//	mxfp8                 BF16    exact unless a scale is 0xFF or a number is below 2^-126
//	nvfp4                 NVFP4   exact where all scales are 0x00 to 0x7E
func LookupRepack(mode string, bits, group int, scale string) (Repack, bool) {
	g, ok := LookupGroup(mode, bits, group, scale)
	if !ok {
		return Repack{}, false
	}
	key := groupKey{mode, bits, scale}
	repack := goRepacks()[key]
	if repack == nil || group%32 != 0 && mode != "nvfp4" {
		return Repack{}, false
	}
	if fast := accelerated(); fast != nil && fast.repacks[key] != nil {
		repack = fast.repacks[key]
	}
	p := Repack{Elems: g.Elems, Codes: g.Codes, Scale: g.Scale, Bias: g.Bias}
	switch {
	case mode == "mxfp4":
		p.Type, p.Bytes, p.Scales = "MXFP4", 17, scalesFrom(0, 0xFE)
	case mode == "mxfp8":
		p.Type, p.Bytes, p.Scales = "BF16", 64, scalesFrom(normalMXFP8, 0xFE)
	case mode == "nvfp4":
		p.Type, p.Elems, p.Codes, p.Scale, p.Bytes = "NVFP4", 64, 32, 4, 36
		p.Scales = func(scales, _ []byte) int { return within(scales, 0, 0x7E) / 4 }
	case bits == 5:
		p.Type, p.Bytes, p.Scales = "Q5_1", group/32*24, exactScales(scale)
	default:
		p.Type, p.Bytes, p.Scales = "Q4_1", group/32*20, exactScales(scale)
	}
	p.Repack = func(dst, codes, scales, biases []byte) int {
		p.check(len(dst), len(codes), len(scales), len(biases))
		return repack(dst, codes, scales, biases, group)
	}
	return p, true
}

// check checks the lengths that callers pass.
func (p Repack) check(dst, codes, scales, biases int) {
	n := codes / p.Codes
	if codes != n*p.Codes || scales != n*p.Scale || biases != n*p.Bias || dst != n*p.Bytes {
		panic(fmt.Sprintf("kernel: %s: %d bytes of codes, %d of scales and %d of biases into %d", p.Type, codes, scales, biases, dst))
	}
}
