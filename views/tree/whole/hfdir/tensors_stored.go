package hfdir

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/views/arrange"
)

// runStored makes the tensors of a model that has Hugging Face's names: they keep
// them, but for what mlx-lm stores in another form than the release.
func (x *tensorMaker) runStored() error {
	x.arch = x.m.Architecture
	switch {
	case x.m.Format == "ollama" && x.mlx:
		return x.eachStored(x.renamed)
	case x.m.Format == "ollama":
		return x.eachStored(x.asStored)
	case x.m.Format == "mlx" && !x.mlx:
		return x.eachStored(x.released)
	}
	return fmt.Errorf("the files of a model of format %s are shown as they are", x.m.Format)
}

// eachStored calls fn with every tensor that is not part of another, and its name.
func (x *tensorMaker) eachStored(fn func(t *tensorfs.Tensor, name string) error) error {
	for i := range x.m.Tensors {
		t := &x.m.Tensors[i]
		if t.Owner != "" || x.used[i] {
			continue
		}
		x.used[i] = true
		if err := fn(t, t.Source); err != nil {
			return err
		}
	}
	return nil
}

// asStored puts a tensor into the directory as numbers. Integers are no numbers of
// a model, but tables beside them.
func (x *tensorMaker) asStored(t *tensorfs.Tensor, name string) error {
	if t.Quant == nil && t.DType.Kind() == tensorfs.KindInteger && t.DType.Safetensors() && !t.BigEndian {
		x.store(name, t, originOf(t))
		return nil
	}
	return x.put(name, t, originOf(t), true)
}

// renamed puts a tensor of Ollama's into the directory as mlx-lm has it: what is
// quantised is a module of MLX already, whose scales have other names. mlx-lm does
// not know factors for whole tensors.
func (x *tensorMaker) renamed(t *tensorfs.Tensor, name string) error {
	module, ok := strings.CutSuffix(name, ".weight")
	if q := t.Quant; !ok || q == nil || q.GroupSize == 0 || q.Scales == nil {
		return x.asStored(t, name)
	}
	if g := t.Quant.Global; g != nil {
		if one, err := allOnes(g); err != nil || !one {
			if err != nil {
				return err
			}
			return x.asStored(t, name)
		}
	}
	words := *t
	words.DType, words.Shape = tensorfs.U32, slices.Clone(t.Quant.Shape)
	last := len(words.Shape) - 1
	bits := words.Shape[last] * int64(t.Quant.Bits)
	words.Shape[last] = bits / 32
	if size, ok := tensorfs.U32.Size(words.Shape); bits%32 != 0 || !ok || size != t.Data.Size() {
		return x.asStored(t, name)
	}
	return x.putModule(module, &words, originOf(t))
}

// allOnes reports whether every factor is 1.
func allOnes(t *tensorfs.Tensor) (bool, error) {
	const most = 1 << 20
	if t.DType != tensorfs.F32 || t.BigEndian || t.Data.Size() > most {
		return false, nil
	}
	b := make([]byte, t.Data.Size())
	if err := tensorfs.ReadFull(t.Data, b, 0); err != nil {
		return false, err
	}
	for ; len(b) >= 4; b = b[4:] {
		if math.Float32frombits(binary.LittleEndian.Uint32(b)) != 1 {
			return false, nil
		}
	}
	return true, nil
}

// storedRule says what becomes of a tensor of an MLX model, by the end of its name.
type storedRule struct {
	arch []string // nil: any
	end  string
	// make puts what becomes of the tensor into the directory; base is its name without
	// the end.
	make func(x *tensorMaker, t *tensorfs.Tensor, base, end string) error
}

var (
	oneMore = []string{"qwen3next", "qwen35", "qwen35moe"} // mlx-lm adds one to their norms when it converts
	gpt2    = []string{"gpt2"}
)

// storedRules are what mlx-lm changes when it converts a model, undone. The first
// that fits counts.
var storedRules = []storedRule{
	{nil, ".switch_mlp.gate_proj.weight", unstack}, {nil, ".switch_mlp.gate_proj.bias", unstack},
	{nil, ".switch_mlp.up_proj.weight", unstack}, {nil, ".switch_mlp.up_proj.bias", unstack},
	{nil, ".switch_mlp.down_proj.weight", unstack}, {nil, ".switch_mlp.down_proj.bias", unstack},
	{[]string{"gpt-oss"}, ".experts.gate_proj.weight", unstackGPTOSS},
	{nil, ".embed_q.weight", unsplitKV},
	{oneMore, ".input_layernorm.weight", unsum}, {oneMore, ".post_attention_layernorm.weight", unsum}, {oneMore, "model.norm.weight", unsum},
	{oneMore, ".q_norm.weight", unsum}, {oneMore, ".k_norm.weight", unsum},
	{oneMore, ".conv1d.weight", channels},
	{gpt2, ".attn.c_attn.weight", turned}, {gpt2, ".attn.c_proj.weight", turned}, {gpt2, ".mlp.c_fc.weight", turned}, {gpt2, ".mlp.c_proj.weight", turned},
	{gpt2, "", unprefixed},
}

// released puts a tensor of an MLX model into the directory as the release has it.
func (x *tensorMaker) released(t *tensorfs.Tensor, name string) error {
	if x.later(name) {
		return nil
	}
	for _, r := range storedRules {
		if base, ok := strings.CutSuffix(name, r.end); ok && (r.arch == nil || slices.Contains(r.arch, x.arch)) {
			return r.make(x, t, base, r.end)
		}
	}
	return x.asStored(t, name)
}

// later reports whether a tensor goes with another, whose rule makes both.
func (x *tensorMaker) later(name string) bool {
	for _, p := range partners {
		if base, ok := strings.CutSuffix(name, p[0]); ok && (p[2] == "" || p[2] == x.arch) {
			return x.named(base+p[1]) != nil
		}
	}
	return false
}

// partners are the ends of names of tensors that go with another, that of the
// other, and the architecture, "" for any.
var partners = [][3]string{
	{".unembed_out.weight", ".embed_q.weight", ""},
	{".experts.gate_proj.bias", ".experts.gate_proj.weight", "gpt-oss"},
	{".experts.up_proj.weight", ".experts.gate_proj.weight", "gpt-oss"}, {".experts.up_proj.bias", ".experts.gate_proj.weight", "gpt-oss"},
	{".experts.down_proj.weight", ".experts.gate_proj.weight", "gpt-oss"}, {".experts.down_proj.bias", ".experts.gate_proj.weight", "gpt-oss"},
}

// named returns the tensor of a name in the model's files, or nil.
func (x *tensorMaker) named(source string) *tensorfs.Tensor {
	if x.sources == nil {
		x.sources = make(map[string]int32, len(x.m.Tensors))
		for i := range x.m.Tensors {
			if x.m.Tensors[i].Owner == "" {
				x.sources[x.m.Tensors[i].Source] = int32(i)
			}
		}
	}
	if i, ok := x.sources[source]; ok {
		return &x.m.Tensors[i]
	}
	return nil
}

// mixtralParts are Mixtral's names of the parts of an expert.
var mixtralParts = map[string]string{"gate_proj": "w1", "up_proj": "w3", "down_proj": "w2"}

// unstack puts experts into the directory one by one.
func unstack(x *tensorMaker, t *tensorfs.Tensor, base, end string) error {
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

// unstackGPTOSS puts the experts of gpt-oss into the directory in the release's form.
func unstackGPTOSS(x *tensorMaker, _ *tensorfs.Tensor, base, _ string) error {
	base += ".experts"
	var weights, biases [3]*tensorfs.Tensor
	for i, part := range []string{".gate_proj", ".up_proj", ".down_proj"} {
		weights[i], biases[i] = x.named(base+part+".weight"), x.named(base+part+".bias")
		if weights[i] == nil || biases[i] == nil || len(weights[i].Numbers()) != 3 || len(biases[i].Numbers()) != 2 {
			return fmt.Errorf("the experts %s lack %s or its bias, or are no stacks", tensorfs.Printable(base), part)
		}
	}
	return x.putGPTOSS(base, weights, biases)
}

// unsplitKV puts kv_b into the directory.
func unsplitKV(x *tensorMaker, k *tensorfs.Tensor, base, _ string) error {
	v := x.named(base + ".unembed_out.weight")
	if v == nil || len(k.Numbers()) != 3 || len(v.Numbers()) != 3 {
		return fmt.Errorf("%s lacks its unembed_out, or they are not parts of kv_b_proj", tensorfs.Quote(k.Source))
	}
	return x.joinKV(base+".kv_b_proj.weight", k, v, originOf(k))
}

// unsum takes away the one that mlx-lm adds.
func unsum(x *tensorMaker, t *tensorfs.Tensor, base, end string) error {
	o := originOf(t)
	if len(t.Numbers()) == 1 {
		var err error
		if t, err = lessOne(x, nil, t, ""); err != nil {
			return err
		}
	}
	return x.put(base+end, t, o, true)
}

// channels puts the kernels of a convolution, [C, K, 1], into the directory as
// [C, 1, K].
func channels(x *tensorMaker, t *tensorfs.Tensor, base, end string) error {
	o := originOf(t)
	if shape := t.Numbers(); len(shape) == 3 && shape[2] == 1 {
		p, err := x.numbers(base+end, t, plainType(t))
		if err != nil {
			return err
		}
		if t, err = arrange.Reshape(p, shape[0], 1, shape[1]); err != nil {
			return err
		}
	}
	return x.put(base+end, t, o, true)
}

// turned puts a matrix of GPT-2 into the directory as [in, out].
func turned(x *tensorMaker, t *tensorfs.Tensor, base, end string) error {
	plain, ok := strings.CutPrefix(base, "model.")
	if !ok { // not converted
		return x.asStored(t, base+end)
	}
	o := originOf(t)
	t, err := inOut(x, nil, t, ".weight")
	if err != nil {
		return err
	}
	return x.put(plain+end, t, o, true)
}

// unprefixed puts any other tensor of GPT-2 into the directory.
func unprefixed(x *tensorMaker, t *tensorfs.Tensor, base, end string) error {
	return x.asStored(t, strings.TrimPrefix(base+end, "model."))
}
