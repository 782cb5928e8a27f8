package whole

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/tensorfs/tensorfs"
)

// facts are what only the tensors and the tokenizer know.
type facts struct {
	rows      int64                          // of the embedding
	tokenizer bool                           // false: tokenizer.ggml.model is "none"
	fileType  uint32                         // general.file_type
	tensor    func(canonical string) []int64 // shape of a tensor of the model by its canonical name, nil where there is none
}

// key is a row: a key of GGUF and where its value comes from.
type key struct {
	name string // after the architecture's
	kind *kind
	// fields of config.json, separated by spaces, of which the first that is present
	// is the value. Those that begin with "rope." are of the object about rotary
	// embeddings.
	fields string
	other  value                   // where no field is present; nil: the key is not written
	when   func(d *describer) bool // the key is written; nil: always
	bare   bool                    // the name is the whole key
}

// value computes a value: an int64, float64, string or bool as the key's kind
// wants it; nil where the key is not written.
type value func(d *describer) any

// kind is a type of value.
type kind struct {
	read  func(s settings, field string) (any, bool)
	write func(v any) (any, bool) // as the file has it; false where the file cannot
}

// The kinds.
var (
	u32 = &kind{
		func(s settings, field string) (any, bool) { return either(s.integer(field)) },
		func(v any) (any, bool) {
			n, ok := v.(int64)
			return uint32(n), ok && n >= 0 && n <= math.MaxUint32
		},
	}
	f32 = &kind{
		func(s settings, field string) (any, bool) { return either(s.number(field)) },
		func(v any) (any, bool) {
			x, ok := v.(float64)
			return float32(x), ok && math.Abs(x) <= math.MaxFloat32
		},
	}
	text = &kind{
		func(s settings, field string) (any, bool) { w := s.word(field); return w, w != "" },
		func(v any) (any, bool) { w, ok := v.(string); return w, ok },
	}
	boolean = &kind{
		func(s settings, field string) (any, bool) { return either(s.flag(field)) },
		func(v any) (any, bool) { b, ok := v.(bool); return b, ok },
	}
)

// either makes a value of any type of one that has a type.
func either[T any](v T, ok bool) (any, bool) { return v, ok }

// describer makes the keys of one file.
type describer struct {
	m      *tensorfs.Model
	cfg    settings
	rope   settings // rotary embeddings
	facts  facts
	arch   *arch
	made   map[string]any // by name: int64, float64, string or bool
	failed error          // the first
}

// keys returns the metadata of the GGUF file without the tokenizer's,
// general.architecture first, or the reason why there is none.
func keys(m *tensorfs.Model, cfg settings, name string, f facts) ([]tensorfs.Meta, error) {
	i := slices.IndexFunc(architectures, func(a arch) bool { return a.name == name })
	if i < 0 {
		return nil, fmt.Errorf("no GGUF file is made of the architecture %s", tensorfs.Quote(name))
	}
	if cfg.problem == nil {
		cfg.problem = new(error)
	}
	d := &describer{m: m, cfg: cfg, rope: ropeSettings(cfg), facts: f, arch: &architectures[i], made: map[string]any{}}
	own := make([]tensorfs.Meta, 0, 64)
	for _, k := range d.arch.table() {
		v, ok := d.make(k)
		if err := d.err(); err != nil {
			return nil, err
		}
		if ok {
			own = append(own, tensorfs.Meta{Key: k.full(name), Value: v})
		}
	}
	d.check()
	if err := d.err(); err != nil {
		return nil, err
	}
	return slices.Concat(general(m, cfg, name, f), own), nil
}

// full returns the key as a file of an architecture has it.
func (k key) full(arch string) string {
	if k.bare {
		return k.name
	}
	return arch + "." + k.name
}

// make returns the value of a key; false where it is not written.
func (d *describer) make(k key) (any, bool) {
	if k.when != nil && !k.when(d) {
		return nil, false
	}
	v := d.field(k)
	if v == nil && k.other != nil {
		v = k.other(d)
	}
	if v == nil {
		return nil, false
	}
	written, ok := k.kind.write(v)
	if !ok {
		d.refuse("%s would be %v, which does not fit GGUF's key %s", k.origin(), v, k.full(d.arch.name))
		return nil, false
	}
	if most, ok := limits[k.name]; ok && (v.(int64) < 1 || v.(int64) > most) {
		d.refuse("%s would be %v, and files of %s may have 1 to %d", k.origin(), v, d.arch.name, most)
		return nil, false
	}
	d.made[k.name] = v
	return written, true
}

// field returns the first field of config.json that is present, nil without one.
func (d *describer) field(k key) any {
	for f := range strings.FieldsSeq(k.fields) {
		s := d.cfg
		if rest, ok := strings.CutPrefix(f, "rope."); ok {
			s, f = d.rope, rest
		}
		if v, ok := k.kind.read(s, f); ok {
			return v
		}
	}
	return nil
}

// origin names in a message where a value comes from.
func (k key) origin() string {
	if first, _, _ := strings.Cut(k.fields, " "); first != "" {
		return first
	}
	return k.name
}

// refuse notes why there is no file, of which the first reason counts.
func (d *describer) refuse(format string, args ...any) {
	if d.failed == nil {
		d.failed = refusal(format, args...)
	}
}

// refusal is a reason that lies in config.json.
func refusal(format string, args ...any) error {
	return fmt.Errorf("config.json: "+format, args...)
}

// err returns why there is no file.
func (d *describer) err() error {
	if err := d.cfg.err(); err != nil {
		return err
	}
	return d.failed
}

// count returns a key that was made, 0 without it.
func (d *describer) count(name string) int64 {
	n, _ := d.made[name].(int64)
	return n
}

// has reports whether a key was made.
func (d *describer) has(name string) bool { return d.made[name] != nil }

// shape returns the shape of a tensor of the first layer, or of one of no layer.
func (d *describer) shape(canonical string) []int64 {
	if d.facts.tensor == nil {
		return nil
	}
	return d.facts.tensor(canonical)
}
