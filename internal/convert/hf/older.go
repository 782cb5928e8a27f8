package hf

import (
	"encoding/json"
	"slices"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/convert"
	"github.com/tensorfs/tensorfs/internal/convert/internal/settings"
	"github.com/tensorfs/tensorfs/internal/jsonobj"
)

// olderConfig returns config.json with the fields that transformers 4 reads as well:
// of rope_parameters it knows nothing, and would compute with its defaults, without
// a word. transformers 5 takes the older fields for the same.
func olderConfig(text []byte) ([]byte, error) {
	x, y, err := configParts(text)
	if err != nil {
		return nil, err
	}
	for _, part := range []*mlxConfig{x, y} {
		short := longrope(part)
		part.add(olderFields)
		if short != nil {
			part.set("rope_scaling", short)
		}
	}
	return mended(text, x, y), nil
}

// longrope returns rope_scaling of the one kind that transformers 4 refuses with any other
// member, nil if that is not in rope_parameters.
func longrope(x *mlxConfig) any {
	r := x.rope()
	if ropeKind(r) != "longrope" || slices.Equal(x.ropePaths(), []string{"rope_scaling"}) {
		return nil
	}
	o := settings.Object{}.With("type", "longrope")
	for _, name := range []string{"short_factor", "long_factor"} {
		if factors := r.Member(name); factors.Kind() == '[' {
			o = o.With(name, factors)
		}
	}
	return o
}

// tokenizerConfigName is the file that names a tokenizer's class.
const tokenizerConfigName = "tokenizer_config.json"

// olderTokenizer replaces the model's own tokenizer_config.json by one that
// transformers 4 reads as well, if transformers 5 wrote it.
func olderTokenizer(m *tensorfs.Model, list []convert.File) error {
	i := slices.IndexFunc(list, func(f convert.File) bool { return f.Path == tokenizerConfigName })
	if i < 0 || list[i].Data.Size() > maxConfig {
		return nil
	}
	text, err := settings.ReadText(m, tokenizerConfigName, maxConfig)
	if err != nil {
		return err
	}
	if older := olderNames(text); older != nil {
		list[i].Data = tensorfs.Bytes(older)
	}
	return nil
}

// olderNames gives a class and a list of tokens the names that they had before transformers
// 5, which still accepts them. It returns nil if both are missing, or if the text is not an
// object, which its reader will report.
func olderNames(text []byte) []byte {
	o, err := jsonobj.Parse(text)
	if err != nil {
		return nil
	}
	var list settings.Object
	changed := false
	for name, raw := range o.All() {
		m := settings.Member{Name: name, Value: raw}
		switch {
		case name == "tokenizer_class" && raw.Text() == "TokenizersBackend":
			m.Value, changed = "PreTrainedTokenizerFast", true
		case name == "extra_special_tokens" && raw.Kind() == '[' && !o.Has("additional_special_tokens"):
			m.Name, changed = "additional_special_tokens", true
		}
		list = append(list, m)
	}
	if !changed {
		return nil
	}
	return list.Lines(!json.Valid(text))
}
