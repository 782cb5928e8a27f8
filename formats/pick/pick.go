package pick

import (
	"cmp"
	"path"
	"slices"
	"strings"

	"github.com/tensorfs/tensorfs/formats/gguf"
)

// Select selects one of several models. At most one field is set.
type Select struct {
	// Path is a file's or a directory's, with slashes.
	Path string
	// Word is a part of the base name of a GGUF file, such as Q4_K_M, whole between
	// separators. Upper and lower case are the same.
	Word string
}

// ParseSelect returns what a text selects: a path has a slash or the suffix of a
// model's file, anything else is a word.
func ParseSelect(s string) Select {
	if strings.Contains(s, "/") || weights(s) {
		return Select{Path: s}
	}
	return Select{Word: s}
}

// File reports whether the selection is the path of a file, by its suffix.
func (s Select) File() bool { return weights(s.Path) }

// weights reports whether a file of that name contains a model's weights.
func weights(name string) bool {
	return strings.HasSuffix(name, ".gguf") || strings.HasSuffix(name, ".safetensors")
}

// Choice is a GGUF file, or the shards of one set.
type Choice struct {
	Path string // of the file, or of the set's first shard that is there
	Base string // its name without directory, number and suffix

	lower string // Base in lower case
	side  bool   // it belongs to a model, and is not one
}

// Whole reports whether a directory with files of these names is a model's: one
// with config.json and safetensors.
func Whole(names []string) bool {
	return slices.Contains(names, "config.json") && slices.ContainsFunc(names, isSafetensors)
}

// isSafetensors reports whether a name at the top of a listing belongs to weights in
// safetensors, or to their index.
func isSafetensors(name string) bool {
	return !strings.Contains(name, "/") && (strings.HasSuffix(name, ".safetensors") || strings.HasSuffix(name, ".safetensors.index.json"))
}

// Model returns the path of a listing's model: "." for the directory itself, otherwise a
// file or, if a path was selected, a directory. files are paths with slashes, in any order.
// If there is no model, or more than one, the Refusal describes the problem.
func Model(files []string, sel Select) (string, *Refusal) {
	if sel.Path != "" {
		return selectPath(files, sel)
	}
	if sel == (Select{}) && Whole(files) {
		return ".", nil
	}
	choices := Choices(files)
	if sel.Word != "" {
		found := matching(choices, sel.Word)
		if len(found) == 1 {
			return found[0].Path, nil
		}
		if len(found) > 1 {
			return "", &Refusal{Select: sel, Choices: found, Several: true, all: choices}
		}
		return "", &Refusal{Select: sel, Choices: choices, all: choices}
	}
	bare := slices.ContainsFunc(files, isSafetensors)
	main := choices
	if i := slices.IndexFunc(choices, func(c Choice) bool { return c.side }); i > 0 {
		main = choices[:i]
	}
	switch {
	case len(main) == 1 && !bare:
		return main[0].Path, nil
	case len(main) > 0:
		return "", &Refusal{Choices: main, Several: true, all: choices, bare: bare}
	case bare || slices.Contains(files, "config.json"):
		if r := Nothing(files); r.pipeline && len(r.parts) > 0 { // the files beside the parts are other forms of them
			return "", r
		}
		return ".", nil
	}
	return "", Nothing(files)
}

// selectPath returns the file or directory of a path.
func selectPath(files []string, sel Select) (string, *Refusal) {
	want := strings.TrimSuffix(sel.Path, "/")
	for _, f := range files {
		if f == want || strings.HasPrefix(f, want+"/") {
			return want, nil
		}
	}
	return "", &Refusal{Select: sel, files: files}
}

// Choices returns the GGUF models of a listing, each once: first independent models, then
// files that belong to a model, each sorted by path.
func Choices(files []string) []Choice {
	type set struct {
		prefix string
		count  int64
	}
	seen := map[set]int{}
	var all []Choice
	for _, f := range files {
		if !strings.HasSuffix(f, ".gguf") {
			continue
		}
		s := set{strings.TrimSuffix(f, ".gguf"), 0}
		if prefix, _, count, ok := gguf.Shard(f); ok {
			s = set{prefix, count}
		}
		if i, ok := seen[s]; ok {
			all[i].Path = min(all[i].Path, f)
			continue
		}
		seen[s] = len(all)
		base := path.Base(s.prefix)
		lower := strings.ToLower(base)
		all = append(all, Choice{f, base, lower, isSide(lower)})
	}
	slices.SortFunc(all, func(a, b Choice) int {
		if a.side != b.side {
			if a.side {
				return 1
			}
			return -1
		}
		return cmp.Compare(a.Path, b.Path)
	})
	return all
}

// isSide reports whether a file of that base name, in lower case, belongs to a model: a
// projector, or a matrix that a quantiser used. "imatrix" elsewhere than at the start
// describes how a model was quantised.
func isSide(base string) bool {
	return has(base, "mmproj", strong) || strings.HasPrefix(base, "imatrix")
}

// matching returns the choices that a word selects: choices with that whole name, or else
// with the word between separators, or else, as Q4_K in Q4_K_M, beside underscores. Models
// come before the files that belong to them.
func matching(choices []Choice, word string) (found []Choice) {
	word = strings.ToLower(word)
	for _, side := range []bool{false, true} {
		for _, separates := range []func(byte) bool{never, strong, weak} {
			for _, c := range choices {
				if c.side == side && has(c.lower, word, separates) {
					found = append(found, c)
				}
			}
			if len(found) > 0 {
				return found
			}
		}
	}
	return nil
}

// weak reports whether c is between words or parts of words.
func weak(c byte) bool {
	return !(c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= 0x80)
}

// never lets a word match only a whole name.
func never(byte) bool { return false }

// strong reports whether c is between words.
func strong(c byte) bool { return c != '_' && weak(c) }

// has reports whether a word is in s, both in lower case, with separators, or the
// ends of s, around it.
func has(s, word string, separates func(byte) bool) bool {
	for from := 0; word != ""; {
		i := strings.Index(s[from:], word)
		if i < 0 {
			return false
		}
		i += from
		end := i + len(word)
		if (i == 0 || separates(s[i-1])) && (end == len(s) || separates(s[end])) {
			return true
		}
		from = i + 1
	}
	return false
}
