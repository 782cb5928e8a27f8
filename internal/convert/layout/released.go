package layout

import (
	"fmt"
	"strings"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/architectures"
	"github.com/tensorfs/tensorfs/views/arrange"
)

// mlx-lm's differences from the release are undone for every model in MLX's form, even of
// architectures without a description. So a short table of names, instead of the
// descriptions, selects the tensors, and tensors keep their names except for the part in
// the table. The moves are the descriptions' moves.

// Released puts the tensors of a model in MLX's form into a directory of Hugging Face, as
// the release has them; asStored puts tensors that are stored alike.
func Released(m *tensorfs.Model, sink Sink, asStored func(t *tensorfs.Tensor, name string) error) error {
	rules, _ := architectures.Trait(m.Architecture, architectures.Released)
	x := &mlxModel{Walk: &Walk{Sink: sink, Model: m, To: HF}, rules: rules, asStored: asStored, sources: make(map[string]*tensorfs.Tensor, len(m.Tensors))}
	for i := range m.Tensors {
		if t := &m.Tensors[i]; t.Owner == "" {
			x.sources[t.Source] = t
		}
	}
	for i := range m.Tensors {
		if t := &m.Tensors[i]; t.Owner == "" {
			if err := x.release(t); err != nil {
				return err
			}
		}
	}
	return nil
}

// mlxModel is a model in MLX's form.
type mlxModel struct {
	*Walk
	rules    string                      // the architecture's own, besides the rules for all architectures
	sources  map[string]*tensorfs.Tensor // by their names in the model's files
	asStored func(t *tensorfs.Tensor, name string) error
}

// storedRule is the conversion of a tensor, by the end of its name.
type storedRule struct {
	of  string // the value of the trait released, "" for all architectures
	end string
	// make puts what becomes of the tensor into the directory; base is its name without
	// the end.
	make func(x *mlxModel, t *tensorfs.Tensor, base, end string) error
}

// storedRules are what mlx-lm changes when it converts a model, undone. The first
// that fits counts. A tensor that nil is of goes with another, whose rule makes both.
var storedRules = []storedRule{
	{"", ".switch_mlp.gate_proj.weight", unstack}, {"", ".switch_mlp.gate_proj.bias", unstack},
	{"", ".switch_mlp.up_proj.weight", unstack}, {"", ".switch_mlp.up_proj.bias", unstack},
	{"", ".switch_mlp.down_proj.weight", unstack}, {"", ".switch_mlp.down_proj.bias", unstack},
	{"alternate", ".experts.gate_proj.weight", unalternate},
	{"alternate", ".experts.gate_proj.bias", with(".experts.gate_proj.weight")},
	{"alternate", ".experts.up_proj.weight", with(".experts.gate_proj.weight")}, {"alternate", ".experts.up_proj.bias", with(".experts.gate_proj.weight")},
	{"alternate", ".experts.down_proj.weight", with(".experts.gate_proj.weight")}, {"alternate", ".experts.down_proj.bias", with(".experts.gate_proj.weight")},
	{"", ".embed_q.weight", unsplitKV}, {"", ".unembed_out.weight", with(".embed_q.weight")},
	{"plus_one", ".input_layernorm.weight", unsum}, {"plus_one", ".post_attention_layernorm.weight", unsum}, {"plus_one", "model.norm.weight", unsum},
	{"plus_one", ".q_norm.weight", unsum}, {"plus_one", ".k_norm.weight", unsum},
	{"plus_one", ".conv1d.weight", channels},
	{"turned", ".attn.c_attn.weight", turned}, {"turned", ".attn.c_proj.weight", turned}, {"turned", ".mlp.c_fc.weight", turned}, {"turned", ".mlp.c_proj.weight", turned},
	{"turned", "", unprefixed},
}

// release puts a tensor into the directory as the release has it.
func (x *mlxModel) release(t *tensorfs.Tensor) error {
	for _, r := range storedRules {
		if base, ok := strings.CutSuffix(t.Source, r.end); ok && (r.of == "" || r.of == x.rules) {
			return r.make(x, t, base, r.end)
		}
	}
	return x.asStored(t, t.Source)
}

// with is the rule of a tensor that goes with another, if the model has that.
func with(other string) func(x *mlxModel, t *tensorfs.Tensor, base, end string) error {
	return func(x *mlxModel, t *tensorfs.Tensor, base, end string) error {
		if x.sources[base+other] != nil {
			return nil
		}
		return x.asStored(t, base+end)
	}
}

// mixtralParts are Mixtral's names of the parts of an expert.
var mixtralParts = map[string]string{"gate_proj": "w1", "up_proj": "w3", "down_proj": "w2"}

// unstack puts experts into the directory one by one.
func unstack(x *mlxModel, t *tensorfs.Tensor, base, end string) error {
	part := strings.TrimPrefix(end, ".switch_mlp.")
	if strings.HasSuffix(base, ".block_sparse_moe") {
		word, param, _ := strings.Cut(part, ".")
		part = mixtralParts[word] + "." + param
	}
	if len(t.Numbers()) < 2 {
		return fmt.Errorf("%s of shape %v is not a stack of experts", tensorfs.Quote(t.Source), t.Numbers())
	}
	return x.splitStack(base+".experts", part, t)
}

// unalternate puts the experts of gpt-oss into the directory.
func unalternate(x *mlxModel, _ *tensorfs.Tensor, base, _ string) error {
	base += ".experts"
	var weights, biases trio
	for i, part := range []string{".gate_proj", ".up_proj", ".down_proj"} {
		weights[i], biases[i] = x.sources[base+part+".weight"], x.sources[base+part+".bias"]
		if weights[i] == nil || biases[i] == nil || len(weights[i].Numbers()) != 3 || len(biases[i].Numbers()) != 2 {
			return fmt.Errorf("the experts %s lack %s or its bias, or are no stacks", tensorfs.Printable(base), part)
		}
	}
	return x.alternate(base, weights, biases)
}

// unsplitKV puts kv_b into the directory.
func unsplitKV(x *mlxModel, k *tensorfs.Tensor, base, _ string) error {
	v := x.sources[base+".unembed_out.weight"]
	if v == nil || len(k.Numbers()) != 3 || len(v.Numbers()) != 3 {
		return fmt.Errorf("%s lacks its unembed_out, or they are not parts of kv_b_proj", tensorfs.Quote(k.Source))
	}
	return x.joinKV(base+".kv_b_proj.weight", k, v, OriginOf(k))
}

// one makes a tensor of one by the half of a move.
func (x *mlxModel) one(t *tensorfs.Tensor, name, move string, args ...string) error {
	made, err := moves[move].From(x.Walk, &part{module: &module{Tensor: &bareName, to: name}, param: ".weight", args: args}, t)
	if err != nil {
		return err
	}
	return x.Put(name, made, OriginOf(t), true)
}

// bareName is for tensors whose whole name is known.
var bareName = architectures.Tensor{Bare: true}

// unsum takes away the one that mlx-lm adds.
func unsum(x *mlxModel, t *tensorfs.Tensor, base, end string) error {
	if len(t.Numbers()) != 1 {
		return x.Put(base+end, t, OriginOf(t), true)
	}
	return x.one(t, base+end, "plus", "1")
}

// channels puts the kernels of a convolution, [C, K, 1], into the directory as
// [C, 1, K].
func channels(x *mlxModel, t *tensorfs.Tensor, base, end string) error {
	at := OriginOf(t)
	if shape := t.Numbers(); len(shape) == 3 && shape[2] == 1 {
		p, err := x.Numbers(base+end, t, PlainType(t))
		if err != nil {
			return err
		}
		if t, err = arrange.Reshape(p, shape[0], 1, shape[1]); err != nil {
			return err
		}
	}
	return x.Put(base+end, t, at, true)
}

// turned puts a matrix of GPT-2 into the directory as [in, out].
func turned(x *mlxModel, t *tensorfs.Tensor, base, end string) error {
	name, ok := strings.CutPrefix(base+end, "model.")
	if !ok { // not converted
		return x.asStored(t, base+end)
	}
	return x.one(t, name, "transpose")
}

// unprefixed puts any other tensor of GPT-2 into the directory.
func unprefixed(x *mlxModel, t *tensorfs.Tensor, base, end string) error {
	return x.asStored(t, strings.TrimPrefix(base+end, "model."))
}
