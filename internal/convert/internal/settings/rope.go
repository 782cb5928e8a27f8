package settings

import (
	"cmp"
	"encoding/binary"
	"math"
	"slices"
	"strings"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/architectures"
	"github.com/tensorfs/tensorfs/internal/convert/layout"
)

// Ways to scale rotary embeddings that are in tensors, as ropeType names them.
const (
	ropeFreqs   = "rope_freqs"   // one list of divisors
	ropeFactors = "rope_factors" // a list for long texts and one for short ones
)

// ropeMeanings are about rotary embeddings.
var ropeMeanings = map[string]meaning{
	// Which part of a head is rotated, where divisors make the rest stand still.
	"ones": {fromGGUF: func(c call) any {
		list := c.factors("rope_freqs.weight")
		n := slices.IndexFunc(list, func(x float32) bool { return x != 1 })
		if n < 0 {
			n = len(list)
		}
		if len(list) == 0 || slices.ContainsFunc(list[n:], func(x float32) bool { return x != layout.Still }) {
			c.refuse("the divisors of rotary embeddings do not leave the rest of a head unrotated")
			return nil
		}
		return float64(n) / float64(len(list))
	}},
	"scaling_type": {toGGUF: func(c call) any { return orNil(c.ropeType()) }},
	"partial_rope": {toGGUF: partialRope},
	// How many numbers of a head are rotated if a field has the fraction, 1 without one.
	"part_of_head": {toGGUF: func(c call) any {
		share, ok := c.cfg.Number(c.args[0].Name)
		if !ok {
			share = 1
		}
		if share <= 0 || share > 1 {
			c.refuse("%s is %v, not a part of a head", c.args[0].Name, share)
			return nil
		}
		return int64(share * float64(c.env.HeadSize()))
	}},
	"long_attention": {toGGUF: longAttention},
	"divisors":       {toGGUF: check(checkDivisors)},
	// The lists of factors of phi3 are one number for each pair of rotated ones.
	"factors": {toGGUF: check(func(c call) {
		pairs := cmp.Or(c.count("rope_dim"), c.env.HeadSize()) / 2
		for _, list := range []string{"long_factor", "short_factor"} {
			if n := int64(len(c.rope.Numbers(list))); n != pairs && c.ropeType() != "" {
				c.refuse("%s has %d numbers, and %d are needed", list, n, pairs)
			}
		}
	})},
	// With an argument, only so many numbers of a head are divided.
	"rope_scaling": {fromGGUF: func(c call) any { return c.ropeScaling(c.number(0)) }},
	// original_max_position_embeddings beside the rope_scaling that has it: libraries
	// differ in where they look.
	"long_context": {fromGGUF: func(c call) any {
		if o, ok := c.ropeScaling(0).(Object); ok && o[0].Value == "longrope" {
			return c.count("max_seq_len")
		}
		return nil
	}},
	"turning_part": {fromGGUF: func(c call) any {
		turned := c.count("rope_dim")
		if len(c.args) > 0 { // of other layers
			turned = cmp.Or(c.number(0), c.count("head_dim"))
		}
		return turningPart(c.count("head_dim"), turned)
	}},
	"unscaled": {fromGGUF: check(func(c call) { c.unscaled("mlx-lm's " + c.modelType() + " does not scale rotary embeddings") })},
}

func orNil(text string) any {
	if text == "" {
		return nil
	}
	return text
}

// Rope returns the fields about rotary embeddings of the layers that see everything.
func (s Fields) Rope() Fields {
	rope := Fields{problem: s.problem, file: s.file, asked: s.askedRope}
	paths := s.ropePaths()
	for i, path := range paths {
		o := s.top
		name, inside := strings.CutPrefix(path, textScope)
		if inside {
			o = s.text
		}
		if v := o.Raw(strings.Split(name, ".")[0]); v.Kind() != '{' {
			s.refuse(name, "is %s, not an object", Shown(o.Value(name)))
		}
		for part := range strings.SplitSeq(name, ".") {
			o = o.Object(part)
		}
		if i < len(paths)-1 {
			rope.text = o
		} else {
			rope.top = o
		}
	}
	return rope
}

// textScope begins the paths in the object about the language model.
const textScope = "text."

// isFalsy reports whether a value counts as absent where Python asks for its truth.
func isFalsy(v any) bool {
	if list, ok := v.(tensorfs.Array); ok {
		return list.Len() == 0
	}
	x, isNumber := finite(v)
	return v == nil || v == false || v == "" || isNumber && x == 0
}

// ropePaths returns the paths of the objects about rotary embeddings that count.
func (s Fields) ropePaths() []string {
	return architectures.RopePaths(func(path string) bool {
		v, ok := s.lookup(path)
		object, isObject := v.(tensorfs.JSON)
		return ok && (isObject && strings.Trim(string(object), "{} \t\r\n") != "" || !isObject && !isFalsy(v))
	}, textScope, "")
}

// RopeType returns how rotary embeddings are scaled, "" if they are not.
func (s Fields) RopeType() string {
	if w := strings.ToLower(s.Rope().Word("rope_type", "type")); w != "default" {
		return w
	}
	return ""
}

// ropeType returns how rotary embeddings are scaled, "" if they are not. If a file has a
// factor and no type llama.cpp assumes linear.
func (s *Model) ropeType() string {
	if s.to == architectures.ToGGUF {
		return s.cfg.RopeType()
	}
	v, key := s.keyOf("rope_scaling_type")
	t, ok := v.(string)
	if v != nil && !ok {
		s.refuse("%s is %s, not a text", key, Shown(v))
	}
	if s.tensor("rope_freqs.weight") != nil {
		return s.soleScaling(t, ropeFreqs)
	}
	if s.tensor("rope_factors_long.weight") != nil || s.tensor("rope_factors_short.weight") != nil {
		if t == "longrope" {
			t = ""
		}
		return s.soleScaling(t, ropeFactors)
	}
	factor := double(s.number("rope_scaling_factor", -1))
	switch {
	case t == "none", t == "" || t == "linear":
		if t == "none" || factor == 0 || factor == 1 {
			return ""
		}
		return "linear"
	}
	return t
}

// unscaled refuses a file whose rotary embeddings are scaled.
func (s *Model) unscaled(why string) {
	if t := s.ropeType(); t != "" {
		s.refuse("%s", strings.ReplaceAll(why, "%s", tensorfs.Quote(t)))
	}
}

// checkRope refuses ways of scaling that a file of the architecture cannot say.
func (s *Model) checkRope() {
	t := s.ropeType()
	switch {
	case !s.arch.Has("rope", cmp.Or(t, "none")) && (s.arch.Word("rope") != "" || t != ""):
		s.refuse("rotary embeddings are scaled by %s, which a GGUF file of %s cannot say", tensorfs.Quote(t), s.arch.GGUF)
	case (t == "linear" || t == "yarn" && !s.formerLongRope()) && !s.has("rope_scaling_factor"):
		s.refuse("rotary embeddings are scaled by %s, and its factor is missing", t)
	}
}

// formerLongRope reports whether the class knows older words for longrope: su, and of some classes yarn.
func (s *Model) formerLongRope() bool { return s.arch.Has("rope", "su") }

// checkDivisors refuses settings that the divisors of a Llama's frequencies cannot express:
// they are one list for every length, which scales nothing else. That is how hf/ writes a
// GGUF file's divisors that come from no known rule.
func checkDivisors(c call) {
	if c.ropeType() != "longrope" {
		return
	}
	long, short := c.rope.Numbers("long_factor"), c.rope.Numbers("short_factor")
	original, _ := c.rope.Integer("original_max_position_embeddings")
	factor, given := c.rope.Number("attention_factor")
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

// partialRope returns how many numbers of a head are rotated, from partial_rotary_factor.
// Its argument is the class's default; without it, all are.
func partialRope(c call) any {
	share, ok := c.cfg.Number("partial_rotary_factor", "rotary_pct", "rope_pct")
	if !ok {
		if share = double(c.arg(0)); len(c.args) == 0 {
			share = 1
		}
	}
	heads := c.count("n_heads")
	switch {
	case share <= 0 || share > 1 || heads == 0:
		c.refuse("partial_rotary_factor is %v, not a part of a head", share)
		return nil
	case c.has("head_dim"):
		return int64(share * float64(c.count("head_dim")))
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
	if scale > 1 && c.ropeType() == "yarn" {
		return 0.1*math.Log(scale) + 1
	}
	return longScale(scale, original)
}

// longScale is what longrope multiplies attention by, for a context that is so many times
// the original one.
func longScale(scale, original float64) float64 {
	if scale <= 1 {
		return 1
	}
	return math.Sqrt(1 + math.Log(scale)/math.Log(original))
}

// originalContext returns how many positions a model had before they were scaled.
func (s *Model) originalContext() int64 {
	return cmp.Or(s.count("rope_orig_ctx"), s.count("max_seq_len"))
}

// soleScaling returns a way of scaling that no other key may add to.
func (s *Model) soleScaling(key, tensors string) string {
	switch {
	case key != "" && key != "none" && key != "linear":
		s.refuse("rotary embeddings are scaled by %s and by %s, and config.json can only say one", tensors, tensorfs.Quote(key))
	case key != "none":
		if f := double(s.number("rope_scaling_factor", -1)); f != 0 && f != 1 {
			s.refuse("rotary embeddings are scaled by %s and by %v, and config.json can only say one", tensors, f)
		}
	}
	return tensors
}

// ropeScaling returns rope_scaling, nil if nothing is scaled.
func (s *Model) ropeScaling(part int64) any {
	t := s.ropeType()
	way := cmp.Or(map[string]string{"": "none", ropeFreqs: "llama3", ropeFactors: "longrope"}[t], t)
	if more := s.number("rope_attn_factor", 0); more != nil && double(more) != 1 && t != "yarn" && t != ropeFactors {
		s.refuse("%s is %s without yarn, which config.json cannot say", s.full("rope_attn_factor"), Shown(more))
	}
	switch {
	case s.failed != nil:
	case !s.arch.Has("rope", way) || s.arch.Lossy("rope", way):
		s.refuse("rotary embeddings are scaled by %s, which config.json of %s cannot say", tensorfs.Quote(t), s.modelType())
	case t == "linear":
		return Object{{"rope_type", t}, {"type", t}, {"factor", s.number("rope_scaling_factor", 0)}}
	case t == "yarn":
		return s.yarn()
	case t == ropeFreqs:
		return s.llama3(part)
	case t == ropeFactors:
		return s.longRope()
	case t != "": // the word of one way whose tensors are missing, or a word of another program
		s.refuse("%s is %s, and the file does not have what that needs", s.full("rope_scaling_type"), tensorfs.Quote(t))
	}
	return nil
}

// yarn returns rope_scaling of that type. The names without a value of their own
// are what some releases write though they are the defaults.
func (s *Model) yarn() any {
	factor := s.number("rope_scaling_factor", 0)
	if factor == nil {
		s.refuse("rotary embeddings are scaled by yarn, and the file has no %s", s.full("rope_scaling_factor"))
		return nil
	}
	original := s.originalContext()
	o := Object{{"rope_type", "yarn"}, {"type", "yarn"}, {"factor", factor}, {"original_max_position_embeddings", original}}
	usual := s.yarnIs("betas")
	for _, beta := range []struct {
		name  string
		other float64
	}{{"beta_fast", 32}, {"beta_slow", 1}} {
		v := s.number("yarn_"+beta.name, -1)
		if v == nil && usual {
			v = beta.other
		}
		if v != nil {
			o = append(o, Member{beta.name, v})
		}
	}
	if ext := s.number("yarn_ext_factor", math.Inf(-1)); ext != nil && double(ext) >= 0 && double(ext) != 1 {
		s.refuse("%s is %v, which config.json cannot say", s.full("yarn_ext_factor"), ext)
	}
	if v := s.yarnAttention(double(factor)); v != nil {
		o = append(o, Member{"attention_factor", v})
	}
	if log := s.number("yarn_log", -1); log != nil && s.latent() && double(log) != 0 {
		scale := s.asF32(float64(float32(double(log)) / float32(0.1)))
		o = append(o, Member{"mscale", scale}, Member{"mscale_all_dim", scale})
	}
	if s.yarnIs("untruncated") {
		o = append(o, Member{"truncate", false})
	}
	return o
}

// yarnAttention returns attention_factor, nil if it is yarn's default. llama.cpp multiplies
// the key into the default, and transformers replaces it. A converter may have kept the
// field itself, under another key.
func (s *Model) yarnAttention(factor float64) any {
	more := s.number("rope_attn_factor", 0)
	kept := s.number("yarn_attn_factor", 0)
	plain := more == nil || double(more) == 1
	switch {
	case plain && kept == nil:
		return nil
	case s.latent(), !plain && kept != nil:
		s.refuse("yarn scales attention by a factor of its own, which config.json of %s cannot say", s.modelType())
		return nil
	case plain:
		return kept
	}
	return s.asF32(double(more) * (1 + 0.1*math.Log(max(factor, 1))))
}

// asF32 returns a computed number as an F32.
func (s *Model) asF32(x float64) float32 {
	if !(math.Abs(x) <= math.MaxFloat32) {
		s.refuse("rotary embeddings are scaled by %v", x)
		return 0
	}
	return float32(x)
}

// llama3 returns rope_scaling of a file with divisors of frequencies. The parameters that
// they were computed from are lost: Llama 3's are tried, and proven by the numbers.
// Otherwise it returns the numbers themselves, in a form that changes nothing else.
func (s *Model) llama3(part int64) any {
	list := s.factors("rope_freqs.weight")
	if list == nil {
		return nil
	}
	head := s.count("head_dim")
	divisors := func(base, factor, high float64, original int64) []float32 {
		return layout.Llama3Divisors(head, base, float32(factor), 1, float32(high), float32(original))
	}
	highs := []float64{4}
	if n := part / 2; n > 0 && n < int64(len(list)) {
		if slices.ContainsFunc(list[n:], func(x float32) bool { return x != 1 }) {
			s.refuse("rope_freqs.weight divides more than the %d numbers of a head that are rotated", part)
			return nil
		}
		list, highs = list[:n], []float64{4, 32}
		divisors = func(base, factor, high float64, original int64) []float32 {
			return layout.PartDivisors(head, part, base, factor, 1, high, float64(original))[:n]
		}
	}
	if !slices.ContainsFunc(list, func(x float32) bool { return x != 1 }) {
		return nil
	}
	base := 10000.0
	if v := s.number("rope_theta", 0); v != nil {
		base = double(v)
	}
	factor := slices.Max(list)
	for _, original := range []int64{8192, 4096, 2048, 16384, 32768, 65536, 131072} {
		for _, high := range highs {
			if closeTo(list, divisors(base, float64(factor), high, original)) {
				return Object{{"rope_type", "llama3"}, {"factor", factor}, {"low_freq_factor", 1.0}, {"high_freq_factor", high},
					{"original_max_position_embeddings", original}}
			}
		}
	}
	return Object{{"rope_type", "longrope"}, {"type", "longrope"}, {"short_factor", list}, {"long_factor", list},
		{"original_max_position_embeddings", s.count("max_seq_len")}}
}

// closeTo reports whether the numbers agree as far as other machines compute them.
func closeTo(a, b []float32) bool {
	return slices.EqualFunc(a, b, func(x, y float32) bool {
		return math.Abs(float64(x)-float64(y)) <= 2e-6*math.Abs(float64(y))
	})
}

// longRope returns rope_scaling of lists of factors. Classes that know its older words accept no other members.
func (s *Model) longRope() any {
	short, long := s.factors("rope_factors_short.weight"), s.factors("rope_factors_long.weight")
	if short == nil || long == nil {
		return nil
	}
	o := Object{{"type", "longrope"}, {"short_factor", short}, {"long_factor", long}}
	original := s.originalContext()
	if !s.formerLongRope() {
		o = append(Object{{"rope_type", "longrope"}}, append(o, Member{"original_max_position_embeddings", original})...)
	}
	if original < 2 {
		s.refuse("%s is %d", s.full("rope_orig_ctx"), original)
		return nil
	}
	usual := longScale(float64(s.count("max_seq_len"))/float64(original), float64(original))
	factor := s.number("rope_attn_factor", 0)
	if factor == nil {
		factor = float32(1) // llama.cpp's
	}
	if math.Abs(double(factor)-usual) > 1e-5 {
		o = append(o, Member{"attention_factor", factor})
	}
	return o
}

// factors reads one of the lists that scale frequencies: a number for each two that
// are rotated.
func (s *Model) factors(name string) []float32 {
	t := s.tensor(name)
	if t == nil {
		s.refuse("the file has no %s beside the other list", name)
		return nil
	}
	n := s.count("rope_dim") / 2
	if t.DType != tensorfs.F32 || len(t.Shape) != 1 || t.Shape[0] != n || t.Data == nil || t.Data.Size() != 4*n {
		s.refuse("%s is %s of shape %v, not %d numbers of F32", name, t.DType, t.Shape, n)
		return nil
	}
	b := make([]byte, 4*n)
	if err := tensorfs.ReadFull(t.Data, b, 0); err != nil {
		s.refuse("%v", err)
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
			s.refuse("%s has the number %v", name, list[i])
			return nil
		}
	}
	return list
}
