package architectures

import (
	_ "embed"
	"maps"
	"slices"
	"strings"
	"sync"
)

//go:embed projectors.txt
var projectorsText string

//go:embed towers.txt
var towersText string

// Projector is a vision tower with the projector behind it, which llama.cpp reads from
// a file of their own.
type Projector struct {
	*Architecture
	*Settings
	Rows  map[string]string // modules that are the row of a token in the embedding: the token
	Types map[string]string // tensors of GGUF that have a type of their own: f32, f16, or conv

	// Of a directory with the tower: its class by the architecture of the language model, as
	// CLASS:TYPE; how names of the language model's tensors begin, and what they begin with
	// then; fields that are the number of a token.
	Beside, Text, Tokens map[string]string

	// Joined are the classes of directories whose experts of a layer are one tensor, and gates and ups of them in one.
	Joined []string

	// Marked is a tensor by which a file that names another projector is known to be of this
	// one: the tensor by the projector's name.
	Marked map[string]string
}

// ProjectorPrefix begins the keys of GGUF about towers, and names no architecture.
const ProjectorPrefix = "clip.vision"

// Projectors returns the blocks of projectors.txt, except blocks that exist only for others
// to be like.
var Projectors = sync.OnceValue(func() (all []*Projector) {
	return must(readProjectors("projectors.txt", projectorsText))
})

// towers is towers.txt.
var towers = sync.OnceValue(func() *moduleTable { return must(readModules("towers.txt", towersText)) })

// TowerMoves returns the names of all moves of towers.
func TowerMoves() []string { return slices.Sorted(maps.Keys(towers().moves)) }

func readProjectors(file, text string) (all []*Projector, err error) {
	tensors, err := readArchitectures(file, text, towers())
	if err != nil {
		return nil, err
	}
	settings, err := readSettings(file, text)
	if err != nil {
		return nil, err
	}
	for _, s := range settings {
		a := tensors[slices.IndexFunc(tensors, func(a *Architecture) bool { return a.Name == s.Name })]
		a.Blocks, s.GGUF = "v.blk.", ProjectorPrefix
		p := &Projector{Architecture: a, Settings: s}
		for word, to := range map[string]*map[string]string{"rows": &p.Rows, "types": &p.Types, "beside": &p.Beside, "text": &p.Text, "tokens": &p.Tokens, "marked": &p.Marked} {
			*to = map[string]string{}
			for _, x := range a.words[word] {
				name, value, _ := strings.Cut(x.Text, "=")
				(*to)[name] = value
			}
		}
		for _, x := range a.words["joined"] {
			p.Joined = append(p.Joined, x.Text)
		}
		all = append(all, p)
	}
	return all, nil
}

// ProjectorOf returns the projector of a class, by either of its names in config.json,
// nil without one.
func ProjectorOf(class Class) *Projector {
	for _, p := range Projectors() {
		if slices.ContainsFunc(p.Classes, func(c Class) bool {
			return c.Name == class.Name || class.Name == "" && c.ModelType == class.ModelType
		}) {
			return p
		}
	}
	return nil
}

// ProjectorNamed returns the projector of a file that has a projector's name and the tensors
// that has reports, nil without one.
func ProjectorNamed(name string, has func(tensor string) bool) *Projector {
	all := Projectors()
	i := slices.IndexFunc(all, func(p *Projector) bool { return p.Marked[name] != "" && has(p.Marked[name]) })
	if i < 0 {
		i = slices.IndexFunc(all, func(p *Projector) bool { return p.Settings.Name == name })
	}
	if i < 0 {
		return nil
	}
	return all[i]
}

// Published returns the names of towers in files of Hugging Face in one spelling:
// releases of transformers put "model." before them, or leave out what is between a
// tower and its parts.
func Published(name string) string {
	name = strings.TrimPrefix(name, "model.")
	if rest, ok := strings.CutPrefix(name, "vision_tower.vision_model."); ok {
		name = "vision_tower." + rest
	}
	if rest, ok := strings.CutSuffix(name, ".linear.weight"); ok {
		name = rest + ".weight"
	}
	return name
}

// Skips reports whether GGUF files do not have a tensor of a tower, by its name in
// files of Hugging Face.
func (p *Projector) Skips(name string) bool {
	return slices.ContainsFunc(p.Architecture.words["dropped"], func(x Item) bool {
		begin, ok := strings.CutPrefix(strings.TrimSuffix(x.Text, "*"), "~")
		return ok && strings.HasPrefix(Published(name), Published(p.Tower+begin))
	})
}
