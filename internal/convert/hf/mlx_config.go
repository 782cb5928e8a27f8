package hf

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/architectures"
	"github.com/tensorfs/tensorfs/internal/convert/internal/settings"
	"github.com/tensorfs/tensorfs/internal/jsonobj"
)

// mlxText is a config.json as mlx-lm reads it.
type mlxText struct {
	x, y  *mlxConfig // the whole config, and its part about the language model
	part  *mlxConfig // the one of these that is about the language model
	text  []byte
	notes []string // notes for the user about how mlx-lm reads it
	lacks string   // why mlx-lm refuses it, "" if it does not
}

// forMLX returns a config.json in the form that mlx-lm reads. transformers 5 writes fields
// about rotary embeddings, and others, under names that most classes of mlx-lm do not read:
// those classes then silently compute with their defaults. So all fields stay, and the
// older ones are added. A text that lacks nothing is returned unchanged. released means
// that the tensors are a release's, which mlx-lm converts when it loads them; names are
// their names.
func forMLX(text []byte, released bool, names []string) (mlxText, error) {
	x, y, err := configParts(text)
	if err != nil {
		return mlxText{}, err
	}
	for _, part := range []*mlxConfig{x, y} {
		part.released, part.names = released, names
		part.add(newerFields)
		part.add(olderFields)
		for _, class := range part.classes {
			part.add(fieldsOf(class, ""))
		}
	}
	for _, class := range x.classes {
		y.add(fieldsOf(class, "text_config."))
	}
	if q := x.raw("quantization_config"); q.Member("bits").Kind() != 0 && (q.Member("quant_method").Kind() == 0 || strings.EqualFold(q.Member("quant_method").Text(), "mlx")) {
		x.put("quantization", q) // what mlx-lm reads; the other is for transformers
	}
	part := x
	if len(y.list) > 0 {
		part = y
	}
	if len(x.classes) > 0 && hasBareNames(names) && !x.stored("lm_head.weight") {
		part.set("tie_word_embeddings", true) // there is no other output layer
	}
	m := mlxText{x: x, y: y, part: part, notes: slices.Concat(x.notes(), x.towers(), y.notes()), lacks: x.lacks("")}
	if m.lacks == "" {
		m.lacks = y.lacks(" in its text_config")
	}
	m.text = mended(text, x, y)
	return m, nil
}

// configParts returns a config.json, and its part about the language model, which is empty
// if missing.
func configParts(text []byte) (x, y *mlxConfig, err error) {
	o, err := jsonobj.ParseFile(configName, text)
	if err != nil {
		return nil, nil, err
	}
	inner := o.Object("text_config")
	if inner.Len() > jsonobj.MaxKeys {
		return nil, nil, &tensorfs.FormatError{File: configName, Offset: -1, Problem: fmt.Sprintf("text_config has %d members, and at most %d are read", inner.Len(), jsonobj.MaxKeys)}
	}
	x, y = newMLXConfig(o), newMLXConfig(inner)
	var of []string
	for class := range x.raw("architectures").Elements() {
		of = append(of, class.Text())
	}
	class := architectures.MLXClassOf(x.kind, of...)
	if class != nil {
		x.classes = append(x.classes, class)
	}
	if class != nil && class.Has("as") {
		x.set("model_type", class.Names("as")[0])
	}
	textClass := architectures.MLXClassOf(y.kind)
	if class != nil && class.Has("text") {
		names := class.Names("text")
		if !slices.Contains(names, y.kind) {
			textClass = architectures.MLXClasses()[names[len(names)-1]]
		}
	}
	switch {
	case textClass == nil:
	case len(y.list) > 0:
		y.classes = append(y.classes, textClass)
	case class != nil && !slices.Contains(class.Needs, "text_config"): // the whole is about the language model
		x.classes = append(x.classes, textClass)
	}
	return x, y, nil
}

// mended returns the text of a config.json and its part after what was added to
// them: as it is if that is nothing.
func mended(text []byte, x, y *mlxConfig) []byte {
	if y.changed {
		x.list.Set("text_config", y.list)
		x.changed = true
	}
	if x.changed {
		text = x.list.Lines(!json.Valid(text))
	}
	return text
}

// mlxConfig is a config.json, or the part of it about the language model, to which
// fields are added.
type mlxConfig struct {
	list     settings.Object // each value is a jsonobj.Raw
	kind     string          // model_type
	classes  []*architectures.MLXClass
	released bool
	names    []string // of tensors
	changed  bool
}

func newMLXConfig(o jsonobj.Object) *mlxConfig {
	x := &mlxConfig{list: settings.Members(o)}
	x.kind = x.raw("model_type").Text()
	return x
}

// mlxField is a field of config.json that libraries read.
type mlxField struct {
	name  string
	value mlxValue
	// instead marks that the value replaces another: of a field that two libraries use for
	// different things, or that is wrong for the tensors.
	instead bool
}

// mlxValue computes a value in the form of settings.Object, nil if unknown.
type mlxValue func(x *mlxConfig) any

// add adds fields in their order: some are copies of those before them.
func (x *mlxConfig) add(fields []mlxField) {
	for _, f := range fields {
		switch value := f.value(x); {
		case value == nil:
		case f.instead:
			x.set(f.name, value)
		default:
			x.put(f.name, value)
		}
	}
}

// raw returns the value of a field; its kind is 0 if the field is missing.
func (x *mlxConfig) raw(name string) jsonobj.Raw { return x.list.Raw(name) }

// put adds a field, if the name is missing or null.
func (x *mlxConfig) put(name string, value any) {
	if old := x.raw(name).Kind(); old == 0 || old == 'n' {
		x.set(name, value)
	}
}

// set writes a field, replacing one of the same name.
func (x *mlxConfig) set(name string, value any) {
	raw, ok := value.(jsonobj.Raw)
	if !ok {
		raw = rawOf(value)
	}
	if x.raw(name) != raw {
		x.list.Set(name, raw)
		x.changed = true
	}
}

// stored reports whether a tensor has a name that ends so.
func (x *mlxConfig) stored(end string) bool {
	return slices.ContainsFunc(x.names, func(name string) bool { return strings.HasSuffix(name, end) })
}

// number returns a number of config.json, also one that was added.
func (x *mlxConfig) number(name string) (float64, bool) {
	r := x.raw(name)
	if r.Kind() != '0' {
		return 0, false
	}
	f, err := strconv.ParseFloat(r.String(), 64)
	return f, err == nil
}

// words returns a list of strings, nil if the field is not one.
func (x *mlxConfig) words(name string) (list []string) {
	for e := range x.raw(name).Elements() {
		if e.Kind() != '"' {
			return nil
		}
		list = append(list, e.Text())
	}
	return list
}

// lacks returns which fields mlx-lm's class misses, "" for none.
func (x *mlxConfig) lacks(where string) string {
	for _, class := range x.classes {
		missing := slices.DeleteFunc(slices.Clone(class.Needs), func(name string) bool { return x.list.Index(name) >= 0 })
		if len(x.list) > 0 && len(missing) > 0 {
			return fmt.Sprintf("mlx-lm's %s wants fields of config.json that the model does not have%s: %s", tensorfs.Printable(x.kind), where, strings.Join(missing, ", "))
		}
	}
	return ""
}

// at returns the value of a path with dots; its kind is 0 if it is missing.
func (x *mlxConfig) at(path string) jsonobj.Raw {
	name, rest, _ := strings.Cut(path, ".")
	r := x.raw(name)
	for rest != "" {
		name, rest, _ = strings.Cut(rest, ".")
		r = r.Member(name)
	}
	return r
}

// ropePaths returns the paths of the objects about rotary embeddings that count.
func (x *mlxConfig) ropePaths() []string {
	return architectures.RopePaths(func(path string) bool {
		r := x.at(path)
		return r.Kind() != 0 && r.Kind() != 'n' && (r.Kind() != '{' || r.Object().Len() > 0)
	}, "")
}

// rope returns the object about the rotary embeddings of layers with full attention; its
// kind is 0 if it is missing.
func (x *mlxConfig) rope() jsonobj.Raw {
	paths := x.ropePaths()
	if len(paths) == 0 || x.at(paths[0]).Kind() != '{' {
		return jsonobj.Raw{}
	}
	first := x.at(paths[0])
	if len(paths) == 1 || first.Object().Len() > jsonobj.MaxKeys || x.at(paths[1]).Object().Len() > jsonobj.MaxKeys {
		return first
	}
	both := settings.Members(x.at(paths[1]).Object())
	for _, m := range settings.Members(first.Object()) {
		both.Set(m.Name, m.Value)
	}
	return rawOf(both)
}

// rawOf returns a value as a text that was read.
func rawOf(value any) jsonobj.Raw {
	o, err := jsonobj.Parse(settings.Object{}.With("value", value).Lines(false))
	if err != nil {
		panic(err) // it was made here, or was parsed before
	}
	return o.Raw("value")
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

// olderFields are what every class gets: what counts, under the names that also other
// programs read.
var olderFields = []mlxField{
	{name: "rope_theta", value: member("rope_theta"), instead: true},
	{name: "partial_rotary_factor", value: member("partial_rotary_factor"), instead: true},
	{name: "rope_scaling", instead: true, value: func(x *mlxConfig) any {
		r := x.rope()
		switch kind := ropeKind(r); {
		case r.Kind() == 0, slices.Equal(x.ropePaths(), []string{"rope_scaling"}):
			return nil
		case kind == "default" || r.Object().Len() > jsonobj.MaxKeys:
			return architectures.Null{}
		default:
			o := slices.DeleteFunc(settings.Members(r.Object()), func(m settings.Member) bool { return m.Name == "type" })
			return o.With("type", kind)
		}
	}},
	{name: "rope_local_base_freq", instead: true, value: func(x *mlxConfig) any {
		return numberIn(x.at("rope_parameters.sliding_attention"), "rope_theta")
	}},
	{name: "torch_dtype", instead: true, value: func(x *mlxConfig) any { return x.field(architectures.FloatTypes[0]) }},
}

// newerFields are for classes of mlx-lm that read only rope_parameters: what counts, if that
// is in rope_scaling.
var newerFields = []mlxField{{name: "rope_parameters", instead: true, value: func(x *mlxConfig) any {
	old, r, paths := x.raw("rope_parameters"), x.rope(), x.ropePaths()
	if old.Kind() != '{' || old.Object().Len() == 0 || old.Object().Len() > jsonobj.MaxKeys || r.Object().Len() > jsonobj.MaxKeys || !strings.HasPrefix(paths[0], "rope_scaling") {
		return nil
	}
	o := settings.Members(r.Object())
	now := old
	if len(paths) == 2 {
		now = old.Member("full_attention")
	}
	if sameRope(r, now) || r.Member("factor").String() == "1.0" && ropeKind(now) == "default" { // the second is plainYarn's
		return nil
	}
	for _, name := range architectures.RopeMembers {
		if o.Index(name) < 0 {
			o = o.With(name, x.field(name))
		}
	}
	if o.Index("rope_type") < 0 {
		o = o.With("rope_type", ropeKind(r))
	}
	if len(paths) == 2 {
		all := settings.Members(old.Object())
		all.Set("full_attention", o)
		o = all
	}
	return rawOf(o)
}}}

// sameRope reports whether two objects about rotary embeddings have the same members, but
// for the two names of the kind.
func sameRope(a, b jsonobj.Raw) bool {
	rest := func(r jsonobj.Raw) string {
		return compact(rawOf(slices.DeleteFunc(settings.Members(r.Object()), func(m settings.Member) bool { return m.Name == "type" || m.Name == "rope_type" })))
	}
	return ropeKind(a) == ropeKind(b) && rest(a) == rest(b)
}

// member is a number that is said about rotary embeddings.
func member(name string) mlxValue {
	return func(x *mlxConfig) any { return numberIn(x.rope(), name) }
}

// numberIn returns a number of an object as it is written, nil without it.
func numberIn(object jsonobj.Raw, name string) any {
	if r := object.Member(name); r.Kind() == '0' {
		return r
	}
	return nil
}

// field returns a field by its path as it is written, nil without it.
func (x *mlxConfig) field(path string) any {
	if r := x.at(path); r.Kind() != 0 && r.Kind() != 'n' {
		return r
	}
	return nil
}
