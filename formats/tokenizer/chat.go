package tokenizer

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/jsonobj"
)

// Limits of chat templates.
const (
	maxTemplates    = 64
	maxTemplateName = 64
)

// namedTemplates are the names that templates beside the default have in
// Hugging Face's library. Those of files are asked for by name.
var namedTemplates = []string{"tool_use", "rag"}

// chat reads the chat templates of files. The templates themselves are not looked
// at, as llama.cpp parses them when somebody chats.
func (s *source) chat(v *Vocabulary) error {
	if r := s.settings.Raw("chat_template"); s.settings.Has("chat_template") {
		v.readTemplates(settingsName, r)
		return nil
	}
	for i, name := range append([]string{"default"}, namedTemplates...) {
		file := "additional_chat_templates/" + name + ".jinja"
		if i == 0 {
			file = "chat_template.jinja"
		}
		b, err := s.read(file, maxSmall)
		switch {
		case err != nil:
			return err
		case b == nil && i == 0:
			const name = "chat_template.json"
			o, err := s.object(name)
			v.readTemplates(name, o.Raw("chat_template"))
			return err
		case !utf8.Valid(b):
			return fmt.Errorf("%s: it is not UTF-8", file)
		case b != nil:
			v.Templates = append(v.Templates, Template{name, string(b)})
		}
	}
	return nil
}

// readTemplates reads a template, or a list of templates with names.
func (v *Vocabulary) readTemplates(file string, r jsonobj.Raw) {
	bad := errors.New("its chat_template is neither a text nor a list of texts with names, and is left out")
	var err error
	switch r.Kind() {
	case 0, 'n':
	case '"':
		err = v.addTemplate("default", r.Text())
	case '[':
		for e := range r.Elements() {
			name, text := e.Member("name"), e.Member("template")
			if err != nil {
				break
			}
			if err = bad; name.Kind() == '"' && text.Kind() == '"' {
				err = v.addTemplate(name.Text(), text.Text())
			}
		}
	default:
		err = bad
	}
	if err != nil {
		v.Templates, v.Notes = nil, append(v.Notes, file+": "+err.Error())
	}
}

// addTemplate adds a template, whose name becomes part of a key.
func (v *Vocabulary) addTemplate(name, text string) error {
	name = strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z' {
			return r
		}
		return '_'
	}, name)
	switch {
	case v.hasTemplate(name):
		return fmt.Errorf("two of its chat templates have the name %s, so all are left out", name)
	case name == "":
		return nil
	case len(name) > maxTemplateName || len(v.Templates) == maxTemplates:
		return errors.New("its chat templates are too many or have too long names, so all are left out")
	}
	v.Templates = append(v.Templates, Template{name, text})
	return nil
}

func (v *Vocabulary) hasTemplate(name string) bool {
	for _, t := range v.Templates {
		if t.Name == name {
			return true
		}
	}
	return false
}

const keyTemplate = "tokenizer.chat_template"

// templateKeys returns the keys of the templates.
func (v *Vocabulary) templateKeys() (list []tensorfs.Meta) {
	var named []string
	for _, t := range v.Templates {
		key := keyTemplate
		if t.Name != "default" {
			key += "." + t.Name
			named = append(named, t.Name)
		}
		list = append(list, tensorfs.Meta{Key: key, Value: t.Text})
	}
	if named != nil {
		list = append(list, tensorfs.Meta{Key: keyTemplate + "s", Value: named})
	}
	return list
}

// readTemplateKeys reads the templates of metadata. One that is not a text, or too
// long, is left out.
func (v *Vocabulary) readTemplateKeys(get func(key string) any) {
	total := 0
	add := func(key, name string) {
		if len(v.Templates) == maxTemplates || len(name) > maxTemplateName || !utf8.ValidString(name) || v.hasTemplate(name) {
			return
		}
		if text, ok := get(key).(string); ok && len(text) <= maxText-total && utf8.ValidString(text) {
			total += len(text)
			v.Templates = append(v.Templates, Template{name, text})
		}
	}
	add(keyTemplate, "default")
	if a, ok := get(keyTemplate + "s").(tensorfs.Array); ok && a.Len() <= maxTokens {
		for name := range a.Values() {
			if name, ok := name.(string); ok {
				add(keyTemplate+"."+name, name)
			}
		}
	}
	for _, name := range namedTemplates {
		add(keyTemplate+"."+name, name)
	}
}

// appendChat appends the chat templates to a JSON object: a text, or a list where
// some have names.
func (v *Vocabulary) appendChat(b []byte) []byte {
	if len(v.Templates) == 0 {
		return b
	}
	b = append(b, `,"chat_template":`...)
	if len(v.Templates) == 1 && v.hasTemplate("default") {
		return appendQuoted(b, v.Templates[0].Text)
	}
	for i, t := range v.Templates {
		b = append(b, "[,"[min(i, 1)])
		b = appendQuoted(append(b, `{"name":`...), t.Name)
		b = append(appendQuoted(append(b, `,"template":`...), t.Text), '}')
	}
	return append(b, ']')
}
