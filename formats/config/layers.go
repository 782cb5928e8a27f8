package config

// A layer of a hybrid model has attention or a state space, a convolution, or nothing but a
// feed-forward network. GGUF files store a list for all layers, with 0 for the numbers that
// a layer lacks; a config.json has one number, and lists the kind of each layer.

// layerKind is what is known of a layer.
type layerKind int

const (
	otherLayer layerKind = iota // a state space or a convolution
	attention
	mlp
	experts
)

// layerKinds are the words of layer_types and layers_block_type, as transformers spelt them
// before its fifth version and since. linear_attention is what it now calls a state space.
var layerKinds = map[string]layerKind{
	"attention": attention, "full_attention": attention, "sliding_attention": attention, "hybrid": attention,
	"mamba": otherLayer, "mamba2": otherLayer, "linear_attention": otherLayer, "conv": otherLayer,
	"mlp": mlp, "moe": experts,
}

// letterKinds are the letters of Nemotron-H's hybrid_override_pattern.
var letterKinds = map[rune]layerKind{'*': attention, '-': mlp, 'M': otherLayer, 'E': experts}

// byLayer are the architectures of whose numbers a GGUF file has a list.
var byLayer = map[string]struct{ heads, ffn bool }{
	"granitehybrid": {heads: true}, "jamba": {heads: true}, "kimi-linear": {heads: true}, "lfm2": {heads: true}, "lfm2moe": {heads: true},
	"nemotron_h": {heads: true, ffn: true}, "nemotron_h_moe": {heads: true, ffn: true},
}

// inLayers returns a list with a number for the layers of a kind, and 0 for all other
// layers; false if their kinds are unknown.
func (m *model) inLayers(kind layerKind, n int64, ok bool) (any, bool) {
	kinds := m.kinds()
	if !ok || kinds == nil {
		return nil, false
	}
	list := make([]int64, len(kinds))
	for i, k := range kinds {
		if k == kind {
			list[i] = n
		}
	}
	return list, true
}

// kinds returns what each layer is, nil if it is not known. A config.json has it as words,
// as letters, as the layers that have attention, or as a period.
func (m *model) kinds() (list []layerKind) {
	if v, ok := m.find(nil, keys("layer_types layers_block_type")); ok {
		n, words, isList := elements(v)
		if !isList || n > maxLayers {
			return nil
		}
		for word := range words {
			text, _ := word.(string)
			kind, known := layerKinds[text]
			if !known {
				return nil
			}
			list = append(list, kind)
		}
		return list
	}
	if v, ok := m.find(nil, keys("hybrid_override_pattern")); ok {
		text, _ := v.(string)
		for _, letter := range text[:min(len(text), maxLayers)] {
			kind, known := letterKinds[letter]
			if !known {
				return nil
			}
			list = append(list, kind)
		}
		return list
	}
	layers, _ := m.count("n_layers")
	if layers < 1 || layers > maxLayers {
		return nil
	}
	list = make([]layerKind, layers)
	for _, from := range []struct {
		field string
		first int64 // the number of the first layer
	}{{"full_attn_idxs", 0}, {"linear_attn_config.full_attn_layers", 1}} {
		if v, ok := m.find(nil, keys(from.field)); ok {
			_, numbers, _ := toCounts(v)
			if numbers == nil {
				return nil
			}
			for _, n := range numbers {
				if n -= from.first; n < 0 || n >= layers {
					return nil
				}
				list[n] = attention
			}
			return list
		}
	}
	period, ok := Count(m.get, "attn_layer_period")
	offset, said := Count(m.get, "attn_layer_offset")
	if !ok || !said || period == 0 {
		return nil
	}
	for i := range list {
		if int64(i)%period == offset {
			list[i] = attention
		}
	}
	return list
}
