package whole

import (
	"math"
	"strings"

	"github.com/tensorfs/tensorfs/formats/architectures"
)

// derivations are values that no field of config.json has, as architectures name them:
// int64, float64, string or bool; nil where the key is not written.
var derivations = map[string]func(c call) any{
	"vocabulary": func(c call) any { // which the tokenizer says otherwise
		if c.facts.tokenizer && c.arch.Word("vocab") == "" {
			return nil
		}
		return c.facts.rows
	},
	"head_rows":       headRows,
	"head_size":       func(c call) any { return positive(c.headSize()) },
	"kv_rows":         func(c call) any { return c.keyHeads() },
	"kv_heads_or":     keyHeadsOr,
	"fused_kv_heads":  fusedKeyHeads,
	"falcon_kv_heads": func(c call) any { return c.falconKeyHeads() },
	"pooling":         poolingType,
	"gating":          gating,
	"scaling_type":    func(c call) any { return c.ropeType() },
	"partial_rope":    partialRope,
	"long_attention":  longAttention,
	"yarn_log": func(c call) any { // what DeepSeek adds to the scaling of yarn
		if x, ok := c.rope.number("mscale_all_dim"); ok {
			return 0.1 * x
		}
		return nil
	},
	"times": func(c call) any {
		if n, ok := c.value(1).(int64); ok {
			return c.number(0) * n
		}
		return nil
	},
	"sum": func(c call) any { // of fields that must all be there
		total := int64(0)
		for _, arg := range c.args {
			f := arg.Name
			n, ok := c.cfg.integer(f)
			if !ok || n < 0 || n > architectures.FactOf("dim").Most {
				c.refuse("%s is needed, and it is missing or not a size", f)
				return nil
			}
			total += n
		}
		return total
	},
	"noncausal": func(c call) any { // false for a model whose tokens see those after them
		if causal, ok := c.cfg.flag("is_causal"); ok && !causal {
			return false
		}
		return nil
	},
	"only_true": func(c call) any {
		if set, _ := c.cfg.flag(c.args[0].Name); set {
			return true
		}
		return nil
	},
	"gemma_period": func(c call) any { // where that is not what llama.cpp assumes
		if n := c.period(gemmaUsual); n != gemmaUsual {
			return n
		}
		return nil
	},
	"nomic_context": func(c call) any { // how many tokens a model was trained with
		n, _ := c.cfg.integer("n_positions", "max_position_embeddings", "n_ctx")
		if trained, _ := c.cfg.integer("max_trained_positions"); n == 8192 && trained == 2048 {
			return trained
		}
		return positive(n)
	},
}

// number returns an argument that is a whole number.
func (c call) number(i int) int64 {
	if i >= len(c.args) {
		return 0
	}
	n, _ := c.args[i].Literal.(int64)
	return n
}

// positive returns a number, nil for one that is not.
func positive(n int64) any {
	if n <= 0 {
		return nil
	}
	return n
}

// ropeSettings are the fields about rotary embeddings: those of the layers that
// see everything, where they have their own.
func ropeSettings(cfg settings) settings {
	s := cfg.object("rope_parameters", "rope_scaling")
	if full := s.object("full_attention"); full.top.Len() > 0 {
		return full
	}
	return s
}

// ropeType returns how rotary embeddings are scaled, "" where they are not.
func (d *keyMaker) ropeType() string {
	w := strings.ToLower(d.rope.word("rope_type", "type"))
	if w == "default" {
		return ""
	}
	return w
}

// headRows returns the size of a head where config.json does not say it: the rows
// of q decide, then what the class has by default. A size that llama.cpp
// assumes itself is not written.
func headRows(c call) any {
	heads, dim, usual := c.count("n_heads"), c.count("dim"), c.number(0)
	q := c.shape("layers.0.attention.q.weight")
	size := usual
	if len(q) == 2 && heads > 0 && q[0]%heads == 0 {
		size = q[0] / heads
	}
	if size == 0 || usual == 0 && heads > 0 && dim == size*heads {
		return nil
	}
	return size
}

// keyHeads returns the number of heads of k and v where config.json does not say
// it and they are not as many as those of q.
func (d *keyMaker) keyHeads() any {
	k, size := d.shape("layers.0.attention.k.weight"), d.headSize()
	if len(k) != 2 || size == 0 || k[0]%size != 0 || k[0]/size == d.count("n_heads") {
		return nil
	}
	return k[0] / size
}

// keyHeadsOr returns the number of heads of k and v, which is written always; its
// argument decides without a tensor.
func keyHeadsOr(c call) any {
	if n := c.keyHeads(); n != nil {
		return n
	}
	if c.shape("layers.0.attention.k.weight") != nil {
		return c.made["n_heads"]
	}
	return c.value(0)
}

// fusedKeyHeads returns the number of heads of k and v that are stored in one
// tensor with q; its argument decides without one.
func fusedKeyHeads(c call) any {
	qkv, size, heads := c.shape("layers.0.attention.qkv.weight"), c.headSize(), c.count("n_heads")
	if len(qkv) == 2 && size > 0 && qkv[0]%size == 0 && (qkv[0]/size-heads)%2 == 0 && qkv[0]/size > heads {
		return (qkv[0]/size - heads) / 2
	}
	return c.value(0)
}

// falconKeyHeads returns the number of heads of k and v by config.json alone.
func (d *keyMaker) falconKeyHeads() int64 {
	multi, _ := d.cfg.flag("multi_query")
	decoder, _ := d.cfg.flag("new_decoder_architecture")
	if n, ok := d.cfg.integer("num_kv_heads", "n_head_kv"); ok && (decoder || !multi) {
		return n
	}
	return 1
}

// headSize returns the size of a head of q and k, 0 where nothing says it.
func (d *keyMaker) headSize() int64 {
	if n := d.count("head_dim"); n > 0 {
		return n
	}
	heads, dim := d.count("n_heads"), d.count("dim")
	if heads <= 0 || dim%heads != 0 {
		return 0
	}
	return dim / heads
}

// keyHeadCount returns the number of heads of k and v.
func (d *keyMaker) keyHeadCount() int64 {
	if d.has("n_kv_heads") {
		return d.count("n_kv_heads")
	}
	return d.count("n_heads")
}

// gatings are how routers weigh experts, in GGUF's numbers.
var gatings = map[string]int64{"softmax": 1, "sigmoid": 2}

// gating returns how the router weighs experts; its argument is how without a word.
func gating(c call) any {
	w := c.cfg.word("scoring_func", "score_function", "score_func", "moe_router_activation_func")
	if w == "" && len(c.args) > 0 {
		w = c.args[0].Name
	}
	if w == "" {
		return nil
	}
	n, ok := gatings[w]
	if !ok {
		c.refuse("experts are weighed by %s, and llama.cpp does so by softmax and sigmoid", Shown(w))
	}
	return n
}

// partialRope returns how many numbers of a head are rotated in phi3.
func partialRope(c call) any {
	share, ok := c.rope.number("partial_rotary_factor")
	if !ok {
		share, ok = c.cfg.number("partial_rotary_factor")
	}
	if !ok {
		share = 1
	}
	heads := c.count("n_heads")
	if share <= 0 || share > 1 || heads == 0 {
		c.refuse("partial_rotary_factor is %v, not a part of a head", share)
		return nil
	}
	return int64(share*float64(c.count("dim"))) / heads
}

// longAttention returns by what phi3 multiplies attention beyond the context that
// it was first trained with. It is computed in double, as the converter does.
func longAttention(c call) any {
	original := float64(c.count("rope_orig_ctx"))
	scale := float64(c.count("max_seq_len")) / original
	if original < 2 {
		c.refuse("original_max_position_embeddings is %v", original)
		return nil
	}
	switch {
	case scale <= 1:
		return 1.0
	case c.ropeType() == "yarn":
		return 0.1*math.Log(scale) + 1
	}
	return math.Sqrt(1 + math.Log(scale)/math.Log(original))
}

// layerKinds returns how far the tokens of each layer see, one word for each.
func (d *keyMaker) layerKinds() []string {
	kinds := d.cfg.words("layer_types")
	if kinds == nil {
		return nil
	}
	if int64(len(kinds)) != d.count("n_layers") {
		d.refuse("layer_types has %d entries for %d layers", len(kinds), d.count("n_layers"))
		return nil
	}
	for _, k := range kinds {
		if k != "sliding_attention" && k != "full_attention" {
			d.refuse("layer_types has %s, which GGUF files of %s do not know", Shown(k), d.arch.GGUF)
			return nil
		}
	}
	return kinds
}

// hasPeriod reports whether every layer whose number, from 1, is a multiple of n
// sees everything, and no other.
func hasPeriod(kinds []string, n int64) bool {
	for i, k := range kinds {
		if (k == "full_attention") != (int64(i+1)%n == 0) {
			return false
		}
	}
	return true
}

// gemmaUsual is after how many layers of gemma3 one sees everything, if the file
// does not say it.
const gemmaUsual = 6

// period returns after how many layers one sees everything: the usual number
// wherever it says the same. It is 1 where all do.
func (d *keyMaker) period(usual int64) int64 {
	kinds := d.layerKinds()
	if kinds == nil {
		n, ok := d.cfg.integer("sliding_window_pattern", "_sliding_window_pattern")
		if ok && n < 1 {
			d.refuse("sliding_window_pattern is %d", n)
		}
		if !ok || n < 1 || min(n, usual) > d.count("n_layers") {
			return usual
		}
		return n
	}
	if hasPeriod(kinds, usual) {
		return usual
	}
	for n := int64(1); n <= int64(len(kinds))+1; n++ {
		if hasPeriod(kinds, n) {
			return n
		}
	}
	d.refuse("layer_types has no period, and llama.cpp knows no other order")
	return usual
}
