package adapter

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/source"
)

// Format is the format of models that are adapters of PEFT or mlx-lm.
const Format = "adapter"

// ConfigName and WeightsName are PEFT's files.
const (
	ConfigName  = "adapter_config.json"
	WeightsName = "adapter_model.safetensors"
)

// Adapter is what an adapter adds to a model.
type Adapter struct {
	Path         string // for messages
	Layout       string // "hf" or "gguf": whose names its modules have, and in whose order their rows are
	Architecture string // of GGUF adapters
	Modules      []Module
	MLX          bool // modules are mlx-lm's, whose weights may have another form than Hugging Face's

	About
}

// About is an adapter's description of itself.
type About struct {
	Rank    int      // of most modules
	Alpha   float64  // of most modules
	Base    string   // the model that it was made for, "" where it does not say
	Targets []string // ends of names of modules, or tensors of a GGUF adapter
	Kind    string   // "lora", "rslora", "dora" or, if it has whole weights, "full"
}

// Module is what an adapter has for one module of a base.
type Module struct {
	// Name is the module's in the base, without .weight: "model.layers.0.mlp.up_proj"; of GGUF
	// adapters the tensor's: "blk.0.ffn_up.weight".
	Name string
	// Nested counts the base_layer parts of the names of A and B, which PEFT has where it
	// adapts several parameters of a module.
	Nested int
	// Parameters are the module's parameters that the adapter lists as adapted, nil if it
	// adapts the module's weight.
	Parameters []string

	A, B      *tensorfs.Tensor // nil if the adapter has a weight instead
	Magnitude *tensorfs.Tensor // of DoRA; nil without it
	Bias      *tensorfs.Tensor // added to the base's bias, multiplied like the product; nil without it
	Weight    *tensorfs.Tensor // takes the place of the base's; nil without it
	Saved     *tensorfs.Tensor // a copy of Weight from below modules_to_save, which Weight is if the file has no other
	WholeBias *tensorfs.Tensor // takes the place of the base's bias; nil without it
	Tokens    *tensorfs.Tensor // rows that take the place of the base's; nil without them
	Indices   []int64          // of Tokens, each once

	Transposed  bool // A is [in, r] and B [r, out]
	RowLengths  bool // Magnitude is the length of rows also of an embedding, where PEFT has columns
	Embedding   bool // A and B belong to an embedding
	FanInFanOut bool // the base has the weight as [in, out]
	Rank        int64
	Scale       float64 // of the product B A: alpha over the rank, or over its root
}

// Of returns what an opened adapter adds. The tensors are the model's.
func Of(m *tensorfs.Model) (*Adapter, error) {
	switch {
	case m.Format == Format && slices.ContainsFunc(m.Sources, func(s tensorfs.Source) bool { return isMLXWeights(s.Name) }):
		return ofMLX(m)
	case m.Format == Format:
		return ofPEFT(m)
	case m.Format == "gguf" && m.Meta("general.type") == "adapter":
		return ofGGUF(m)
	}
	return nil, tensorfs.Unsupported(m.Path, "it is a model, and no adapter", "name a directory with "+ConfigName+" and "+WeightsName+" or "+MLXWeightsName+", or a GGUF file of general.type adapter")
}

// Is reports whether a model is an adapter.
func Is(m *tensorfs.Model) bool {
	return m.Format == Format || m.Format == "gguf" && m.Meta("general.type") == "adapter"
}

// maxConfig bounds adapter_config.json.
const maxConfig = 4 << 20

func configText(m *tensorfs.Model, where string) ([]byte, error) {
	d, err := m.File(ConfigName)
	if err != nil {
		return nil, err
	}
	return source.ReadAll(d, where, maxConfig)
}

// refusal is an error about a key of adapter_config.json.
func refusal(where, key, why, advice string) error {
	return &tensorfs.FormatError{File: where, Offset: -1, Problem: fmt.Sprintf("%q: %s", key, why), Kind: tensorfs.ErrUnsupported, Advice: advice}
}

// wrong is an error about a tensor of an adapter.
func wrong(m *tensorfs.Model, tensor, problem string, args ...any) error {
	return &tensorfs.FormatError{File: m.Path, Tensor: tensor, Offset: -1, Problem: fmt.Sprintf(problem, args...), Kind: tensorfs.ErrUnsupported}
}

// matrix returns an error unless t is a matrix of floats.
func matrix(m *tensorfs.Model, t *tensorfs.Tensor, dims int) error {
	switch {
	case len(t.Shape) != dims:
		return wrong(m, t.Source, "shape %v, where it should have %d dimensions", t.Shape, dims)
	case t.DType.Kind() == tensorfs.KindInteger || t.Opaque != "" || t.BigEndian && t.DType.Kind() == tensorfs.KindBlock:
		return wrong(m, t.Source, "%s is no type of an adapter's numbers", t.DType)
	}
	if n, _ := tensorfs.Elements(t.Shape); n == 0 {
		return wrong(m, t.Source, "shape %v has no numbers", t.Shape)
	}
	return nil
}

// checkPair returns an error unless A and B of a module belong together. rank is the one
// that A has to have.
func (x *Module) checkPair(m *tensorfs.Model) error {
	switch {
	case x.A == nil && x.B == nil:
		return nil
	case x.A == nil:
		return wrong(m, x.B.Source, "there is a B for %s and no A", tensorfs.Quote(x.Name))
	case x.B == nil:
		return wrong(m, x.A.Source, "there is an A for %s and no B", tensorfs.Quote(x.Name))
	case x.Weight != nil:
		return wrong(m, x.Weight.Source, "there are a whole weight and a product for it")
	}
	return nil
}

// cutSuffixes returns s without the first of some ends that it has, and which that is.
func cutSuffixes(s string, ends ...string) (rest, end string) {
	for _, e := range ends {
		if rest, ok := strings.CutSuffix(s, e); ok {
			return rest, e
		}
	}
	return s, ""
}
