package hf

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/convert"
	"github.com/tensorfs/tensorfs/internal/convert/internal/settings"
	"github.com/tensorfs/tensorfs/internal/jsonobj"
	"github.com/tensorfs/tensorfs/internal/source"
)

const (
	templateName = "chat_template.jinja"
	templateJSON = "chat_template.json" // of processors, in older releases
)

// setTemplate replaces the chat template of a directory, or removes it: in its own file,
// which newer programs read, and in tokenizer_config.json if it is there.
func setTemplate(f *convert.Files, changes []convert.Change) error {
	text, ok := convert.Template(changes)
	if !ok || f.Reason != "" {
		return nil
	}
	var list []convert.File
	for _, x := range f.List {
		switch x.Path {
		case templateName, templateJSON:
			continue
		case tokenizerConfigName:
			made, err := withTemplate(x.Data, text)
			if err != nil {
				return fmt.Errorf("%s: %w", x.Path, err)
			}
			if made != nil {
				x.Data = tensorfs.Bytes(made)
			}
		}
		list = append(list, x)
	}
	if text != nil {
		list = append(list, convert.File{Path: templateName, Data: tensorfs.Bytes(text)})
	}
	slices.SortFunc(list, func(a, b convert.File) int { return strings.Compare(a.Path, b.Path) })
	f.List = list
	for _, c := range changes {
		if c.Key == convert.TemplateKey {
			f.Notes = append(f.Notes, c.String())
		}
	}
	return nil
}

// withTemplate returns a tokenizer_config.json with its template replaced; nil if it has
// none.
func withTemplate(d tensorfs.Data, text []byte) ([]byte, error) {
	stored, err := source.ReadAll(d, tokenizerConfigName, maxConfig)
	if err != nil {
		return nil, err
	}
	o, err := jsonobj.Parse(stored)
	if err != nil || !o.Has("chat_template") {
		return nil, err
	}
	var list settings.Object
	for name, raw := range o.All() {
		switch {
		case name != "chat_template":
			list = list.With(name, raw)
		case text != nil:
			list = list.With(name, string(text))
		}
	}
	return list.Lines(!json.Valid(stored)), nil
}
