package hfdir

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tensorfs/tensorfs"
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
//	GGUF ----------> rows of an architecture's table (tensors_layouts.go)
//	MLX, Ollama ---> the same names, but for what mlx-lm stores in another form (tensors_stored.go)
func newTensors(m *tensorfs.Model, mlx bool) (*tensorMaker, error) {
	return makeTensors(m, mlx, nil)
}

// makeTensors is newTensors, with a value for keep.
func makeTensors(m *tensorfs.Model, mlx bool, keep func(name string, t *tensorfs.Tensor)) (*tensorMaker, error) {
	x := &tensorMaker{m: m, mlx: mlx, keys: readKeys(m.Metadata), used: make([]bool, len(m.Tensors)), dims: map[string]tensorDim{}, left: whole.Towers{}, keep: keep}
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
	if x.arch == "llama" && x.number("expert_count") > 0 {
		x.layout = tensorLayouts["mixtral"]
	} else {
		x.layout = tensorLayouts[x.arch]
	}
	switch {
	case x.layout == nil || x.arch == "mixtral":
		return nil, fmt.Errorf("no Hugging Face form known for architecture %s", tensorfs.Printable(x.arch))
	case mlx && x.layout.noMLX:
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
	keys   ggufKeys // metadata, by key
	m      *tensorfs.Model
	mlx    bool           // for mlx-lm
	float  tensorfs.DType // of what is not quantised for mlx-lm; Unknown to keep what is stored
	arch   string
	layout *tensorLayout
	used   []bool // tensors of m that are in the directory, or in its config
	dims   map[string]tensorDim

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
		x.used[i] = slices.Contains(x.layout.inConfig, x.m.Tensors[i].Name) || x.keep == nil && x.left.Add(&x.m.Tensors[i])
	}
	if err := x.parts(x.layout.first, "", ""); err != nil {
		return err
	}
	for x.layer = range x.layers {
		n := fmt.Sprintf("%d.", x.layer)
		if err := x.parts(x.layout.layer, "layers."+n, x.layout.prefix+n); err != nil {
			return err
		}
	}
	if err := x.parts(x.layout.last, "", ""); err != nil {
		return err
	}
	for i, used := range x.used {
		if !used {
			return fmt.Errorf("the tensor %s has no place in a Hugging Face model of architecture %s", tensorfs.Quote(x.m.Tensors[i].Source), x.arch)
		}
	}
	return nil
}

// parts makes the tensors of those parts whose condition holds. The prefixes are
// those of a layer, of canonical names and of Hugging Face's.
func (x *tensorMaker) parts(parts []tensorPart, from, to string) error {
	for _, p := range parts {
		if p.when != nil && !p.when(x) {
			continue
		}
		for _, r := range p.rows {
			r.from, r.to = from+r.from, to+r.to
			if r.mlx != "" {
				r.mlx = to + r.mlx
			}
			if r.all != nil {
				if err := r.all(x, &r); err != nil {
					return err
				}
				continue
			}
			for _, param := range []string{".weight", ".bias"} {
				if err := x.row(&r, param); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// row makes the weight or the bias of a row.
func (x *tensorMaker) row(r *tensorRow, param string) error {
	need := r.weight
	if param == ".bias" {
		need = r.bias
	}
	if need == never {
		return nil
	}
	t, err := x.take(r.from+param, r.shape, need)
	if t == nil || err != nil {
		return err
	}
	o := originOf(t)
	if r.make != nil {
		made, err := r.make(x, t, param)
		if err != nil {
			return fmt.Errorf("%s cannot be %s: %w", tensorfs.Quote(t.Source), r.to+r.suffix(param), err)
		}
		t = made
	}
	return x.put(r.name(x)+r.suffix(param), t, o, r.plain)
}

// name is the row's name in the directory, without its last part.
func (r *tensorRow) name(x *tensorMaker) string {
	name := r.to
	if x.mlx && r.mlx != "" {
		name = r.mlx
	}
	if x.mlx {
		name = x.layout.mlxPrefix + name
	}
	return name
}

// suffix is the last part of a parameter's name.
func (r *tensorRow) suffix(param string) string {
	if r.bare {
		return ""
	}
	return param
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
func (x *tensorMaker) take(name, shape string, need tensorNeed) (*tensorfs.Tensor, error) {
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
	return t, x.shaped(t, words)
}
