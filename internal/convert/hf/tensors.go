package hf

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/architectures"
	"github.com/tensorfs/tensorfs/formats/names"
	"github.com/tensorfs/tensorfs/formats/safetensors"
	"github.com/tensorfs/tensorfs/internal/convert"
	"github.com/tensorfs/tensorfs/internal/convert/internal/settings"
	"github.com/tensorfs/tensorfs/internal/convert/layout"
)

// result is the tensors of one model.safetensors, and what the other files of the
// directory say of them.
type result struct {
	List         []safetensors.Stored // in the order in which they are laid out
	Torch        string               // torch_dtype for config.json
	Quantization []byte               // JSON object for mlx/config.json, nil if nothing is quantised
	Experts      bool                 // the experts of gpt-oss are written as blocks of MXFP4

	Types map[string]int // how many tensors have a type
	Exact bool           // all numbers equal the model's
	Notes []string       // inexact conversions, a line for each kind
	Left  convert.Towers // tensors that the directory has none of

	Parameters int64 // of weights that were quantised here, 0 without
}

// purpose describes what tensors are for.
type purpose struct {
	mlx   bool // for mlx-lm
	again bool // to be quantised again: nothing is to stay quantised
}

// newTensors makes the tensors of a directory, or returns the reason why there is no such directory.
//
//	GGUF ----------> what formats/architectures says of the architecture
//	MLX, Ollama ---> the same names, but for what mlx-lm stores in another form
func newTensors(m *tensorfs.Model, of purpose) (*tensorMaker, error) {
	x := &tensorMaker{m: m, purpose: of, left: convert.Towers{}}
	x.uncast, _ = architectures.Trait(m.Architecture, architectures.Uncast)
	if m.Layout != "gguf" {
		return x, x.runStored()
	}
	f, err := withFactors(m)
	if err != nil {
		return nil, err
	}
	x.m, x.factors = f.Model, f
	w, err := newWalk(f.Model, of.mlx)
	if err != nil {
		return nil, err
	}
	if of.mlx {
		x.float = floatOf(f.Model, w.Arch)
	}
	w.Sink, w.Float, w.Another = x, x.float, x.left.Add
	return x, w.Run()
}

// floatOf returns the type to which mlx-lm casts the numbers of a GGUF model: torch_dtype of hf/, which follows from the
// types of the matrices there. They are the model's, but for experts that stay blocks of MXFP4.
func floatOf(m *tensorfs.Model, a *architectures.Architecture) tensorfs.DType {
	packed := slices.ContainsFunc(a.Layer, func(t architectures.Tensor) bool { return t.Moved("alternate") })
	have := map[tensorfs.DType]bool{}
	for i := range m.Tensors {
		t := &m.Tensors[i]
		if t.Owner != "" || len(t.Numbers()) < 2 || (convert.Towers{}).Add(t) || packed && t.DType == tensorfs.MXFP4 {
			continue
		}
		have[layout.PlainType(t)] = true
	}
	return commonFloat(have)
}

// commonFloat returns the type of most matrices, ignoring F32, because only small tensors that have to be exact are F32.
func commonFloat(have map[tensorfs.DType]bool) tensorfs.DType {
	for _, to := range []tensorfs.DType{tensorfs.F16, tensorfs.BF16} {
		if have[to] {
			return to
		}
	}
	return tensorfs.F32
}

// tensorMaker takes the tensors of one directory.
type tensorMaker struct {
	purpose
	m       *tensorfs.Model
	float   tensorfs.DType // of tensors that are not quantised for mlx-lm; Unknown keeps the stored types
	uncast  string         // the end of names of tensors that mlx-lm does not cast, only of this architecture
	list    []placed
	modules []quantised
	experts bool // as in result
	rounded map[string][]string
	left    convert.Towers // tensors that no language model has
	factors *factored      // of a GGUF model

	quantised   map[string]bool // tensors that are numbers now, and were quantised
	made        int             // modules that were quantised here
	description []byte          // config.json's description of them
}

// maxTensorLayers bounds the layers that metadata claims, so that loops end.
const maxTensorLayers = 4096

// Order returns a walk that knows the order of rows and columns of a model of either layout,
// and makes no tensors.
func Order(m *tensorfs.Model) (*layout.Walk, error) {
	if m.Layout == "gguf" {
		return newWalk(m, false)
	}
	return convert.Order(m)
}

// newWalk returns what makes the tensors of a GGUF model, but for its sink.
func newWalk(m *tensorfs.Model, mlx bool) (*layout.Walk, error) {
	k := ggufSizes{m, settings.ByKey(m.Metadata), ""}
	if k.arch, _ = k.keys["general.architecture"].(string); k.arch == "" {
		k.arch = m.Architecture
	}
	a, to := architectures.Find(k.arch), layout.HF
	switch {
	case a == nil || !a.Makes("hf") && !(mlx && a.Makes("mlx")):
		return nil, fmt.Errorf("no Hugging Face form known for architecture %s", tensorfs.Printable(k.arch))
	case mlx && !a.Makes("mlx"):
		return nil, fmt.Errorf("mlx-lm has no architecture %s", k.arch)
	case mlx:
		to = layout.MLX
	}
	w := layout.New(m, a, to, k.facts())
	if w.Layers = cmp.Or(w.Sizes.Len("layers"), k.number("block_count")-k.number("nextn_predict_layers")); w.Layers < 1 || w.Layers > maxTensorLayers {
		return nil, fmt.Errorf("%s.block_count leaves %d layers, and a Hugging Face model has 1 to %d", k.arch, w.Layers, maxTensorLayers)
	}
	for _, fact := range []string{"n_heads", "n_kv_heads", "ffn_dim"} {
		key := architectures.FactOf(fact).Keys[0]
		if _, ok := k.same(key); !ok && !a.Varies(fact) {
			return nil, fmt.Errorf("%s.%s differs between layers, and a Hugging Face model of this architecture has one number", k.arch, key)
		}
	}
	for _, d := range []struct{ name, what string }{{"width", "numbers the hidden state"}, {"heads", "heads"}} {
		if w.Sizes.Len(d.name) == 0 && (d.name == "width" || w.HasAttention()) {
			return nil, fmt.Errorf("the metadata of architecture %s do not say how many %s it has", k.arch, d.what)
		}
	}
	if slices.ContainsFunc(a.Layer, func(t architectures.Tensor) bool { return t.Moved("latent_k") }) {
		if err := w.Sizes.Need("kv_rank", "nope", "v_head", "rope_head"); err != nil {
			return nil, fmt.Errorf("the sizes of latent attention are not known: %w", err)
		}
	}
	return w, w.Sizes.Implied(w.Fact)
}

// InLayoutOfHF returns the tensors of a model in GGUF's layout as a directory of Hugging
// Face has them: rows moved, experts one by one, under canonical names in that order. They
// keep their stored types. The error explains why the tensors of such a directory are not
// known.
func InLayoutOfHF(m *tensorfs.Model) ([]tensorfs.Tensor, error) {
	made, err := listed(m)
	if err != nil {
		return nil, err
	}
	return made.Canonical(names.HF, m.Architecture), nil
}

// NamedByHF is InLayoutOfHF without an order, and with the names of Hugging Face beside
// the tensors.
func NamedByHF(m *tensorfs.Model) (list []tensorfs.Tensor, of []names.Source, err error) {
	made, err := listed(m)
	if err != nil {
		return nil, nil, err
	}
	return made.Tensors, made.Names, nil
}

func listed(m *tensorfs.Model) (*layout.List, error) {
	f, err := withFactors(m)
	if err != nil {
		return nil, err
	}
	w, err := newWalk(f.Model, false)
	if err != nil {
		return nil, err
	}
	made := &layout.List{}
	w.Sink = made
	return made, w.Run()
}
