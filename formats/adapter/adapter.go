package adapter

import (
	"fmt"
	"path"
	"strings"

	"github.com/tensorfs/tensorfs"
)

// Format is the format of models that are PEFT adapters.
const Format = "adapter"

// ConfigName and WeightsName are PEFT's files.
const (
	ConfigName  = "adapter_config.json"
	WeightsName = "adapter_model.safetensors"
)

// OfMLX is mlx-lm's file of an adapter, which is refused.
const (
	OfMLX        = "adapters.safetensors"
	OfMLXProblem = "it is an adapter of mlx-lm, and these are not read"
	OfMLXAdvice  = "fuse it with mlx_lm.fuse, and name the result"
)

// Adapter is what an adapter adds to a model.
type Adapter struct {
	Path         string // for messages
	Layout       string // "hf" or "gguf": whose names its modules have, and in whose order their rows are
	Architecture string // of GGUF adapters
	Modules      []Module

	About
}

// About is an adapter's description of itself.
type About struct {
	Rank    int      // of most modules
	Alpha   float64  // of most modules
	Base    string   // the model that it was made for, "" where it does not say
	Targets []string // ends of names of modules, or tensors of a GGUF adapter
	Kind    string   // "lora", "rslora" or "dora"
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

	Embedding   bool // A and B belong to an embedding
	FanInFanOut bool // the base has the weight as [in, out]
	Rank        int64
	Scale       float64 // of the product B A: alpha over the rank, or over its root
}

// Of returns what an opened adapter adds. The tensors are the model's.
func Of(m *tensorfs.Model) (*Adapter, error) {
	switch {
	case m.Format == Format:
		return ofPEFT(m)
	case m.Format == "gguf" && m.Meta("general.type") == "adapter":
		return ofGGUF(m)
	case path.Base(m.Path) == OfMLX:
		return nil, tensorfs.Unsupported(m.Path, OfMLXProblem, OfMLXAdvice)
	}
	return nil, tensorfs.Unsupported(m.Path, "it is a model, and no adapter", "name a directory with "+ConfigName+" and "+WeightsName+", or a GGUF file of general.type adapter")
}

// Is reports whether a model is an adapter.
func Is(m *tensorfs.Model) bool {
	return m.Format == Format || m.Format == "gguf" && m.Meta("general.type") == "adapter"
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
