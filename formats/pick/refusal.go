package pick

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/images"
	"github.com/tensorfs/tensorfs/internal/near"
)

// shown is how many models a Refusal lists.
const shown = 8

// Refusal explains why a listing has no model, or not a single one.
type Refusal struct {
	Select Select
	// Choices are the GGUF models that match, or if none does, all of them.
	Choices []Choice
	// Several reports that more than one model matches.
	Several bool

	all   []Choice // of the listing
	bare  bool     // it has safetensors too, without config.json
	files []string // of the listing, where a path was not among them

	parts    []string // directories with models, if the top has none
	pipeline bool     // of diffusers
}

// Nothing returns the Refusal of a listing without a model at its top. It names
// the directories in it that have one.
func Nothing(files []string) *Refusal {
	r := &Refusal{pipeline: slices.Contains(files, images.PipelineFile)}
	below := map[string][]string{}
	for _, f := range files {
		if dir, name, ok := strings.Cut(f, "/"); ok {
			below[dir] = append(below[dir], name)
		}
	}
	for dir, names := range below {
		if Whole(names) || slices.ContainsFunc(names, func(name string) bool { return strings.HasSuffix(name, ".gguf") && !strings.Contains(name, "/") }) {
			r.parts = append(r.parts, dir)
		}
	}
	slices.Sort(r.parts)
	return r
}

// Problem describes what is wrong in one clause. If words is set, models are named by the
// shorter words that select them, otherwise by their files.
func (r *Refusal) Problem(words bool) string {
	list := r.list(words)
	switch {
	case r.pipeline && len(r.parts) > 0:
		return "it is a diffusers pipeline with the parts " + list
	case len(r.parts) > 0:
		return "it has no model itself, but directories with models: " + list
	case r.Select.Path != "":
		return "it has no file " + tensorfs.Printable(r.Select.Path)
	case r.Select.Word != "" && r.Several:
		return fmt.Sprintf("%s is part of the names of %d GGUF models: %s", tensorfs.Quote(r.Select.Word), len(r.Choices), list)
	case r.Select.Word != "" && len(r.Choices) > 0:
		return fmt.Sprintf("it has no GGUF model %s, only %s", tensorfs.Quote(r.Select.Word), list)
	case r.Select.Word != "":
		return "it has no GGUF file"
	case r.bare:
		return "it has safetensors without config.json, and GGUF models: " + list
	case r.Several:
		return fmt.Sprintf("it has %d GGUF models: %s", len(r.Choices), list)
	}
	return "it has no GGUF file and no safetensors"
}

// list names the choices, not all of very many.
func (r *Refusal) list(words bool) string {
	all := len(r.Choices) + len(r.parts)
	names := slices.Clone(r.parts[:min(len(r.parts), shown)])
	for i := range min(len(r.Choices), shown) {
		name := r.Choices[i].Path
		if w := r.word(i); words && w != "" {
			name = w
		}
		names = append(names, name)
	}
	list := near.List(names)
	if more := all - shown; more > 0 {
		list += fmt.Sprintf(" and %d more", more)
	}
	return list
}

// Example selects the first of the choices, by a word if words is set and a word is enough,
// or else the first directory with a model. It selects nothing if there are no choices.
func (r *Refusal) Example(words bool) Select {
	if len(r.Choices) == 0 {
		if len(r.parts) > 0 {
			return Select{Path: r.parts[0]}
		}
		return Select{}
	}
	if w := r.word(0); words && w != "" {
		return Select{Word: w}
	}
	return Select{Path: r.Choices[0].Path}
}

// word returns what selects choice i and no other model: the end in which its name
// differs from all other names, or the whole name. It is "" if neither selects it.
func (r *Refusal) word(i int) string {
	choice := r.Choices[i]
	n := len(choice.Base)
	for _, c := range r.all {
		if c.side == choice.side {
			n = min(n, len(c.Base))
			for n > 0 && c.Base[:n] != choice.Base[:n] {
				n--
			}
		}
	}
	for n > 0 && !strong(choice.Base[n-1]) {
		n--
	}
	for _, word := range []string{choice.Base[n:], choice.Base} {
		if m := matching(r.all, word); tensorfs.ValidName(word) && ParseSelect(word).Word != "" && len(m) == 1 && m[0] == choice {
			return word
		}
	}
	return ""
}

// NearWords returns the words that select a model and are the one that was given but for case and punctuation: Q4_K_M for
// q4km.
func (r *Refusal) NearWords() (words []string) {
	for i := range r.Choices {
		if w := r.word(i); w != "" && r.Select.Word != "" && letters(w) == letters(r.Select.Word) {
			words = append(words, w)
		}
	}
	return words
}

// letters is a word without what people leave out.
func letters(word string) string {
	return strings.ToLower(strings.NewReplacer("_", "", "-", "", ".", "", " ", "").Replace(word))
}

// Near returns up to three paths of the listing that are near the one that was
// selected: of files with weights, and of directories.
func (r *Refusal) Near() []string {
	seen := map[string]bool{}
	var paths []string
	for _, f := range r.files {
		if weights(f) {
			paths = append(paths, f)
		}
		if d := path.Dir(f); d != "." && !seen[d] {
			seen[d] = true
			paths = append(paths, d)
		}
	}
	return near.Names(r.Select.Path, paths, 3)
}
