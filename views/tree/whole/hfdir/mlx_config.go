package hfdir

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/architectures"
	"github.com/tensorfs/tensorfs/internal/jsonobj"
	"github.com/tensorfs/tensorfs/views/tree/whole"
	"github.com/tensorfs/tensorfs/views/tree/whole/internal/settings"
)

// forMLX returns config.json as mlx-lm reads it, and what a user should know of what
// mlx-lm makes of it. transformers 5 writes what it says about rotary embeddings, and
// more, under names that most classes of mlx-lm do not read: those then compute
// with their defaults, without a word. So all fields stay, and the older ones are
// added. A text to which nothing is added is returned as it is. released says that
// the tensors are those of a release, which mlx-lm changes when it loads them.
func forMLX(text []byte, released bool) ([]byte, []string, error) {
	o, x, y, err := configParts(text, released)
	if err != nil {
		return nil, nil, err
	}
	x.mend()
	y.mend()
	if q := o.Raw("quantization_config"); q.Kind() == '{' && q.Member("quant_method").Kind() == 0 && q.Member("bits").Kind() != 0 {
		x.put("quantization", q) // what mlx-lm reads; the other is for transformers
	}
	for _, part := range []string{whole.Vision, whole.Audio} {
		if o.Raw(part+"_config").Kind() == '{' {
			x.notes = append(x.notes, "mlx-lm loads the language model alone, without "+part)
		}
	}
	return mended(text, x, y), append(x.notes, y.notes...), nil
}

// configParts returns a config.json, and the part of it about the language model,
// which is empty where there is none.
func configParts(text []byte, released bool) (o jsonobj.Object, x, y *mlxConfig, err error) {
	if o, err = jsonobj.Parse(text); err != nil {
		return o, nil, nil, &tensorfs.FormatError{File: configName, Offset: -1, Problem: err.Error()}
	}
	x, y = newMLXConfig(o, released), &mlxConfig{}
	if inner := o.Object("text_config"); inner.Len() > jsonobj.MaxKeys {
		return o, nil, nil, &tensorfs.FormatError{File: configName, Offset: -1, Problem: fmt.Sprintf("text_config has %d members, and at most %d are read", inner.Len(), jsonobj.MaxKeys)}
	} else if inner.Len() > 0 {
		y = newMLXConfig(inner, released)
	}
	return o, x, y, nil
}

// mended returns the text of a config.json and its part after what was added to
// them: as it is if that is nothing.
func mended(text []byte, x, y *mlxConfig) []byte {
	if y.changed {
		x.set("text_config", y.list)
	}
	if x.changed {
		text = x.list.Lines(!json.Valid(text))
	}
	return text
}

// mlxConfig is a config.json, or the part of it about the language model, to which
// fields are added.
type mlxConfig struct {
	list     settings.Object
	class    *architectures.MLXClass // nil: not known
	released bool
	changed  bool
	notes    []string
}

func newMLXConfig(o jsonobj.Object, released bool) *mlxConfig {
	x := &mlxConfig{released: released}
	for name, raw := range o.All() {
		x.list = x.list.With(name, raw)
	}
	x.class = architectures.MLXClasses()[x.raw("model_type").Text()]
	return x
}

// mend adds what is missing, and notes what cannot be mended.
func (x *mlxConfig) mend() {
	x.add(olderFields)
	if x.class == nil {
		return
	}
	x.add(fieldsOf(x.class))
	notes := slices.Clone(anyNotes)
	for _, name := range x.class.Names("notes") {
		notes = append(notes, mlxNotes[name])
	}
	for _, note := range notes {
		if text := note(x); text != "" {
			x.notes = append(x.notes, "mlx-lm's "+x.raw("model_type").Text()+" "+text)
		}
	}
}

// add adds fields in their order: some are copies of those before them.
func (x *mlxConfig) add(fields []mlxField) {
	for _, f := range fields {
		switch v := f.value(x).(type) {
		case nil:
		case instead:
			x.set(f.name, v.value)
		default:
			x.put(f.name, v)
		}
	}
}

// at returns where a field is, -1 without it.
func (x *mlxConfig) at(name string) int {
	return slices.IndexFunc(x.list, func(m settings.Member) bool { return m.Name == name })
}

// raw returns the value of a field; its kind is 0 where there is none.
func (x *mlxConfig) raw(name string) jsonobj.Raw {
	if i := x.at(name); i >= 0 {
		r, _ := x.list[i].Value.(jsonobj.Raw)
		return r
	}
	return jsonobj.Raw{}
}

// put adds a field, if there is none of the name or it is null.
func (x *mlxConfig) put(name string, value any) {
	i := x.at(name)
	_, null := value.(architectures.Null)
	if i < 0 || x.raw(name).Kind() == 'n' && !null {
		x.set(name, value)
	}
}

// set writes a field, in the place of the one of that name.
func (x *mlxConfig) set(name string, value any) {
	x.changed = true
	if i := x.at(name); i >= 0 {
		x.list[i].Value = value
		return
	}
	x.list = x.list.With(name, value)
}

// number returns a number of config.json, also one that was added.
func (x *mlxConfig) number(name string) (float64, bool) {
	i := x.at(name)
	if i < 0 {
		return 0, false
	}
	switch v := x.list[i].Value.(type) {
	case jsonobj.Raw:
		if v.Kind() != '0' {
			return 0, false
		}
		f, err := strconv.ParseFloat(v.String(), 64)
		return f, err == nil
	case int64:
		return float64(v), true
	}
	return 0, false
}

// rope returns what transformers 5 says about the rotary embeddings of layers that
// see everything; its kind is 0 where nothing is said.
func (x *mlxConfig) rope() jsonobj.Raw {
	r := x.raw("rope_parameters")
	if r.Kind() != '{' {
		return jsonobj.Raw{}
	}
	if full := r.Member("full_attention"); full.Kind() == '{' {
		return full
	}
	return r
}

// ropeKind returns how rotary embeddings are scaled, by either name that an object
// about them has it under.
func ropeKind(r jsonobj.Raw) string {
	for _, name := range []string{"rope_type", "type"} {
		if t := r.Member(name); t.Kind() == '"' {
			return t.Text()
		}
	}
	return "default"
}

// scaling returns the object that mlx-lm reads about scaled rotary embeddings.
func (x *mlxConfig) scaling() jsonobj.Raw {
	if r := x.raw("rope_scaling"); r.Kind() == '{' {
		return r
	}
	return x.rope()
}

// olderFields are what every class gets.
var olderFields = []mlxField{
	{"rope_theta", member("rope_theta")},
	{"rope_scaling", func(x *mlxConfig) any {
		r := x.rope()
		switch kind := ropeKind(r); {
		case r.Kind() == 0:
			return nil
		case kind == "default" || r.Object().Len() > jsonobj.MaxKeys:
			return architectures.Null{}
		default:
			var o settings.Object
			for name, raw := range r.Object().All() {
				if name != "type" {
					o = o.With(name, raw)
				}
			}
			return o.With("type", kind)
		}
	}},
	{"partial_rotary_factor", member("partial_rotary_factor")},
	{"rope_local_base_freq", func(x *mlxConfig) any {
		if r := x.raw("rope_parameters").Member("sliding_attention").Member("rope_theta"); r.Kind() == '0' {
			return r
		}
		return nil
	}},
	{"torch_dtype", copied("dtype")},
}

// member is a number that is said about rotary embeddings.
func member(name string) mlxValue {
	return func(x *mlxConfig) any {
		if r := x.rope().Member(name); r.Kind() == '0' {
			return r
		}
		return nil
	}
}

// copied is a field that has another name.
func copied(name string) mlxValue {
	return func(x *mlxConfig) any {
		if r := x.raw(name); r.Kind() != 0 && r.Kind() != 'n' {
			return r
		}
		return nil
	}
}

// anyNotes are what may be wrong with any class.
var anyNotes = []func(x *mlxConfig) string{
	func(x *mlxConfig) string { // scaled in a way that the class does not know
		kind := ropeKind(x.scaling())
		if kind == "default" || !x.class.Has("rope") || x.class.Says("rope", kind) {
			return ""
		}
		return fmt.Sprintf("does not scale rotary embeddings by %s, as the model does: it refuses the model, or gives other numbers", tensorfs.Quote(kind))
	},
	func(x *mlxConfig) string {
		r := x.scaling()
		switch ropeKind(r) {
		case "yarn":
			for _, name := range []string{"truncate", "attention_factor"} {
				if k := r.Member(name).Kind(); k == 'f' || k == '0' {
					return "ignores " + name + " of rope_scaling, which the model has: it gives slightly other numbers"
				}
			}
		case "longrope", "su":
			if short, long := r.Member("short_factor"), r.Member("long_factor"); compact(short) != compact(long) {
				return "takes the factors of rotary embeddings that are for long texts for short ones too: those are computed in another way than the model's"
			}
		}
		return ""
	},
	func(x *mlxConfig) string { // a window that the class does not have
		window, ok := x.number("sliding_window")
		if context, said := x.number("max_position_embeddings"); !ok || window < 1 || x.class.Has("windows") || said && window >= context {
			return ""
		}
		if types := x.raw("layer_types"); x.raw("use_sliding_window").Kind() == 'f' || types.Kind() == '[' && !bytes.Contains([]byte(types.String()), []byte(`"sliding_attention"`)) {
			return ""
		}
		return fmt.Sprintf("has no sliding window: texts of more than %.0f tokens are computed in another way than the model's", window)
	},
}

// compact is the text of a value without white space.
func compact(r jsonobj.Raw) string {
	return string(bytes.Join(bytes.Fields([]byte(r.String())), nil))
}
