package hf

import (
	"fmt"
	"slices"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/jsonobj"
)

// The layout of MLX, for a module P of K columns:
//
//	P.weight   U32 [..., K*bits/32]   the codes of a row as a little-endian bit stream
//	P.scales   [..., K/group]
//	P.biases   [..., K/group]         affine only; P.bias is another thing
//
// Every leading dimension is a batch. Scales are F16, BF16 or F32 in affine
// mode, U8 otherwise.

// mlxMode is what MLX knows of a mode.
type mlxMode struct {
	bits, groups []int // that exist, the default first
	affine       bool
}

var mlxModes = map[string]mlxMode{
	"affine": {[]int{4, 2, 3, 5, 6, 8}, []int{64, 32, 128}, true},
	"mxfp4":  {[]int{4}, []int{32}, false},
	"mxfp8":  {[]int{8}, []int{32}, false},
	"nvfp4":  {[]int{4}, []int{16}, false},
}

// mlxSettings are those of a module, or why it has none.
type mlxSettings struct {
	mode        string
	bits, group int
	err         error
}

// mlxParameters returns the settings that an object holds. Settings of a single
// module do not inherit from those of the model: what is missing has the default
// of the mode; for stacked experts that of affine whatever the mode.
func mlxParameters(o jsonobj.Object, stacked bool) mlxSettings {
	s := mlxSettings{mode: "affine"}
	if o.Has("mode") {
		s.mode = o.Raw("mode").Text()
	}
	m, ok := mlxModes[s.mode]
	if !ok {
		s.err = fmt.Errorf("the mode %s is not known", tensorfs.Quote(s.mode))
		return s
	}
	fallback := m
	if stacked {
		fallback = mlxModes["affine"]
	}
	for _, f := range []struct {
		key     string
		to      *int
		without int
	}{{"bits", &s.bits, fallback.bits[0]}, {"group_size", &s.group, fallback.groups[0]}} {
		*f.to = f.without
		if o.Has(f.key) {
			if *f.to, ok = o.Raw(f.key).Int(); !ok {
				s.err = fmt.Errorf("%s is no integer", f.key)
				return s
			}
		}
	}
	if !slices.Contains(m.bits, s.bits) || !slices.Contains(m.groups, s.group) {
		s.err = fmt.Errorf("%s with %d bits in groups of %d does not exist", s.mode, s.bits, s.group)
	}
	return s
}

// mlxSettingsFor returns the settings of module p. It is called for modules that
// have scales, so "not quantised" is a contradiction.
func (q *quantConfig) mlxSettingsFor(p string, stacked bool) mlxSettings {
	v := q.object.Raw(p)
	switch k := v.Kind(); {
	case k == '{':
		return mlxParameters(v.Object(), stacked)
	case k == 'f':
		return mlxSettings{err: fmt.Errorf("%s says that it is not quantised, and it has scales", q.where)}
	case k != 't' && k != 0:
		return mlxSettings{err: fmt.Errorf("%s has %s for it, which says nothing", q.where, tensorfs.Quote(v.String()))}
	case !q.object.Has("bits") || !q.object.Has("group_size"):
		return mlxSettings{err: fmt.Errorf("%s names no bits and group_size for it", q.where)}
	case stacked:
		return q.stacked
	}
	return q.usual
}

// mlx attaches scales and biases to the codes of a module, or says why they do
// not belong together.
func mlx(b *builder, q *quantConfig, m *module) error {
	w, s := &b.tensors[m.main], &b.tensors[m.parts[0]]
	set := q.mlxSettingsFor(m.stem, len(w.Shape) > 2)
	if set.err != nil {
		return set.err
	}
	mode, bits, group := set.mode, set.bits, set.group
	if len(w.Shape) == 0 || len(w.Shape) != len(s.Shape) || !slices.Equal(w.Shape[:len(w.Shape)-1], s.Shape[:len(s.Shape)-1]) {
		return fmt.Errorf("codes of shape %v and scales of shape %v do not belong together", w.Shape, s.Shape)
	}
	last := len(w.Shape) - 1
	columns := s.Shape[last] * int64(group)
	if s.Shape[last] > 1<<40 || w.Shape[last] > 1<<40 || w.Shape[last]*32 != columns*int64(bits) {
		return fmt.Errorf("codes of shape %v and scales of shape %v are not %s with %d bits in groups of %d", w.Shape, s.Shape, mode, bits, group)
	}
	quant := &tensorfs.Quant{Mode: mode, Bits: bits, GroupSize: group, Shape: append(slices.Clone(w.Shape[:last]), columns)}
	bias, hasBiases := b.place[m.stem+".biases"]
	switch {
	case mlxModes[mode].affine && !hasBiases:
		return fmt.Errorf("%s needs %s", mode, tensorfs.Quote(m.stem+".biases"))
	case !mlxModes[mode].affine && hasBiases:
		return fmt.Errorf("%s has no biases, and the module has", mode)
	case !mlxModes[mode].affine && s.DType != tensorfs.U8:
		return fmt.Errorf("scales of %s are U8, not %s", mode, s.DType)
	case mlxModes[mode].affine && !slices.Contains([]tensorfs.DType{tensorfs.F16, tensorfs.BF16, tensorfs.F32}, s.DType):
		return fmt.Errorf("scales of %s are F16, BF16 or F32, not %s", mode, s.DType)
	}
	if hasBiases {
		o := &b.tensors[bias]
		if o.DType != s.DType || !slices.Equal(o.Shape, s.Shape) {
			return fmt.Errorf("biases are %s of shape %v, scales %s of shape %v", o.DType, o.Shape, s.DType, s.Shape)
		}
		quant.Biases = b.companion(bias, w.Name)
	}
	quant.Scales = b.companion(m.parts[0], w.Name)
	w.Quant = quant
	return nil
}
