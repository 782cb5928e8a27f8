package hfdir

import "github.com/tensorfs/tensorfs"

// configField is a row: a field of config.json and where its value comes from.
type configField struct {
	name  string
	value configValue
}

// configValue computes a value as jsonObject has them; nil: the field is not
// written.
type configValue func(c *configMaker) any

// constant is a fact about the architecture, not about the file.
func constant(v any) configValue { return func(*configMaker) any { return v } }

// null is a field that is null.
var null = constant(jsonNull{})

// left is a field that is not written.
var left = constant(nil)

// dim is a size that configMaker.measure found.
func dim(name string) configValue { return func(c *configMaker) any { return c.dims[name] } }

// size is the first of some keys that is present, a number of at least 1, or another
// value without them; nil for keys without which there is no config.json.
func size(keys string, other configValue) configValue { return between(1, mostSize, keys, other) }

func between(least, most int64, keys string, other configValue) configValue {
	return func(c *configMaker) any {
		if n, ok := c.integer(keys, least, most); ok {
			return n
		}
		return c.instead(keys, other)
	}
}

// real is a number above a bound.
func real(above float64, keys string, other configValue) configValue {
	return func(c *configMaker) any {
		if v := c.number(keys, above); v != nil {
			return v
		}
		return c.instead(keys, other)
	}
}

// instead returns the value of a field without a key.
func (c *configMaker) instead(keys string, other configValue) any {
	switch {
	case c.failed != nil:
		return nil
	case other == nil:
		_, key := c.keys.find(keys)
		c.refuse("the file has no %s", key)
		return nil
	}
	return other(c)
}

// unlessZero is a size where 0 means that there is none.
func unlessZero(keys string, other configValue) configValue {
	return func(c *configMaker) any {
		n, ok := c.integer(keys, 0, mostSize)
		if !ok || n == 0 {
			return other(c)
		}
		return n
	}
}

// tokenID is the number of a special token. One that no token has means none.
func tokenID(key string) configValue {
	return func(c *configMaker) any {
		v, full := c.keys.find(bareKeys + "ggml." + key)
		n, ok := wholeNumber(v)
		if v != nil && !ok {
			c.refuse("%s is %s, not a whole number", full, shownValue(v))
		}
		if !ok || n < 0 || n >= c.tokens() {
			return nil
		}
		return n
	}
}

// endTokens are the tokens at which a generation ends: all of them where programs
// take a list in config.json, and else the file's eos.
func endTokens(c *configMaker) any {
	eos, all := tokenID("eos_token_id")(c), c.allEnds()
	if c.arch.ends == oneEnd || all == nil {
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

// tied reports whether the embedding is the last matrix too. mlx-lm's gpt2 always
// has it so, and mlx/ has no other matrix for it.
func tied(c *configMaker) any {
	return c.tensor("output.weight") == nil || c.mlx && c.arch.model == "gpt2"
}

// Fields of every architecture, after its own.
var (
	lastFields = []configField{
		{"bos_token_id", tokenID("bos_token_id")},
		{"eos_token_id", endTokens},
		{"pad_token_id", tokenID("padding_token_id")},
		{"torch_dtype", func(c *configMaker) any { return c.facts.torch }},
	}
	tie = configField{"tie_word_embeddings", tied}
)

// sizeFields are what most architectures call their sizes.
var sizeFields = []configField{
	{"vocab_size", dim("rows")},
	{"hidden_size", dim("width")},
	{"num_hidden_layers", dim("layers")},
	{"num_attention_heads", dim("heads")},
}

// decoderFields are common to decoders that came after Llama.
var decoderFields = []configField{
	{"num_key_value_heads", dim("kv")},
	{"intermediate_size", size("feed_forward_length", nil)},
	{"max_position_embeddings", dim("context")},
	{"rope_theta", real(0, "rope.freq_base", constant(10000.0))},
	{"rope_scaling", (*configMaker).ropeScaling},
	tie,
}

// Fields that several architectures share.
var (
	silu       = configField{"hidden_act", constant("silu")}
	rms        = configField{"rms_norm_eps", real(0, "attention.layer_norm_rms_epsilon", nil)}
	layerNorm  = real(0, "attention.layer_norm_epsilon", nil)
	headDim    = configField{"head_dim", dim("head")}
	noBias     = configField{"attention_bias", constant(false)}
	noWindow   = configField{"use_sliding_window", constant(false)}
	usedPer    = configField{"num_experts_per_tok", size("expert_used_count", nil)}
	expertRows = configField{"moe_intermediate_size", size("expert_feed_forward_length", sharedOut)}
	everyLayer = []configField{{"decoder_sparse_step", constant(int64(1))}, {"mlp_only_layers", constant([]string{})}}
	geluTanh   = []configField{{"hidden_act", constant("gelu_pytorch_tanh")}, {"hidden_activation", constant("gelu_pytorch_tanh")}}
)

// sharedOut is how many rows llama.cpp takes an expert of Qwen to have where the
// file does not say it.
func sharedOut(c *configMaker) any {
	used, ok := c.integer("expert_used_count", 1, mostSize)
	ff, both := c.integer("feed_forward_length", 1, mostSize)
	if !ok || !both || ff%used != 0 {
		c.refuse("the file has no %s", c.keys.full("expert_feed_forward_length"))
		return nil
	}
	return ff / used
}

// rows returns the fields of an architecture in their order: a row of its own
// takes the place of a common one of the same name.
func (a *configArch) rows() []configField {
	var list []configField
	at := map[string]int{}
	for _, rows := range [][]configField{a.base, a.fields, lastFields} {
		for _, f := range rows {
			if i, ok := at[f.name]; ok {
				list[i] = f
				continue
			}
			at[f.name] = len(list)
			list = append(list, f)
		}
	}
	return list
}
