package layout

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/architectures"
)

// Tower is what finds the tensors of a tower.
type Tower struct {
	*architectures.Projector
	Layers    int64
	Deepstack []bool // the layers whose results go to the language model, if any

	facts     architectures.Facts
	labels    []string          // of the layers, if these are not their numbers; see Label
	layer     int64             // that is named
	directory map[string]string // names on the side of Hugging Face
}

// maxTowerLayers bounds the layers of a tower. Published towers have up to 63.
const maxTowerLayers = 512

// TowerOf returns what finds the tensors of a tower with these facts, by the names of
// keys.txt.
func TowerOf(p *architectures.Projector, facts architectures.Facts) (*Tower, error) {
	x := &Tower{Projector: p, facts: facts}
	if x.Layers, _ = facts("n_layers").(int64); x.Layers < 1 && len(p.Layer) > 0 || x.Layers < 0 || x.Layers > maxTowerLayers {
		return nil, fmt.Errorf("the %s tower has %d layers, and 1 to %d are read", p.Part, x.Layers, maxTowerLayers)
	}
	if places := placesOf(facts); int64(len(places)) > x.Layers {
		return nil, fmt.Errorf("the tower has %d projectors, which are more than its %d layers", len(places), x.Layers)
	} else if len(places) > 0 {
		of, own := *p, *p.Architecture
		of.Architecture, own.Places = &own, places
		x.Projector = &of
	}
	list, _ := facts("deepstack_layers").([]any)
	for _, deep := range list {
		x.Deepstack = append(x.Deepstack, deep == true)
	}
	return x, nil
}

// Label finds the layers of a tower whose layers have two numbers, a stage and a block in it, by the names of its tensors on a
// side. Other towers stay as they are.
func (x *Tower) Label(list []tensorfs.Tensor, from Side) error {
	if !slices.Contains(x.Settings.Words("numbers"), "stages") {
		return nil
	}
	prefix := x.Architecture.Blocks
	if from == HF {
		prefix = x.Published(x.InHF(x.Prefix, "", 0))
	}
	var found [][2]int
	for i := range list {
		name := list[i].Source
		if from == HF {
			name = x.Published(name)
		}
		rest, ok := strings.CutPrefix(name, prefix)
		parts := strings.SplitN(rest, ".", 3)
		if !ok || len(parts) < 3 {
			continue
		}
		stage, errStage := strconv.ParseUint(parts[0], 10, 16)
		block, errBlock := strconv.ParseUint(parts[1], 10, 16)
		if errStage == nil && errBlock == nil {
			found = append(found, [2]int{int(stage), int(block)})
		}
	}
	slices.SortFunc(found, func(a, b [2]int) int { return cmp.Or(a[0]-b[0], a[1]-b[1]) })
	if found = slices.Compact(found); len(found) == 0 || len(found) > maxTowerLayers {
		return fmt.Errorf("the %s tower has %d blocks, and 1 to %d are read", x.Part, len(found), maxTowerLayers)
	}
	x.labels = make([]string, len(found))
	for i, at := range found {
		x.labels[i] = fmt.Sprintf("%d.%d", at[0], at[1])
	}
	x.Layers = int64(len(found))
	return nil
}

// placesOf returns what a directory calls the projectors of a tower that has several, by their numbers in GGUF with a dot. The numbers
// follow the layers of the language model; a directory has the projectors of one kind by the layers of the tower.
func placesOf(facts architectures.Facts) map[string]string {
	seen, _ := facts("feature_layers").([]any)
	offsets, _ := facts("spatial_offsets").([]any)
	if len(seen) != len(offsets) {
		return nil
	}
	places := map[string]string{}
	for i, offset := range offsets {
		name := fmt.Sprintf("spatial_projectors.%v", offset)
		if layer, _ := seen[i].(int64); offset == int64(-1) {
			before := 0
			for j := range seen {
				if other, _ := seen[j].(int64); offsets[j] == offset && (other < layer || other == layer && j < i) {
					before++
				}
			}
			name = fmt.Sprintf("layerwise_projectors.%d", before)
		}
		places[fmt.Sprintf("%d.", i)] = name
	}
	return places
}

// Knows reports whether a tensor of a directory is one of the tower's, by its name there.
func (x *Tower) Knows(source string) bool {
	if x.directory == nil {
		x.directory = x.names(HF)
	}
	_, ok := x.directory[x.Published(source)]
	return ok || x.Drops(source)
}

// Drops is Skips, and reports a tensor of the layer after the last one if the description drops it.
func (x *Tower) Drops(source string) bool {
	if x.Skips(source) || !x.DropsBeyond() {
		return x.Skips(source)
	}
	rest, ok := strings.CutPrefix(x.Published(source), x.Published(x.InHF(x.Prefix, "", 0)))
	number, _, _ := strings.Cut(rest, ".")
	layer, err := strconv.ParseInt(number, 10, 64)
	return ok && err == nil && layer == x.Layers
}

// Model returns tensors as a model of their own, by the names of modules in
// formats/architectures/towers.txt. from is the side whose names they have.
func (x *Tower) Model(list []tensorfs.Tensor, from Side) (*tensorfs.Model, error) {
	if x.labels == nil {
		if err := x.Label(list, from); err != nil {
			return nil, err
		}
	}
	known := x.names(from)
	m := &tensorfs.Model{Layout: map[Side]string{GGUF: "gguf", HF: "hf"}[from]}
	for _, t := range list {
		source := t.Source
		if from == HF {
			if x.Drops(source) {
				continue
			}
			source = x.Published(source)
		}
		name, ok := known[source]
		if _, isRow := x.Rows[strings.TrimSuffix(name, ".weight")]; ok && isRow { // the embedding has it, too
			continue
		}
		if !ok {
			return nil, fmt.Errorf("a tensor that the projector %s does not have: %s", x.Settings.Name, tensorfs.Quote(t.Source))
		}
		t.Name = name
		m.Tensors = append(m.Tensors, t)
	}
	slices.SortFunc(m.Tensors, func(a, b tensorfs.Tensor) int { return strings.Compare(a.Name, b.Name) })
	for i := 1; i < len(m.Tensors); i++ {
		if a, b := &m.Tensors[i-1], &m.Tensors[i]; a.Name == b.Name {
			return nil, fmt.Errorf("%s and %s are the same tensor of the projector %s", tensorfs.Quote(a.Source), tensorfs.Quote(b.Source), x.Settings.Name)
		}
	}
	return m, nil
}

// names maps the names of tensors on a side to the names of the modules. Hugging Face's
// names are spelled as in [architectures.Published].
func (x *Tower) names(from Side) map[string]string {
	known := map[string]string{}
	add := func(t *architectures.Tensor, layer string, nth int) {
		canonical := t.Module
		if joined := t.Joined(); from == HF && joined != "" {
			canonical = joined
		}
		if from == HF && t.Moved("frame") { // one tensor for two modules
			canonical = strings.TrimSuffix(canonical, ".2")
		}
		if layer != "" {
			canonical = "layers." + layer + canonical
		}
		direction := architectures.FromGGUF
		if from == HF {
			direction = architectures.ToGGUF
		}
		params := slices.Clone(t.Params())
		if from == HF && t.Moved("folded") {
			params = append(params, runningMean, runningVariance)
		}
		for _, param := range params {
			if t.Needs(param, direction) == architectures.Never {
				continue
			}
			name := t.GGUFPart(x.InGGUF(t, layer), param)
			if from == HF {
				name = x.Published(t.HFPart(x.InHF(t.HF, layer, nth), param))
			}
			known[name] = canonical + param
			for _, item := range x.Settings.Words("spelled") {
				if other, here, _ := strings.Cut(item, "="); from == GGUF {
					known[strings.Replace(name, here, other, 1)] = canonical + param
				}
			}
		}
	}
	for _, list := range [][]architectures.Tensor{x.First, x.Last} {
		for i := range list {
			if from == GGUF || list[i].HF != "" {
				add(&list[i], "", 0)
			}
		}
	}
	nth := 0
	for x.layer = range x.Layers {
		for i := range x.Layer {
			if t := &x.Layer[i]; t.When.Holds(x.fact) {
				add(t, labelOf(x.labels, x.layer), nth)
			}
		}
		if x.fact("deepstack") == true {
			nth++
		}
	}
	return known
}

// fact is what conditions of projectors.txt ask for.
func (x *Tower) fact(name string) any {
	if name == "deepstack" {
		return x.layer < int64(len(x.Deepstack)) && x.Deepstack[x.layer]
	}
	if strings.HasPrefix(name, "has.") {
		return true // a module that the layer may have
	}
	switch name {
	case "layer":
		return x.layer
	case "projectors":
		return int64(len(x.Places))
	}
	return x.facts(name)
}

// Walk returns a walk through the tensors of a tower, as Model returns them. facts are the
// tower's, by the names of keys.txt.
func (x *Tower) Walk(m *tensorfs.Model, to Side, facts architectures.Facts) *Walk {
	var w *Walk
	w = New(m, x.Architecture, to, func(name string) any {
		if v := facts(name); v != nil || name != "deepstack" && name != "projectors" {
			return v
		}
		x.layer = w.layer
		return x.fact(name)
	})
	w.Layers, w.labels = x.Layers, x.labels
	return w
}

// labelOf is what names of tensors have for a layer, with a dot: its label, or its number if there are no labels.
func labelOf(labels []string, layer int64) string {
	if layer < int64(len(labels)) {
		return labels[layer] + "."
	}
	return strconv.FormatInt(layer, 10) + "."
}
