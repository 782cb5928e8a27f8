package hf

import (
	"fmt"
	"slices"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/packing"
)

// mxfp4 attaches the scales of gpt-oss's experts:
//
//	X_blocks   U8 [E, N, K/32, 16]   32 codes in 16 bytes, low nibble first
//	X_scales   U8 [E, N, K/32]       E8M0
//
// which, as bytes, is MLX's mxfp4 of [E, N, K]. Rows of gate_up alternate
// between gate and up, as they are stored.
func mxfp4(b *builder, _ *quantConfig, m *module) (*tensorfs.Quant, error) {
	w, s := m.main, m.parts[0]
	last := len(w.Shape) - 1
	if last < 1 || w.Shape[last] != 16 || s.DType != tensorfs.U8 || !slices.Equal(w.Shape[:last], s.Shape) {
		return nil, fmt.Errorf("blocks of shape %v and %s scales of shape %v do not belong together", w.Shape, s.DType, s.Shape)
	}
	shape := slices.Clone(s.Shape)
	if shape[last-1] > 1<<40 {
		return nil, fmt.Errorf("shape %v is too large", w.Shape)
	}
	shape[last-1] *= 32
	i, _ := b.tensors.Find(w.Source)
	stem := w.Name
	if r := &b.tensors.Names[i]; r.Mapped {
		stem = r.Stem
	}
	q := &tensorfs.Quant{Mode: "mxfp4", Bits: 4, GroupSize: 32, Shape: shape, Scales: s, Float: tensorfs.BF16}
	if b.claim(stem + ".weight") {
		q.Weight = stem + ".weight"
	}
	return q, nil
}

// fp4 attaches the scales of the experts of DeepSeek and of MiMo V2.5 Pro, whose bytes are MXFP4 under other
// types and names:
//
//	X.weight   I8 [N, K/2]         the low nibble first
//	X.scale    F8_E8M0 [N, K/32]
//
//	X.weight         U8 [N, K/2]
//	X.weight_scale   U8 [N, K/32]
func fp4(_ *builder, _ *quantConfig, m *module) (*tensorfs.Quant, error) {
	return packing.MXFP4(m.main, m.parts[0])
}

// claim reserves a name for a module's weight; false if a tensor has it.
func (b *builder) claim(name string) bool {
	if b.taken == nil {
		b.taken = make(map[string]bool, len(b.tensors.List))
		for i := range b.tensors.List {
			b.taken[b.tensors.List[i].Name] = true
		}
	}
	if b.taken[name] || !tensorfs.ValidName(name) {
		return false
	}
	b.taken[name] = true
	return true
}
