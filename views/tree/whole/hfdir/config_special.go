package hfdir

import (
	"math"
	"strconv"

	"github.com/tensorfs/tensorfs"
)

// What single architectures ask of the metadata, and rows cannot say.

// hasExperts reports whether a layer has several feed-forward parts.
func hasExperts(c *configMaker) bool {
	n, _ := c.integer("expert_count", 0, mostSize)
	return n > 0
}

// expertsUsed refuses more experts for a token than there are.
func expertsUsed(c *configMaker) {
	used, _ := c.integer("expert_used_count", 1, mostSize)
	if used > c.dims["experts"] {
		c.refuse("%s is %d, and there are %d experts", c.keys.full("expert_used_count"), used, c.dims["experts"])
	}
}

// causal refuses a model whose tokens see those after them: the class of its
// architecture lets none.
func causal(c *configMaker) {
	if set, ok := c.flag("attention.causal"); ok && !set {
		c.refuse("%s is false, which config.json of %s cannot say", c.keys.full("attention.causal"), c.arch.model)
	}
}

// seesAll refuses a BERT whose tokens see those before them alone.
func seesAll(c *configMaker) {
	if set, ok := c.flag("attention.causal"); !ok || set {
		c.refuse("%s is not false, as it is for %s", c.keys.full("attention.causal"), c.arch.class)
	}
	if c.tensor("position_embedding.weight") == nil {
		c.refuse("the file has no embedding of positions, as %s has", c.arch.class)
	}
}

// unbiased refuses q with biases in llama: some converters permute them like the
// rows of q, some do not, and the file does not say which.
func unbiased(c *configMaker) {
	for i := range c.dims["layers"] {
		layer := "layers." + strconv.FormatInt(i, 10) + ".attention."
		if c.tensor(layer+"q.bias") != nil {
			c.refuse("the file has %sq.bias, and whether its numbers are in the order of GGUF cannot be told", layer)
		}
		if c.failed != nil || c.tensor(layer+"output.weight") == nil {
			return
		}
	}
}

// oneKeyEach refuses fewer heads of k and v than of q.
func oneKeyEach(c *configMaker) {
	if c.dims["kv"] != c.dims["heads"] {
		c.refuse("there are %d heads and %d of k and v, which config.json of %s cannot say", c.dims["heads"], c.dims["kv"], c.arch.model)
	}
}

// fourfold refuses a feed-forward part that is not four times as wide as the rest.
func fourfold(c *configMaker) {
	if c.dims["ff"] != 4*c.dims["width"] {
		c.refuse("%s is %d and not four times %d, which config.json of %s cannot say", c.keys.full("feed_forward_length"), c.dims["ff"], c.dims["width"], c.arch.model)
	}
}

// alibi refuses a slope of attention other than BLOOM's.
func alibi(c *configMaker) {
	if v := c.number("attention.max_alibi_bias", math.Inf(-1)); v != nil && double(v) != 8 {
		c.refuse("%s is %s, and BLOOM has 8", c.keys.full("attention.max_alibi_bias"), shownValue(v))
	}
}

// Checks of mlx/, where mlx-lm's model ignores what transformers' one obeys.

func mlxUnscaled(c *configMaker) {
	if t := c.ropeType(); t != "" {
		c.refuse("mlx-lm's %s does not scale rotary embeddings", c.arch.model)
	}
}

func mlxShared(c *configMaker) {
	if c.dims["head"]*c.dims["heads"] != c.dims["width"] {
		c.refuse("mlx-lm's %s takes its %d heads to share the %d numbers of the hidden state", c.arch.model, c.dims["heads"], c.dims["width"])
	}
}

func mlxUntied(c *configMaker) {
	if tied(c) == true {
		c.refuse("mlx-lm's %s has a matrix for the output, and the file has none", c.arch.model)
	}
}

func mlxBiased(c *configMaker) {
	if biased(c) == false {
		c.refuse("mlx-lm's %s has biases, and the file has none", c.arch.model)
	}
}

// biased reports whether q has biases, and with it all the others.
func biased(c *configMaker) any { return c.tensor("layers.0.attention.q.bias") != nil }

// tokenTypes returns how many kinds of tokens there are; a single one is stored as
// a vector.
func tokenTypes(c *configMaker) any {
	t := c.tensor("token_type_embedding.weight")
	switch {
	case t == nil:
		c.refuse("the file has no embedding of token types, as %s has", c.arch.class)
		return nil
	case len(t.Shape) == 1:
		return int64(1)
	case len(t.Shape) != 2 || t.Shape[0] < 1:
		c.refuse("%s has the shape %v", t.Name, t.Shape)
		return nil
	}
	return t.Shape[0]
}

// newFalcon reports whether a layer has two norms side by side, as the later of
// Falcon's two architectures has.
func newFalcon(c *configMaker) any { return c.tensor("layers.0.attention_norm_2.weight") != nil }

// multiQuery reports whether all heads of an early Falcon share one of k and v.
func multiQuery(c *configMaker) any { return newFalcon(c) == false && c.dims["kv"] == 1 }

// falconHeads refuses numbers of heads that only the later architecture has.
func falconHeads(c *configMaker) {
	if kv := c.dims["kv"]; newFalcon(c) == false && kv != 1 && kv != c.dims["heads"] {
		c.refuse("there are %d heads of k and v and no second norm, which config.json of falcon cannot say", kv)
	}
	if t := c.ropeType(); t != "" {
		c.refuse("rotary embeddings are scaled by %s, which config.json of falcon cannot say", tensorfs.Quote(t))
	}
}

// turningPart returns which part of a head is rotated in phi3, nil for all of it.
// The library rounds the product down.
func turningPart(c *configMaker) any {
	head, turned := float64(c.dims["head"]), float64(c.dims["turned"])
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
func biasedRouter(c *configMaker) bool {
	gating, _ := c.integer("expert_gating_func", 0, mostSize)
	corrected := c.corrected()
	switch {
	case gating > gatingSigmoid || corrected && gating == gatingSoftmax:
		c.refuse("%s is %d, which config.json of DeepSeek cannot say with the router of the file", c.keys.full("expert_gating_func"), gating)
	}
	return gating == gatingSigmoid || corrected
}

// corrected reports whether the router of the first layer with experts has a
// correction.
func (c *configMaker) corrected() bool {
	dense, _ := c.integer("leading_dense_block_count", 0, mostSize)
	return c.tensor("layers."+strconv.FormatInt(dense, 10)+".ffn.router.correction.bias") != nil
}

// normalised reports whether the weights of the chosen experts add up to 1.
func normalised(c *configMaker) any {
	set, _ := c.flag("expert_weights_norm")
	return set
}

// groups returns a number of groups of experts, 1 where there are none.
func groups(key string) configValue {
	return func(c *configMaker) any {
		n, _ := c.integer(key, 0, mostSize)
		return max(n, 1)
	}
}

// greedy returns how the second version of DeepSeek chooses experts.
func greedy(c *configMaker) any {
	if n, _ := c.integer("expert_group_count", 0, mostSize); n > 1 {
		return "group_limited_greedy"
	}
	return "greedy"
}

var deepseekChecks = []func(*configMaker){causal, expertsUsed, grouped}

// grouped refuses groups that experts cannot form, and more layers without experts
// than there are.
func grouped(c *configMaker) {
	n, used := groups("expert_group_count")(c).(int64), groups("expert_group_used_count")(c).(int64)
	if c.dims["experts"]%n != 0 || used > n {
		c.refuse("%d experts in %d groups of which %d are used", c.dims["experts"], n, used)
	}
	if dense, _ := c.integer("leading_dense_block_count", 0, mostSize); dense > c.dims["layers"] {
		c.refuse("%s is %d, and there are %d layers", c.keys.full("leading_dense_block_count"), dense, c.dims["layers"])
	}
}

// attentionScale returns what Gemma's attention is scaled by: a head, but in the
// largest model, which llama.cpp knows by its layers, a share of the width.
func attentionScale(largest int64) configValue {
	return func(c *configMaker) any {
		if c.dims["blocks"] == largest {
			return c.dims["width"] / c.dims["heads"]
		}
		return c.dims["head"]
	}
}
