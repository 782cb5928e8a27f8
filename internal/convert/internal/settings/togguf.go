package settings

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/architectures"
	"github.com/tensorfs/tensorfs/internal/jsonobj"
)

// ToGGUF finds the description of the architecture that a config.json names, or the reason
// why such a model cannot be converted to GGUF.
func ToGGUF(m *tensorfs.Model, cfg Fields) (*Model, error) {
	if cfg.problem == nil {
		cfg.problem = new(error)
	}
	s := newModel(m, architectures.ToGGUF)
	cfg.asked, cfg.askedRope = map[string]bool{}, map[string]bool{}
	cfg.elements = map[string][]jsonobj.Object{}
	s.cfg = cfg // for the class
	s.reads = s.programsRead(cfg.top, cfg.top.Value("model_type"), cfg.text.Value("model_type"))
	s.class = s.classReads(cfg.top, cfg.top.Value("model_type"), cfg.text.Value("model_type"))
	cfg.usual = s.classDefault
	s.cfg, s.rope = cfg, cfg.Rope()
	if err := s.chooseClass(); err != nil {
		return nil, err
	}
	for i := range s.arch.Only {
		s.only(&s.arch.Only[i])
	}
	s.agree("refuse")
	return s, s.err()
}

// chooseClass finds the description of the class or the model_type. A model of several parts
// that has none is described as its language model, if that names its own class or model_type.
func (s *Model) chooseClass() error {
	top := Fields{top: s.cfg.top, problem: s.cfg.problem, file: s.cfg.file}
	classes := top.Words("architectures")
	if classes == nil {
		classes = s.cfg.Words("architectures")
	}
	name := top.Word("model_type")
	if name == "" {
		name = s.cfg.Word("model_type")
	}
	named := func(c architectures.Class) bool { return c.ModelType == name }
	if len(classes) > 0 {
		name = classes[0]
		named = func(c architectures.Class) bool { return c.Name == name }
	}
	if architectures.HasExpertLayers(s.cfg.Words("layers_block_type"), s.cfg.Word("hybrid_override_pattern")) {
		if all := architectures.OfClass(func(c architectures.Class) bool { return c.Name == name+architectures.WithExperts }); len(all) > 0 {
			s.arch = all[0]
			return s.err()
		}
	}
	find := func() bool {
		s.arch = architectures.FittingClass(named, "gguf", &s.env)
		return s.arch != nil
	}
	text := Fields{top: s.cfg.text}
	if own, kind := text.Words("architectures"), text.Word("model_type"); !find() && !architectures.IsWhole(name) && (len(own) > 0 || kind != "") {
		named = func(c architectures.Class) bool {
			return len(own) > 0 && c.Name == own[0] || len(own) == 0 && c.ModelType == kind
		}
		find()
	}
	switch {
	case s.err() != nil:
	case name == "" && s.cfg.Word("_class_name") != "":
		s.refuse("no rules for a GGUF file of diffusers' %s are known; programs load its safetensors file, which hf/ has", Shown(s.cfg.Word("_class_name")))
	case name == "":
		s.refuse("nothing names the model's architecture, neither architectures nor model_type")
	case s.arch == nil && len(classes) == 0:
		s.refuse("the architecture %s cannot be converted to GGUF", Shown(name))
	case s.arch == nil:
		why := "llama.cpp's converter does not have it"
		if at := slices.IndexFunc(architectures.Support(), func(c architectures.Supported) bool { return c.Class == name }); at >= 0 {
			why = cmp.Or(architectures.Support()[at].Columns["gguf"].Reason, "it is a tower")
		}
		s.refuse("the architecture %s cannot be converted to GGUF: %s", Shown(name), why)
	}
	return s.err()
}

// Answers are the tokens that are the model's possible answers, nil if it answers with
// text.
func (s *Model) Answers() []string { return s.arch.Words("answers") }

// Keys returns the metadata of the GGUF file without the tokenizer's, general.architecture
// first, or the reason why it cannot be made.
func (s *Model) Keys(given Given) ([]tensorfs.Meta, error) {
	s.given = given
	own := make([]tensorfs.Meta, 0, 64)
	for i := range s.arch.Keys {
		item := &s.arch.Keys[i]
		v := s.make(item)
		if err := s.err(); err != nil {
			return nil, err
		}
		if v != nil {
			own = append(own, tensorfs.Meta{Key: s.fullKey(item.Fact), Value: v})
		}
	}
	s.checkKeys()
	if err := s.err(); err != nil {
		return nil, err
	}
	return slices.Concat(s.general(), own), nil
}

// fullKey returns the key of a fact as a file has it.
func (s *Model) fullKey(f *architectures.Fact) string {
	return metadata{prefix: s.arch.GGUF + "."}.full(f.Keys[0])
}

// make returns the value of an item as the file has it; nil if it is not written.
func (s *Model) make(item *architectures.Setting) any {
	if !item.When.HoldsIn(&s.env) {
		return nil
	}
	fact, from := item.Fact, item.Fact.Keys[0]
	var v any
	if !item.Always {
		said := s.cfg
		said.usual = nil
		v, from = said.fact(fact, item.Field)
	}
	if v == nil && item.Value != nil && item.Said {
		for _, f := range fact.Fields {
			if s.cfg.null(f) {
				s.refuse("%s is null, which a GGUF file of %s cannot say", f, s.arch.GGUF)
			}
		}
	}
	// What tensors and other fields say, then the default of the class, then the description's.
	fixed := item.Value != nil && item.Value.Literal != nil
	if v == nil && item.Value != nil && (!fixed || item.Always) {
		v = s.value(item.Value)
	}
	if v == nil && !item.Always {
		v, from = s.cfg.fact(fact, item.Field)
	}
	if v == nil && fixed {
		v = s.value(item.Value)
	}
	if v == nil {
		return nil
	}
	if n, ok := v.(int64); ok && (fact.Kind == architectures.Real || fact.Kind == architectures.Bound) {
		v = float64(n)
	} else if x, ok := v.(float64); ok && fact.Kind != architectures.Real && fact.Kind != architectures.Bound && x == math.Trunc(x) && math.Abs(x) <= math.MaxUint32 {
		v = int64(x) // 8.0
	}
	said := item.Always && item.Value.Literal != nil // by the description: 0 for what a model does not have
	written, n, ok := toKind(fact.Kind, v)
	switch {
	case !ok:
		s.refuse("%s would be %v, which does not fit GGUF's key %s", from, v, s.fullKey(fact))
	case fact.Most > 0 && (n < 1 && !said || n > fact.Most):
		s.refuse("%s would be %v, and files of %s may have 1 to %d", from, v, s.arch.GGUF, fact.Most)
	}
	s.known[fact.Name] = v
	return written
}

// classDefault returns what the class of the language model takes for a field that is missing,
// nil if that is not known, or is a list.
func (s *Model) classDefault(field string) any {
	of, _ := Fields{text: s.cfg.text, top: s.cfg.top}.Value("model_type").(string)
	if text := of + "_text"; s.class.HasType(text) {
		of = text
	}
	o, err := jsonobj.Parse([]byte(`{"default":` + cmp.Or(s.class.Own(of, field), "null") + `}`))
	if err != nil {
		return nil
	}
	switch v := o.Value("default").(type) {
	case json.Number, string, bool:
		return v
	}
	return nil
}

// toKind converts a value to the form that a file contains. n is the whole number, the largest of
// several values; ok is false if the file cannot contain it.
func toKind(kind architectures.Kind, v any) (written any, n int64, ok bool) {
	switch v := v.(type) {
	case int64:
		return uint32(v), v, kind != architectures.Real && kind != architectures.Bound && kind != architectures.Text && kind != architectures.Flag && (v >= 0 || kind == architectures.Index && v == -1) && v <= math.MaxUint32
	case float64:
		return float32(v), 0, kind == architectures.Real && math.Abs(v) <= math.MaxFloat32 || kind == architectures.Bound && v <= math.MaxFloat32
	case string:
		return v, 0, kind == architectures.Text
	case bool:
		return v, 0, kind == architectures.Flag
	case []any:
		return fitLists(kind, v)
	}
	return nil, 0, false
}

// fitLists is fits for one value for each layer.
func fitLists(kind architectures.Kind, list []any) (written any, n int64, ok bool) {
	var integers []int32
	var reals []float32
	var flags []bool
	var texts []string
	for _, v := range list {
		one, size, ok := toKind(kind, v)
		if n = max(n, size); !ok {
			return nil, n, false
		}
		switch one := one.(type) {
		case uint32:
			integers = append(integers, int32(one))
			if size > math.MaxInt32 {
				return nil, n, false
			}
		case float32:
			reals = append(reals, one)
		case bool:
			flags = append(flags, one)
		case string:
			texts = append(texts, one)
		}
	}
	switch len(list) {
	case 0:
		return nil, 0, false
	case len(integers):
		return integers, n, true
	case len(reals):
		return reals, n, true
	case len(flags):
		return flags, n, true
	}
	return texts, n, len(texts) == len(list)
}

// checkKeys refuses what llama.cpp would, and what contradicts itself.
func (s *Model) checkKeys() {
	for _, need := range s.arch.Words("needs") {
		if !s.has(need) {
			s.lacks(need)
			return
		}
	}
	s.checkHeads()
	s.checkExperts()
	if rows := s.given.Rows; rows < 1 || rows > architectures.FactOf("dim").Most {
		s.refuse("the embedding has %d rows", rows)
	}
	s.checkRope()
	s.noteYarn()
	s.agree("check")
	s.checkUnknown()
	if s.failed == nil {
		s.checkShapes()
	}
}

// lacks is the error that a fact has no value.
func (s *Model) lacks(name string) {
	fact := architectures.FactOf(name)
	fields := slices.Clone(fact.Fields)
	for _, item := range s.arch.Keys {
		if item.Name == name && item.Field != "" {
			fields = []string{item.Field}
		}
	}
	for i, f := range fields {
		fields[i] = strings.TrimPrefix(f, "rope.")
	}
	switch len(fields) {
	case 0:
		s.refuse("it does not say what GGUF's key %s needs", s.fullKey(fact))
	case 1:
		s.refuse("it has no %s, which a GGUF file of %s needs", fields[0], s.arch.GGUF)
	default:
		s.refuse("it has none of %s, and a GGUF file of %s needs one", strings.Join(fields, ", "), s.arch.GGUF)
	}
}

// curves are the two forms of one activation, by the words of transformers.
var curves = [][]string{{"gelu", "gelu_python"}, {"gelu_new", "gelu_fast", "gelu_pytorch_tanh", "gelu_accurate"}}

// noteCurve notes a form of an activation that is not the one which hf/ of the GGUF file has.
func (s *Model) noteCurve(field string, v any) {
	formOf := func(v any) int {
		return slices.IndexFunc(curves, func(words []string) bool { w, _ := v.(string); return slices.Contains(words, w) })
	}
	of, _ := s.cfg.Value("model_type").(string)
	if s.class != nil && s.class.Own(of, field) == "" {
		return // the class has another field for it
	}
	if back := s.arch.Constant(field); back != nil && formOf(v) >= 0 && formOf(back) >= 0 && formOf(v) != formOf(back) {
		s.notes = append(s.notes, fmt.Sprintf("config.json: a GGUF file does not say that %s is %s: hf/ of the file has %s, and numbers differ by some 0.0005", field, Shown(v), Shown(back)))
	}
}

// only refuses a field of config.json that is not what it may be.
func (s *Model) only(o *architectures.Only) {
	cfg := s.cfg
	if len(o.Values) == 0 { // it has to be absent
		cfg.usual = nil
	}
	if isOfEach(o.Field) {
		list, _ := cfg.each(o.Field).([]any)
		for _, v := range list {
			s.onlyValue(o, v)
		}
		return
	}
	s.onlyValue(o, cfg.Value(o.Field))
}

// onlyValue refuses a value of such a field.
func (s *Model) onlyValue(o *architectures.Only, v any) {
	if n, ok := v.(int64); ok {
		v = float64(n)
	}
	if x, ok := finite(v); ok {
		v = x
	}
	switch v.(type) {
	case nil:
		if o.Said {
			s.refuse("%s is missing, and its default cannot be said in a GGUF file of %s", o.Field, s.arch.GGUF)
		}
		return
	case string, bool, float64: // a value that is not plain never matches, and cannot be compared
		if slices.Contains(o.Values, v) {
			s.noteCurve(o.Field, v)
			return
		}
	}
	why := "which cannot"
	if len(o.Values) > 0 {
		want := make([]string, len(o.Values))
		for i, w := range o.Values {
			want[i] = Shown(w)
		}
		why = "and only " + strings.Join(want, " or ") + " can"
	}
	s.refuse("%s is %s, %s be said in a GGUF file of %s", o.Field, Shown(v), why, s.arch.GGUF)
}
