package assemble

import (
	"strings"

	"github.com/tensorfs/tensorfs/formats/config"
)

// Columns returns how many columns a module of the language model has, where config.json or another tensor
// tells that without the module's own shape. stem is the module's canonical name.
func (ts *Tensors) Columns(get config.Lookup, stem string) (int64, bool) {
	before, part := stem[:strings.LastIndexByte(stem, '.')+1], stem[strings.LastIndexByte(stem, '.')+1:]
	isAttention, isFFN := strings.HasPrefix(before, "layers.") && strings.HasSuffix(before, ".attention."), strings.HasPrefix(before, "layers.") && strings.Contains(before, ".ffn.")
	switch {
	case stem == "token_embedding", stem == "output":
		if has(get, "word_embed_proj_dim", "embedding_size") {
			return 0, false
		}
		return ts.hidden(get)
	case isAttention && (part == "q" || part == "k" || part == "v" || part == "qkv"):
		if has(get, "attention_hidden_size") { // attends to more than the hidden state
			return 0, false
		}
		return ts.hidden(get)
	case isAttention && part == "output":
		if has(get, "v_head_dim", "kv_lora_rank", "attention_hidden_size") {
			return 0, false
		}
		if has(get, "head_dim") {
			return config.Count(get, "num_attention_heads", "head_dim")
		}
		return ts.hidden(get)
	case isFFN && (part == "gate" || part == "up" || part == "gate_up" || part == "router"):
		if has(get, "moe_latent_size") {
			return 0, false
		}
		return ts.hidden(get)
	case isFFN && part == "down":
		for _, sibling := range []string{"up", "gate"} {
			if n, ok := ts.rows(before + sibling); ok {
				return n, true
			}
		}
		n, ok := ts.rows(before + "gate_up")
		return n / 2, ok && n%2 == 0
	}
	return 0, false
}

// has reports whether config.json has any of these counts.
func has(get config.Lookup, keys ...string) bool {
	for _, key := range keys {
		if _, ok := config.Count(get, key); ok {
			return true
		}
	}
	return false
}

// hidden is the width of the hidden state, if the last norm agrees with config.json.
func (ts *Tensors) hidden(get config.Lookup) (int64, bool) {
	n, ok := config.Count(get, "hidden_size")
	if i, is := ts.canonical("output_norm.weight"); is {
		shape := ts.List[i].Shape
		ok = ok && len(shape) == 1 && shape[0] == n
	}
	return n, ok && n > 0
}

// rows returns how many rows a module's weight has, plain or as codes.
func (ts *Tensors) rows(stem string) (int64, bool) {
	i, ok := ts.canonical(stem + ".weight")
	if !ok || len(ts.List[i].Shape) < 2 {
		return 0, false
	}
	shape := ts.List[i].Shape
	return shape[len(shape)-2], true
}

// canonical returns the index of the tensor that has a canonical name.
func (ts *Tensors) canonical(name string) (int32, bool) {
	if ts.named == nil {
		ts.named = make(map[string]int32, len(ts.List))
		for i := range ts.List {
			ts.named[ts.List[i].Name] = int32(i)
		}
	}
	i, ok := ts.named[name]
	return i, ok
}
