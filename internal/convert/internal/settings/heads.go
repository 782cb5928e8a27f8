package settings

import (
	"fmt"
	"math"
	"reflect"
	"slices"

	"github.com/tensorfs/tensorfs/formats/architectures"
	"github.com/tensorfs/tensorfs/internal/convert/layout"
)

// isSame reports whether two values are equal, lists too, and 32.0 is 32.
func isSame(a, b any) bool {
	x, isNumber := a.(float64)
	n, isWhole := b.(int64)
	return reflect.DeepEqual(a, b) || isNumber && isWhole && x == float64(n)
}

// headMeanings are about heads, and sizes.
var headMeanings = map[string]meaning{
	// Fields that have, if they are there, the values after them.
	"is": {toGGUF: check(func(c call) {
		for i := 0; i+1 < len(c.args); i += 2 {
			if got := c.cfg.plain(c.args[i].Name); got != nil && !isSame(got, c.arg(i+1)) {
				c.refuse("%s is %s, and a GGUF file of %s would have %v", c.args[i].Name, Shown(c.cfg.Value(c.args[i].Name)), c.arch.GGUF, c.arg(i+1))
			}
		}
	}), fromGGUF: check(func(c call) { // keys, if they are there
		for i := 0; i+1 < len(c.args); i += 2 {
			got, want := c.raw(c.args[i].Name), c.arg(i+1)
			if got != nil && !isSame(got, want) && float32(double(got)) != float32(double(want)) {
				c.refuse("%s is %s, and %s has %v", c.full(c.args[i].Name), Shown(got), c.modelType(), want)
			}
		}
	})},
	// Pairs of values that are the same in each layer.
	"alike": {check(alike), check(alike)},
	// For each layer whether a list of texts has that one.
	"words_are": {toGGUF: func(c call) any {
		var list []any
		for _, w := range c.cfg.Words(c.args[0].Name) {
			list = append(list, w == c.args[1].Name)
		}
		if list == nil {
			return nil
		}
		return list
	}},
	// Whether a list of texts has only that one.
	"all_are": {toGGUF: func(c call) any {
		words := c.cfg.Words(c.args[0].Name)
		return len(words) > 0 && !slices.ContainsFunc(words, func(w string) bool { return w != c.args[1].Name })
	}},
	// Fields that have, if they are there, the values after them for each layer.
	"layers_are": {toGGUF: check(func(c call) {
		for i := 0; i+1 < len(c.args); i += 2 {
			c.layersAre(c.args[i].Name, c.args[i+1])
		}
	})},
	// The first layers, as many as the first argument, have these modules.
	"there_up_to": {check(thereUpTo), check(thereUpTo)},
	// A list with zeros up to a length.
	"padded": {toGGUF: func(c call) any {
		list := c.list(0)
		if list == nil {
			return nil
		}
		for int64(len(list)) < c.number(1) {
			list = append(list, int64(0))
		}
		return list
	}},
	// How many layers that predict further tokens follow the layers of the model, whose number it is given.
	"further": {toGGUF: func(c call) any { return layout.NextLayers(c.tensor, c.number(0)) }},
	// The sections of rotary embeddings, without the zeros at the end.
	"sections": {fromGGUF: func(c call) any {
		list := c.list(0)
		for len(list) > 3 && list[len(list)-1] == int64(0) {
			list = list[:len(list)-1]
		}
		return list
	}},
	// Which the tokenizer contradicts.
	"vocabulary": {toGGUF: func(c call) any {
		if c.given.Tokenizer && c.arch.Word("vocab") == "" {
			return nil
		}
		return c.given.Rows
	}},
	// The tensor of q, k and v of a Falcon has config.json's number of heads. Only the later
	// architecture of Falcon has some numbers of heads.
	"falcon_heads": {check(func(c call) {
		if got, want := c.keyHeads(), c.number(0); got != want {
			c.refuse("it has %d heads of k and v, and its tensors have %d", want, got)
		}
	}), check(func(c call) {
		c.unscaled("rotary embeddings are scaled by %s, which config.json of falcon cannot say")
	})},
	"one_key_each": {fromGGUF: check(func(c call) {
		if heads, kv := c.count("n_heads"), c.keyHeads(); kv != heads {
			c.refuse("there are %d heads and %d of k and v, which config.json of %s cannot say", heads, kv, c.modelType())
		}
	})},
	"shared_width": {fromGGUF: check(func(c call) {
		if heads, width := c.count("n_heads"), c.count("dim"); c.count("head_dim")*heads != width {
			c.refuse("mlx-lm's %s takes its %d heads to share the %d numbers of the hidden state", c.modelType(), heads, width)
		}
	})},
	"fourfold": {fromGGUF: check(func(c call) {
		if ff, width := c.count("ffn_dim"), c.count("dim"); ff != 4*width {
			c.refuse("%s is %d and not four times %d, which config.json of %s cannot say", c.full("ffn_dim"), ff, width, c.modelType())
		}
	})},
	// Attention is scaled by a head, but in the largest model, which llama.cpp knows by its
	// layers, by a share of the width.
	"gemma_scale": {check(func(c call) {
		want := c.attentionScale()
		if got, ok := c.cfg.Number("query_pre_attn_scalar"); ok && got != float64(want) {
			c.refuse("query_pre_attn_scalar is %v, and llama.cpp has %d for such a model", got, want)
		}
	}), func(c call) any { return c.attentionScale() }},
	// Some converters permute the biases of q in llama like its rows, some do not, and
	// the file does not say which.
	"unbiased": {fromGGUF: check(func(c call) {
		for i := range c.count("n_layers") {
			layer := layerPrefix(i) + "attention."
			if c.tensor(layer+"q.bias") != nil {
				c.refuse("the file has %sq.bias, and whether its numbers are in the order of GGUF cannot be told", layer)
			}
			if c.failed != nil || c.tensor(layer+"output.weight") == nil {
				return
			}
		}
	})},
	"biased": {fromGGUF: check(func(c call) {
		if c.tensor("layers.0.attention.q.bias") == nil {
			c.refuse("mlx-lm's %s has biases, and the file has none", c.modelType())
		}
	})},
}

// layersAre refuses a list of config.json that is not what a value is in each layer. Layers
// that predict further tokens may be missing in it.
func (c call) layersAre(field string, value *architectures.Expr) {
	list, ok := c.cfg.plain(field).([]any)
	want := c.env.Each(value)
	for i, kind := range list {
		if word, _ := kind.(string); formerLayers[word] != "" {
			list[i] = formerLayers[word]
		}
	}
	for i := range want {
		if ok && (i < len(list) && list[i] != want[i] || len(list) > len(want) || int64(len(list)) < c.count("n_layers")-c.count("n_nextn_layers")) {
			c.refuse("%s is not %v in layer %d, as llama.cpp has it in %s", field, want[i], i, c.arch.GGUF)
			return
		}
	}
}

// alike refuses two values that differ in a layer, of one pair of its arguments after the other.
func alike(c call) {
	for pair := range slices.Chunk(c.args, 2) {
		a, b := c.env.Each(pair[0]), c.env.Each(pair[1])
		for i := range min(len(a), len(b)) {
			if a[i] != nil && a[i] != b[i] {
				c.refuse("layer %d has %v for %s, and %v for %s", i, a[i], pair[0], b[i], pair[1])
				return
			}
		}
	}
}

// thereUpTo refuses a model whose first layers lack a module that only the layers after
// them may lack.
func thereUpTo(c call) {
	n := c.number(0)
	for layer := range n {
		for _, module := range c.args[1:] {
			if name := layerPrefix(layer) + module.Name + ".weight"; c.given.Tensor(name) == nil {
				c.fail(fmt.Errorf("the tensor %s is missing, which only layers from %d on may lack", name, n))
				return
			}
		}
	}
}

// keyHeads returns the number of heads of k and v, the largest of all layers.
func (s *Model) keyHeads() int64 {
	if s.has("n_kv_heads") {
		return s.count("n_kv_heads")
	}
	return s.count("n_heads")
}

// checkHeads refuses heads that share nothing evenly.
func (s *Model) checkHeads() {
	heads := s.count("n_heads")
	switch kv := s.keyHeads(); {
	case s.headless():
	case s.env.HeadSize() == 0:
		s.refuse("hidden_size %d is not a multiple of the %d heads, and there is no head_dim", s.count("dim"), heads)
	case kv == 0 || heads%kv != 0:
		s.refuse("the %d heads are not a multiple of the %d heads of k and v", heads, kv)
	}
}

// attentionScale returns what Gemma's attention is scaled by.
func (c call) attentionScale() int64 {
	if c.count("n_layers") == c.number(0) {
		return c.count("dim") / max(c.count("n_heads"), 1)
	}
	return c.env.HeadSize()
}

// measure finds the sizes that several fields need: facts that follow from others where
// the file does not say them, and blocks, which counts also the layers that only predict
// further tokens.
func (s *Model) measure() {
	if s.given.Rows < 1 || s.given.Rows > mostSize {
		s.refuse("the file has no token embedding: it is only a vocabulary")
	}
	s.known["vocab_size"] = s.given.Rows
	for _, name := range []string{"n_layers", "dim", "n_heads", "max_seq_len"} {
		if (name != "n_heads" || !s.headless()) && !s.has(name) {
			s.refuse("the file has no %s", s.full(name))
		}
		if s.failed != nil {
			return
		}
		if name == "n_layers" {
			s.known["blocks"] = s.known["n_layers"]
		}
	}
	s.known["n_layers"] = s.count("n_layers") - s.count("n_nextn_layers")
	if !s.has("n_kv_heads") {
		s.known["n_kv_heads"] = s.known["n_heads"]
	}
	switch {
	case s.failed != nil || s.headless():
	case s.latent():
		s.measureLatent()
	default:
		s.measureHead()
	}
}

// headless reports whether the model has no attention.
func (s *Model) headless() bool { return s.arch.Word("heads") == "none" }

// latent reports whether k and v are stored compressed.
func (s *Model) latent() bool { return s.arch.Word("heads") == "latent" }

// measureHead finds the size of a head, and what config.json can say about it.
func (s *Model) measureHead() {
	heads, width := s.count("n_heads"), s.count("dim")
	turned, said := s.count("rope_dim"), s.has("rope_dim")
	head := s.count("head_dim")
	if head == 0 && said && architectures.HasTrait(s.arch.GGUF, architectures.WholeHeads) {
		head = turned
	}
	if head == 0 {
		head = width / heads
	}
	value := s.count("value_dim")
	if value == 0 {
		value = head
	}
	if !said {
		turned = head
	}
	s.known["head_dim"], s.known["v_head_dim"], s.known["rope_dim"] = head, value, turned
	kv := s.keyHeads()
	switch {
	case head*heads != width && !s.arch.Has("heads", "said"):
		s.refuse("the %d heads have %d numbers each and the hidden state %d, which config.json of %s cannot say", heads, head, width, s.modelType())
	case head == 0:
		s.refuse("the %d heads share the %d numbers of the hidden state", heads, width)
	case value != head && !s.arch.Has("heads", "values"):
		s.refuse("a head has %d numbers of k and %d of v, which config.json of %s cannot say", head, value, s.modelType())
	case kv == 0 || kv > heads || heads%kv != 0:
		s.refuse("the %d heads are not a multiple of the %d heads of k and v", heads, kv)
	case s.arch.Word("rope") == "": // positions are known in another way
	case turned != head && !s.arch.Has("heads", "turned") || turned > head || turned%2 != 0:
		s.refuse("%d numbers of a head of %d are rotated, which config.json of %s cannot say", turned, head, s.modelType())
	}
}

// measureLatent finds the sizes of heads whose k and v are stored compressed. Files
// from before llama.cpp kept them compressed have the whole sizes under other keys.
func (s *Model) measureLatent() {
	if kv := s.tensor("attention.kv_b"); kv != nil && !s.has("mla_v_head_dim") { // what makes k and v is whole
		s.known["mla_v_head_dim"] = kv.Numbers()[0]/s.count("n_heads") - s.count("head_dim") + s.count("rope_dim")
	}
	for _, k := range []struct{ name, older string }{{"kv_lora_rank", ""}, {"rope_dim", ""}, {"mla_head_dim", "head_dim"}, {"mla_v_head_dim", "value_dim"}} {
		if k.older != "" && !s.has(k.name) && s.has(k.older) {
			s.known[k.name] = s.raw(k.older)
		}
		if !s.has(k.name) {
			s.refuse("the file has no %s", s.full(k.name))
			return
		}
	}
	head, turned := s.count("mla_head_dim"), s.count("rope_dim")
	s.known["head_dim"], s.known["v_head_dim"], s.known["qk_nope_head_dim"] = head, s.known["mla_v_head_dim"], head-turned
	if head-turned < 1 {
		s.refuse("%d of the %d numbers of a head are rotated", turned, head)
	}
}

// turningPart returns which part of a head is rotated, nil means all of it. The library
// rounds the product down.
func turningPart(head, turned int64) any {
	if head == turned {
		return nil
	}
	part := float64(turned) / float64(head)
	if math.Floor(float64(head)*part) < float64(turned) {
		part = math.Nextafter(part, 1)
	}
	return part
}
