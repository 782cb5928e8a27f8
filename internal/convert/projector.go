package convert

import (
	"fmt"
	"slices"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/gguf"
	"github.com/tensorfs/tensorfs/internal/convert/internal/settings"
	"github.com/tensorfs/tensorfs/internal/convert/layout"
	"github.com/tensorfs/tensorfs/internal/convert/preset"
)

// TowerFile is the file below gguf/ that has the vision tower. llama.cpp knows it by
// these letters in its name.
const TowerFile = "mmproj.gguf"

// projector returns the file of a model's vision tower, which llama.cpp loads beside the
// language model's, with notes about its tensors. tokens are the vocabulary. The error
// explains why there is no such file.
func projector(m *tensorfs.Model, cfg settings.Fields, opts Options, tokens []string) (tensorfs.Data, tensorNotes, error) {
	about, err := settings.ToProjector(m, cfg)
	if err != nil {
		return nil, tensorNotes{}, err
	}
	list, notes, err := projectorTensors(m, about, opts, tokens)
	if err != nil {
		return nil, tensorNotes{}, err
	}
	notes.Notes = append(notes.Notes, about.Notes()...)
	d, err := gguf.Compose(about.Keys(notes.FileType), list)
	return d, notes, err
}

// projectorTensors returns the tensors of the file.
func projectorTensors(m *tensorfs.Model, about *settings.Projector, opts Options, tokens []string) ([]gguf.Stored, tensorNotes, error) {
	tower, err := layout.TowerOf(about.Projector, about.Fact)
	if err != nil {
		return nil, tensorNotes{}, err
	}
	var list []tensorfs.Tensor
	for i := range m.Tensors {
		if t := &m.Tensors[i]; t.Owner == "" && slices.Contains([]string{Vision, projectorTower}, towerOf(t)) {
			list = append(list, *t)
		}
	}
	own, err := tower.Model(list, layout.HF)
	if err != nil {
		return nil, tensorNotes{}, err
	}
	if err := addRows(own, m, about.Rows, tokens); err != nil {
		return nil, tensorNotes{}, err
	}
	opts = opts.forTower()
	x := &fileTensors{opts: opts, types: about.Types, notes: tensorNotes{Types: map[string]int{}, Exact: true, Left: Towers{}}}
	w := tower.Walk(own, layout.GGUF, about.Fact)
	w.Sink = x
	if err := w.Run(); err != nil {
		return nil, tensorNotes{}, err
	}
	return x.finish(preset.Model{})
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
