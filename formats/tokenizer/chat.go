package tokenizer

import (
	"slices"
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

// namedTemplates are the names that templates beside the default have in Hugging Face's
// library. Templates in files are looked up by name.
var namedTemplates = []string{"tool_use", "rag"}

// chat reads the chat templates of files. It does not parse the templates; llama.cpp does
// that when a chat begins.
func (s *source) chat(v *Vocabulary) {
	const ownFile = "chat_template.jinja" // which transformers takes first
	said := s.settings.Raw("chat_template")
	own := s.read(ownFile, maxSmall)
	if own == nil && s.settings.Has("chat_template") {
		v.readTemplates(settingsName, said)
		return
	}
	if own != nil && said.Kind() == '"' && said.Text() != string(own) {
		v.Notes = append(v.Notes, "the chat template is the one in "+ownFile+", which transformers takes: "+settingsName+" has another one")
	}
	add := func(name, file string) bool {
		b := s.read(file, maxSmall)
		if !utf8.Valid(b) {
			s.fail("%s: it is not UTF-8", file)
		}
		if b != nil {
			v.Templates = append(v.Templates, Template{name, string(b)})
		}
		return b != nil
	}
	if !add("default", ownFile) {
		const file = "chat_template.json"
		v.readTemplates(file, s.object(file).Raw("chat_template"))
		return
	}
	for _, name := range namedTemplates {
		add(name, "additional_chat_templates/"+name+".jinja")
	}
}

// readTemplates reads a template, or a list of templates with names.
func (v *Vocabulary) readTemplates(file string, r jsonobj.Raw) {
	bad := "its chat_template is neither a text nor a list of texts with names, and is left out"
	problem := ""
	switch r.Kind() {
	case 0, 'n':
	case '"':
		v.addTemplate("default", r.Text())
	case '[':
		for e := range r.Elements() {
			name, text := e.Member("name"), e.Member("template")
			if problem != "" {
				break
			}
			if problem = bad; name.Kind() == '"' && text.Kind() == '"' {
				problem = v.addTemplate(name.Text(), text.Text())
			}
		}
	default:
		problem = bad
	}
	if problem != "" {
		v.Templates, v.Notes = nil, append(v.Notes, file+": "+problem)
	}
}

// addTemplate adds a template, whose name becomes part of a key, or returns why it cannot.
func (v *Vocabulary) addTemplate(name, text string) (problem string) {
	name = strings.Map(func(r rune) rune {
		if r < utf8.RuneSelf && (isLetter(byte(r)) || r >= '0' && r <= '9') {
			return r
		}
		return '_'
	}, name)
	switch {
	case v.hasTemplate(name):
		return "two of its chat templates have the name " + name + ", so all are left out"
	case len(name) > maxTemplateName || len(v.Templates) == maxTemplates && name != "":
		return "its chat templates are too many or have too long names, so all are left out"
	case name != "":
		v.Templates = append(v.Templates, Template{name, text})
	}
	return ""
}

func (v *Vocabulary) hasTemplate(name string) bool {
	return slices.ContainsFunc(v.Templates, func(t Template) bool { return t.Name == name })
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
		text, ok := get(key).(string)
		switch {
		case !ok:
		case len(text) > maxText-total, !utf8.ValidString(text):
			v.Notes = append(v.Notes, key+" is not UTF-8, or too long, and is left out")
		default:
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
	switch {
	case len(v.Templates) == 0:
		return b
	case len(v.Templates) == 1 && v.hasTemplate("default"):
		return tensorfs.AppendJSONString(append(b, `,"chat_template":`...), v.Templates[0].Text)
	}
	b = append(b, `,"chat_template":`...)
	for i, t := range v.Templates {
		b = append(b, "[,"[min(i, 1)])
		b = tensorfs.AppendJSONString(append(b, `{"name":`...), t.Name)
		b = append(tensorfs.AppendJSONString(append(b, `,"template":`...), t.Text), '}')
	}
	return append(b, ']')
}
