package whole

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/architectures"
)

// facts are what only the tensors and the tokenizer know.
type facts struct {
	rows      int64                          // of the embedding
	tokenizer bool                           // false: tokenizer.ggml.model is "none"
	fileType  uint32                         // general.file_type
	tensor    func(canonical string) []int64 // shape of a tensor of the model by its canonical name, nil where there is none
}

// keyMaker makes the keys of one file from a config.json.
type keyMaker struct {
	m      *tensorfs.Model
	cfg    settings
	rope   settings // rotary embeddings
	facts  facts
	arch   *architectures.Settings
	made   map[string]any // by fact: int64, float64, string or bool
	failed error          // the first
}

// keys returns the metadata of the GGUF file without the tokenizer's,
// general.architecture first, or the reason why there is none.
func keys(m *tensorfs.Model, cfg settings, f facts) ([]tensorfs.Meta, error) {
	if cfg.problem == nil {
		cfg.problem = new(error)
	}
	arch, err := settingsOf(cfg)
	if err != nil {
		return nil, err
	}
	d := &keyMaker{m: m, cfg: cfg, rope: ropeSettings(cfg), facts: f, arch: arch, made: map[string]any{}}
	own := make([]tensorfs.Meta, 0, 64)
	for i := range arch.Keys {
		item := &arch.Keys[i]
		v := d.make(item)
		if err := d.err(); err != nil {
			return nil, err
		}
		if v != nil {
			own = append(own, tensorfs.Meta{Key: d.full(item.Fact), Value: v})
		}
	}
	d.check()
	if err := d.err(); err != nil {
		return nil, err
	}
	return slices.Concat(general(m, cfg, arch.GGUF, f), own), nil
}

// full returns the key of a fact as a file has it.
func (d *keyMaker) full(f *architectures.Fact) string {
	if strings.HasPrefix(f.Keys[0], "tokenizer.") {
		return f.Keys[0]
	}
	return d.arch.GGUF + "." + f.Keys[0]
}

// make returns the value of an item as the file has it; nil where it is not written.
func (d *keyMaker) make(item *architectures.Setting) any {
	if !item.When.Holds(d.fact) {
		return nil
	}
	fact, from := item.Fact, item.Fact.Keys[0]
	var v any
	if !item.Always {
		v, from = d.cfg.fact(fact, item.Field)
	}
	if v == nil && item.Value != nil {
		for _, f := range fact.Fields {
			if item.Said && d.cfg.null(f) {
				d.refuse("%s is null, which a GGUF file of %s cannot say", f, d.arch.GGUF)
			}
		}
		v = d.value(item.Value)
	}
	if v == nil {
		return nil
	}
	written, n, ok := fits(fact.Kind, v)
	switch {
	case !ok:
		d.refuse("%s would be %v, which does not fit GGUF's key %s", from, v, d.full(fact))
	case fact.Most > 0 && (n < 1 || n > fact.Most):
		d.refuse("%s would be %v, and files of %s may have 1 to %d", from, v, d.arch.GGUF, fact.Most)
	}
	d.made[fact.Name] = v
	return written
}

// fits returns a value as a file has it, and what a whole number it is; false
// where the file cannot have it.
func fits(kind architectures.Kind, v any) (written any, n int64, ok bool) {
	switch v := v.(type) {
	case int64:
		return uint32(v), v, kind != architectures.Real && v >= 0 && v <= math.MaxUint32
	case float64:
		return float32(v), 0, kind == architectures.Real && math.Abs(v) <= math.MaxFloat32
	}
	return v, 0, true // the reader has seen to it that it is a text or a bool
}

// fact returns the first field of config.json that a fact has, or one that is named,
// and its name. Without one the value is nil, and the name the first.
func (s settings) fact(f *architectures.Fact, field string) (any, string) {
	fields := f.Fields
	if field != "" {
		fields = []string{field}
	}
	for _, field := range fields {
		from := s
		if rest, ok := strings.CutPrefix(field, "rope."); ok {
			from, field = ropeSettings(s), rest
		}
		if v := from.of(f.Kind, field); v != nil {
			return v, field
		}
	}
	return nil, strings.TrimPrefix(slices.Concat(fields, f.Keys[:1])[0], "rope.")
}

// of returns a field of a kind, nil without it.
func (s settings) of(kind architectures.Kind, field string) any {
	var v any
	ok := false
	switch kind {
	case architectures.Real:
		v, ok = either(s.number(field))
	case architectures.Flag:
		v, ok = either(s.flag(field))
	case architectures.Text:
		w := s.word(field)
		v, ok = w, w != ""
	default:
		v, ok = either(s.integer(field))
	}
	if !ok {
		return nil
	}
	return v
}

// either makes a value of any type of one that has a type.
func either[T any](v T, ok bool) (any, bool) { return v, ok }

// fact is what conditions of settings ask for.
func (d *keyMaker) fact(name string) any {
	switch name {
	case "rope":
		return d.ropeType()
	case "tokenizer":
		return d.facts.tokenizer
	case "experts": // dense models may say that they have none
		n, _ := d.cfg.integer(architectures.FactOf("n_experts").Fields...)
		return n
	case "slides": // some layers of a gemma3 see a window only
		return d.period(gemmaUsual) != 1
	}
	return d.made[name]
}

// call is the call of a derivation.
type call struct {
	*keyMaker
	args  []*architectures.Value
	value func(i int) any // of an argument
}

// value returns what a description means by a value, nil for nothing.
func (d *keyMaker) value(v *architectures.Value) any {
	if v.Literal != nil {
		return v.Literal
	}
	if f, ok := derivations[v.Name]; ok {
		return f(call{d, v.Args, func(i int) any { return d.value(v.Args[i]) }})
	}
	return d.made[v.Name]
}

// refuse notes why there is no file, of which the first reason counts.
func (d *keyMaker) refuse(format string, args ...any) { d.fail(refusal(format, args...)) }

// fail notes an error as the reason why there is no file.
func (d *keyMaker) fail(err error) {
	if d.failed == nil {
		d.failed = err
	}
}

// refusal is a reason that lies in config.json.
func refusal(format string, args ...any) error {
	return fmt.Errorf("config.json: "+format, args...)
}

// err returns why there is no file.
func (d *keyMaker) err() error {
	if err := d.cfg.err(); err != nil {
		return err
	}
	return d.failed
}

// count returns a fact that was made, 0 without it.
func (d *keyMaker) count(name string) int64 {
	n, _ := d.made[name].(int64)
	return n
}

// has reports whether a fact was made.
func (d *keyMaker) has(name string) bool { return d.made[name] != nil }

// shape returns the shape of a tensor of the first layer, or of one of no layer.
func (d *keyMaker) shape(canonical string) []int64 {
	if d.facts.tensor == nil {
		return nil
	}
	return d.facts.tensor(canonical)
}

// settingsOf returns the description of the architecture that a config.json names.
func settingsOf(cfg settings) (*architectures.Settings, error) {
	top := settings{top: cfg.top, problem: cfg.problem, file: cfg.file}
	classes := top.words("architectures")
	if classes == nil {
		classes = cfg.words("architectures")
	}
	name := top.word("model_type")
	if name == "" {
		name = cfg.word("model_type")
	}
	named := func(c architectures.Class) bool { return c.ModelType == name }
	if len(classes) > 0 {
		name = classes[0]
		named = func(c architectures.Class) bool { return c.Name == name }
	}
	if err := cfg.err(); err != nil {
		return nil, err
	}
	if name == "" {
		return nil, refusal("nothing names the model's architecture, neither architectures nor model_type")
	}
	all := architectures.OfClass(named)
	i := slices.IndexFunc(all, func(a *architectures.Settings) bool { return a.Makes("gguf") })
	if i < 0 {
		return nil, refusal("no GGUF file is made of the architecture %s", Shown(name))
	}
	return all[i], nil
}

// architecture returns GGUF's name of the model's architecture, or the reason why
// there is no file of it.
func architecture(m *tensorfs.Model, cfg settings) (string, error) {
	if cfg.problem == nil {
		cfg.problem = new(error)
	}
	a, err := settingsOf(cfg)
	if err != nil {
		return "", err
	}
	for i := range a.Only {
		if why := unsayable(&a.Only[i], cfg); why != "" {
			return "", refusal("%s of %s", why, a.GGUF)
		}
	}
	if why, ok := refusals[a.Word("refuse")]; ok && why(m, cfg) != "" {
		return "", refusal("%s", why(m, cfg))
	}
	return a.GGUF, cfg.err()
}

// unsayable says why a field of config.json is not what it may be, "" where it is.
func unsayable(o *architectures.Only, cfg settings) string {
	v := cfg.value(o.Field)
	if v == nil && o.Said {
		return fmt.Sprintf("%s is missing, and its default cannot be said in a GGUF file", o.Field)
	}
	if v == nil {
		return ""
	}
	if x, ok := finite(v); ok {
		v = x
	}
	// What is not a plain value is never one of those wanted, and cannot be compared.
	switch v.(type) {
	case string, bool, float64:
		if slices.Contains(o.Values, v) {
			return ""
		}
	}
	if len(o.Values) == 0 {
		return fmt.Sprintf("%s is %s, which cannot be said in a GGUF file", o.Field, Shown(v))
	}
	want := make([]string, len(o.Values))
	for i, w := range o.Values {
		want[i] = Shown(w)
	}
	return fmt.Sprintf("%s is %s, and only %s can be said in a GGUF file", o.Field, Shown(v), strings.Join(want, " or "))
}
