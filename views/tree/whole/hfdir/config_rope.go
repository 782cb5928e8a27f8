package hfdir

import (
	"cmp"
	"encoding/binary"
	"math"
	"slices"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/views/tree/whole"
	"github.com/tensorfs/tensorfs/views/tree/whole/layout"
)

// Ways to scale rotary embeddings that are in tensors, as ropeType names them.
const (
	ropeFreqs   = "rope_freqs"   // one list of divisors
	ropeFactors = "rope_factors" // a list for long texts and one for short ones
)

// ropeType returns how rotary embeddings are scaled, "" where they are not. Where
// the file has a factor and no type llama.cpp takes it to be linear.
func (c *configMaker) ropeType() string {
	t := c.word("rope.scaling.type")
	if c.tensor("rope_freqs.weight") != nil {
		return c.alone(t, ropeFreqs)
	}
	if c.tensor("rope_factors_long.weight") != nil || c.tensor("rope_factors_short.weight") != nil {
		if t == "longrope" {
			t = ""
		}
		return c.alone(t, ropeFactors)
	}
	factor := double(c.number("rope.scaling.factor rope.scale_linear", -1))
	switch {
	case t == "none", t == "" || t == "linear":
		if t == "none" || factor == 0 || factor == 1 {
			return ""
		}
		return "linear"
	}
	return t
}

// originalContext returns how many positions a model had before they were scaled.
func (c *configMaker) originalContext() int64 {
	if n, ok := c.integer("rope.scaling.original_context_length", 1, mostSize); ok {
		return n
	}
	return c.dims["max_seq_len"]
}

// alone returns a way of scaling that no key may add another to.
func (c *configMaker) alone(key, tensors string) string {
	switch {
	case key != "" && key != "none" && key != "linear":
		c.refuse("rotary embeddings are scaled by %s and by %s, and config.json can only say one", tensors, tensorfs.Quote(key))
	case key != "none":
		if f := double(c.number("rope.scaling.factor rope.scale_linear", -1)); f != 0 && f != 1 {
			c.refuse("rotary embeddings are scaled by %s and by %v, and config.json can only say one", tensors, f)
		}
	}
	return tensors
}

// ropeScaling returns rope_scaling, nil where nothing is scaled.
func (c *configMaker) ropeScaling() any {
	t := c.ropeType()
	way := cmp.Or(map[string]string{"": "none", ropeFreqs: "llama3", ropeFactors: "su"}[t], t)
	if more := c.number("rope.scaling.attn_factor", 0); more != nil && double(more) != 1 && t != "yarn" && t != ropeFactors {
		c.refuse("%s is %s without yarn, which config.json cannot say", c.keys.full("rope.scaling.attn_factor"), whole.Shown(more))
	}
	switch {
	case c.failed != nil:
	case !c.arch.Has("rope", way) || c.arch.Lossy("rope", way):
		c.refuse("rotary embeddings are scaled by %s, which config.json of %s cannot say", tensorfs.Quote(t), c.model())
	case t == "linear":
		return jsonObject{{"rope_type", t}, {"type", t}, {"factor", c.number("rope.scaling.factor rope.scale_linear", 0)}}
	case t == "yarn":
		return c.yarn()
	case t == ropeFreqs:
		return c.llama3()
	case t == ropeFactors:
		return c.longRope()
	}
	return nil
}

// yarn returns rope_scaling of that type. The names without a value of their own
// are what DeepSeek and gpt-oss write though they are the defaults.
func (c *configMaker) yarn() any {
	factor := c.number("rope.scaling.factor", 0)
	if factor == nil {
		c.refuse("rotary embeddings are scaled by yarn, and the file has no %s", c.keys.full("rope.scaling.factor"))
		return nil
	}
	original := c.originalContext()
	o := jsonObject{{"rope_type", "yarn"}, {"type", "yarn"}, {"factor", factor}, {"original_max_position_embeddings", original}}
	usual := map[string]bool{"deepseek2": true, "gpt-oss": true}[c.arch.GGUF]
	for _, beta := range []struct {
		name  string
		other float64
	}{{"beta_fast", 32}, {"beta_slow", 1}} {
		v := c.number("rope.scaling.yarn_"+beta.name, -1)
		if v == nil && usual {
			v = beta.other
		}
		if v != nil {
			o = append(o, jsonMember{beta.name, v})
		}
	}
	if ext := c.number("rope.scaling.yarn_ext_factor", math.Inf(-1)); ext != nil && double(ext) >= 0 && double(ext) != 1 {
		c.refuse("%s is %v, which config.json cannot say", c.keys.full("rope.scaling.yarn_ext_factor"), ext)
	}
	if v := c.yarnAttention(double(factor)); v != nil {
		o = append(o, jsonMember{"attention_factor", v})
	}
	if log := c.number("rope.scaling.yarn_log_multiplier", -1); log != nil && c.latent() && double(log) != 0 {
		scale := c.single(float64(float32(double(log)) / float32(0.1)))
		o = append(o, jsonMember{"mscale", scale}, jsonMember{"mscale_all_dim", scale})
	}
	if c.arch.GGUF == "gpt-oss" {
		o = append(o, jsonMember{"truncate", false})
	}
	return o
}

// yarnAttention returns attention_factor, nil where it is the one that yarn has by
// itself. llama.cpp multiplies the key into that one, and transformers replaces it.
// A converter may have kept the field itself, under another key.
func (c *configMaker) yarnAttention(factor float64) any {
	more := c.number("rope.scaling.attn_factor", 0)
	kept := c.number("rope.scaling.yarn_attn_factor", 0)
	plain := more == nil || double(more) == 1
	switch {
	case plain && kept == nil:
		return nil
	case c.latent(), !plain && kept != nil:
		c.refuse("yarn scales attention by a factor of its own, which config.json of %s cannot say", c.model())
		return nil
	case plain:
		return kept
	}
	return c.single(double(more) * (1 + 0.1*math.Log(max(factor, 1))))
}

// single returns a computed number as an F32.
func (c *configMaker) single(x float64) float32 {
	if !(math.Abs(x) <= math.MaxFloat32) {
		c.refuse("rotary embeddings are scaled by %v", x)
		return 0
	}
	return float32(x)
}

// llama3 returns rope_scaling of a file that has what frequencies are divided by.
// The parameters that they were computed from are gone: those of Llama 3 are
// tried, and proven by the numbers. Otherwise the numbers themselves are given, in
// a form that changes nothing else.
func (c *configMaker) llama3() any {
	list := c.factors("rope_freqs.weight")
	if list == nil {
		return nil
	}
	if !slices.ContainsFunc(list, func(x float32) bool { return x != 1 }) {
		return nil
	}
	base := 10000.0
	if v := c.number("rope.freq_base", 0); v != nil {
		base = double(v)
	}
	factor := slices.Max(list)
	for _, original := range []int64{8192, 4096, 2048, 16384, 32768, 65536, 131072} {
		if closeTo(list, layout.Llama3Divisors(c.dims["head_dim"], base, factor, 1, 4, float32(original))) {
			return jsonObject{{"rope_type", "llama3"}, {"factor", factor}, {"low_freq_factor", 1.0}, {"high_freq_factor", 4.0},
				{"original_max_position_embeddings", original}}
		}
	}
	return jsonObject{{"rope_type", "longrope"}, {"type", "longrope"}, {"short_factor", list}, {"long_factor", list},
		{"original_max_position_embeddings", c.dims["max_seq_len"]}}
}

// longContext returns original_max_position_embeddings beside the rope_scaling
// that has it: libraries differ in where they look.
func (c *configMaker) longContext() any {
	if o, ok := c.ropeScaling().(jsonObject); ok && o[0].value == "longrope" {
		return c.dims["max_seq_len"]
	}
	return nil
}

// closeTo reports whether the numbers agree as far as other machines compute them.
func closeTo(a, b []float32) bool {
	return slices.EqualFunc(a, b, func(x, y float32) bool {
		return math.Abs(float64(x)-float64(y)) <= 2e-6*math.Abs(float64(y))
	})
}

// longRope returns phi3's rope_scaling. Its class accepts no other members.
func (c *configMaker) longRope() any {
	short, long := c.factors("rope_factors_short.weight"), c.factors("rope_factors_long.weight")
	if short == nil || long == nil {
		return nil
	}
	o := jsonObject{{"type", "longrope"}, {"short_factor", short}, {"long_factor", long}}
	original := c.originalContext()
	if original < 2 {
		c.refuse("%s is %d", c.keys.full("rope.scaling.original_context_length"), original)
		return nil
	}
	usual := 1.0
	if s := float64(c.dims["max_seq_len"]) / float64(original); s > 1 {
		usual = math.Sqrt(1 + math.Log(s)/math.Log(float64(original)))
	}
	factor := c.number("rope.scaling.attn_factor", 0)
	if factor == nil {
		factor = float32(1) // llama.cpp's
	}
	if math.Abs(double(factor)-usual) > 1e-5 {
		o = append(o, jsonMember{"attention_factor", factor})
	}
	return o
}

// factors reads one of the lists that scale frequencies: a number for each two that
// are rotated.
func (c *configMaker) factors(name string) []float32 {
	t := c.tensor(name)
	if t == nil {
		c.refuse("the file has no %s beside the other list", name)
		return nil
	}
	n := c.dims["rope_dim"] / 2
	if t.DType != tensorfs.F32 || len(t.Shape) != 1 || t.Shape[0] != n || t.Data == nil || t.Data.Size() != 4*n {
		c.refuse("%s is %s of shape %v, not %d numbers of F32", name, t.DType, t.Shape, n)
		return nil
	}
	b := make([]byte, 4*n)
	if err := tensorfs.ReadFull(t.Data, b, 0); err != nil {
		c.refuse("%v", err)
		return nil
	}
	order := binary.ByteOrder(binary.LittleEndian)
	if t.BigEndian {
		order = binary.BigEndian
	}
	list := make([]float32, n)
	for i := range list {
		list[i] = math.Float32frombits(order.Uint32(b[4*i:]))
		if !(list[i] > 0) || math.IsInf(float64(list[i]), 0) {
			c.refuse("%s has the number %v", name, list[i])
			return nil
		}
	}
	return list
}
