package architectures

import (
	_ "embed"
	"slices"
	"strings"
	"sync"
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

// readsRow is a row of config_fields.txt.
type readsRow struct {
	parts   []string // the model types of a model of several parts, whose own code reads the fields
	classes []string // the classes of the converter that read the fields
	head    string   // otherwise, a model type, "all" or "converter"
	fields  []readsField
}

type readsField struct{ name, value string }

var readsRows = sync.OnceValue(func() (rows []readsRow) {
	for line := range strings.Lines(configFieldsText) {
		var row readsRow
		of, fields, ok := strings.Cut(line, " : ")
		if ok {
			row.parts = strings.Fields(of)
		} else {
			of, fields, _ = strings.Cut(strings.TrimSuffix(line, "\n"), " ")
			if of == "#" || of == "without" || of == "" {
				continue
			}
			if classes, converted := strings.CutPrefix(of, "+"); converted {
				row.classes = strings.Split(classes, ",")
			} else {
				row.head = of
			}
		}
		for _, field := range strings.Fields(fields) {
			name, value, _ := strings.Cut(field, "=")
			row.fields = append(row.fields, readsField{name, value})
		}
		rows = append(rows, row)
	}
	return rows
})

// ReadsOf returns the fields that transformers reads for model types, such as the types of
// a model and of its language model, and for a class that config.json names. It is nil if
// transformers does not have one of the types.
func ReadsOf(types []string, class string) *Reads {
	r := &Reads{map[string]bool{}, map[string]map[string]string{}}
	rows := readsRows()
	wanted := slices.Clone(types)
	isType := func(t string) bool { return slices.Contains(types, t) }
	for i := range rows { // a model of several parts has the types of them all
		if slices.ContainsFunc(rows[i].parts, isType) {
			wanted = append(wanted, rows[i].parts...)
		}
	}
	for i := range rows {
		row := &rows[i]
		switch {
		case row.parts != nil:
			if slices.ContainsFunc(row.parts, isType) {
				r.add("", row.fields)
			}
		case row.head == "all", row.head == "converter", slices.Contains(row.classes, class):
			r.add("", row.fields)
		case row.head != "" && slices.Contains(wanted, row.head):
			r.add(row.head, row.fields)
		}
	}
	if slices.ContainsFunc(types, func(t string) bool { return r.defaults[t] == nil }) {
		return nil
	}
	return r
}

func (r *Reads) add(of string, fields []readsField) {
	if r.defaults[of] == nil {
		r.defaults[of] = map[string]string{}
	}
	for _, f := range fields {
		r.fields[f.name] = true
		if f.value != "" {
			r.defaults[of][f.name] = f.value
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
