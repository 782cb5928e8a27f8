package lora_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/safetensors"
	"github.com/tensorfs/tensorfs/views"
	"github.com/tensorfs/tensorfs/views/lora"
)

const (
	lora2 = `{"peft_type":"LORA","r":2,"lora_alpha":3}`
	embed = "model.embed_tokens"
	head  = "lm_head"
)

// named is a tensor by another name.
func named(name string, x safetensors.Stored) safetensors.Stored {
	x.Name = name
	return x
}

// numbersOf are a model's numbers by the source names of its tensors.
func numbersOf(t *testing.T, m *tensorfs.Model) map[string][]float32 {
	t.Helper()
	all := map[string][]float32{}
	for i := range m.Tensors {
		all[m.Tensors[i].Source] = numbers(t, &m.Tensors[i])
	}
	return all
}

// untied has a head; tiedModel ties it to the embedding.
func untied(t *testing.T) *tensorfs.Model {
	return model(t, "llama", tensor(embed+".weight", tensorfs.BF16, 48, 32), tensor(head+".weight", tensorfs.BF16, 48, 32), tensor(q, tensorfs.BF16, 32, 32))
}

func tiedModel(t *testing.T) *tensorfs.Model {
	return model(t, "llama", tensor(embed+".weight", tensorfs.BF16, 48, 32), tensor(q, tensorfs.BF16, 32, 32))
}

// TestCopies: among the copies that PEFT writes of an embedding the trained one counts, and names
// of wrapped and compiled models are the names of their modules.
func TestCopies(t *testing.T) {
	e, h := tensor("a", tensorfs.F32, 48, 32), tensor("bb", tensorfs.F32, 48, 32)
	old, pair := tensor("ccc", tensorfs.F32, 48, 32), pairOf("model.layers.0.self_attn.q_proj", 32, 32, 2)
	plain := append(slices.Clone(pair), named(pre+embed+".weight", e), named(pre+head+".weight", h))
	m := untied(t)
	apply(t, m, peft(t, lora2, plain...), 1)
	want := numbersOf(t, m)
	three := append(slices.Clone(plain), named(pre+embed+".modules_to_save.weight", e), named(pre+embed+".original_module.weight", old),
		named(pre+head+".modules_to_save.weight", h), named(pre+head+".original_module.weight", old))
	lists := map[string][]safetensors.Stored{
		"three copies":    three,
		"by adapter name": append(slices.Clone(pair), named(pre+embed+".modules_to_save.default.weight", e), named(pre+head+".modules_to_save.default.weight", h), named(pre+head+".original_module.weight", old)),
	}
	lists["quantised base"] = slices.Clone(three)
	for _, name := range []string{"base_layer.weight", "base_layer.weight.absmax", "base_layer.weight.quant_state.bitsandbytes__nf4", "base_layer.qweight", "base_layer.SCB", "original_module.dense.weight"} {
		lists["quantised base"] = append(lists["quantised base"], named(pre+"model.layers.0.self_attn.q_proj."+name, old))
	}
	for name, wrap := range map[string]func(s string) string{
		"compiled":          func(s string) string { return "base_model.model._orig_mod." + s },
		"compiled outside":  func(s string) string { return "_orig_mod.base_model.model." + s },
		"compiled layers":   func(s string) string { return pre + strings.Replace(s, "layers.0.", "layers.0._orig_mod.", 1) },
		"distributed":       func(s string) string { return "module." + pre + s },
		"distributed twice": func(s string) string { return pre + "module.module." + s },
		"sharded": func(s string) string {
			return "_fsdp_wrapped_module." + pre + strings.Replace(s, "layers.0.", "layers.0._fsdp_wrapped_module._checkpoint_wrapped_module.", 1)
		},
		"wrapped twice":    func(s string) string { return pre + pre + s },
		"below base_layer": func(s string) string { return pre + strings.Replace(s, ".lora_", ".base_layer.lora_", 1) },
		"no prefix":        func(s string) string { return s },
	} {
		for _, x := range three {
			lists[name] = append(lists[name], named(wrap(strings.TrimPrefix(x.Name, pre)), x))
		}
	}
	for name, list := range lists {
		m := untied(t)
		apply(t, m, peft(t, lora2, list...), 1)
		for tensor, got := range numbersOf(t, m) {
			if !slices.Equal(got, want[tensor]) {
				t.Errorf("%s: %s has other numbers", name, tensor)
			}
		}
	}
}

// TestTiedCopies: a base that ties its head stays tied where the file has the same for both.
func TestTiedCopies(t *testing.T) {
	e, other := tensor("a", tensorfs.F32, 48, 32), tensor("bb", tensorfs.F32, 48, 32)
	pair := pairOf("model.layers.0.self_attn.q_proj", 32, 32, 2)
	rows := tensor("a", tensorfs.F32, 2, 32)
	tokens := `{"peft_type":"LORA","r":2,"lora_alpha":3,"trainable_token_indices":{"embed_tokens":[40,7],"lm_head":%s}}`
	for _, c := range []struct {
		name, config string
		list         []safetensors.Stored
		refused      bool
	}{
		{"equal", lora2, []safetensors.Stored{named(pre+embed+".weight", e), named(pre+head+".weight", e)}, false},
		{"below modules_to_save", lora2, []safetensors.Stored{named(pre+embed+".modules_to_save.weight", e), named(pre+head+".weight", e)}, false},
		{"embedding", lora2, []safetensors.Stored{named(pre+embed+".weight", e)}, false},
		{"unequal", lora2, []safetensors.Stored{named(pre+embed+".weight", e), named(pre+head+".weight", other)}, true},
		{"another type", lora2, []safetensors.Stored{named(pre+embed+".weight", e), named(pre+head+".weight", tensor("a", tensorfs.BF16, 48, 32))}, true},
		{"only a head", lora2, []safetensors.Stored{named(pre+head+".weight", e)}, true},
		{"equal tokens", strings.Replace(tokens, "%s", "[40,7]", 1), []safetensors.Stored{named(pre+embed+".token_adapter.trainable_tokens_delta", rows), named(pre+head+".token_adapter.trainable_tokens_delta", rows)}, false},
		{"other tokens", strings.Replace(tokens, "%s", "[40,8]", 1), []safetensors.Stored{named(pre+embed+".token_adapter.trainable_tokens_delta", rows), named(pre+head+".token_adapter.trainable_tokens_delta", rows)}, true},
	} {
		m := tiedModel(t)
		err := lora.Apply(m, views.Options{}, lora.Use{Model: peft(t, c.config, append(slices.Clone(pair), c.list...)...), Adapter: tensorfs.Adapter{Source: "a", Scale: 1}})
		switch {
		case c.refused && (err == nil || !strings.Contains(err.Error(), "the base ties lm_head to embed_tokens") || strings.Contains(err.Error(), "fetch it again")):
			t.Errorf("%s: %v", c.name, err)
		case c.refused:
		case err != nil:
			t.Errorf("%s: %v", c.name, err)
		case !strings.Contains(c.name, "tokens") && !slices.Equal(numbers(t, m.TensorBySource(embed+".weight")), stored(t, e)):
			t.Errorf("%s: the embedding is another", c.name)
		}
	}
}

// TestTokens: rows of tokens take the place of the base's, whatever the scale, and nothing else
// changes.
func TestTokens(t *testing.T) {
	scale := 1.0
	rows := tensor("aaa", tensorfs.F32, 3, 32)
	for name, config := range map[string]string{
		"list":    `{"peft_type":"LORA","r":2,"lora_alpha":3,"trainable_token_indices":[47,0,8]}`,
		"mapping": `{"peft_type":"LORA","r":2,"lora_alpha":3,"trainable_token_indices":{"lm_head":[1],"embed_tokens":[47,0,8]}}`,
	} {
		for _, to := range []tensorfs.DType{tensorfs.BF16, tensorfs.F32, tensorfs.Q8_0} {
			m := model(t, "llama", tensor(embed+".weight", to, 48, 32), tensor(q, tensorfs.BF16, 32, 32))
			want := numbersOf(t, m)
			of := stored(t, rows)
			for i, at := range []int{47, 0, 8} {
				copy(want[embed+".weight"][at*32:], of[i*32:(i+1)*32])
			}
			list := []safetensors.Stored{named(pre+embed+".token_adapter.trainable_tokens_delta", rows), named(pre+embed+".token_adapter.base_layer.weight", tensor("b", tensorfs.F32, 48, 32))}
			apply(t, m, peft(t, config, list...), scale)
			scale = 1.5 - scale // rows are not scaled
			for tensor, got := range numbersOf(t, m) {
				if !slices.Equal(got, want[tensor]) {
					t.Errorf("%s, %v: %s has other numbers", name, to, tensor)
				}
			}
			if x := m.TensorBySource(embed + ".weight"); x.Change == nil || len(x.Change.From) != 1 {
				t.Errorf("%s: the change is not said: %+v", name, x.Change)
			}
		}
	}
	const usual = `"peft_type":"LORA","r":2,"lora_alpha":3,"trainable_token_indices":`
	for _, c := range []struct{ config, name, want string }{
		{usual + `[1,2,48]`, embed, "it has token 48, and token_embedding.weight of the base has 48 rows"},
		{usual + `[1,2]`, embed, "adapter_config.json names 2 tokens"},
		{usual + `[1,2,1]`, embed, "names a token twice"},
		{usual + `[1,2,-1]`, embed, `"-1" is not the number of a token`},
		{usual + `[1,2,1e300]`, embed, "is not the number of a token"},
		{usual + `{"lm_head":[1,2,3]}`, embed, "names no tokens of"},
		{usual + `"x"`, embed, "is not a list of tokens"},
		{usual + `[1,2,3]`, "model.layers.0.self_attn.q_proj", "is neither"},
		{usual + `[1,2,3]`, "model.other", "the base has no"},
		{`"peft_type":"LORA","r":2,"lora_alpha":3`, embed, "names no tokens of"},
	} {
		m := model(t, "llama", tensor(embed+".weight", tensorfs.BF16, 48, 32), tensor(q, tensorfs.BF16, 32, 32))
		err := lora.Apply(m, views.Options{}, lora.Use{Model: peft(t, "{"+c.config+"}", named(pre+c.name+".token_adapter.trainable_tokens_delta", rows)), Adapter: tensorfs.Adapter{Source: "a", Scale: 1}})
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "fetch it again") {
			t.Errorf("%s: %v, want %s", c.config, err, c.want)
		}
	}
}

// TestBothBases: an adapter of another model names the model that it was made for, and the
// one that was given.
func TestBothBases(t *testing.T) {
	for name, list := range map[string][]safetensors.Stored{
		"rows":      pairOf("model.layers.0.self_attn.q_proj", 40, 32, 2),
		"columns":   pairOf("model.layers.0.self_attn.q_proj", 32, 40, 2),
		"layer":     pairOf("model.layers.9.self_attn.q_proj", 32, 32, 2),
		"module":    pairOf("model.layers.0.self_attn.other", 32, 32, 2),
		"embedding": {tensor(pre+embed+".weight", tensorfs.F32, 50, 32)},
	} {
		for base, want := range map[string]string{`,"base_model_name_or_path":"org/other"`: `the adapter was made for "org/other", and the model is /base`, "": "the adapter is for another model than /base"} {
			m := tiedModel(t)
			err := lora.Apply(m, views.Options{}, lora.Use{Model: peft(t, `{"peft_type":"LORA","r":2,"lora_alpha":3`+base+`}`, list...), Adapter: tensorfs.Adapter{Source: "a", Scale: 1}})
			if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "damaged") {
				t.Errorf("%s: %v, want %s", name, err, want)
			}
		}
	}
}

// TestBiases: a bias that an adapter has in full, or has trained, takes the place of the base's.
func TestBiases(t *testing.T) {
	const norm = "h.0.ln_1"
	bias, old := tensor("aa", tensorfs.F32, 64), tensor("b", tensorfs.F32, 64)
	for name, c := range map[string]struct {
		config, tensor string
		changed        bool
	}{
		"saved":        {`"bias":"none"`, norm + ".bias", true},
		"below a copy": {`"bias":"none"`, norm + ".modules_to_save.default.bias", true},
		"trained":      {`"bias":"all"`, norm + ".base_layer.bias", true},
		"of the base":  {`"bias":"none"`, norm + ".base_layer.bias", false},
		"original":     {`"bias":"none"`, norm + ".original_module.bias", false},
	} {
		m := model(t, "gpt2", named(norm+".bias", old), named(norm+".weight", old))
		list := []safetensors.Stored{named(pre+"transformer."+c.tensor, bias), named(pre+"transformer."+norm+".weight", old)}
		apply(t, m, peft(t, `{"peft_type":"LORA","r":2,"lora_alpha":3,`+c.config+`}`, list...), 1)
		want := map[bool][]float32{true: stored(t, bias), false: stored(t, old)}[c.changed]
		if !slices.Equal(numbers(t, m.TensorBySource(norm+".bias")), want) {
			t.Errorf("%s: the bias is another", name)
		}
	}
	m := model(t, "llama", tensor(q, tensorfs.F32, 64, 64))
	err := lora.Apply(m, views.Options{}, lora.Use{Model: peft(t, lora2, named(pre+"classifier.bias", old), named(pre+"classifier.weight", tensor("c", tensorfs.F32, 2, 64))), Adapter: tensorfs.Adapter{Source: "a", Scale: 1}})
	if err == nil || !strings.Contains(err.Error(), "the base has no classifier.bias: the adapter is for another model") {
		t.Error(err)
	}
}
