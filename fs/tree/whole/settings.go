package whole

import (
	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/jsonobj"
)

// maxText bounds the small JSON files of a model.
const maxText = 16 << 20

// settings are the fields of a config.json, those of text_config in front of the
// others. A field that is null counts as absent.
type settings struct{ text, top jsonobj.Object }

// readSettings reads a JSON file of the model. One that is missing has no fields.
func readSettings(m *tensorfs.Model, name string) (settings, error) {
	text, err := readText(m, name, maxText)
	if err != nil || text == nil {
		return settings{}, err
	}
	top, err := jsonobj.Parse(text)
	if err != nil {
		return settings{}, &tensorfs.FormatError{File: name, Offset: -1, Problem: err.Error()}
	}
	return settings{top.Object("text_config"), top}, nil
}

// value returns the first field that is present: a json.Number, string, bool,
// tensorfs.Array or, for objects, tensorfs.JSON. Names may be paths with dots. It
// is nil where none is.
func (s settings) value(names ...string) any {
	for _, name := range names {
		if v, ok := s.text.Lookup(name); ok {
			return v
		}
		if v, ok := s.top.Lookup(name); ok {
			return v
		}
	}
	return nil
}
