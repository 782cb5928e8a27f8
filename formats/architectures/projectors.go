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

//go:embed sounds.txt
var soundsText string

//go:embed towers.txt
var towersText string

// Part is what a tower is for.
type Part string

// The parts.
const (
	Vision Part = "vision"
	Audio  Part = "audio"
)

// Prefix begins the keys of GGUF about towers of the part, and names no architecture.
func (p Part) Prefix() string { return "clip." + string(p) }

// Projector is a tower with the projector behind it, which llama.cpp reads from a file of
// their own.
type Projector struct {
	*Architecture
	*Settings
	Part   Part
	Within []string          // paths of the tower's object in config.json: the first that exists counts
	Also   map[string]string // how names of tensors begin in other releases, and in the description
	Rows   map[string]string // modules that are the row of a token in the embedding: the token

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

// Projectors returns the blocks of projectors.txt and of sounds.txt, except blocks that exist
// only for others to be like.
var Projectors = sync.OnceValue(func() (all []*Projector) {
	return slices.Concat(must(readProjectors("projectors.txt", projectorsText, Vision)), must(readProjectors("sounds.txt", soundsText, Audio)))
})

// towers is towers.txt.
var towers = sync.OnceValue(func() *moduleTable { return must(readModules("towers.txt", towersText)) })

// TowerMoves returns the names of all moves of towers.
func TowerMoves() []string { return slices.Sorted(maps.Keys(towers().moves)) }

// blocksOf begin the names of tensors of a part's layers in GGUF.
var blocksOf = map[Part]string{Vision: "v.blk.", Audio: "a.blk."}

func readProjectors(file, text string, part Part) (all []*Projector, err error) {
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
		a.Blocks, s.GGUF = blocksOf[part], part.Prefix()
		p := &Projector{Architecture: a, Settings: s, Part: part, Within: s.Words("within")}
		for word, to := range map[string]*map[string]string{"also": &p.Also, "rows": &p.Rows, "beside": &p.Beside, "text": &p.Text, "tokens": &p.Tokens, "marked": &p.Marked} {
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

// ProjectorOf returns the projector of a part of a class, by either of its names in
// config.json, nil without one.
func ProjectorOf(class Class, part Part) *Projector {
	for _, p := range Projectors() {
		if p.Part == part && slices.ContainsFunc(p.Classes, func(c Class) bool {
			return c.Name == class.Name || class.Name == "" && c.ModelType == class.ModelType
		}) {
			return p
		}
	}
	return nil
}

// ProjectorNamed returns the projector of a part in a file that has a projector's name and
// the tensors that has reports, nil without one.
func ProjectorNamed(name string, part Part, has func(tensor string) bool) *Projector {
	all := slices.DeleteFunc(slices.Clone(Projectors()), func(p *Projector) bool { return p.Part != part })
	i := slices.IndexFunc(all, func(p *Projector) bool { return p.Marked[name] != "" && has(p.Marked[name]) })
	if i < 0 {
		i = slices.IndexFunc(all, func(p *Projector) bool { return p.Settings.Name == name && p.Marked[name] == "" })
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

// Published is the function of that name for the tensors of the projector, which may have
// spellings of its own.
func (p *Projector) Published(name string) string {
	name = Published(name)
	longest := ""
	for begin := range p.Also {
		if strings.HasPrefix(name, begin) && len(begin) > len(longest) {
			longest = begin
		}
	}
	if longest != "" {
		name = p.Also[longest] + strings.TrimPrefix(name, longest)
	}
	return name
}

// Skips reports whether GGUF files do not have a tensor of a tower, by its name in
// files of Hugging Face.
func (p *Projector) Skips(name string) bool {
	name = p.Published(name)
	return slices.ContainsFunc(p.Architecture.words["dropped"], func(x Item) bool {
		begin, ok := strings.CutSuffix(x.Text, "*")
		end, isEnd := strings.CutPrefix(begin, "*")
		if rest, isTower := strings.CutPrefix(begin, "~"); isTower {
			begin = p.Tower + rest
		}
		return ok && (isEnd && strings.Contains(name, end) || !isEnd && strings.HasPrefix(name, Published(begin)))
	})
}
