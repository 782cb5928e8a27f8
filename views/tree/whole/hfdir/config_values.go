package hfdir

import (
	"math"
	"slices"
	"strconv"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/architectures"
	"github.com/tensorfs/tensorfs/views/tree/whole"
)

// derivations are values of fields that no key alone has, as descriptions of
// architectures name them; nil: the field is not written.
var derivations = map[string]func(c *configMaker, args []*architectures.Value) any{
	"nothing":      func(*configMaker, []*architectures.Value) any { return nil },
	"still":        func(c *configMaker, _ []*architectures.Value) any { return c.dims["still"] },
	"tied":         func(c *configMaker, _ []*architectures.Value) any { return c.tied() },
	"biased":       func(c *configMaker, _ []*architectures.Value) any { return c.biased() },
	"new_falcon":   func(c *configMaker, _ []*architectures.Value) any { return c.newFalcon() },
	"rope_scaling": func(c *configMaker, _ []*architectures.Value) any { return c.ropeScaling() },
	"long_context": func(c *configMaker, _ []*architectures.Value) any { return c.longContext() },
	"token_types":  func(c *configMaker, _ []*architectures.Value) any { return c.tokenTypes() },
	"turning_part": func(c *configMaker, _ []*architectures.Value) any { return turningPart(c) },
	"shared_out":   func(c *configMaker, _ []*architectures.Value) any { return c.sharedOut() },
	// All heads of an early Falcon share one of k and v.
	"multi_query": func(c *configMaker, _ []*architectures.Value) any { return !c.newFalcon() && c.dims["n_kv_heads"] == 1 },
	// The number of groups of experts, 1 where there are none.
	"groups": func(c *configMaker, args []*architectures.Value) any { return c.groups(args[0].Name) },
	// How the second version of DeepSeek chooses experts.
	"greedy": func(c *configMaker, _ []*architectures.Value) any {
		if c.groups("expert_groups") > 1 {
			return "group_limited_greedy"
		}
		return "greedy"
	},
	// What Gemma's attention is scaled by: a head, but in the largest model, which
	// llama.cpp knows by its layers, a share of the width.
	"attention_scale": func(c *configMaker, args []*architectures.Value) any {
		if c.dims["blocks"] == args[0].Literal {
			return c.dims["dim"] / c.dims["n_heads"]
		}
		return c.dims["head_dim"]
	},
	// A number for each layer, which is 0 for every so many and 1 for all between.
	"zero_every": func(c *configMaker, args []*architectures.Value) any {
		list := make([]int64, c.dims["n_layers"])
		for i := range list {
			if list[i] = 1; int64(i+1)%args[0].Literal.(int64) == 0 {
				list[i] = 0
			}
		}
		return list
	},
	// How far the tokens of each layer see.
	"layer_types": func(c *configMaker, args []*architectures.Value) any {
		types := make([]string, 0, c.dims["n_layers"])
		for _, s := range c.sliding(args[0].Literal.(int64)) {
			types = append(types, map[bool]string{true: "sliding_attention", false: "full_attention"}[s])
		}
		return types
	},
	// After how many layers one sees everything: the usual number where it says the
	// same, else the smallest. mlx-lm knows no other order.
	"window_pattern": func(c *configMaker, args []*architectures.Value) any {
		usual := args[0].Literal.(int64)
		list := c.sliding(usual)
		if c.failed != nil {
			return nil
		}
		if hasPeriod(list, usual) {
			return usual
		}
		// The first layer that sees everything is the only one that can end a period.
		if n := int64(slices.Index(list, false)) + 1; n >= 2 && hasPeriod(list, n) {
			return n
		}
		if !slices.Contains(list, false) {
			return int64(len(list)) + 1
		}
		if c.mlx {
			c.refuse("the layers that see a window only have no order that mlx-lm knows")
		}
		return nil
	},
}

// conditions are those in which a file is of one of several descriptions of its
// architecture.
var conditions = map[string]func(c *configMaker) bool{
	"never":         func(*configMaker) bool { return false },
	"experts":       func(c *configMaker) bool { return c.number64("expert_count") > 0 },
	"biased_router": (*configMaker).biasedRouter,
}

// agreements are what the keys of a file have to agree with, as descriptions of
// architectures name them.
var agreements = map[string]func(c *configMaker){
	// The class of the architecture lets no token see those after it.
	"causal": func(c *configMaker) {
		if set, ok := c.flag("attention.causal"); ok && !set {
			c.refuse("%s is false, which config.json of %s cannot say", c.keys.full("attention.causal"), c.model())
		}
	},
	// No layer of the class sees a window only.
	"unwindowed": func(c *configMaker) {
		if n := c.number64("attention.sliding_window"); n > 0 {
			c.refuse("%s is %d, which config.json of %s cannot say", c.keys.full("attention.sliding_window"), n, c.model())
		}
	},
	"sees_all": func(c *configMaker) {
		class := c.arch.Classes[0].Name
		if set, ok := c.flag("attention.causal"); !ok || set {
			c.refuse("%s is not false, as it is for %s", c.keys.full("attention.causal"), class)
		}
		if c.tensor("position_embedding.weight") == nil {
			c.refuse("the file has no embedding of positions, as %s has", class)
		}
	},
	"experts_used": func(c *configMaker) {
		used, _ := c.integer("expert_used_count", 1, mostSize)
		if used > c.dims["experts"] {
			c.refuse("%s is %d, and there are %d experts", c.keys.full("expert_used_count"), used, c.dims["experts"])
		}
	},
	// Some converters permute the biases of q in llama like its rows, some do not, and
	// the file does not say which.
	"unbiased": func(c *configMaker) {
		for i := range c.dims["n_layers"] {
			layer := "layers." + strconv.FormatInt(i, 10) + ".attention."
			if c.tensor(layer+"q.bias") != nil {
				c.refuse("the file has %sq.bias, and whether its numbers are in the order of GGUF cannot be told", layer)
			}
			if c.failed != nil || c.tensor(layer+"output.weight") == nil {
				return
			}
		}
	},
	"one_key_each": func(c *configMaker) {
		if heads, kv := c.dims["n_heads"], c.dims["n_kv_heads"]; kv != heads {
			c.refuse("there are %d heads and %d of k and v, which config.json of %s cannot say", heads, kv, c.model())
		}
	},
	"fourfold": func(c *configMaker) {
		if ff, width := c.dims["ff"], c.dims["dim"]; ff != 4*width {
			c.refuse("%s is %d and not four times %d, which config.json of %s cannot say", c.keys.full("feed_forward_length"), ff, width, c.model())
		}
	},
	"alibi": func(c *configMaker) {
		if v := c.number("attention.max_alibi_bias", math.Inf(-1)); v != nil && double(v) != 8 {
			c.refuse("%s is %s, and BLOOM has 8", c.keys.full("attention.max_alibi_bias"), whole.Shown(v))
		}
	},
	// Only the later architecture of Falcon has some numbers of heads.
	"falcon_heads": func(c *configMaker) {
		if kv := c.dims["n_kv_heads"]; !c.newFalcon() && kv != 1 && kv != c.dims["n_heads"] {
			c.refuse("there are %d heads of k and v and no second norm, which config.json of falcon cannot say", kv)
		}
		if t := c.ropeType(); t != "" {
			c.refuse("rotary embeddings are scaled by %s, which config.json of falcon cannot say", tensorfs.Quote(t))
		}
	},
	// Experts form the groups, and there are as many layers as those without experts.
	"grouped": func(c *configMaker) {
		n, used := c.groups("expert_groups"), c.groups("expert_groups_used")
		if c.dims["experts"]%n != 0 || used > n {
			c.refuse("%d experts in %d groups of which %d are used", c.dims["experts"], n, used)
		}
		if dense := c.number64("leading_dense_block_count"); dense > c.dims["n_layers"] {
			c.refuse("%s is %d, and there are %d layers", c.keys.full("leading_dense_block_count"), dense, c.dims["n_layers"])
		}
	},
	// What mlx-lm's model ignores and transformers' one obeys.
	"unscaled": func(c *configMaker) {
		if t := c.ropeType(); t != "" {
			c.refuse("mlx-lm's %s does not scale rotary embeddings", c.model())
		}
	},
	"shared_width": func(c *configMaker) {
		if heads, width := c.dims["n_heads"], c.dims["dim"]; c.dims["head_dim"]*heads != width {
			c.refuse("mlx-lm's %s takes its %d heads to share the %d numbers of the hidden state", c.model(), heads, width)
		}
	},
	"untied": func(c *configMaker) {
		if c.tied() {
			c.refuse("mlx-lm's %s has a matrix for the output, and the file has none", c.model())
		}
	},
	"biased": func(c *configMaker) {
		if !c.biased() {
			c.refuse("mlx-lm's %s has biases, and the file has none", c.model())
		}
	},
}

// number64 returns a key that is a whole number of at least 0, 0 without it.
func (c *configMaker) number64(key string) int64 {
	n, _ := c.integer(key, 0, mostSize)
	return n
}

// tied reports whether the embedding is the last matrix too. mlx-lm's gpt2 always
// has it so, and mlx/ has no other matrix for it.
func (c *configMaker) tied() bool {
	return c.tensor("output.weight") == nil || c.mlx && c.model() == "gpt2"
}

// biased reports whether q has biases, and with it every other module.
func (c *configMaker) biased() bool { return c.tensor("layers.0.attention.q.bias") != nil }

// newFalcon reports whether a layer has two norms side by side, as the later of
// Falcon's two architectures has.
func (c *configMaker) newFalcon() bool { return c.tensor("layers.0.attention_norm_2.weight") != nil }

// groups returns a number of groups of experts, 1 where there are none.
func (c *configMaker) groups(fact string) int64 {
	return max(c.number64(architectures.FactOf(fact).Keys[0]), 1)
}

// tokenID is the number of a special token. One that no token has means none.
func (c *configMaker) tokenID(key string) any {
	v, full := c.keys.find(bareKeys + "ggml." + key)
	n, ok := wholeNumber(v)
	if v != nil && !ok {
		c.refuse("%s is %s, not a whole number", full, whole.Shown(v))
	}
	if !ok || n < 0 || n >= c.tokens() {
		return nil
	}
	return n
}

// endTokens are the tokens at which a generation ends: all of them where programs
// take a list in config.json, and else the file's eos. generation_config.json has all
// of them always.
func (c *configMaker) endTokens() any {
	eos, all := c.tokenID("eos_token_id"), c.allEnds()
	if c.arch.Has("ends", "one") || all == nil {
		return eos
	}
	return all
}

// allEnds returns all tokens at which a generation ends: a number, a list of
// several, nil without any.
func (c *configMaker) allEnds() any {
	var list []int64
	for _, id := range c.ends {
		if id := int64(id); id < c.tokens() {
			list = append(list, id)
		}
	}
	switch len(list) {
	case 0:
		return nil
	case 1:
		return list[0]
	}
	return list
}

// tokens returns how many tokens have a number and a row of the embedding.
func (c *configMaker) tokens() int64 {
	if a, ok := c.keys.at[bareKeys+"ggml.tokens"].(tensorfs.Array); ok {
		return min(int64(a.Len()), c.facts.rows)
	}
	return c.facts.rows
}

// sharedOut is how many rows llama.cpp takes an expert of Qwen to have where the
// file does not say it.
func (c *configMaker) sharedOut() any {
	used, ok := c.integer("expert_used_count", 1, mostSize)
	ff, both := c.integer("feed_forward_length", 1, mostSize)
	if !ok || !both || ff%used != 0 {
		c.refuse("the file has no %s", c.keys.full("expert_feed_forward_length"))
		return nil
	}
	return ff / used
}

// tokenTypes returns how many kinds of tokens there are; a single one is stored as
// a vector.
func (c *configMaker) tokenTypes() any {
	t := c.tensor("token_type_embedding.weight")
	switch {
	case t == nil:
		c.refuse("the file has no embedding of token types, as %s has", c.arch.Classes[0].Name)
		return nil
	case len(t.Shape) == 1:
		return int64(1)
	case len(t.Shape) != 2 || t.Shape[0] < 1:
		c.refuse("%s has the shape %v", t.Name, t.Shape)
		return nil
	}
	return t.Shape[0]
}

// turningPart returns which part of a head is rotated in phi3, nil for all of it.
// The library rounds the product down.
func turningPart(c *configMaker) any {
	head, turned := float64(c.dims["head_dim"]), float64(c.dims["rope_dim"])
	if head == turned {
		return nil
	}
	part := turned / head
	if math.Floor(head*part) < turned {
		part = math.Nextafter(part, 1)
	}
	return part
}

// How routers weigh experts, in GGUF's numbers.
const (
	gatingUnsaid = iota
	gatingSoftmax
	gatingSigmoid
)

// biasedRouter reports whether a DeepSeek is of the third version, whose router
// weighs experts by sigmoids and corrects them.
func (c *configMaker) biasedRouter() bool {
	gating := c.number64("expert_gating_func")
	dense := strconv.FormatInt(c.number64("leading_dense_block_count"), 10)
	corrected := c.tensor("layers."+dense+".ffn.router.correction.bias") != nil
	if gating > gatingSigmoid || corrected && gating == gatingSoftmax {
		c.refuse("%s is %d, which config.json of DeepSeek cannot say with the router of the file", c.keys.full("expert_gating_func"), gating)
	}
	return gating == gatingSigmoid || corrected
}

const windowKey = "attention.sliding_window_pattern"

// sliding returns for each layer whether it sees a window only. The file has a
// number, after so many layers one sees everything, or a list; usual is
// llama.cpp's number without the key.
func (c *configMaker) sliding(usual int64) []bool {
	list := make([]bool, c.dims["n_layers"])
	if c.arch.GGUF == "gemma3" && c.number64("attention.sliding_window") == 0 {
		return list
	}
	v, key := c.keys.find(windowKey)
	if a, ok := v.(tensorfs.Array); ok {
		if int64(a.Len()) != c.dims["blocks"] {
			c.refuse("%s has %d values, and there are %d layers", key, a.Len(), c.dims["blocks"])
			return list
		}
		i := 0
		for v := range a.Values() {
			set, ok := v.(bool)
			if n, number := wholeNumber(v); number && (n == 0 || n == 1) {
				set, ok = n == 1, true
			}
			if !ok {
				c.refuse("%s has the value %s, neither true nor false", key, whole.Shown(v))
				return list
			}
			if i < len(list) {
				list[i] = set
			}
			i++
		}
		return list
	}
	if n, ok := c.integer(windowKey, 0, mostSize); ok {
		usual = n
	}
	for i := range list {
		list[i] = usual == 0 || int64(i+1)%usual != 0
	}
	return list
}

// hasPeriod reports whether each layer whose number, from 1, is a multiple of n
// sees everything, and no other.
func hasPeriod(sliding []bool, n int64) bool {
	for i, s := range sliding {
		if s == (int64(i+1)%n == 0) {
			return false
		}
	}
	return true
}
