package whole

import (
	"fmt"
	"strings"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/architectures"
	"github.com/tensorfs/tensorfs/formats/gguf"
)

// tensorNotes say what became of a model's tensors.
type tensorNotes struct {
	Types    map[string]int // how many tensors have a type
	Exact    bool           // all numbers are those of the model
	Notes    []string       // what is not exact, a line for each kind
	FileType uint32         // for general.file_type: that of most numbers
	Left     Towers         // tensors that no language model has
}

// tensors returns the tensors of the GGUF file, in the order in which llama.cpp
// needs them: token_embd, blk.0.*, ..., output_norm, output. The error is why
// there is no such file. rows is how many rows of the embedding are kept, 0 for
// all of them.
//
// Every tensor of the model is used or known to be of no use; every tensor that
// llama.cpp asks for is there, in a shape that agrees with the config and with the
// other tensors. It refuses a file of which this is not true.
func tensors(m *tensorfs.Model, cfg settings, arch string, opts Options, rows int) ([]gguf.Stored, tensorNotes, error) {
	x, err := newMaker(m, cfg, arch, opts, int64(rows))
	if err != nil {
		return nil, tensorNotes{}, err
	}
	x.put = x.add
	if err := x.run(); err != nil {
		return nil, tensorNotes{}, err
	}
	return x.list, x.finish(), nil
}

// newMaker returns what makes the tensors of an architecture, but for put.
func newMaker(m *tensorfs.Model, cfg settings, arch string, opts Options, rows int64) (*maker, error) {
	a := architectures.Find(arch)
	if a == nil || !a.Makes("gguf") {
		return nil, fmt.Errorf("the tensors of the architecture %s are not known", tensorfs.Quote(arch))
	}
	return &maker{
		m: m, cfg: cfg, arch: arch, described: a, opts: opts, rows: rows, used: make([]bool, len(m.Tensors)), dropped: make([]bool, len(m.Tensors)),
		notes: tensorNotes{Types: map[string]int{}, Exact: true, Left: Towers{}},
	}, nil
}

// embeddingRows returns the rows of the model's token embedding, 0 without one and
// for one that has no numbers: tables are as long as that, and rows of nothing can
// be as many as somebody writes.
func embeddingRows(m *tensorfs.Model) int {
	x := maker{m: m}
	if t := x.find(embedding + ".weight"); t != nil && len(t.Numbers()) == 2 && t.Numbers()[1] > 0 {
		return int(t.Numbers()[0])
	}
	return 0
}

// embedding is the canonical name of the token embedding, without its last part.
const embedding = "token_embedding"

// maker makes the tensors of one file.
type maker struct {
	m         *tensorfs.Model
	cfg       settings
	arch      string
	described *architectures.Architecture
	opts      Options
	rows      int64            // of the embedding that are kept, 0 for all
	codes     map[string]int32 // tensors by the weight whose codes they hold under another name
	used      []bool           // tensors of m that the file has, or that it does not need
	dropped   []bool           // those that it does not need
	sizes     *architectures.Sizes
	put       func(name string, t *tensorfs.Tensor) error // takes a tensor that is in GGUF's layout

	layers, layer int64 // how many there are, and the one that is made
	list          []gguf.Stored
	notes         tensorNotes
	numbers       map[tensorfs.DType]int64 // in tensors of two and more dimensions
	kept          []string                 // tensors that were not converted to the type that was asked for
	rounded       map[string][]string      // tensors whose numbers are rounded, by what becomes of them
}

// run makes all tensors.
func (x *maker) run() error {
	var ok bool
	if x.layers, ok = x.cfg.integer("n_layers", "num_hidden_layers", "n_layer", "num_layers"); !ok || x.layers < 1 || x.layers > maxLayers {
		return fmt.Errorf("config.json does not say how many layers there are, or it says more than %d", maxLayers)
	}
	if err := x.drop(); err != nil {
		return err
	}
	if err := x.bind(); err != nil {
		return err
	}
	if err := x.tensors(x.described.First, ""); err != nil {
		return err
	}
	for x.layer = range x.layers {
		if err := x.tensors(x.described.Layer, fmt.Sprintf("%d.", x.layer)); err != nil {
			return err
		}
	}
	if err := x.tensors(x.described.Last, ""); err != nil {
		return err
	}
	for i, used := range x.used {
		if t := &x.m.Tensors[i]; !used && t.Owner == "" {
			return fmt.Errorf("a tensor that llama.cpp does not have in %s: %s", x.arch, tensorfs.Quote(t.Source))
		}
	}
	return x.cfg.err()
}

// maxLayers is how many llama.cpp takes.
const maxLayers = 512

// drop marks the tensors that no GGUF file needs, and finds those that have no
// numbers.
func (x *maker) drop() error {
	for i := range x.m.Tensors {
		t := &x.m.Tensors[i]
		switch {
		case t.Owner != "":
		case x.notes.Left.Add(t) || strings.HasSuffix(t.Source, computedFrequencies),
			x.described.Drops(t.Weight(), t.Source) || x.described.DropsBeyond() && x.beyond(t):
			x.used[i], x.dropped[i] = true, true
		case t.Opaque != "":
			return fmt.Errorf("%s: %s", tensorfs.Quote(t.Source), t.Opaque)
		}
	}
	return nil
}

// computedFrequencies ends the names of tensors that every model computes of its config.
const computedFrequencies = "rotary_emb.inv_freq"

// beyond reports whether a tensor belongs to a layer after the last one, which is
// for predicting more than one token.
func (x *maker) beyond(t *tensorfs.Tensor) bool {
	rest, ok := strings.CutPrefix(t.Weight(), "layers.")
	var n int64
	if !ok {
		return false
	}
	_, err := fmt.Sscanf(rest, "%d.", &n)
	return err == nil && n >= x.layers
}

// tensors makes the tensors whose condition holds. layer is "" or the number of a
// layer and a dot.
func (x *maker) tensors(list []architectures.Tensor, layer string) error {
	for i := range list {
		t := &list[i]
		if !t.When.Holds(x.fact) {
			continue
		}
		for _, param := range []string{".weight", ".bias"} {
			if err := x.tensor(t, layer, param); err != nil {
				return err
			}
		}
	}
	return nil
}

// tensor makes the weight or the bias of a module.
func (x *maker) tensor(r *architectures.Tensor, layer, param string) error {
	need := r.Needs(param, architectures.ToGGUF)
	if need == architectures.Never {
		return nil
	}
	to, from := r.GGUF, r.Module
	if layer != "" {
		to, from = "blk."+layer+to, "layers."+layer+from
	}
	make := asStored
	for _, name := range r.Moves {
		if m := moves[name]; m != nil {
			make = m
		}
	}
	t, err := make(x, from, param)
	if err != nil {
		return fmt.Errorf("%s: %w", to+param, err)
	}
	if t == nil {
		if need == architectures.Always {
			return fmt.Errorf("the tensor %s is missing, which is %s in llama.cpp", from+param, to+param)
		}
		return nil
	}
	if err := x.shaped(t, r.Shape, param); err != nil {
		return err
	}
	return x.put(to+param, t)
}

// shaped compares the shape of a weight or a bias with the dimensions of the weight.
func (x *maker) shaped(t *tensorfs.Tensor, names []string, param string) error {
	if param == ".bias" && len(names) > 1 {
		names = names[:len(names)-1]
	}
	return x.sizes.Hold(tensorfs.Quote(t.Source), t.Numbers(), names)
}

// find returns the model's tensor that holds a weight, or nil.
func (x *maker) find(name string) *tensorfs.Tensor {
	if i := x.index(name); i >= 0 {
		return &x.m.Tensors[i]
	}
	return nil
}

// take returns the tensor that holds a weight and marks it as used.
func (x *maker) take(name string) *tensorfs.Tensor {
	i := x.index(name)
	if i < 0 {
		return nil
	}
	x.used[i] = true
	return &x.m.Tensors[i]
}

// inLayer puts a stem in the layer that is made.
func (x *maker) inLayer(stem string) string { return fmt.Sprintf("layers.%d.%s", x.layer, stem) }
