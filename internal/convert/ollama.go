package convert

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/architectures"
	"github.com/tensorfs/tensorfs/formats/gguf"
	"github.com/tensorfs/tensorfs/formats/tokenizer"
	"github.com/tensorfs/tensorfs/internal/convert/internal/settings"
	"github.com/tensorfs/tensorfs/internal/convert/layout"
	"github.com/tensorfs/tensorfs/internal/convert/preset"
)

// ollamaTower is the tower of a file of Ollama's own converter as llama.cpp has it.
type ollamaTower struct {
	meta  []tensorfs.Meta
	list  []gguf.Stored
	notes tensorNotes
}

// towerFromOllama makes the vision tower of a model whose file Ollama's converter wrote, nil
// without one. Usual is the language model with llama.cpp's keys and names.
func towerFromOllama(m, usual *tensorfs.Model, opts Options) (*ollamaTower, error) {
	t, err := gguf.TowerOf(m)
	if t == nil || err != nil {
		return nil, err
	}
	list, err := joinParts(t.Parts)
	if err != nil {
		return nil, err
	}
	opts = opts.forTower()
	x := &fileTensors{opts: opts, notes: tensorNotes{Types: map[string]int{}, Exact: true}}
	if t.IsWhole {
		x.typeOf = func(name string) string { return map[bool]string{true: "f32"}[slices.Contains(t.F32, name)] }
		err = x.putAll(list)
	} else {
		err = x.putTower(t, list, usual)
	}
	if err != nil {
		return nil, err
	}
	made := &ollamaTower{}
	if made.list, made.notes, err = x.finish(preset.Model{}); err != nil {
		return nil, err
	}
	made.meta = []tensorfs.Meta{{Key: "general.architecture", Value: "clip"}, {Key: "general.type", Value: "mmproj"}}
	if name := settings.ByKey(m.Metadata)["general.name"]; name != nil {
		made.meta = append(made.meta, tensorfs.Meta{Key: "general.name", Value: name})
	}
	made.meta = append(made.meta, tensorfs.Meta{Key: keyVersion, Value: uint32(2)}, tensorfs.Meta{Key: keyType, Value: made.notes.FileType})
	made.meta = append(made.meta, t.Metadata...)
	return made, nil
}

// putAll takes tensors as they are.
func (x *fileTensors) putAll(list []tensorfs.Tensor) error {
	for i := range list {
		if err := x.Put(list[i].Source, &list[i], layout.OriginOf(&list[i]), false); err != nil {
			return err
		}
	}
	return nil
}

// putTower takes the tensors of a tower that projectors.txt describes, from the names and the
// layout that the table of Ollama's towers leaves them in.
func (x *fileTensors) putTower(t *gguf.Tower, list []tensorfs.Tensor, usual *tensorfs.Model) error {
	about, err := settings.ReadProjector(architectures.Vision, usual, &tensorfs.Model{Layout: "gguf", Metadata: t.Metadata, Tensors: list})
	if err != nil {
		return err
	}
	tower, err := layout.TowerOf(about.Projector, about.Fact)
	if err != nil {
		return err
	}
	x.typeOf = about.Type
	if !t.IsHF {
		own, err := tower.Model(list, layout.GGUF)
		if err != nil {
			return err
		}
		w := tower.Walk(own, layout.HF, about.Fact) // that all are there, in their shapes
		w.Sink = &layout.List{}
		if err := w.Run(); err != nil {
			return err
		}
		return x.putAll(list)
	}
	own, err := tower.Model(list, layout.HF)
	if err != nil {
		return err
	}
	if err := addRows(own, usual, about.Rows, tokensOf(usual)); err != nil {
		return err
	}
	w := tower.Walk(own, layout.GGUF, about.Fact)
	w.ByKeys()
	w.Sink = x
	return w.Run()
}

// joinParts returns the tensors of a tower by the names that the table gives them.
func joinParts(parts []gguf.TowerPart) ([]tensorfs.Tensor, error) {
	list := make([]tensorfs.Tensor, len(parts))
	for i, p := range parts {
		t, err := layout.JoinRows(p.Rows)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", tensorfs.Quote(p.Name), err)
		}
		list[i] = *t
		list[i].Source = p.Name
	}
	return list, nil
}

// tokensOf returns the vocabulary of a language model in a GGUF file.
func tokensOf(m *tensorfs.Model) []string {
	keys := settings.ByKey(m.Metadata)
	v, err := tokenizer.ReadKeys(func(key string) any { return keys[key] }, m.Architecture)
	if err != nil {
		return nil
	}
	return v.Tokens
}

// addRows puts modules into a tower that are rows of the language model's embedding.
func addRows(tower, m *tensorfs.Model, rows map[string]string, tokens []string) error {
	for module, token := range rows {
		t, err := tokenRow(m, tokens, token)
		if err != nil {
			return err
		}
		t.Name = module + ".weight"
		at, _ := slices.BinarySearchFunc(tower.Tensors, t.Name, func(t tensorfs.Tensor, name string) int { return strings.Compare(t.Name, name) })
		tower.Tensors = slices.Insert(tower.Tensors, at, *t)
	}
	return nil
}

// addOllamaTower adds the file of the tower in a file of Ollama's converter, or notes why it
// cannot. left are the tensors that the language model's file does not have.
func (f *Files) addOllamaTower(m, usual *tensorfs.Model, left []string, opts Options) {
	t, err := towerFromOllama(m, usual, opts)
	var d tensorfs.Data
	if err == nil && t != nil {
		d, err = gguf.Compose(t.meta, t.list)
	}
	towers := CountTowers(left)
	if err != nil || t == nil {
		why := ownFile
		if err != nil {
			why += ": " + tensorfs.OneLine(err.Error())
		}
		f.LeaveOut(towers, why)
		return
	}
	f.addMmproj(d, t.notes.Types, t.notes.Exact)
	f.Notes = append(f.Notes, t.notes.Notes...)
	f.LeaveOut(Towers{Audio: towers[Audio]}, ownFile)
}

// TowerFromOllama returns the vision tower of a model whose file Ollama's converter wrote as
// llama.cpp's file of it has it, nil without one. Usual is the language model with
// llama.cpp's keys and names.
func TowerFromOllama(m, usual *tensorfs.Model) (*tensorfs.Model, error) {
	t, err := towerFromOllama(m, usual, Options{})
	if t == nil || err != nil {
		return nil, err
	}
	made := &tensorfs.Model{Layout: "gguf", Metadata: t.meta}
	for _, s := range t.list {
		made.Tensors = append(made.Tensors, tensorfs.Tensor{Name: s.Name, Source: s.Name, DType: s.DType, Shape: s.Shape, Data: s.Data})
	}
	return made, nil
}

// ownFile is why a file of a language model has no tower.
const ownFile = "llama.cpp takes it from a file of its own (--mmproj), which is not made"

// CountTowers counts tensors of towers by their names in a file of Ollama's.
func CountTowers(names []string) Towers {
	towers := Towers{}
	for _, name := range names {
		switch {
		case gguf.IsAudio(name):
			towers[Audio]++
		case gguf.IsTower(name):
			towers[Vision]++
		}
	}
	return towers
}
