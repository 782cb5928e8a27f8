package hfdir

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"github.com/tensorfs/tensorfs"
)

// tensorDim is the length of a dimension, and who says so.
type tensorDim struct {
	n    int64
	from string
}

// Bounds of what metadata says, so that products of two fit and loops end.
const (
	maxTensorDim    = 1 << 30
	maxTensorLayers = 4096
)

// dim returns the length of a dimension, 0 where it is not known.
func (x *tensorMaker) dim(name string) int64 { return x.dims[name].n }

// setDim says how long a dimension is. It is an error where another length is known.
func (x *tensorMaker) setDim(name string, n int64, from string) error {
	if n < 1 || n > maxTensorDim {
		return fmt.Errorf("%s has %d for %s", from, n, name)
	}
	if d, ok := x.dims[name]; ok {
		if d.n != n {
			return fmt.Errorf("%s has %d for %s, and %s has %d", from, n, name, d.from, d.n)
		}
		return nil
	}
	x.dims[name] = tensorDim{n, from}
	return nil
}

// shaped compares a tensor's shape with dimensions, outermost first, as words or
// numbers. Those that are not known yet have the lengths of this tensor.
func (x *tensorMaker) shaped(t *tensorfs.Tensor, words []string) error {
	shape := t.Numbers()
	if len(shape) != len(words) {
		return fmt.Errorf("the tensor %s has the shape %v, and architecture %s has %d dimensions for it", tensorfs.Quote(t.Source), shape, x.arch, len(words))
	}
	for i, word := range words {
		err := error(nil)
		if n, no := strconv.ParseInt(word, 10, 64); no != nil {
			err = x.setDim(word, shape[i], tensorfs.Quote(t.Source))
		} else if n != shape[i] {
			err = fmt.Errorf("dimension %d is not %d", i, n)
		}
		if err != nil {
			return fmt.Errorf("the tensor %s of shape %v does not fit: %w", tensorfs.Quote(t.Source), shape, err)
		}
	}
	return nil
}

// meta returns a value of the metadata, nil without one.
func (x *tensorMaker) meta(key string) any { return x.keys.at[key] }

// word returns a text of the metadata.
func (x *tensorMaker) word(key string) string {
	s, _ := x.meta(key).(string)
	return s
}

// number returns an integer of the architecture's metadata, 0 without one. An array
// of equal ones, for each layer, is that number.
func (x *tensorMaker) number(key string) int64 {
	n, _ := x.same(key)
	return n
}

// same is number, and false where layers differ.
func (x *tensorMaker) same(key string) (n int64, ok bool) {
	value := x.meta(x.arch + "." + key)
	a, isArray := value.(tensorfs.Array)
	if !isArray {
		return countOf(value), true
	}
	first := true
	for v := range a.Values() {
		if m := countOf(v); first {
			n, first = m, false
		} else if m != n {
			return 0, false
		}
	}
	return n, true
}

// countOf returns an integer of any type, 0 for what is none or does not fit.
func countOf(v any) int64 {
	switch r := reflect.ValueOf(v); {
	case !r.IsValid():
	case r.CanInt():
		return r.Int()
	case r.CanUint() && r.Uint() <= 1<<62:
		return int64(r.Uint())
	}
	return 0
}

// bind sets the dimensions that the metadata gives.
func (x *tensorMaker) bind() error {
	x.layers = x.number("block_count") - x.number("nextn_predict_layers")
	if x.layers < 1 || x.layers > maxTensorLayers {
		return fmt.Errorf("%s.block_count leaves %d layers, and a Hugging Face model has 1 to %d", x.arch, x.layers, maxTensorLayers)
	}
	for _, d := range []struct{ name, key string }{
		{"width", "embedding_length"}, {"heads", "attention.head_count"}, {"kv_heads", "attention.head_count_kv"}, {"head", "attention.key_length"},
		{"v_head", "attention.value_length"}, {"ff", "feed_forward_length"}, {"experts", "expert_count"}, {"eff", "expert_feed_forward_length"},
		{"sff", "expert_shared_feed_forward_length"},
		{"q_rank", "attention.q_lora_rank"}, {"kv_rank", "attention.kv_lora_rank"},
	} {
		n, ok := x.same(d.key)
		if !ok {
			return fmt.Errorf("%s.%s differs between layers, and a Hugging Face model of this architecture has one number", x.arch, d.key)
		}
		if n != 0 {
			if err := x.setDim(d.name, n, x.arch+"."+d.key); err != nil {
				return err
			}
		}
	}
	for _, name := range []string{"width", "heads"} {
		if x.dim(name) == 0 {
			return fmt.Errorf("the metadata of architecture %s do not say how many %s it has", x.arch, map[string]string{"width": "numbers the hidden state", "heads": "heads"}[name])
		}
	}
	return sizesOf[x.arch](x)
}

// sizesOf are what sets the lengths of dimensions that follow from the metadata of an
// architecture. Others are those of the first tensor that has them.
var sizesOf = map[string]func(x *tensorMaker) error{
	"llama": llamaDims, "qwen2": squareHeads, "qwen2moe": squareHeads, "qwen3": headDims, "qwen3moe": headDims, "gemma2": headDims, "gemma3": headDims,
	"phi3": phi3Dims, "gpt2": gpt2Dims, "starcoder2": squareHeads, "falcon": falconDims, "bloom": fourfoldWidth, "deepseek2": latentDims,
	"gpt-oss": headDims, "bert": squareHeads,
}

// llamaDims is headDims. A bias of q has rows in one of two orders, and nothing
// says in which.
func llamaDims(x *tensorMaker) error {
	for n := range x.layers {
		if t := x.find(fmt.Sprintf("layers.%d.attention.q.bias", n)); t != nil {
			return fmt.Errorf("whether the rows of %s are permuted cannot be told, because programs that write such files disagree", tensorfs.Quote(t.Source))
		}
	}
	return headDims(x)
}

// headDims sets what follows from the heads. Where q and k have rows of their own.
func headDims(x *tensorMaker) error {
	heads, width := x.dim("heads"), x.dim("width")
	head, from := x.dim("head"), "the metadata"
	if head == 0 && x.arch == "llama" {
		head = x.number("rope.dimension_count")
	}
	if head == 0 {
		if width%heads != 0 {
			return fmt.Errorf("a hidden state of %d does not divide into %d heads", width, heads)
		}
		head = width / heads
	}
	kv := x.dim("kv_heads")
	if kv == 0 {
		kv = heads
	}
	for _, d := range []struct {
		name string
		n    int64
	}{{"head", head}, {"v_head", head}, {"kv_heads", kv}, {"q", heads * head}, {"k", kv * head}, {"qkv", (heads + 2*kv) * head}} {
		if err := x.setDim(d.name, d.n, from); err != nil {
			return err
		}
	}
	return nil
}

// squareHeads is headDims where the config has no length of heads: it follows from
// the width.
func squareHeads(x *tensorMaker) error {
	if err := headDims(x); err != nil {
		return err
	}
	if x.dim("q") != x.dim("width") {
		return fmt.Errorf("%d heads of %d are not the hidden state of %d, and a Hugging Face model of architecture %s cannot say so", x.dim("heads"), x.dim("head"), x.dim("width"), x.arch)
	}
	return nil
}

// phi3Dims is squareHeads with gates and ups in one matrix.
func phi3Dims(x *tensorMaker) error {
	if err := squareHeads(x); err != nil || x.dim("ff") == 0 {
		return err
	}
	return x.setDim("2ff", 2*x.dim("ff"), x.arch+".feed_forward_length")
}

// fourfoldWidth is squareHeads where the config has no width of feed-forward networks.
func fourfoldWidth(x *tensorMaker) error {
	if err := squareHeads(x); err != nil {
		return err
	}
	if err := x.setDim("ff", 4*x.dim("width"), "four times the hidden state"); err != nil {
		return fmt.Errorf("%w, and the config of architecture %s cannot say so", err, x.arch)
	}
	return nil
}

// gpt2Dims is fourfoldWidth for mlx-lm alone.
func gpt2Dims(x *tensorMaker) error {
	if x.mlx {
		return fourfoldWidth(x)
	}
	return squareHeads(x)
}

// latentDims sets the dimensions of attention through a latent vector. Keys and
// values have the lengths of a file that stores kv_b in two parts, where it says.
func latentDims(x *tensorMaker) error {
	length := func(name string) int64 {
		if n := x.number("attention." + name + "_mla"); n != 0 {
			return n
		}
		return x.number("attention." + name)
	}
	rope, key, value := x.number("rope.dimension_count"), length("key_length"), length("value_length")
	if rope < 1 || key <= rope || key > maxTensorDim || value < 1 || value > maxTensorDim {
		return fmt.Errorf("keys of %d, values of %d and %d rotated dimensions are not those of latent attention", key, value, rope)
	}
	heads := x.dim("heads")
	for _, name := range []string{"head", "v_head", "kv_heads"} {
		delete(x.dims, name) // those of the latent vector, which all heads share
	}
	for _, d := range []struct {
		name string
		n    int64
	}{{"nope", key - rope}, {"v_head", value}, {"q", heads * key}, {"v", heads * value}, {"kv_b", heads * (key - rope + value)}} {
		if err := x.setDim(d.name, d.n, "the metadata"); err != nil {
			return err
		}
	}
	if x.dim("kv_rank") == 0 {
		return fmt.Errorf("%s.attention.kv_lora_rank is missing", x.arch)
	}
	return x.setDim("kv_a", x.dim("kv_rank")+rope, "the metadata")
}

// falconDims is squareHeads. Which heads share k and v can be said of some only.
func falconDims(x *tensorMaker) error {
	if err := squareHeads(x); err != nil {
		return err
	}
	heads, groups := x.dim("heads"), x.dim("kv_heads")
	if heads%groups != 0 || groups != 1 && groups != heads && !falconNew(x) {
		return fmt.Errorf("%d heads that share %d of k and v are not a Hugging Face model of architecture falcon without attn_norm_2", heads, groups)
	}
	return nil
}

// fact returns a fact of the model, for conditions.
func (x *tensorMaker) fact(name string) any {
	stem, isTensor := strings.CutPrefix(name, "has.")
	switch {
	case strings.HasPrefix(stem, "layers."):
		return x.find(stem+".weight") != nil
	case isTensor:
		return x.find(fmt.Sprintf("layers.%d.%s.weight", x.layer, stem)) != nil
	}
	switch name {
	case "experts":
		return x.number("expert_count")
	case "layer":
		return x.layer
	case "leading":
		return x.number("leading_dense_block_count")
	}
	return nil
}

// falconNew reports whether the model has Falcon's newer kind of layers.
func falconNew(x *tensorMaker) bool { return x.find("layers.0.attention_norm_2.weight") != nil }

// deepseekV3 reports whether the model is one of DeepSeek's third version.
func deepseekV3(x *tensorMaker) bool {
	if x.number("expert_gating_func") == 2 {
		return true
	}
	for n := range x.layers {
		if x.find(fmt.Sprintf("layers.%d.ffn.router.correction.bias", n)) != nil {
			return true
		}
	}
	return false
}
