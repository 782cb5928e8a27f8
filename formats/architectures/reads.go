package architectures

import (
	_ "embed"
	"slices"
	"strings"
)

//go:embed config_fields.txt
var configFieldsText string

// Reads are the fields of config.json that transformers and llama.cpp's converter read
// for a model.
type Reads struct {
	fields map[string]bool
	// The defaults of transformers as JSON, by model type; "" has what other code takes.
	defaults map[string]map[string]string
}

// ReadsOf returns the fields that transformers reads for model types, such as the types of
// a model and of its language model, and for a class that config.json names. It is nil if
// transformers does not have one of the types.
func ReadsOf(types []string, class string) *Reads {
	r := &Reads{map[string]bool{}, map[string]map[string]string{}}
	wanted := slices.Clone(types)
	for line := range strings.Lines(configFieldsText) { // a model of several parts has the types of them all
		if of, _, ok := strings.Cut(line, " : "); ok && slices.ContainsFunc(strings.Fields(of), func(t string) bool { return slices.Contains(types, t) }) {
			wanted = append(wanted, strings.Fields(of)...)
		}
	}
	for line := range strings.Lines(configFieldsText) {
		line = strings.TrimSuffix(line, "\n")
		head, fields, _ := strings.Cut(line, " ")
		if of, rest, ok := strings.Cut(line, " : "); ok {
			if slices.ContainsFunc(strings.Fields(of), func(t string) bool { return slices.Contains(types, t) }) {
				r.add("", rest)
			}
			continue
		}
		classes, converted := strings.CutPrefix(head, "+")
		switch {
		case head == "#" || head == "without" || head == "":
		case head == "all", head == "converter", converted && slices.Contains(strings.Split(classes, ","), class):
			r.add("", fields)
		case !converted && slices.Contains(wanted, head):
			r.add(head, fields)
		}
	}
	if slices.ContainsFunc(types, func(t string) bool { return r.defaults[t] == nil }) {
		return nil
	}
	return r
}

func (r *Reads) add(of, fields string) {
	if r.defaults[of] == nil {
		r.defaults[of] = map[string]string{}
	}
	for _, field := range strings.Fields(fields) {
		name, value, _ := strings.Cut(field, "=")
		r.fields[name] = true
		if value != "" {
			r.defaults[of][name] = value
		}
	}
}

// Has reports whether a program reads a field.
func (r *Reads) Has(field string) bool { return r.fields[field] }

// HasType reports whether one of the model's parts has a model type.
func (r *Reads) HasType(modelType string) bool { return r != nil && r.defaults[modelType] != nil }

// Own returns what the class of a model type takes for a field that is missing, as JSON; ""
// if that is not known.
func (r *Reads) Own(modelType, field string) string {
	if r == nil {
		return ""
	}
	return r.defaults[modelType][field]
}

// Default returns what transformers takes for a field that is missing in an object of a
// model type, as JSON; "" if that is not known.
func (r *Reads) Default(modelType, field string) string {
	if value, ok := r.defaults[modelType][field]; ok && value != "" {
		return value
	}
	found := ""
	for _, defaults := range r.defaults {
		if value := defaults[field]; value != "" {
			if found != "" && found != value {
				return ""
			}
			found = value
		}
	}
	return found
}
