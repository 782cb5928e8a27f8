package whole

import (
	"math"
	"slices"
	"strings"

	"github.com/tensorfs/tensorfs"
)

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
func (d *describer) ropeType() string {
	w := strings.ToLower(d.rope.word("rope_type", "type"))
	if w == "default" {
		return ""
	}
	return w
}

// scaled returns whether rotary embeddings are scaled in one of these ways.
func scaled(types ...string) func(d *describer) bool {
	return func(d *describer) bool { return slices.Contains(types, d.ropeType()) }
}

// plainRope are the ways of scaling that need no key or tensor of an
// architecture. With dynamic, nothing differs within the context.
var plainRope = []string{"", "linear", "yarn", "dynamic"}

// scalingType returns the type that a key names.
func scalingType(d *describer) any {
	if scaled("linear", "yarn")(d) {
		return d.ropeType()
	}
	return nil
}

// checkRope refuses ways of scaling that a file of the architecture cannot say.
func (d *describer) checkRope() {
	types := d.arch.ropes
	if types == nil {
		types = plainRope
	}
	switch t := d.ropeType(); {
	case !slices.Contains(types, t):
		d.refuse("rotary embeddings are scaled by %s, which a GGUF file of %s cannot say", tensorfs.Quote(t), d.arch.name)
	case (t == "linear" || t == "yarn" && !d.isPhi()) && !d.has("rope.scaling.factor"):
		d.refuse("rotary embeddings are scaled by %s, and its factor is missing", t)
	}
}

// yarnLog returns what DeepSeek adds to the scaling of yarn.
func yarnLog(d *describer) any {
	x, ok := d.rope.number("mscale_all_dim")
	if !ok {
		return nil
	}
	return 0.1 * x
}

// isPhi reports whether the two lists of factors of phi3 scale the embeddings.
func (d *describer) isPhi() bool { return d.arch.name == "phi3" }

// phiTypes are the ways of scaling that phi3 has: two names for one, and yarn.
var phiTypes = []string{"", "longrope", "su", "yarn"}

// partialRope returns how many numbers of a head are rotated in phi3.
func partialRope(d *describer) any {
	share, ok := d.partial()
	heads := d.count("attention.head_count")
	if !ok {
		share = 1
	}
	if share <= 0 || share > 1 || heads == 0 {
		d.refuse("partial_rotary_factor is %v, not a part of a head", share)
		return nil
	}
	return int64(share*float64(d.count("embedding_length"))) / heads
}

// partial returns which part of a head is rotated.
func (d *describer) partial() (float64, bool) {
	if x, ok := d.rope.number("partial_rotary_factor"); ok {
		return x, true
	}
	return d.cfg.number("partial_rotary_factor")
}

// longAttention returns by what phi3 multiplies attention beyond the context that
// it was first trained with. It is computed in double, as the converter does.
func longAttention(d *describer) any {
	original := float64(d.count("rope.scaling.original_context_length"))
	scale := float64(d.count("context_length")) / original
	if original < 2 {
		d.refuse("original_max_position_embeddings is %v", original)
		return nil
	}
	switch {
	case scale <= 1:
		return 1.0
	case d.ropeType() == "yarn":
		return 0.1*math.Log(scale) + 1
	}
	return math.Sqrt(1 + math.Log(scale)/math.Log(original))
}

// checkFactors refuses a phi3 whose lists of factors are not one number for each
// pair of rotated ones.
func checkFactors(d *describer) {
	if d.ropeType() == "" {
		return
	}
	pairs := d.count("rope.dimension_count") / 2
	for _, list := range []string{"long_factor", "short_factor"} {
		if n := int64(len(d.rope.numbers(list))); n != pairs {
			d.refuse("%s has %d numbers, and %d are needed", list, n, pairs)
		}
	}
}

// checkDivisors refuses what the divisors of a Llama's frequencies cannot say: one
// list for every length, which scales nothing else. That is how hf/ writes those of a
// GGUF file which come from no known rule.
func checkDivisors(d *describer) {
	if d.ropeType() != "longrope" {
		return
	}
	long, short := d.rope.numbers("long_factor"), d.rope.numbers("short_factor")
	original, _ := d.rope.integer("original_max_position_embeddings")
	factor, given := d.rope.number("attention_factor")
	switch {
	case len(long) == 0 || !slices.Equal(long, short):
		d.refuse("its long and short factors differ, and a GGUF file of llama has one list")
	case original != d.count("context_length"):
		d.refuse("its factors hold beyond %d positions of %d, and a GGUF file of llama has them for all", original, d.count("context_length"))
	case given && factor != 1:
		d.refuse("it has an attention_factor of %v, which a GGUF file of llama cannot say", factor)
	case int64(len(long)) != d.count("rope.dimension_count")/2:
		d.refuse("long_factor has %d numbers, and %d are needed", len(long), d.count("rope.dimension_count")/2)
	}
}
