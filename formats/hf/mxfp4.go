package hf

import (
	"fmt"
	"slices"

	"github.com/tensorfs/tensorfs"
)

// mxfp4 attaches the scales of gpt-oss's experts:
//
//	X_blocks   U8 [E, N, K/32, 16]   32 codes in 16 bytes, low nibble first
//	X_scales   U8 [E, N, K/32]       E8M0
//
// which, as bytes, is MLX's mxfp4 of [E, N, K]. Rows of gate_up alternate
// between gate and up, as they are stored.
func mxfp4(b *builder, _ *quantConfig, m *module) error {
	w, s := &b.tensors[m.main], &b.tensors[m.parts[0]]
	last := len(w.Shape) - 1
	if last < 1 || w.Shape[last] != 16 || s.DType != tensorfs.U8 || !slices.Equal(w.Shape[:last], s.Shape) {
		return fmt.Errorf("blocks of shape %v and %s scales of shape %v do not belong together", w.Shape, s.DType, s.Shape)
	}
	shape := slices.Clone(s.Shape)
	if shape[last-1] > 1<<40 {
		return fmt.Errorf("shape %v is too large", w.Shape)
	}
	shape[last-1] *= 32
	weight := b.names[m.main].Stem + ".weight"
	if !b.names[m.main].Mapped {
		weight = w.Name + ".weight"
	}
	if !b.claim(weight) {
		weight = ""
	}
	w.Quant = &tensorfs.Quant{Mode: "mxfp4", Bits: 4, GroupSize: 32, Shape: shape, Weight: weight, Scales: b.companion(m.parts[0], w.Name)}
	return nil
}

// claim takes a name for a module's weight; false if a tensor has it.
func (b *builder) claim(name string) bool {
	if b.taken == nil {
		b.taken = make(map[string]bool, len(b.tensors))
		for i := range b.tensors {
			b.taken[b.tensors[i].Name] = true
		}
	}
	if b.taken[name] || !tensorfs.ValidName(name) {
		return false
	}
	b.taken[name] = true
	return true
}
