package hfdir

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/architectures"
	"github.com/tensorfs/tensorfs/views/tree/whole"
)

// maxTensorLayers bounds what metadata says, so that loops end.
const maxTensorLayers = 4096

// dim returns the length of a dimension, 0 where it is not known.
func (x *tensorMaker) dim(name string) int64 { return x.sizes.Len(name) }

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

// bind finds the sizes that the metadata gives.
func (x *tensorMaker) bind() error {
	x.layers = x.number("block_count") - x.number("nextn_predict_layers")
	if x.layers < 1 || x.layers > maxTensorLayers {
		return fmt.Errorf("%s.block_count leaves %d layers, and a Hugging Face model has 1 to %d", x.arch, x.layers, maxTensorLayers)
	}
	for _, key := range []string{"attention.head_count", "attention.head_count_kv", "feed_forward_length"} {
		if _, ok := x.same(key); !ok {
			return fmt.Errorf("%s.%s differs between layers, and a Hugging Face model of this architecture has one number", x.arch, key)
		}
	}
	x.sizes = x.described.Sizes(architectures.FromGGUF, whole.FactsOf(x.m))
	for _, d := range []struct{ name, what string }{{"width", "numbers the hidden state"}, {"heads", "heads"}} {
		if x.dim(d.name) == 0 {
			return fmt.Errorf("the metadata of architecture %s do not say how many %s it has", x.arch, d.what)
		}
	}
	if slices.ContainsFunc(x.described.Layer, func(t architectures.Tensor) bool { return t.Moved("latent_k") }) {
		if err := x.sizes.Need("kv_rank", "nope", "v_head", "rope_head"); err != nil {
			return fmt.Errorf("the sizes of latent attention are not known: %w", err)
		}
	}
	return x.sizes.Implied(x.fact)
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
	case "mlx":
		return x.mlx
	case "layer":
		return x.layer
	}
	return x.sizes.Fact(name)
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
