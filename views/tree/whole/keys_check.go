package whole

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/architectures"
)

// check refuses what llama.cpp would, and what contradicts itself.
func (d *keyMaker) check() {
	for _, v := range d.arch.Calls("needs") {
		if !d.has(v.Name) {
			d.missing(v.Name)
			return
		}
	}
	heads, most := d.count("n_heads"), architectures.FactOf("dim").Most
	switch {
	case d.headSize() == 0:
		d.refuse("hidden_size %d is not a multiple of the %d heads, and no head_dim says their size", d.count("dim"), heads)
	case heads%d.keyHeadCount() != 0:
		d.refuse("the %d heads are not a multiple of the %d heads of k and v", heads, d.keyHeadCount())
	case d.has("n_experts") && d.count("n_experts_used") == 0:
		d.missing("n_experts_used")
	case d.count("n_experts_used") > d.count("n_experts"):
		d.refuse("%d experts are used of %d", d.count("n_experts_used"), d.count("n_experts"))
	case d.facts.rows < 1 || d.facts.rows > most:
		d.refuse("the embedding has %d rows", d.facts.rows)
	}
	d.checkRope()
	for _, v := range d.arch.Calls("check") {
		checks[v.Name](call{keyMaker: d, args: v.Args})
	}
	if d.failed == nil {
		d.checkShapes()
	}
}

// missing says that a fact has no value.
func (d *keyMaker) missing(name string) {
	fact := architectures.FactOf(name)
	fields := slices.Clone(fact.Fields)
	for _, item := range d.arch.Keys {
		if item.Name == name && item.Field != "" {
			fields = []string{item.Field}
		}
	}
	for i, f := range fields {
		fields[i] = strings.TrimPrefix(f, "rope.")
	}
	switch len(fields) {
	case 0:
		d.refuse("it does not say what GGUF's key %s needs", d.full(fact))
	case 1:
		d.refuse("it has no %s, which a GGUF file of %s needs", fields[0], d.arch.GGUF)
	default:
		d.refuse("it has none of %s, and a GGUF file of %s needs one", strings.Join(fields, ", "), d.arch.GGUF)
	}
}

// Contradicted says which tensor of a layer has a shape that contradicts the sizes,
// "" without one. A size that is missing is not known. The tensors of no layer belong
// to the first.
func Contradicted(layer int64, sizes map[string]int64, shape func(canonical string) []int64) string {
	for name, words := range architectures.Shapes(layer) {
		got := shape(name)
		var want []int64
		for _, word := range words {
			want = append(want, sizes[word])
		}
		if got != nil && !slices.Contains(want, 0) && !slices.Equal(got, want) {
			return fmt.Sprintf("contradicts the tensor %s, whose shape is %v and would have to be %v", name, got, want)
		}
	}
	return ""
}

// checkShapes refuses a config.json that the shapes of the tensors contradict.
func (d *keyMaker) checkShapes() {
	n, ff := d.count("n_heads"), d.count("ffn_dim")
	q, kv := d.headSize()*n, d.headSize()*d.keyHeadCount()
	sizes := map[string]int64{"vocab": d.facts.rows, "width": d.count("dim"), "experts": d.count("n_experts")}
	switch {
	case d.arch.Transposed():
	case d.has("kv_lora_rank"): // head_dim is that of what all heads share
		sizes["q"], sizes["o"] = n*d.count("mla_head_dim"), n*d.count("mla_v_head_dim")
		sizes["ff"], sizes["kv_a"] = ff, d.count("head_dim")
	default:
		sizes["q"], sizes["o"], sizes["k"], sizes["v"], sizes["qkv"], sizes["ff"], sizes["2ff"] = q, q, kv, kv, q+2*kv, ff, 2*ff
	}
	for i := range d.count("n_layers") {
		if why := Contradicted(i, sizes, d.shape); why != "" {
			d.refuse("it %s", why)
			return
		}
	}
}

// checkRope refuses ways of scaling that a file of the architecture cannot say.
func (d *keyMaker) checkRope() {
	t := d.ropeType()
	name := t
	if t == "" {
		name = "none"
	}
	switch {
	case !d.arch.Has("rope", name) && (d.arch.Word("rope") != "" || t != ""):
		d.refuse("rotary embeddings are scaled by %s, which a GGUF file of %s cannot say", tensorfs.Quote(t), d.arch.GGUF)
	case (t == "linear" || t == "yarn" && d.arch.GGUF != "phi3") && !d.has("rope_scaling_factor"):
		d.refuse("rotary embeddings are scaled by %s, and its factor is missing", t)
	}
}

// checks are what a config.json has to agree with, as architectures name them.
var checks = map[string]func(call){
	// Attention is scaled by a head, but in the largest model, which llama.cpp knows by
	// its layers, by a share of the width.
	"attention_scale": func(c call) {
		want := c.headSize()
		if c.count("n_layers") == c.number(0) {
			want = c.count("dim") / max(c.count("n_heads"), 1)
		}
		if got, ok := c.cfg.number("query_pre_attn_scalar"); ok && got != float64(want) {
			c.refuse("query_pre_attn_scalar is %v, and llama.cpp has %d for such a model", got, want)
		}
	},
	// The order of layers is llama.cpp's: one that sees a window, then one that sees everything.
	"alternate": func(c call) {
		if kinds := c.layerKinds(); kinds != nil && !hasPeriod(kinds, 2) {
			c.refuse("layer_types does not alternate between sliding_attention and full_attention, as llama.cpp does")
		}
	},
	"divisors": checkDivisors,
	// The lists of factors of phi3 are one number for each pair of rotated ones.
	"factors": func(c call) {
		pairs := c.count("rope_dim") / 2
		for _, list := range []string{"long_factor", "short_factor"} {
			if n := int64(len(c.rope.numbers(list))); n != pairs && c.ropeType() != "" {
				c.refuse("%s has %d numbers, and %d are needed", list, n, pairs)
			}
		}
	},
	// The tensor of q, k and v has the heads that config.json says. Old ones with a
	// single head of k and v say any number.
	"falcon_heads": func(c call) {
		if got, want := c.keyHeadCount(), c.falconKeyHeads(); got != want {
			c.refuse("it has %d heads of k and v, and its tensors have %d", want, got)
		}
	},
	// A list has a number for each layer, which is 0 for every so many and 1 for all between.
	"zero_every": func(c call) {
		field, every := c.args[0].Name, c.args[1].Literal.(int64)
		list := c.cfg.numbers(field)
		for i, v := range list {
			if (v == 0) != (int64(i+1)%every == 0) || int64(len(list)) != c.count("n_layers") {
				c.refuse("%s is not 0 for every layer that is a multiple of %d, as llama.cpp has it", field, every)
				return
			}
		}
	},
	// A model that compresses k and v but not q is one that llama.cpp knows by its number
	// of layers.
	"light_layers": func(c call) {
		n := c.count("n_layers")
		if !c.has("q_lora_rank") && !slices.Contains([]int64{26, 27}, n) && !(n == 48 && c.facts.rows == 128256) {
			c.refuse("it has no q_lora_rank, without which llama.cpp takes models of 26 or 27 layers")
		}
	},
}

// checkDivisors refuses what the divisors of a Llama's frequencies cannot say: one
// list for every length, which scales nothing else. That is how hf/ writes those of a
// GGUF file which come from no known rule.
func checkDivisors(c call) {
	if c.ropeType() != "longrope" {
		return
	}
	long, short := c.rope.numbers("long_factor"), c.rope.numbers("short_factor")
	original, _ := c.rope.integer("original_max_position_embeddings")
	factor, given := c.rope.number("attention_factor")
	context, pairs := c.count("max_seq_len"), c.count("rope_dim")/2
	switch {
	case len(long) == 0 || !slices.Equal(long, short):
		c.refuse("its long and short factors differ, and a GGUF file of llama has one list")
	case original != context:
		c.refuse("its factors hold beyond %d positions of %d, and a GGUF file of llama has them for all", original, context)
	case given && factor != 1:
		c.refuse("it has an attention_factor of %v, which a GGUF file of llama cannot say", factor)
	case int64(len(long)) != pairs:
		c.refuse("long_factor has %d numbers, and %d are needed", len(long), pairs)
	}
}

// refusals are reasons for no file that a field alone cannot tell, as architectures
// name them.
var refusals = map[string]func(m *tensorfs.Model, cfg settings) string{
	// Some layers have no experts.
	"dense_layers": func(_ *tensorfs.Model, cfg settings) string {
		if len(cfg.numbers("mlp_only_layers")) > 0 {
			return "mlp_only_layers names layers without experts, and llama.cpp has none in such models"
		}
		return ""
	},
	// The answer is one number, though the class is that of models that answer with text.
	"reranker": func(m *tensorfs.Model, _ settings) string {
		if text, err := ReadText(m, "README.md", maxText); err == nil && strings.Contains(string(text), "# Qwen3-Reranker") {
			return "the model is a reranker, of which no GGUF file is made"
		}
		return ""
	},
}
