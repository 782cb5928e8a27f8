package kernel

import "fmt"

// Group decodes MLX- and Ollama-style quantisation: codes, scales and biases in separate streams.
type Group struct {
	To                 Float  // what it decodes to
	Mode               string // affine, mxfp4, mxfp8, nvfp4
	Bits, Elems        int    // Elems is the group size
	Codes, Scale, Bias int    // bytes per group in each stream; Bias 0: none

	// Decode decodes n groups: len(codes) = n*Codes, len(scales) = n*Scale, len(biases) = n*Bias,
	// len(dst) = n*Elems numbers, any n >= 0. factor is nvfp4's global scale, 1 without one: the value is
	// (element*scale)*factor in F32. The other modes ignore it.
	Decode func(dst, codes, scales, biases []byte, factor float32)
}

// maxGroup is the largest group size that LookupGroup accepts, so that no size computed from one can overflow.
const maxGroup = 1 << 16

// LookupGroup is [Float.LookupGroup] to IEEE half.
func LookupGroup(mode string, bits, group int, scale string) (Group, bool) {
	return Half.LookupGroup(mode, bits, group, scale)
}

// LookupGroup returns the fastest decoder of this machine for a mode (affine, mxfp4, mxfp8 or nvfp4), bits per
// code, group size and dtype of the scales: F16, BF16 or F32 for affine, whose group may be any multiple of 8; U8
// otherwise, with the group size of the mode.
func (to Float) LookupGroup(mode string, bits, group int, scale string) (Group, bool) {
	key, plain, fast := groupKey{mode, bits, scale}, goGroups, accelerated
	if to == Single {
		plain, fast = goSingles, acceleratedSingle
	}
	decode, ok := plain()[key]
	if !ok || group <= 0 || group > maxGroup || group%8 != 0 || fixedGroup[mode] != 0 && group != fixedGroup[mode] {
		return Group{}, false
	}
	if fast := fast(); fast != nil && fast.groups[key] != nil && (group%32 == 0 || mode == "nvfp4") {
		decode = fast.groups[key]
	}
	g := Group{To: to, Mode: mode, Bits: bits, Elems: group, Codes: group * bits / 8, Scale: scaleBytes(scale)}
	if mode == "affine" {
		g.Bias = g.Scale
	}
	g.Decode = func(dst, codes, scales, biases []byte, factor float32) {
		g.check(len(dst), len(codes), len(scales), len(biases))
		decode(dst, codes, scales, biases, factor, group)
	}
	return g, true
}

// check checks the lengths that callers pass, so that assembly can trust them.
func (g Group) check(dst, codes, scales, biases int) {
	n := codes / g.Codes
	if codes != n*g.Codes || scales != n*g.Scale || biases != n*g.Bias || dst != n*int(g.To)*g.Elems {
		panic(fmt.Sprintf("kernel: %s %d bits, groups of %d: %d bytes of codes, %d of scales and %d of biases into %d",
			g.Mode, g.Bits, g.Elems, codes, scales, biases, dst))
	}
}

// fixedGroup holds the modes that have only one group size.
var fixedGroup = map[string]int{"mxfp4": 32, "mxfp8": 32, "nvfp4": 16}

// scaleBytes returns the size of a scale: U8 means codes of an 8-bit float.
func scaleBytes(dtype string) int {
	if dtype == "U8" {
		return 1
	}
	return typeOf(dtype).Bytes
}
