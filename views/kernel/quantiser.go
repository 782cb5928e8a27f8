package kernel

import (
	"fmt"
	"slices"
)

// Quantiser turns groups of numbers into codes, scales and biases as MLX quantises them.
type Quantiser struct {
	Mode        string // affine, mxfp4, mxfp8, nvfp4
	Bits, Elems int    // Elems is the group size
	From        string // dtype of the numbers that MLX quantises, F32, F16 or BF16: affine scales and biases have it

	Codes, Scale, Bias int // bytes per group in each stream; Bias 0: none

	// Quantise quantises n groups of Elems F32 numbers. From must hold each number. An
	// empty stream is not written; the rest have the lengths of n groups.
	Quantise func(codes, scales, biases, src []byte)
}

// Rules belong to one of MLX's two implementations, whose bytes differ.
type Rules int

// The implementations: GPU means Metal and CUDA.
const (
	GPU Rules = iota
	CPU
)

// quantiserModes are the modes with the bits of their codes and their group sizes.
var quantiserModes = []struct {
	mode   string
	bits   []int
	groups []int
	group  func(g *grouping)
}{
	{"affine", []int{2, 3, 4, 5, 6, 8}, []int{32, 64, 128}, (*grouping).affine},
	{"mxfp4", []int{4}, []int{32}, (*grouping).mx},
	{"mxfp8", []int{8}, []int{32}, (*grouping).mx},
	{"nvfp4", []int{4}, []int{16}, (*grouping).nvfp4},
}

// LookupQuantiser returns the quantiser of a mode, bits per code, group size and dtype of the numbers. It is false where
// MLX has none.
func LookupQuantiser(rules Rules, mode string, bits, group int, from string) (Quantiser, bool) {
	if roundings[from] == nil {
		return Quantiser{}, false
	}
	for _, m := range quantiserModes {
		if m.mode != mode || !slices.Contains(m.bits, bits) || !slices.Contains(m.groups, group) {
			continue
		}
		q := Quantiser{Mode: mode, Bits: bits, Elems: group, From: from, Codes: group * bits / 8, Scale: 1}
		if mode == "affine" {
			q.Scale = typeOf(from).Bytes
			q.Bias = q.Scale
		}
		make := m.group
		q.Quantise = func(codes, scales, biases, src []byte) {
			n := len(src) / (4 * q.Elems)
			q.check(n, codes, scales, biases, src)
			quantiseGroups(&q, rules, make, n, codes, scales, biases, src)
		}
		return q, true
	}
	return Quantiser{}, false
}

// check checks the lengths that callers pass.
func (q *Quantiser) check(n int, codes, scales, biases, src []byte) {
	if len(src) != 4*n*q.Elems || len(codes) > 0 && len(codes) != n*q.Codes || len(scales) > 0 && len(scales) != n*q.Scale || len(biases) > 0 && len(biases) != n*q.Bias {
		panic(fmt.Sprintf("kernel: %s %d bits, groups of %d: %d bytes into %d of codes, %d of scales and %d of biases",
			q.Mode, q.Bits, q.Elems, len(src), len(codes), len(scales), len(biases)))
	}
}
