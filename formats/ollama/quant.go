package ollama

import (
	"fmt"
	"math/bits"
	"slices"
	"strconv"
	"strings"

	"github.com/tensorfs/tensorfs"
)

// params say how codes become numbers.
type params struct {
	mode        string
	bits, group int64
}

// quantTypes are the values of quant_type in a blob's metadata with the group
// size that holds where the metadata has none. The last four are accepted by
// Ollama and never written.
var quantTypes = map[string]params{
	"int4":  {"affine", 4, 64},
	"int8":  {"affine", 8, 64},
	"nvfp4": {"nvfp4", 4, 16},
	"mxfp4": {"mxfp4", 4, 32},
	"mxfp8": {"mxfp8", 8, 32},
	"q4":    {"affine", 4, 64},
	"fp4":   {"affine", 4, 64},
	"q8":    {"affine", 8, 64},
	"fp8":   {"affine", 8, 64},
}

// byRatio are the parameters by codes' words per scale where the scales are
// bytes: the three types differ there.
var byRatio = map[int64]params{
	2: quantTypes["nvfp4"],
	4: quantTypes["mxfp4"],
	8: quantTypes["mxfp8"],
}

// affineByRatio are those where the scales are floats, without metadata and
// config.json: first of 4 bits, then of 8. Where both are possible the columns
// decide, which a related tensor or config.json tells. Four words per scale are
// the group that Ollama wrote then; 8 bits in groups of 16 do not exist.
var affineByRatio = map[int64][]params{
	4:  {{"affine", 4, 32}},
	8:  {{"affine", 4, 64}, {"affine", 8, 32}},
	16: {{"affine", 4, 128}, {"affine", 8, 64}},
	32: {{"affine", 8, 128}},
}

// fixedGroup are the modes with one group size.
var fixedGroup = map[string]int64{"nvfp4": 16, "mxfp4": 32, "mxfp8": 32}

// affineBits are the widths that MLX packs.
var affineBits = []int64{2, 3, 4, 5, 6, 8}

// module is a weight with codes and what stands beside it.
type module struct {
	weight, scale, bias, global *entry // scale is nil where the metadata says quantised and there is none
	kind                        string // quant_type of the metadata, "" without one
	group                       string // group_size of the metadata
	config                      *modelConfig
	columns                     func() (int64, bool) // length of a row of numbers, where something else tells it
}

// resolve returns the module's parameters, or why its numbers cannot be had.
func (m *module) resolve() (params, string) {
	if m.scale == nil {
		return params{}, fmt.Sprintf("the blob's metadata calls it %s, and there are no scales beside it", tensorfs.Quote(m.kind))
	}
	p, reason := m.params()
	if reason == "" {
		reason = m.check(p)
	}
	return p, reason
}

func (m *module) params() (params, string) {
	switch {
	case m.kind != "":
		return m.fromMetadata()
	case m.scale.DType == tensorfs.U8:
		r, ok := ratio(m.weight.Shape, m.scale.Shape)
		if p, known := byRatio[r]; ok && known {
			return p, ""
		}
		return params{}, fmt.Sprintf("codes of shape %v with scales of shape %v are neither nvfp4 nor mxfp4 nor mxfp8", m.weight.Shape, m.scale.Shape)
	case m.config.quantised():
		return m.config.params(m.weight.module)
	}
	return m.guess()
}

func (m *module) fromMetadata() (params, string) {
	p, ok := quantTypes[strings.ToLower(m.kind)]
	if !ok {
		return p, fmt.Sprintf("quant_type %s is not known", tensorfs.Quote(m.kind))
	}
	if m.group == "" {
		// Bits and shapes leave one group size; the default is usually that.
		if last(m.scale.Shape) > 0 && p.mode == "affine" && last(m.weight.Shape) < 1<<40 {
			if g := last(m.weight.Shape) * 32 / last(m.scale.Shape) / p.bits; g == 32 || g == 64 || g == 128 {
				p.group = g
			}
		}
		return p, ""
	}
	g, err := strconv.ParseUint(m.group, 10, 31)
	if err != nil || g == 0 {
		return p, fmt.Sprintf("group_size %s is not a positive number", tensorfs.Quote(m.group))
	}
	p.group = int64(g)
	return p, ""
}

// guess returns the only parameters that shapes and the number of columns allow.
func (m *module) guess() (params, string) {
	r, ok := ratio(m.weight.Shape, m.scale.Shape)
	choice := affineByRatio[r]
	switch {
	case !ok || len(choice) == 0:
		return params{}, fmt.Sprintf("nothing says how codes of shape %v with scales of shape %v are quantised", m.weight.Shape, m.scale.Shape)
	case len(choice) == 1:
		return choice[0], ""
	}
	if cols, ok := m.columns(); ok {
		for _, p := range choice {
			if last(m.weight.Shape)*32/p.bits == cols {
				return p, ""
			}
		}
	}
	return params{}, fmt.Sprintf("%d bits in groups of %d and %d in groups of %d are both possible, and nothing says which",
		choice[0].bits, choice[0].group, choice[1].bits, choice[1].group)
}

// check returns what does not fit together, "" where all does.
func (m *module) check(p params) string {
	w, s := m.weight, m.scale
	floats := []tensorfs.DType{tensorfs.F16, tensorfs.BF16, tensorfs.F32}
	switch {
	case w.DType != tensorfs.U32:
		return fmt.Sprintf("it has scales, but holds %s where codes are U32", w.DType)
	case len(w.Shape) == 0 || len(w.Shape) != len(s.Shape) || !slices.Equal(lead(w.Shape), lead(s.Shape)):
		return fmt.Sprintf("codes of shape %v and scales of shape %v do not fit together", w.Shape, s.Shape)
	case p.mode == "affine" && !slices.Contains(affineBits, p.bits):
		return fmt.Sprintf("affine codes of %d bits do not exist", p.bits)
	case fixedGroup[p.mode] != 0 && p.group != fixedGroup[p.mode]:
		return fmt.Sprintf("%s has groups of %d, not of %d", p.mode, fixedGroup[p.mode], p.group)
	case !sameProduct(last(w.Shape), 32, last(s.Shape), p.group*p.bits):
		return fmt.Sprintf("codes of shape %v and scales of shape %v do not fit %d bits in groups of %d", w.Shape, s.Shape, p.bits, p.group)
	case p.mode == "affine" && !slices.Contains(floats, s.DType):
		return fmt.Sprintf("affine scales are floats, not %s", s.DType)
	case p.mode == "affine" && m.bias == nil:
		return "affine codes need biases, and there are none beside it"
	case p.mode == "affine" && (m.bias.DType != s.DType || !slices.Equal(m.bias.Shape, s.Shape)):
		return fmt.Sprintf("biases are %s of shape %v, scales %s of shape %v", m.bias.DType, m.bias.Shape, s.DType, s.Shape)
	case p.mode != "affine" && s.DType != tensorfs.U8:
		return fmt.Sprintf("%s has scales of U8, not %s", p.mode, s.DType)
	case p.mode != "affine" && m.bias != nil:
		return p.mode + " has no biases, and there are some beside it"
	case m.global == nil:
	case p.mode != "nvfp4":
		return p.mode + " has no global scale, and there is one beside it"
	case m.global.DType != tensorfs.F32 || !oneFor(m.global.Shape, w.Shape):
		return fmt.Sprintf("its global scale is %s of shape %v: neither one number nor one per leading index", m.global.DType, m.global.Shape)
	}
	if _, ok := tensorfs.Elements(p.shape(w.Shape)); !ok {
		return fmt.Sprintf("codes of shape %v hold 2^63 numbers or more", w.Shape)
	}
	return ""
}

// shape returns the shape of the numbers.
func (p params) shape(codes []int64) []int64 {
	cols := int64(-1) // no shape, where it overflows
	if hi, lo := bits.Mul64(uint64(last(codes)), 32); hi == 0 && lo <= 1<<62 {
		cols = int64(lo) / p.bits
	}
	return append(slices.Clone(lead(codes)), cols)
}

// oneFor reports whether a global scale is one number or one per leading index.
func oneFor(global, codes []int64) bool {
	return len(global) == 0 || len(global) == 1 && (global[0] == 1 || global[0] == codes[0])
}

// ratio returns how many words of codes a scale has.
func ratio(codes, scales []int64) (int64, bool) {
	w, s := last(codes), last(scales)
	if s <= 0 || w%s != 0 || w > 1<<40 {
		return 0, false
	}
	return w / s, true
}

// sameProduct reports whether a*b = c*d for numbers that are not negative.
func sameProduct(a, b, c, d int64) bool {
	h1, l1 := bits.Mul64(uint64(a), uint64(b))
	h2, l2 := bits.Mul64(uint64(c), uint64(d))
	return h1 == h2 && l1 == l2
}

func last(shape []int64) int64 {
	if len(shape) == 0 {
		return 0
	}
	return shape[len(shape)-1]
}

func lead(shape []int64) []int64 { return shape[:max(0, len(shape)-1)] }
