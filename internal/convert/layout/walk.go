package layout

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/architectures"
	"github.com/tensorfs/tensorfs/views/arrange"
)

// Side is for whom tensors are made.
type Side int

// The sides. A description of Hugging Face's side holds for mlx-lm too, unless it has
// another for that.
const (
	GGUF Side = iota
	HF
	MLX
)

// Sink takes the tensors that a walk makes.
type Sink interface {
	// Put takes a tensor by its name on the side. plain means that mlx-lm takes it only as
	// plain numbers.
	Put(name string, t *tensorfs.Tensor, at Origin, plain bool) error
	// Packed takes experts that the release of gpt-oss has as blocks of MXFP4: codes with
	// their scales.
	Packed(name string, module *tensorfs.Tensor, at Origin) error
	// Table takes a tensor of integers, which stays as it is.
	Table(name string, t *tensorfs.Tensor, at Origin) error
	// Numbers returns a tensor as plain numbers of a type, for a move that needs them. The
	// name is the result's.
	Numbers(name string, t *tensorfs.Tensor, to tensorfs.DType) (*tensorfs.Tensor, error)
}

// Walk makes the tensors of one side from the tensors of the other.
type Walk struct {
	Sink
	Model  *tensorfs.Model
	Arch   *architectures.Architecture
	To     Side
	Sizes  *architectures.Sizes
	Layers int64 // how many layers are made

	Answers []int64                       // rows of the output that GGUF files keep, nil means all
	Rows    int64                         // of the embedding that GGUF files keep, 0 for all
	Float   tensorfs.DType                // what mlx-lm casts plain numbers to; Unknown to keep what is stored
	Another func(t *tensorfs.Tensor) bool // reports whether a tensor is of another part than the language model; nil: none is
	Left    []tensorfs.Tensor             // tensors without a use on the side

	facts   architectures.Facts
	moves   map[string]Move
	tensors *Tensors
	used    []bool   // tensors of the model that were made, or are of no use
	labels  []string // of layers, if these are not their numbers
	layer   int64    // the one that is made

	made map[*architectures.Tensor]int // how often a module was made
}

// New returns a walk that still needs the number of layers and the sink. facts have the
// names of keys.txt, and these names of facts that are known only towards GGUF:
//
//	config.NAME   a whole number of config.json
//	number.NAME   a number of config.json, or a list of numbers
//	model_type    of config.json
//	rope          the way in which rotary embeddings are scaled, "" for none
//	rope.NAME     a number of what config.json says of that, or a list of numbers
func New(m *tensorfs.Model, arch *architectures.Architecture, to Side, facts architectures.Facts) *Walk {
	direction := architectures.FromGGUF
	if to == GGUF {
		direction = architectures.ToGGUF
	}
	w := &Walk{Model: m, Arch: arch, To: to, facts: facts, moves: moves, tensors: TensorsOf(m), used: make([]bool, len(m.Tensors)), made: map[*architectures.Tensor]int{}}
	w.Sizes = arch.Sizes(direction, w.given)
	return w
}

// given returns a fact for sizes: what was given with the walk, or whether the layer has a module.
func (w *Walk) given(name string) any {
	if strings.HasPrefix(name, "has.") {
		return w.Fact(name)
	}
	return w.facts(name)
}

// ByKeys marks that the facts are keys of a GGUF file, for either side, so that errors name
// them.
func (w *Walk) ByKeys() { w.Sizes = w.Arch.Sizes(architectures.FromGGUF, w.given) }

// HasAttention reports whether layers of the architecture have heads.
func (w *Walk) HasAttention() bool {
	return slices.ContainsFunc(w.Arch.Layer, func(t architectures.Tensor) bool { return strings.HasPrefix(t.Module, "attention.") })
}

// Run makes all tensors: first the ones before the layers, then the layers, then the rest.
// It refuses a model unless every tensor is used or known to have no use, and every tensor
// that the side requires is present, in a shape that agrees with the config and with the
// other tensors.
func (w *Walk) Run() error {
	if err := w.leave(); err != nil {
		return err
	}
	if err := w.modules(w.Arch.First, ""); err != nil {
		return err
	}
	for w.layer = range w.Layers {
		w.Sizes.Layer(w.layer)
		if err := w.modules(w.Arch.Layer, labelOf(w.labels, w.layer)); err != nil {
			return err
		}
	}
	w.Sizes.Layer(-1)
	if err := w.modules(w.Arch.Last, ""); err != nil {
		return err
	}
	if err := w.next(); err != nil {
		return err
	}
	for i, used := range w.used {
		t := &w.Model.Tensors[i]
		switch {
		case used || t.Owner != "":
		case w.To == GGUF:
			return &StrangerError{w.Arch.Name, t.Source}
		default:
			return fmt.Errorf("the tensor %s has no place in a Hugging Face model of architecture %s", tensorfs.Quote(t.Source), w.Arch.Name)
		}
	}
	return nil
}

// StrangerError is that a model has a tensor that its architecture does not have.
type StrangerError struct {
	Architecture string // as GGUF calls it
	Source       string // the tensor's name in the model's file
}

func (e *StrangerError) Error() string {
	return fmt.Sprintf("a tensor that llama.cpp does not have in %s: %s", e.Architecture, tensorfs.Quote(e.Source))
}

// leave marks the tensors without a use on the side, and finds tensors without numbers.
func (w *Walk) leave() error {
	for i := range w.Model.Tensors {
		t := &w.Model.Tensors[i]
		switch {
		case t.Owner != "":
		case w.Another != nil && w.Another(t), w.To == GGUF && w.dropped(t):
			w.Left = append(w.Left, *t)
			w.used[i] = true
		case t.Opaque != "":
			return fmt.Errorf("%s: %s", tensorfs.Quote(t.Source), t.Opaque)
		case w.To != GGUF && w.inConfig(t.Name):
			w.used[i] = true
		}
	}
	return nil
}

// dropped reports whether GGUF files do not have a tensor.
func (w *Walk) dropped(t *tensorfs.Tensor) bool {
	return strings.HasSuffix(t.Source, computedFrequencies) || w.Arch.Drops(t.Weight(), t.Source) || w.Arch.DropsBeyond() && w.beyond(t)
}

// computedFrequencies ends the names of tensors that every model computes of its config.
const computedFrequencies = "rotary_emb.inv_freq"

// beyond reports whether a tensor belongs to a layer after the last one, which is
// for predicting more than one token.
func (w *Walk) beyond(t *tensorfs.Tensor) bool {
	rest, ok := strings.CutPrefix(t.Weight(), "layers.")
	var n int64
	if !ok {
		return false
	}
	_, err := fmt.Sscanf(rest, "%d.", &n)
	return err == nil && n >= w.Layers
}

// inConfig reports whether a tensor, by its canonical name, is one that config.json holds.
func (w *Walk) inConfig(name string) bool {
	return slices.ContainsFunc(w.Arch.First, func(t architectures.Tensor) bool {
		return t.Module+".weight" == name && slices.ContainsFunc(t.Moves, func(m architectures.Move) bool { return w.moves[m.Name].InConfig })
	})
}

// module is one that is made: its canonical name, and that on the side, without .weight
// and .bias, and the number of its layer with a dot.
type module struct {
	*architectures.Tensor
	from, to string
	layer    string
}

// part is the weight or the bias of a module.
type part struct {
	*module
	param string   // ".weight" or ".bias", "" for a module that is one tensor
	args  []string // of the move that is made
}

// canonical is the canonical name of the part.
func (p *part) canonical() string { return p.from + p.param }

// name is its name on the side.
func (w *Walk) name(p *part) string {
	if w.To == GGUF {
		return p.GGUFPart(p.to, p.param)
	}
	return p.HFPart(p.to, p.param)
}

// isBound reports whether the part is a bound of what goes into a layer or comes out: a
// number, which GGUF has as a list of one.
func (p *part) isBound() bool { return p.param != ".weight" && p.param != ".bias" && p.param != "" }

// parts are a module's parts.
func (m *module) parts() []*part {
	if m.Whole {
		return []*part{{module: m}}
	}
	var list []*part
	for _, param := range m.Params() {
		list = append(list, &part{module: m, param: param})
	}
	return list
}

// modules makes the modules whose condition holds. layer is "" or the number of a layer
// and a dot.
func (w *Walk) modules(list []architectures.Tensor, layer string) error {
	for i := range list {
		if m := w.module(&list[i], layer); m != nil {
			if err := w.make(m); err != nil {
				return err
			}
			w.made[&list[i]]++
		}
	}
	return nil
}

// module returns a module of a layer by its names, nil if the side does not have it.
func (w *Walk) module(t *architectures.Tensor, layer string) *module {
	from := t.Module
	apart := layer != "" && w.isApart()
	switch {
	case apart && w.To == GGUF:
		from = w.nextIn(t.Module)
	case layer != "":
		from = architectures.Canonical(from, layer)
	}
	spelling := t.HF
	if w.To == MLX && t.MLX != "" {
		spelling = t.MLX
	}
	if w.To != GGUF && spelling == "" || !t.When.Holds(w.Fact) { // in the config, or not there
		return nil
	}
	switch nth := w.made[t]; {
	case w.To == GGUF:
		return &module{t, from, w.Arch.InGGUF(t, layer), layer}
	case apart:
		return &module{t, from, w.nextSpelling(t.Module, spelling), layer}
	case w.To == MLX:
		return &module{t, from, w.Arch.InMLX(spelling, layer, nth), layer}
	default:
		name := w.Arch.InHF(spelling, layer, nth)
		if w.Arch.Bare != nil && w.Arch.Bare.Holds(w.Fact) {
			for _, body := range bodies {
				name = strings.TrimPrefix(name, body)
			}
		}
		return &module{t, from, name, layer}
	}
}

// bodies are what classes with a head put before the names of those without.
var bodies = []string{"model.", "roberta.", "distilbert."}

// make makes the weight and the bias of a module.
func (w *Walk) make(m *module) error {
	if w.To != GGUF {
		for _, move := range m.Moves {
			if all := w.moves[move.Name].All; all != nil {
				return all(w, m)
			}
		}
	}
	for _, p := range m.parts() {
		make := w.toGGUF
		if w.To != GGUF {
			make = w.fromGGUF
		}
		if err := make(p); err != nil {
			return err
		}
	}
	return nil
}

// toGGUF makes a part of a module of a GGUF file.
func (w *Walk) toGGUF(p *part) error {
	need := p.Needs(p.param, architectures.ToGGUF)
	if need == architectures.Never {
		return nil
	}
	find := asStored
	for _, move := range p.Moves {
		if f := w.moves[move.Name].Find; f != nil {
			find, p.args = f, move.Args
		}
	}
	t, err := find(w, p)
	for _, move := range p.Moves {
		if to := w.moves[move.Name].To; to != nil && t != nil && err == nil {
			p.args = move.Args
			t, err = to(w, p, t)
		}
	}
	if t != nil && err == nil && p.isBound() {
		t, err = arrange.Reshape(t, 1)
	}
	switch {
	case err != nil:
		return fmt.Errorf("%s: %w", w.name(p), err)
	case t == nil:
		if need == architectures.Always {
			return fmt.Errorf("the tensor %s is missing, which is %s in llama.cpp", p.canonical(), w.name(p))
		}
		return nil
	}
	switch {
	case p.param == ".bias" && p.Moved("column"):
		err = w.Sizes.Hold(tensorfs.Quote(t.Source), t.Numbers(), columnOf(p.Shape))
	case p.param == ".bias" && p.Moved("plane"):
		err = w.Sizes.Hold(tensorfs.Quote(t.Source), t.Numbers(), planesOf(p.Shape))
	case p.Moved("head_columns"): // which holds the shape of a weight and of a bias
	default:
		err = w.shaped(t, p.Shape, p.param)
	}
	if err != nil {
		return err
	}
	return w.put(p, t, OriginOf(t))
}

// put passes a part to the sink.
func (w *Walk) put(p *part, t *tensorfs.Tensor, at Origin) error {
	if p.Moved("integers") {
		return w.Table(w.name(p), t, at)
	}
	return w.Put(w.name(p), t, at, p.Plain)
}

// fromGGUF makes a part of a module of a directory.
func (w *Walk) fromGGUF(p *part) error {
	need := p.Needs(p.param, architectures.FromGGUF)
	if need == architectures.Never {
		if t := w.tensor(p.canonical()); t != nil && p.Moved("heads") {
			return fmt.Errorf("whether the rows of %s are permuted cannot be told, because programs that write such files disagree", tensorfs.Quote(t.Source))
		}
		return nil
	}
	shape := p.Shape
	for _, move := range p.Moves {
		if w.moves[move.Name].AnyShape {
			shape = nil
		}
	}
	t, err := w.taken(p.canonical(), shape, need)
	if t == nil || err != nil {
		return err
	}
	at := OriginOf(t)
	if t, err = w.undone(p, t); err == nil && p.isBound() {
		t, err = arrange.Reshape(t)
	}
	if err != nil {
		return err
	}
	return w.put(p, t, at)
}

// undone makes the tensor that a directory has of one of GGUF.
func (w *Walk) undone(p *part, t *tensorfs.Tensor) (*tensorfs.Tensor, error) {
	of := t
	for _, move := range slices.Backward(p.Moves) {
		if from := w.moves[move.Name].From; from != nil {
			var err error
			p.args = move.Args
			if t, err = from(w, p, t); err != nil {
				return nil, fmt.Errorf("%s cannot be %s: %w", tensorfs.Quote(of.Source), w.name(p), err)
			}
		}
	}
	return t, nil
}

// shaped compares the shape of a weight or a bias with the dimensions of the weight.
func (w *Walk) shaped(t *tensorfs.Tensor, dims []string, param string) error {
	switch {
	case param == ".bias" && len(dims) == 4: // of a convolution
		dims = dims[:1]
	case param == ".bias" && len(dims) > 1:
		dims = dims[:len(dims)-1]
	case strings.HasSuffix(param, "put_min"), strings.HasSuffix(param, "put_max"): // bounds
		dims = []string{"1"}
	}
	return w.Sizes.Hold(tensorfs.Quote(t.Source), t.Numbers(), dims)
}

// tensor returns the model's tensor that holds a weight, or nil.
func (w *Walk) tensor(name string) *tensorfs.Tensor { return w.tensors.Find(name) }

// has reports whether the model has a module.
func (w *Walk) has(name string) bool { return w.tensor(name+".weight") != nil || w.tensor(name) != nil }

// take returns the tensor that holds a weight and marks it as used.
func (w *Walk) take(name string) *tensorfs.Tensor {
	i := w.tensors.index(name)
	if i < 0 {
		return nil
	}
	w.used[i] = true
	return &w.Model.Tensors[i]
}

// taken is take for a tensor that must exist, in a shape; nil means any.
func (w *Walk) taken(name string, shape []string, need architectures.Need) (*tensorfs.Tensor, error) {
	t := w.take(name)
	switch {
	case t == nil && need == architectures.Always:
		return nil, fmt.Errorf("the tensor %s of architecture %s is missing", name, w.Arch.Name)
	case t == nil:
		return nil, nil
	case shape == nil:
		return t, nil
	}
	return t, w.shaped(t, shape, name[max(strings.LastIndexByte(name, '.'), 0):])
}

// inLayer puts a stem in the layer that is made.
func (w *Walk) inLayer(stem string) string {
	if w.isApart() && w.To == GGUF {
		return w.nextIn(stem)
	}
	return architectures.Canonical(stem, labelOf(w.labels, w.layer))
}

// Fact returns a fact of the model, for conditions: the sizes, what was given with the
// walk, and of the walk itself
//
//	has.STEM            the layer, or the model, has the weight of that module
//	has.layers.N.STEM   that layer has it
//	layer               the number of the layer
//	mlx                 the tensors are for mlx-lm
func (w *Walk) Fact(name string) any {
	stem, isTensor := strings.CutPrefix(name, "has.")
	switch {
	case strings.HasPrefix(stem, "layers."):
		return w.has(stem)
	case isTensor:
		return w.has(stem) || w.has(w.inLayer(stem))
	case name == "mlx":
		return w.To == MLX
	case name == "layer":
		return w.layer
	}
	return w.Sizes.Fact(name)
}
