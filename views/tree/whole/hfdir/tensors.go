package hfdir

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/architectures"
	"github.com/tensorfs/tensorfs/formats/safetensors"
	"github.com/tensorfs/tensorfs/views/tree/whole"
)

// result is the tensors of one model.safetensors, and what the other files of the
// directory say of them.
type result struct {
	List         []safetensors.Stored // in the order in which they are laid out
	Torch        string               // torch_dtype for config.json
	Quantization []byte               // JSON object for mlx/config.json, nil if nothing is quantised
	Experts      bool                 // the experts of gpt-oss are written as blocks of MXFP4

	Types map[string]int // how many tensors have a type
	Exact bool           // all numbers are those of the model
	Notes []string       // what is not exact, a line for each kind
	Left  whole.Towers   // tensors that the directory has none of
}

// hfTensors returns the tensors of hf/model.safetensors, or the reason why there
// is no such file.
func hfTensors(m *tensorfs.Model) (result, error) {
	x, err := newTensors(m, false)
	if err != nil {
		return result{}, err
	}
	return x.finish(), nil
}

// mlxTensors returns those of mlx/model.safetensors.
func mlxTensors(m *tensorfs.Model) (result, error) {
	x, err := newTensors(m, true)
	if err != nil {
		return result{}, err
	}
	return x.finish(), nil
}

// newTensors makes all tensors of one directory.
//
//	GGUF ----------> what formats/architectures says of the architecture
//	MLX, Ollama ---> the same names, but for what mlx-lm stores in another form (tensors_stored.go)
func newTensors(m *tensorfs.Model, mlx bool) (*tensorMaker, error) {
	return makeTensors(m, mlx, nil)
}

// makeTensors is newTensors, with a value for keep.
func makeTensors(m *tensorfs.Model, mlx bool, keep func(name string, t *tensorfs.Tensor)) (*tensorMaker, error) {
	x := &tensorMaker{m: m, mlx: mlx, keys: readKeys(m.Metadata), used: make([]bool, len(m.Tensors)), left: whole.Towers{}, keep: keep}
	for i := range m.Tensors {
		if t := &m.Tensors[i]; t.Opaque != "" && t.Owner == "" {
			return nil, fmt.Errorf("%s: %s", tensorfs.Quote(t.Source), t.Opaque)
		}
	}
	if m.Layout != "gguf" {
		return x, x.runStored()
	}
	x.arch = x.word("general.architecture")
	if x.arch == "" {
		x.arch = m.Architecture
	}
	x.described = architectures.Find(x.arch)
	switch {
	case x.described == nil || !x.described.Makes("hf"):
		return nil, fmt.Errorf("no Hugging Face form known for architecture %s", tensorfs.Printable(x.arch))
	case mlx && !x.described.Makes("mlx"):
		return nil, fmt.Errorf("mlx-lm has no architecture %s", x.arch)
	}
	if mlx {
		hf, err := newTensors(m, false)
		if err != nil {
			return nil, err
		}
		x.float = torchTypes[hf.torch()]
	}
	return x, x.run()
}

// tensorMaker makes the tensors of one directory.
type tensorMaker struct {
	keys      ggufKeys // metadata, by key
	m         *tensorfs.Model
	mlx       bool           // for mlx-lm
	float     tensorfs.DType // of what is not quantised for mlx-lm; Unknown to keep what is stored
	arch      string
	described *architectures.Architecture
	used      []bool // tensors of m that are in the directory, or in its config
	sizes     *architectures.Sizes

	sources map[string]int32 // tensors of m by their names in its files

	layers, layer int64
	list          []placed
	modules       []quantised
	experts       bool // as in result
	rounded       map[string][]string

	left whole.Towers                          // tensors that no language model has
	keep func(name string, t *tensorfs.Tensor) // takes tensors before they have a type; nil but for InLayoutOfHF
}

// run makes the tensors of a GGUF model.
func (x *tensorMaker) run() error {
	if err := x.bind(); err != nil {
		return err
	}
	for i := range x.m.Tensors {
		x.used[i] = x.inConfig(x.m.Tensors[i].Name) || x.keep == nil && x.left.Add(&x.m.Tensors[i])
	}
	if err := x.tensors(x.described.First, "", ""); err != nil {
		return err
	}
	for x.layer = range x.layers {
		n := fmt.Sprintf("%d.", x.layer)
		if err := x.tensors(x.described.Layer, "layers."+n, x.described.Prefix+n); err != nil {
			return err
		}
	}
	if err := x.tensors(x.described.Last, "", ""); err != nil {
		return err
	}
	for i, used := range x.used {
		if !used {
			return fmt.Errorf("the tensor %s has no place in a Hugging Face model of architecture %s", tensorfs.Quote(x.m.Tensors[i].Source), x.arch)
		}
	}
	return nil
}

// inConfig reports whether a tensor, by its canonical name, is one that config.json holds.
func (x *tensorMaker) inConfig(name string) bool {
	return slices.ContainsFunc(x.described.First, func(t architectures.Tensor) bool {
		return t.Module+".weight" == name && (t.Moved("divisors") || t.Moved("long_factor") || t.Moved("short_factor"))
	})
}

// module is one that is made: its canonical name and that in the directory, without
// .weight and .bias.
type module struct {
	*architectures.Tensor
	from, to string
}

// tensors makes the tensors whose condition holds. The prefixes are those of a layer,
// of canonical names and of Hugging Face's.
func (x *tensorMaker) tensors(list []architectures.Tensor, from, to string) error {
	for i := range list {
		r := module{&list[i], from + list[i].Module, to + list[i].HF}
		if r.HF == "" || !r.When.Holds(x.fact) { // in the config, or not there
			continue
		}
		if x.mlx && r.MLX != "" {
			r.to = to + r.MLX
		}
		if x.mlx {
			r.to = x.described.MLXPrefix + r.to
		}
		if err := x.module(&r); err != nil {
			return err
		}
	}
	return nil
}

// module makes the weight and the bias of a module.
func (x *tensorMaker) module(r *module) error {
	var move back
	for _, name := range r.Moves {
		if all := backAll[name]; all != nil {
			return all(x, r)
		}
		move = backMoves[name]
	}
	for _, param := range []string{".weight", ".bias"} {
		need := r.Needs(param, architectures.FromGGUF)
		if t := x.find(r.from + param); t != nil && need == never && r.Moved("heads") {
			return fmt.Errorf("whether the rows of %s are permuted cannot be told, because programs that write such files disagree", tensorfs.Quote(t.Source))
		}
		if need == never {
			continue
		}
		shape := strings.Join(r.Shape, " ")
		if r.Moved("row") {
			shape = "" // that of what it becomes
		}
		t, err := x.take(r.from+param, shape, need)
		if err != nil {
			return err
		}
		if t == nil {
			continue
		}
		o, name := originOf(t), r.to+param
		if r.Bare {
			name = r.to
		}
		if move != nil {
			made, err := move(x, r, t, param)
			if err != nil {
				return fmt.Errorf("%s cannot be %s: %w", tensorfs.Quote(t.Source), name, err)
			}
			t = made
		}
		if err := x.put(name, t, o, r.Plain); err != nil {
			return err
		}
	}
	return nil
}

// find returns the model's tensor of a canonical name, or nil.
func (x *tensorMaker) find(name string) *tensorfs.Tensor {
	if t := x.m.Tensor(name); t != nil && t.Owner == "" {
		return t
	}
	return nil
}

// take returns the tensor of a canonical name, marks it as used and holds it to a
// shape, "" for any. It is nil where the tensor may be missing and is.
func (x *tensorMaker) take(name, shape string, need architectures.Need) (*tensorfs.Tensor, error) {
	i, ok := slices.BinarySearchFunc(x.m.Tensors, name, func(t tensorfs.Tensor, s string) int { return strings.Compare(t.Name, s) })
	if !ok || x.m.Tensors[i].Owner != "" {
		if need == always {
			return nil, fmt.Errorf("the tensor %s of architecture %s is missing", name, x.arch)
		}
		return nil, nil
	}
	x.used[i] = true
	t := &x.m.Tensors[i]
	if shape == "" {
		return t, nil
	}
	words := strings.Fields(shape)
	if strings.HasSuffix(name, ".bias") && len(words) > 1 {
		words = words[:len(words)-1]
	}
	return t, x.sizes.Hold("the tensor "+tensorfs.Quote(t.Source), t.Numbers(), words)
}
