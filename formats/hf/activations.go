package hf

import (
	"strings"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/assemble"
)

// ofActivations are the ends of names of tensors that scale activations or caches, and change no weight.
var ofActivations = []string{
	".input_scale", ".input_global_scale", ".input_zero_point", ".output_scale", ".output_zero_point", ".activation_scale", "_activation_scale", ".qscale_act",
	".q_scale", ".k_scale", ".v_scale", ".kv_scale", ".prob_scale", ".prob_output_scale", ".q_zero_point", ".k_zero_point", ".v_zero_point",
	".k_cache.scale", ".v_cache.scale",
}

// activations makes tensors that scale activations and caches companions of their module's codes. If the
// module is plain, as attention usually is beside a cache with scales, they belong to its weight. It reports
// whether it found one.
func (b *builder) activations(q *quantConfig, owners map[string]*tensorfs.Tensor) (found bool) {
	var plain map[string]*tensorfs.Tensor // weights by their module, and the first of a layer's part by that
	for i := range b.tensors.List {
		t := &b.tensors.List[i]
		if t.Owner != "" || t.Quant != nil || t.Opaque != "" {
			continue
		}
		stem, ok := cutActivation(t.Source)
		if !ok {
			continue
		}
		for _, module := range []string{stem, stemOf(stem)} { // the second for modules without weights of their own, such as attn
			if codes := owners[module]; codes != nil {
				codes.Quant.Companions = append(codes.Quant.Companions, t)
				assemble.Attach(codes, codes.Quant)
				found = true
				break
			}
			if !q.stated || q.mlx != nil {
				continue // parameters of a plain model may have such names
			}
			if plain == nil {
				plain = b.plainWeights()
			}
			if w := plain[module]; w != nil {
				if n, _ := tensorfs.Elements(t.Shape); n <= w.Shape[0] {
					t.Owner, found = w.Name, true
				}
				break
			}
		}
	}
	return found
}

// cutActivation returns the module of a tensor that scales activations; false for other names.
func cutActivation(source string) (module string, ok bool) {
	for _, end := range ofActivations {
		if module, ok = strings.CutSuffix(source, end); ok {
			return module, true
		}
	}
	return "", false
}

// plainWeights returns the matrices of plain modules by their module, and for the part of a layer that has
// several the first.
func (b *builder) plainWeights() map[string]*tensorfs.Tensor {
	m := map[string]*tensorfs.Tensor{}
	for i := range b.tensors.List {
		t := &b.tensors.List[i]
		module, ok := strings.CutSuffix(t.Source, ".weight")
		if !ok || t.Owner != "" || t.Opaque != "" || t.Quant != nil || len(t.Shape) < 2 {
			continue
		}
		m[module] = t
		if part := stemOf(module); m[part] == nil {
			m[part] = t
		}
	}
	return m
}
