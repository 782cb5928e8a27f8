package config

import (
	"slices"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/architectures"
)

// Lookup returns a value of a model's metadata: in GGUF by the full key
// ("llama.block_count"), in a config.json by the path with dots
// ("rope_scaling.factor"). Values are bool, string, integers and floats of any
// width, json.Number, and lists of these as a slice or as [tensorfs.Array].
type Lookup func(key string) (value any, ok bool)

// Shapes returns the row-major shape of a tensor by its canonical name: for
// quantised ones the shape of the numbers, not of the packed codes.
type Shapes func(canonical string) (shape []int64, ok bool)

// perLayer is the suffix of a field that has a value for each layer.
const perLayer = "_per_layer"

// MaxArchitecture bounds the name of an architecture. A longer one is not a name:
// it would only fill the lines that show it.
const MaxArchitecture = 100

// model is the input to the schema.
type model struct {
	get     Lookup
	arch    string
	scopes  []string // prefixes of config.json paths; nil in a GGUF file
	shapes  Shapes
	layers  int
	fields  []tensorfs.Field
	block   *architectures.Settings // of the architecture; nil if it has no description
	env     architectures.Env       // of the description's expressions
	unknown bool                    // an expression asked for something else
	within  []string                // facts that are computed
	void    []string                // fields of config.json that the description takes for missing
	lists   map[string]any          // of a config.json that were looked up: reading one costs its length
	rope    []string                // paths of the objects about rotary embeddings that count; nil in a GGUF file
}

// FromGGUF returns the fields that a GGUF file's metadata gives. shapes may be
// nil; layers is 1 + the highest layer number among the canonical names.
func FromGGUF(get Lookup, shapes Shapes, layers int) []tensorfs.Field {
	m := &model{get: get, shapes: shapes, layers: layers, arch: "unknown"}
	if arch, ok := get("general.architecture"); ok {
		if s, ok := arch.(string); ok && s != "" && len(s) <= MaxArchitecture {
			m.arch = s
		}
	}
	m.prepare()
	m.block = architectures.FittingGGUF(m.arch, "", &m.env)
	return m.evaluate(false)
}

// prepare makes a model ready for expressions.
func (m *model) prepare() {
	m.env = architectures.Env{Facts: m.fact, Source: m, Call: m.call}
}

// FromHF returns the fields that a config.json gives. get may be nil, for tensors
// without a config.json: then only what the tensors say is known.
func FromHF(get Lookup, shapes Shapes, layers int) []tensorfs.Field {
	bare := get == nil
	if bare {
		get = func(string) (any, bool) { return nil, false }
	}
	m := &model{get: get, shapes: shapes, layers: layers, scopes: scopes(get), lists: map[string]any{}}
	m.rope = architectures.RopePaths(m.isSet, m.scopes...)
	id := identity(get, m.scopes)
	m.arch = id.architecture()
	m.prepare()
	if m.block = id.block(m.arch); m.block != nil {
		for _, o := range m.block.Only {
			if n, ok := onlyValue(o.Values).(float64); ok && n <= 0 {
				m.void = append(m.void, o.Field)
			}
		}
	}
	return m.evaluate(bare)
}

// FromJSON returns the fields of a config.json in this schema, which get looks up.
// Values that are not of the schema's types are left out.
func FromJSON(get Lookup) []tensorfs.Field {
	m := &model{get: get, scopes: []string{""}}
	for _, row := range schema() {
		f := field{name: row.name, kind: row.kind, hf: []string{row.name}}
		if _, ok := get(f.name + perLayer); ok {
			f.hf[0] += perLayer // one number determines the other
		}
		m.read(&f)
		if n, ok := get(row.name); ok && f.kind == pattern && len(m.fields) > 0 {
			// Which layer of a period is the first, the list does not say.
			p, _, _, _ := toPattern(n, m.fullFirst())
			for i := range m.fields {
				if m.fields[i].Name == row.name && p != nil {
					m.fields[i].Value = p
				}
			}
		}
	}
	return m.fields
}

// evaluate walks the schema. bare leaves out mere defaults.
func (m *model) evaluate(bare bool) []tensorfs.Field {
	for i := range schema() {
		f := &schema()[i]
		if f.only != nil && !f.only(m) || bare && !f.tensors {
			continue
		}
		if f.first != nil {
			if v, ok := f.first(m); ok {
				m.setEach(f.name, v)
				continue
			}
		}
		if m.always(f) {
			continue
		}
		if !m.read(f) && !m.assume(f) && f.without != nil {
			if v, ok := f.without(m); ok {
				m.fields = append(m.fields, tensorfs.Field{Name: f.name, Value: v, Assumed: !f.tensors})
			}
		}
		if f.kind == pattern {
			m.repeatPattern(f.name)
		}
	}
	return m.fields
}

// read sets a field from its keys. It reports whether one is present, even if its
// value cannot be used and the field remains unknown.
func (m *model) read(f *field) bool {
	if f.kind == pattern {
		return m.readPattern(f)
	}
	v, ok := m.firstValue(f.gguf, f.hf)
	if !ok {
		return false
	}
	if used, said := m.firstValue(nil, f.unless); said && used == false {
		v = int64(0)
	}
	m.put(f, v)
	return true
}

// put sets a field to a value of the file, or of the description. It reports whether the value
// makes sense.
func (m *model) put(f *field, v any) bool {
	switch f.kind {
	case count, counts:
		n, list, ok := toCounts(v)
		if !ok || list != nil && f.kind == count {
			return false
		}
		m.set(f.name, n)
		if list != nil {
			m.set(f.name+perLayer, m.proper(list))
		}
	case real:
		x, ok := toReal(v)
		if !ok {
			return false
		}
		m.set(f.name, x)
	case text:
		s, ok := v.(string)
		if !ok {
			return false
		}
		if other, is := f.same[s]; is {
			s = other
		}
		m.set(f.name, s)
	case boolean:
		b, ok := v.(bool)
		if !ok {
			return false
		}
		m.set(f.name, b)
	case pattern:
		p, list, skip, ok := toPattern(v, m.fullFirst())
		if !ok || skip {
			return false
		}
		m.set(f.name, p)
		if list != nil && p != int64(0) {
			m.set(f.name+perLayer, list)
		}
	}
	return true
}

// proper returns the part of a list about the model's own layers, without layers that only
// predict further tokens.
func (m *model) proper(list []int64) []int64 {
	if layers, ok := m.count("n_layers"); ok && m.scopes == nil && layers > 0 && layers < int64(len(list)) {
		if _, further := layersProper(m); further {
			return list[:layers]
		}
	}
	return list
}

// always sets a field to the value that the description gives it, regardless of config.json.
func (m *model) always(f *field) bool {
	if m.scopes == nil {
		return false
	}
	v := m.fixed(f)
	if v != any(nothing{}) {
		return v != nil && m.put(f, v)
	}
	if f.without != nil {
		if v, ok := f.without(m); ok {
			m.set(f.name, v)
		}
	}
	return true
}

// assume sets a field that is missing in the file to the default in the description.
func (m *model) assume(f *field) bool {
	v := m.usual(f)
	before := len(m.fields)
	if v == nil || !m.put(f, v) {
		return false
	}
	for i := range m.fields[before:] {
		m.fields[before+i].Assumed = true
	}
	return true
}

// readPattern goes on to the next key if one turns out to mean something else.
func (m *model) readPattern(f *field) bool {
	if list := m.describedWindows(); list != nil {
		return m.put(f, list)
	}
	for i := range max(len(f.gguf), len(f.hf)) {
		v, ok := m.firstValue(at(f.gguf, i), at(f.hf, i))
		if !ok {
			continue
		}
		p, list, skip, ok := toPattern(v, m.fullFirst())
		if skip {
			continue
		}
		if ok {
			m.set(f.name, p)
			if list != nil && p != int64(0) {
				m.set(f.name+perLayer, list)
			}
		}
		return true
	}
	return false
}

// at returns only the key at index i, or none.
func at(keys []string, i int) []string {
	if i >= len(keys) {
		return nil
	}
	return keys[i : i+1]
}

func (m *model) set(name string, v any) {
	m.fields = append(m.fields, tensorfs.Field{Name: name, Value: v})
}

// setEach sets what a field's first function gave: nothing, a value, or one for each layer.
func (m *model) setEach(name string, v any) {
	switch list, isList := v.([]int64); {
	case v == nil:
	case isList && len(list) > 0:
		m.set(name, slices.Max(list))
		m.set(name+perLayer, list)
	case !isList:
		m.set(name, v)
	}
}

// value returns a field that was set earlier.
func (m *model) value(name string) (any, bool) {
	for i := range m.fields {
		if m.fields[i].Name == name {
			return m.fields[i].Value, true
		}
	}
	return nil, false
}

// count returns a count that was set earlier.
func (m *model) count(name string) (int64, bool) {
	v, _ := m.value(name)
	n, ok := v.(int64)
	return n, ok
}

func (m *model) positive(name string) bool {
	n, ok := m.count(name)
	return ok && n > 0
}

// shape returns a tensor's shape, nil if the tensor does not exist.
func (m *model) shape(tensor string) []int64 {
	if m.shapes == nil {
		return nil
	}
	s, ok := m.shapes(tensor)
	if !ok {
		return nil
	}
	if s == nil {
		s = []int64{}
	}
	return s
}
