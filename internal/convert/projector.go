package convert

import (
	"fmt"
	"slices"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/architectures"
	"github.com/tensorfs/tensorfs/formats/gguf"
	"github.com/tensorfs/tensorfs/internal/convert/internal/settings"
	"github.com/tensorfs/tensorfs/internal/convert/layout"
	"github.com/tensorfs/tensorfs/internal/convert/preset"
)

// TowerFile is the file below gguf/ that has the model's towers. llama.cpp knows it by these
// letters in its name.
const TowerFile = "mmproj.gguf"

// projectors are a model's towers as the file beside its language model has them.
type projectors struct {
	towers []*projector
	whyNot map[string]error // by the parts that the model has, and the file does not
	notes  tensorNotes
	list   []gguf.Stored
}

// projector is one of them.
type projector struct {
	about   *settings.Projector
	tower   *layout.Tower
	tensors []tensorfs.Tensor
}

// projectorsOf returns the towers of a model that can be in the file which llama.cpp loads
// beside the language model's. left counts the tensors of each part, and tokens are the
// vocabulary.
func projectorsOf(m *tensorfs.Model, cfg settings.Fields, opts Options, tokens []string, left Towers) (*projectors, error) {
	x := &projectors{whyNot: map[string]error{}}
	for _, part := range []string{Vision, Audio} {
		if left[part] == 0 {
			continue
		}
		p, err := newProjector(m, cfg, architectures.Part(part))
		if err != nil {
			x.whyNot[part] = err
			continue
		}
		x.towers = append(x.towers, p)
	}
	if len(x.towers) == 0 {
		return x, nil
	}
	x.distribute(m)
	file := &fileTensors{opts: opts.forTower(), notes: tensorNotes{Types: map[string]int{}, Exact: true, Left: Towers{}}}
	x.towers = slices.DeleteFunc(x.towers, func(p *projector) bool {
		before := len(file.taken)
		err := p.put(file, m, tokens)
		if err != nil {
			file.taken = file.taken[:before]
			x.whyNot[string(p.about.Part)] = err
		}
		return err != nil
	})
	if len(x.towers) == 0 {
		return x, nil
	}
	var err error
	x.list, x.notes, err = file.finish(preset.Model{})
	for _, p := range x.towers {
		x.notes.Notes = append(x.notes.Notes, p.about.Notes()...)
	}
	return x, err
}

func newProjector(m *tensorfs.Model, cfg settings.Fields, part architectures.Part) (*projector, error) {
	about, err := settings.ToProjector(m, cfg, part)
	if err != nil {
		return nil, err
	}
	tower, err := layout.TowerOf(about.Projector, about.Fact)
	if err == nil {
		err = tower.Label(m.Tensors, layout.HF)
	}
	if err != nil {
		return nil, err
	}
	return &projector{about: about, tower: tower}, nil
}

// distribute adds to each tower the tensors that its description knows. The tower of a
// tensor's part gets a tensor that no description knows, and refuses it.
func (x *projectors) distribute(m *tensorfs.Model) {
	for i := range m.Tensors {
		t := &m.Tensors[i]
		part := towerOf(t)
		if t.Owner != "" || !slices.Contains([]string{Vision, Audio, projectorTower}, part) {
			continue
		}
		at := slices.IndexFunc(x.towers, func(p *projector) bool { return p.tower.Knows(t.Source) })
		if at < 0 {
			at = slices.IndexFunc(x.towers, func(p *projector) bool { return string(p.about.Part) == part })
		}
		if at < 0 && part == projectorTower && len(x.whyNot) == 0 {
			at = 0
		}
		if at >= 0 {
			x.towers[at].tensors = append(x.towers[at].tensors, *t)
		}
	}
}

// put makes the tower's tensors.
func (p *projector) put(file *fileTensors, m *tensorfs.Model, tokens []string) error {
	own, err := p.tower.Model(p.tensors, layout.HF)
	if err != nil {
		return err
	}
	if err := addRows(own, m, p.about.Rows, tokens); err != nil {
		return err
	}
	file.typeOf = p.about.Type
	w := p.tower.Walk(own, layout.GGUF, p.about.Fact)
	w.Sink = file
	return w.Run()
}

// towersAlone returns the file of the towers of a model whose language model is a directory of
// its own, nil if the model is not one of those.
func towersAlone(m *tensorfs.Model, opts Options) *Files {
	left := Towers{}
	if opts.sizing != nil || m.Layout == "gguf" {
		return nil
	}
	for i := range m.Tensors {
		if t := &m.Tensors[i]; t.Owner == "" && !left.Add(t) {
			return nil
		}
	}
	cfg, err := settings.Read(m, "config.json")
	if err != nil || len(left) == 0 {
		return nil
	}
	x, err := projectorsOf(m, cfg, opts, nil, left)
	if err != nil || len(x.list) == 0 || len(x.whyNot) > 0 {
		return nil
	}
	d, err := gguf.Compose(x.keys(), x.list)
	if err != nil {
		return nil
	}
	f := newFiles()
	f.addMmproj(d, x.notes.Types, x.notes.Exact)
	f.Notes = append(x.notes.Notes, "this is only the file of the towers: the directory has no language model")
	return f
}

// keys returns the metadata of the file.
func (x *projectors) keys() []tensorfs.Meta {
	list := make([]*settings.Projector, len(x.towers))
	for i, p := range x.towers {
		list[i] = p.about
	}
	return settings.ProjectorKeys(list, x.notes.FileType)
}

// tokenRow returns the row of a token in the embedding of the language model.
func tokenRow(m *tensorfs.Model, tokens []string, token string) (*tensorfs.Tensor, error) {
	id := slices.Index(tokens, token)
	if id < 0 {
		return nil, fmt.Errorf("llama.cpp needs the token %s, which the vocabulary does not have", token)
	}
	t := layout.TensorsOf(m).Find(layout.Embedding + ".weight")
	if t == nil || len(t.Numbers()) != 2 || int64(id) >= t.Numbers()[0] {
		return nil, fmt.Errorf("llama.cpp needs the row of the token %s, which the embedding does not have", token)
	}
	return layout.Row(t, int64(id))
}
