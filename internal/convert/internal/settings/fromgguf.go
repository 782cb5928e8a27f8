package settings

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/architectures"
	"github.com/tensorfs/tensorfs/formats/tokenizer"
	"github.com/tensorfs/tensorfs/internal/jsonobj"
)

// FromGGUF returns the converter to the configs of a model with GGUF's metadata, after
// checking that the metadata agrees with the tensors, or the reason why it cannot be converted.
func FromGGUF(m *tensorfs.Model, given Given) (*Model, error) {
	s := newModel(m, architectures.FromGGUF)
	s.given, s.keys = given, newMetadata(m.Metadata)
	if err := s.chooseBlock(); err != nil {
		return nil, err
	}
	s.measure()
	s.checkConfig()
	if s.failed != nil {
		return nil, s.failed
	}
	s.ends = tokenizer.Ends(s.keys.value)
	if list, ok := s.keys.value(bareKeys + "ggml.eos_token_ids").(tensorfs.Array); ok { // Ollama's, beside one eos
		for v := range list.Values() {
			if id, ok := wholeNumber(v); ok && id >= 0 && id < s.tokens() && !slices.Contains(s.ends, int(id)) {
				s.ends = append(s.ends, int(id))
			}
		}
	}
	return s, nil
}

// chooseBlock finds the description of the architecture: one with a condition that holds
// before the one without.
func (s *Model) chooseBlock() error {
	v, ok := s.keys.at["general.architecture"]
	name, text := v.(string)
	switch {
	case !ok:
		return fmt.Errorf("the file has no general.architecture")
	case !text:
		return fmt.Errorf("general.architecture is %s, not a text", Shown(v))
	}
	s.keys.prefix = name + "."
	if s.arch = architectures.FittingGGUF(name, "hf", &s.env); s.arch == nil && s.given.MLX {
		s.arch = architectures.FittingGGUF(name, "mlx", &s.env)
	}
	switch {
	case s.failed != nil:
		return s.failed
	case s.arch == nil && tensorfs.Printable(name) == name:
		return fmt.Errorf("no Hugging Face form known for architecture %s", name[:min(len(name), 100)])
	case s.arch == nil:
		return fmt.Errorf("no Hugging Face form known for architecture %s", tensorfs.Quote(name))
	case s.given.MLX && !s.arch.Makes("mlx"):
		return fmt.Errorf("mlx-lm has no such model as %s", s.modelType())
	}
	return nil
}

// modelType is the model_type.
func (s *Model) modelType() string { return s.arch.Written.ModelType }

// checkConfig refuses what the sizes cannot be, and what the tensors contradict.
func (s *Model) checkConfig() {
	if layers := s.count("n_layers"); s.failed == nil && layers < 1 {
		blocks := s.known["blocks"].(int64)
		s.refuse("%s is %d, and %d of these layers only predict further tokens: no other layer is left", s.full("n_layers"), blocks, blocks-layers)
	}
	s.agree("agree")
	s.checkFixed()
	if s.given.MLX {
		s.agree("mlx_agree")
	} else {
		s.agree("hf_agree")
	}
	for i := range s.arch.Config { // keys with a single number
		if f := s.arch.Config[i].Fact; f != nil && !s.arch.Config[i].Always && s.failed == nil {
			s.fact(f.Name)
		}
	}
	if s.failed == nil {
		s.checkShapes()
	}
}

// checkFixed refuses keys that contradict a constant of the class: the description writes
// the constant, or another fact, to a GGUF file, and the key becomes no field of
// config.json. Values that follow from the shapes of tensors are not constants.
func (s *Model) checkFixed() {
	for i := range s.arch.Keys {
		x := &s.arch.Keys[i]
		if s.failed != nil || x.Fact == nil || x.Value == nil || shaped(x.Fact) || !x.When.HoldsIn(&s.env) {
			continue
		}
		v, key := s.keys.find(x.Fact.Keys...)
		if v == nil || !strings.HasPrefix(key, s.keys.prefix) {
			continue
		}
		want := s.fixed(x)
		if n, _ := wholeNumber(v); x.Fact.Name == "expert_gating" && n > gatings["sigmoid"] && s.count("n_experts") > 0 && (x.Value.Constant() == nil || !isEqual(v, want)) {
			s.refuse("%s is %s, but config.json can only have softmax (%d) or sigmoid (%d)", key, Shown(v), gatings["softmax"], gatings["sigmoid"])
		}
		if want != nil && !isEqual(v, want) {
			s.refuse("%s is %s, and models of %s have %s: config.json cannot say otherwise", key, Shown(v), tensorfs.Printable(s.modelType()), Shown(want))
		}
	}
}

// shaped reports whether shapes of tensors decide a size.
func shaped(f *architectures.Fact) bool {
	return f.Kind == architectures.Size && !strings.HasPrefix(f.Keys[0], "rope.")
}

// fixed returns the value that a key has in every file of the class, nil if config.json tells it.
func (s *Model) fixed(x *architectures.Setting) any {
	said := s.inConfig(x.Fact)
	switch {
	case x.Value.Name == "gating" && s.count("n_experts") == 0:
		return nil
	case x.Value.Name == "gating" && !said:
		return s.fixedGating(x.Value)
	case said:
		return nil
	case x.Value.Literal != nil:
		return x.Value.Literal
	case x.Always && x.Value.Name != x.Fact.Name && architectures.FactOf(x.Value.Name) != nil && len(x.Value.Args) == 0 && !s.means(x.Value.Name):
		return s.fact(x.Value.Name)
	}
	return nil
}

// fixedGating returns how the class weighs experts: as config.json is written to say, or as
// the description has it without a word.
func (s *Model) fixedGating(e *architectures.Expr) any {
	for _, x := range s.arch.Config {
		if word, ok := x.Value.Constant().(string); ok && slices.Contains(gatingFields, x.Name) {
			return gatings[word]
		}
	}
	if len(e.Args) > 0 {
		return gatings[e.Args[0].Name]
	}
	return gatings["softmax"]
}

// inConfig reports whether a fact becomes a field of config.json.
func (s *Model) inConfig(f *architectures.Fact) bool {
	return slices.ContainsFunc(s.arch.Config, func(x architectures.Setting) bool {
		if x.Fact == f && !x.Always {
			return true
		}
		if x.Value == nil {
			return false
		}
		facts, _ := x.Value.Uses()
		return slices.Contains(facts, f.Name) || x.Value.Literal == nil && slices.Contains(f.Fields, x.Name) // what tensors show
	})
}

// isEqual reports whether a value of a file equals one of a description. A list or an object
// is not compared.
func isEqual(v, want any) bool {
	n, whole := wholeNumber(v)
	switch want := want.(type) {
	case bool, string:
		return v == want
	case int64:
		return whole && n == want || !whole && double(v) == float64(want)
	case float32, float64:
		return float32(double(v)) == float32(double(want))
	}
	return true
}

// Config returns config.json.
func (s *Model) Config() ([]byte, error) {
	o := Object{{"architectures", []string{s.arch.Written.Name}}, {"model_type", s.modelType()}}
	whole := s.arch.Word("whole")
	if s.given.MLX && whole != "" {
		o = o[1:]
	}
	for i := range s.arch.Config {
		if item := &s.arch.Config[i]; item.When.HoldsIn(&s.env) {
			o = o.at(strings.Split(item.Name, "."), s.field(item))
		}
	}
	if s.given.MLX && whole != "" { // mlx-lm has the class only as part of that
		o = Object{{"architectures", []string{s.arch.Classes[0].Name}}, {"model_type", whole}, {"text_config", o}}
	}
	o = o.With("bos_token_id", s.tokenID("bos_token_id")).With("eos_token_id", s.endTokens()).With("pad_token_id", s.tokenID("padding_token_id"))
	o = o.With("torch_dtype", s.given.Torch)
	if s.bidirectional {
		o = o.With("is_causal", false)
	}
	if s.failed != nil {
		return nil, s.failed
	}
	if s.given.Experts && !s.given.MLX { // as gpt-oss was published
		o = o.With("quantization_config", MXFP4)
	}
	if s.given.MLX && s.given.Quantization != nil {
		q, err := jsonobj.Parse(s.given.Quantization)
		if err != nil {
			return nil, err
		}
		o = append(o, Members(q)...)
	}
	return o.Text(), nil
}

// field returns the value of a field as Object has them; nil: it is not written.
func (s *Model) field(item *architectures.Setting) any {
	if !item.Always {
		if v := s.single(item.Fact, item.Value != nil && !item.Said); v != nil || s.failed != nil {
			return v
		}
		if item.Value == nil {
			s.refuse("the file has no %s", s.keys.full(item.Fact.Keys[0]))
			return nil
		}
	}
	v := s.value(item.Value)
	if f := architectures.FactOf(item.Value.Name); f != nil && v == nil && len(item.Value.Args) == 0 {
		s.refuse("the file has no %s", s.keys.full(f.Keys[0]))
	}
	if list, ok := v.([]any); ok && slices.Contains(list, nil) {
		s.refuse("%s is not known of layer %d", item.Name, slices.Index(list, nil))
	}
	return v
}

// single returns a measured value or a key's as one number; nil if there is neither, and
// for an option of 0 if the option may be absent.
func (s *Model) single(f *architectures.Fact, zero bool) any {
	if s.known[f.Name] == nil {
		if v := s.key(f, zero); v != nil {
			s.known[f.Name] = v
		}
	}
	if s.failed != nil || s.known[f.Name] == nil {
		return nil
	}
	return s.fact(f.Name)
}

// MXFP4 declares in config.json which modules of gpt-oss are blocks of MXFP4: all except
// these.
var MXFP4 = Object{
	{"quant_method", "mxfp4"},
	{"modules_to_not_convert", []string{"model.layers.*.self_attn", "model.layers.*.mlp.router", "model.embed_tokens", "lm_head"}},
}

// tokenID is the number of a special token. One that no token has means none.
func (s *Model) tokenID(key string) any {
	v, full := s.keys.find(bareKeys + "ggml." + key)
	n, ok := wholeNumber(v)
	if v != nil && !ok {
		s.refuse("%s is %s, not a whole number", full, Shown(v))
	}
	if !ok || n < 0 || n >= s.tokens() {
		return nil
	}
	return n
}

// endTokens are the tokens at which a generation ends: all of them where programs
// take a list in config.json, and else the file's eos, or the first token at which llama.cpp
// ends without one, since transformers would take the default of its class.
// generation_config.json has all of them always.
func (s *Model) endTokens() any {
	eos, all := s.tokenID("eos_token_id"), s.allEnds()
	switch {
	case all != nil && !s.arch.Has("ends", "one"):
		return all
	case eos != nil:
		return eos
	}
	for _, id := range slices.Concat(s.ends, tokenizer.AssumedEnds(s.keys.value)) {
		if id := int64(id); id < s.tokens() {
			return id
		}
	}
	return nil
}

// allEnds returns all tokens at which a generation ends: a number, a list of
// several, nil without any.
func (s *Model) allEnds() any {
	var list []int64
	for _, id := range s.ends {
		if id := int64(id); id < s.tokens() {
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
func (s *Model) tokens() int64 {
	if a, ok := s.keys.at[bareKeys+"ggml.tokens"].(tensorfs.Array); ok {
		return min(int64(a.Len()), s.given.Rows)
	}
	return s.given.Rows
}

// Key returns a value of the file's metadata.
func (s *Model) Key(key string) any { return s.keys.value(key) }
