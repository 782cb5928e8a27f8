// Package images knows the denoisers of image and video models: what names of tensors tell an
// architecture, and how ComfyUI-GGUF's programs store and quantise it. The facts are in images.txt.
// It reads no files.
package images

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"
	"sync"
)

// Architecture is a denoiser as ComfyUI-GGUF knows it.
type Architecture struct {
	Name    string // general.architecture
	Title   string // what people call it
	Folded  bool   // tensors are stored in rows of 256 numbers where their own rows have other lengths
	Five    bool   // tensors may have five dimensions
	NoFile  bool   // no program makes a GGUF file of it by rules that are known
	ways    [][]string
	classes []string
	wide    []string
	dropped []string
	kept    []string
}

//go:embed images.txt
var text string

// all returns the architectures, in the order in which they are looked for.
var all = sync.OnceValue(func() []*Architecture { return read(text) })

// read returns the architectures of a text. The text is part of the program, so that a mistake
// is one of the program.
func read(text string) (list []*Architecture) {
	for line := range strings.Lines(text) {
		word, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		if word == "" || word[0] == '#' {
			continue
		}
		if word == "arch" {
			list = append(list, &Architecture{Name: rest})
			continue
		}
		if len(list) == 0 { // a line before them
			continue
		}
		a := list[len(list)-1]
		switch word {
		case "title":
			a.Title = rest
		case "names":
			a.ways = append(a.ways, strings.Fields(rest))
		case "class":
			a.classes = append(a.classes, strings.Fields(rest)...)
		case "wide":
			a.wide = strings.Fields(rest)
		case "dropped":
			a.dropped = strings.Fields(rest)
		case "kept":
			a.kept = strings.Fields(rest)
		case "folded":
			a.Folded = true
		case "five":
			a.Five = true
		case "no_file":
			a.NoFile = true
		default:
			panic(fmt.Sprintf("images.txt: unknown word %q", word))
		}
	}
	return list
}

// before returns the words of a line of images.txt before the architectures.
func before(word string) []string {
	_, line, _ := strings.Cut(text, "\n"+word+" ")
	line, _, _ = strings.Cut(line, "\n")
	return strings.Fields(line)
}

// scales returns the ends of the names of scales, and shared the classes of several architectures.
var (
	scales = sync.OnceValue(func() []string { return before("scales") })
	shared = sync.OnceValue(func() []string { return before("shared") })
)

// HasFile reports whether models of a class of diffusers have a GGUF file, as far as the class tells.
func HasFile(class string) bool {
	a := OfClass(class)
	return a != nil && !a.NoFile && a.Translated() || slices.Contains(shared(), class)
}

// IsScale reports whether a tensor is the scale of other tensors by its name, or tells of scales.
func IsScale(name string) bool {
	return slices.ContainsFunc(scales(), func(end string) bool {
		whole, ok := strings.CutPrefix(end, "=")
		return ok && name == whole || !ok && strings.HasSuffix(name, end)
	})
}

// Find returns an architecture by its name in GGUF files, nil if it is not one of an image model.
func Find(name string) *Architecture {
	return first(func(a *Architecture) bool { return a.Name == name })
}

// OfClass returns the architecture of a class of diffusers, or nil.
func OfClass(class string) *Architecture {
	return first(func(a *Architecture) bool { return slices.Contains(a.classes, class) })
}

func first(is func(a *Architecture) bool) *Architecture {
	if i := slices.IndexFunc(all(), is); i >= 0 {
		return all()[i]
	}
	return nil
}

// needed returns the names of tensors that tell an architecture.
var needed = sync.OnceValue(func() map[string]bool {
	names := map[string]bool{}
	for _, a := range all() {
		for _, way := range a.ways {
			for _, name := range way {
				names[name] = true
			}
		}
	}
	return names
})

// Recognise returns the architecture that the names of tensors tell, and the prefix that the
// denoiser's names have in a file with other parts; nil if they are no image model's.
func Recognise(names []string) (a *Architecture, prefix string) {
	prefix = Prefix(names)
	found, needed := map[string]bool{}, needed()
	for _, name := range names {
		if name, ok := strings.CutPrefix(name, prefix); ok && needed[name] {
			found[name] = true
		}
	}
	if len(found) == 0 {
		return nil, ""
	}
	a = first(func(a *Architecture) bool {
		return slices.ContainsFunc(a.ways, func(way []string) bool {
			return !slices.ContainsFunc(way, func(name string) bool { return !found[name] })
		})
	})
	if a == nil {
		return nil, ""
	}
	return a, prefix
}

// Checkpoint begins the names of a denoiser's tensors in a file with its other parts.
const Checkpoint = "model.diffusion_model."

// Prefix returns what the names of an image model's denoiser begin with.
func Prefix(names []string) string {
	for _, prefix := range []string{Checkpoint, "model."} {
		if slices.ContainsFunc(names, func(name string) bool { return strings.HasPrefix(name, prefix) }) {
			return prefix
		}
	}
	const net = "net."
	if len(names) > 0 && !slices.ContainsFunc(names, func(name string) bool { return !strings.HasPrefix(name, net) }) {
		return net
	}
	return ""
}

// Wide reports whether a tensor of F32 or BF16 becomes F32 in the file.
func (a *Architecture) Wide(name string, shape []int64, elements int64) bool {
	const few = 1024
	return len(shape) < 2 || elements <= few || len(shape) > 4 || has(a.wide, name)
}

// Dropped reports whether the file has no such tensor.
func (a *Architecture) Dropped(name string) bool { return has(a.dropped, name) }

// Kept reports whether a tensor is never quantised.
func (a *Architecture) Kept(name string) bool { return has(a.kept, name) }

// has reports whether one of the parts is in a name, or is "=" and the name.
func has(parts []string, name string) bool {
	return slices.ContainsFunc(parts, func(part string) bool {
		if whole, ok := strings.CutPrefix(part, "="); ok {
			return name == whole
		}
		return strings.Contains(name, part)
	})
}

// Fold returns the shape in which a tensor is stored, the same if it has whole rows.
func (a *Architecture) Fold(shape []int64, elements int64) []int64 {
	const row, least = 256, 512
	if !a.Folded || len(shape) < 2 || elements < least || elements%row != 0 || shape[len(shape)-1]%row == 0 {
		return shape
	}
	return []int64{elements / row, row}
}
