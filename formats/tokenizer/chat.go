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

// chat returns the keys of the chat templates. The templates themselves are not
// looked at, as llama.cpp parses them when somebody chats.
func (s *source) chat() (meta []tensorfs.Meta, notes []string, err error) {
	r := s.settings.Raw("chat_template")
	if k := r.Kind(); k != 0 && k != 'n' {
		return s.templates(settingsName, r)
	}
	text, err := s.template("chat_template.jinja")
	if err != nil {
		return nil, nil, err
	}
	if text != nil {
		c := chats{}
		c.add("default", *text)
		for _, name := range namedTemplates {
			text, err := s.template("additional_chat_templates/" + name + ".jinja")
			if err != nil {
				return nil, nil, err
			}
			if text != nil {
				c.add(name, *text)
			}
		}
		return c.meta(), nil, nil
	}
	const name = "chat_template.json"
	o, err := s.object(name)
	if err != nil {
		return nil, nil, err
	}
	return s.templates(name, o.Raw("chat_template"))
}

// template reads a file that is a template; nil where there is none.
func (s *source) template(name string) (*string, error) {
	b, err := s.read(name, maxSmall)
	if b == nil || err != nil {
		return nil, err
	}
	if !utf8.Valid(b) {
		return nil, fmt.Errorf("%s: it is not UTF-8", name)
	}
	text := string(b)
	return &text, nil
}

// templates reads a template, or a list of templates with names.
func (s *source) templates(file string, r jsonobj.Raw) ([]tensorfs.Meta, []string, error) {
	bad := []string{file + ": its chat_template is neither a text nor a list of texts with names, and is left out"}
	c := chats{}
	switch r.Kind() {
	case 0, 'n':
		return nil, nil, nil
	case '"':
		c.add("default", r.Text())
	case '[':
		for e := range r.Elements() {
			text := e.Member("template")
			if e.Member("name").Kind() != '"' || text.Kind() != '"' {
				return nil, bad, nil
			}
			if err := c.add(e.Member("name").Text(), text.Text()); err != nil {
				return nil, []string{file + ": " + err.Error()}, nil
			}
		}
	default:
		return nil, bad, nil
	}
	return c.meta(), nil, nil
}

// chats are templates by name.
type chats struct{ names, texts []string }

// add adds a template, whose name becomes part of a key.
func (c *chats) add(name, text string) error {
	name = strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z' {
			return r
		}
		return '_'
	}, name)
	for _, other := range c.names {
		if other == name {
			return fmt.Errorf("two of its chat templates have the name %s, so all are left out", name)
		}
	}
	switch {
	case name == "":
		return nil
	case len(name) > maxTemplateName || len(c.names) == maxTemplates:
		return errors.New("its chat templates are too many or have too long names, so all are left out")
	}
	c.names, c.texts = append(c.names, name), append(c.texts, text)
	return nil
}

func (c *chats) meta() (meta []tensorfs.Meta) {
	var others []string
	for i, name := range c.names {
		key := "tokenizer.chat_template"
		if name != "default" {
			key += "." + name
			others = append(others, name)
		}
		meta = append(meta, tensorfs.Meta{Key: key, Value: c.texts[i]})
	}
	if others != nil {
		meta = append(meta, tensorfs.Meta{Key: "tokenizer.chat_templates", Value: others})
	}
	return meta
}
