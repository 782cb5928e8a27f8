package hf

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/architectures"
	"github.com/tensorfs/tensorfs/formats/safetensors"
	"github.com/tensorfs/tensorfs/internal/convert"
	"github.com/tensorfs/tensorfs/internal/convert/layout"
)

// notInMLX are types of safetensors files that MLX refuses a file for.
var notInMLX = []tensorfs.DType{tensorfs.F64, tensorfs.F8_E5M2}

// otherHeads begin the names of what classes that answer with labels or numbers have instead of lm_head.
var otherHeads = []string{"score.", "classifier.", "qa_outputs.", "v_head.", "value_head.", "reward_head.", "regression_head."}

// otherHead returns a tensor of such a class, "" without one. No class of mlx-lm has any.
func otherHead(m *tensorfs.Model) string {
	for _, t := range m.Tensors {
		if slices.ContainsFunc(otherHeads, func(head string) bool { return strings.HasPrefix(t.Source, head) }) {
			return t.Source
		}
	}
	return ""
}

// mendStored adapts the stored files of a model so that mlx-lm loads them: a directory that
// it converted, or a release of a model type that it has. A release gets a config.json with
// everything that mlx-lm reads, and one file of tensors if mlx-lm uses other names for some
// of them, or does not know them. The error explains why mlx-lm would still refuse a
// release.
func mendStored(m *tensorfs.Model, f *convert.Files) error {
	stored, config, err := storedForMLX(m)
	if err != nil {
		return err
	}
	f.Notes = append(f.Notes, config.notes...)
	if name := cmp.Or(convert.Stranger(m), otherHead(m)); name != "" {
		f.Notes = append(f.Notes, fmt.Sprintf("mlx-lm refuses tensors that its class does not have, and no %s is known to have %s", tensorfs.Printable(config.x.kind), tensorfs.Quote(name)))
	}
	if m.Format == "huggingface" {
		if why := cmp.Or(unpacked(m, config), unloaded(m, config), config.lacks); why != "" {
			return errors.New(why)
		}
		if err := rename(m, config, f); err != nil {
			return err
		}
	}
	for i := range f.List {
		if f.List[i].Path == configName && !bytes.Equal(config.text, stored) {
			f.List[i].Data = tensorfs.Bytes(config.text)
		}
	}
	return nil
}

// storedForMLX returns a model's own config.json, and the form of it that mlx-lm reads.
func storedForMLX(m *tensorfs.Model) (stored []byte, config mlxText, err error) {
	if stored, err = storedConfig(m); err != nil {
		return nil, mlxText{}, err
	}
	release := m.Format == "huggingface"
	if config, err = forMLX(stored, release, sourceNames(m)); err == nil && release {
		err = config.untie(m, stored)
	}
	return stored, config, err
}

// tied reports whether a class computes the output with the embedding, and leaves out lm_head.weight.
func (c *mlxText) tied(class *architectures.MLXClass) bool {
	if !class.Has("tied") {
		return false
	}
	said := c.part.raw("tie_word_embeddings")
	if said.Kind() == 't' || said.Kind() == 'f' {
		return said.Kind() == 't'
	}
	return class.Lists("tied", "true")
}

// untie keeps a matrix of the output that differs from the embedding, as transformers 5 does,
// although config.json, or mlx-lm's class without its word, ties the two.
func (c *mlxText) untie(m *tensorfs.Model, stored []byte) error {
	said := c.part.raw("tie_word_embeddings").Kind() == 't'
	tied := len(c.x.classes) > 0 && c.tied(c.x.classes[0])
	find := layout.TensorsOf(m).Find
	head, embedding := find("output.weight"), find(layout.Embedding+".weight")
	if !said && !tied || head == nil || embedding == nil {
		return nil
	}
	same, err := layout.Same(head, embedding)
	switch {
	case err != nil || same:
		return err
	case !tied:
		c.notes = append(c.notes, fmt.Sprintf("config.json ties the output to the embedding, and %s has other numbers: mlx-lm may leave it out", tensorfs.Quote(head.Source)))
		return nil
	}
	c.part.set("tie_word_embeddings", false)
	c.text = mended(stored, c.x, c.y)
	why := "config.json ties the output to the embedding"
	if !said {
		why = "mlx-lm ties the output to the embedding without tie_word_embeddings in config.json"
	}
	c.notes = append(c.notes, fmt.Sprintf("%s, and %s has other numbers: tie_word_embeddings is false here, so that it is used", why, tensorfs.Quote(head.Source)))
	return nil
}

// unloaded returns why mlx-lm does not load a model, but for fields that it lacks, "" if
// it does.
func unloaded(m *tensorfs.Model, config mlxText) string {
	if len(config.x.classes) == 0 {
		return "mlx-lm is not known to have the model type " + tensorfs.Quote(config.x.kind)
	}
	for i := range m.Tensors {
		if t := &m.Tensors[i]; slices.Contains(notInMLX, t.DType) {
			return fmt.Sprintf("MLX loads no %s, which %s is", t.DType, tensorfs.Quote(t.Source))
		}
	}
	for _, name := range config.x.classes[0].Names("refuses") {
		why := config.part.reason(name)
		if name == "turned_experts" {
			why = turnedExperts(m, config.part)
		}
		if why != "" {
			return "mlx-lm's " + tensorfs.Printable(config.x.kind) + " " + why
		}
	}
	return ""
}

// turnedExperts refuses experts of Qwen3-VL as transformers 5 saves them: mlx-lm takes
// the axes in the order of the release, [experts, width, 2*hidden].
func turnedExperts(m *tensorfs.Model, x *mlxConfig) string {
	width, ok := x.number("hidden_size")
	for i := range m.Tensors {
		t := &m.Tensors[i]
		if ok && strings.HasSuffix(t.Source, ".experts.gate_up_proj") && len(t.Shape) == 3 && float64(t.Shape[1]) != width {
			return fmt.Sprintf("takes stacks of experts whose second axis is the width %.0f, but the second axis of %s is %d", width, tensorfs.Quote(t.Source), t.Shape[1])
		}
	}
	return ""
}

// rename gives tensors mlx-lm's names, all in one file, and leaves out tensors that mlx-lm
// does not know. It does nothing if no tensor is affected.
func rename(m *tensorfs.Model, config mlxText, f *convert.Files) error {
	name := namesForMLX(config)
	list := make([]safetensors.Stored, 0, len(m.Tensors))
	changed := false
	for i := range m.Tensors {
		t := &m.Tensors[i]
		as := name(t.Source)
		changed = changed || as != t.Source
		if as != "" {
			list = append(list, safetensors.Stored{Name: as, DType: t.DType, Shape: t.Shape, Data: t.Data})
		}
	}
	if !changed {
		return nil
	}
	return inOneFile(f, mlx, list, "the tensors are in one file, with the names that mlx-lm knows them by")
}

// inOneFile replaces the weights of a stored directory by tensors in one file.
func inOneFile(f *convert.Files, k *kind, list []safetensors.Stored, note string) error {
	weights, err := safetensors.Compose([][2]string{{"format", k.format}}, list)
	if err != nil {
		return err
	}
	f.Tensors, f.Types = len(list), map[string]int{}
	for i := range list {
		f.Types[list[i].DType.String()]++
	}
	f.List = slices.DeleteFunc(f.List, func(file convert.File) bool { return isWeights(file.Path) })
	f.List = append(f.List, convert.File{Path: weightsName, Data: weights})
	slices.SortFunc(f.List, func(a, b convert.File) int { return strings.Compare(a.Path, b.Path) })
	f.Notes = append(f.Notes, note)
	return nil
}

// namesForMLX returns the function that gives a tensor's name for mlx-lm, "" for a tensor
// that it knows nothing of.
func namesForMLX(config mlxText) func(name string) string {
	class := config.x.classes[0]
	layers, counted := config.x.number("num_hidden_layers")
	bare := hasBareNames(config.x.names)
	return func(name string) string {
		var layer int
		if class.Lists("drops", "further_layers") && counted {
			if n, _ := fmt.Sscanf(name, "model.layers.%d.", &layer); n == 1 && float64(layer) >= layers {
				return ""
			}
		}
		if bare && !strings.HasPrefix(name, "lm_head.") {
			return "model." + name
		}
		for _, prefix := range class.Names("strips") {
			name = strings.TrimPrefix(name, prefix)
		}
		return name
	}
}

// sourceNames are the names of tensors in the model's files.
func sourceNames(m *tensorfs.Model) []string {
	names := make([]string, len(m.Tensors))
	for i := range m.Tensors {
		names[i] = m.Tensors[i].Source
	}
	return names
}

// hasBareNames reports whether tensors have names without "model." before them, as
// embedding models are released: as their other part loads them.
func hasBareNames(names []string) bool { return slices.Contains(names, "embed_tokens.weight") }
