package recipe

import (
	"strings"
	"testing"
)

// shapes are recipes in the shapes of mergekit's examples and documents, with the sizes of the
// models that they are for: the expected plan, or the reason for a refusal.
var shapes = []struct {
	name, text string
	models     int    // that it names
	layers     int    // of each model
	made       int    // layers of the merge
	refused    string // the key or method, and why
}{
	{name: "linear of three", models: 3, layers: 40, made: 40, text: `
models:
  - model: org/first-13b
    parameters:
      weight: 1.0
  - model: org/second-13b
    parameters:
      weight: 0.3
  - model: org/third-13b
    parameters:
      weight: 0.5
merge_method: linear
dtype: float16
`},
	{name: "aliases, merged keys and a mark of the byte order", models: 3, layers: 4, made: 4, text: "\ufeff" + `# a comment
---
models:
  - model: &base org/first-13b
    parameters: &usual {weight: &half 0.5, density: [1, *half, 0.2]}
  - model: org/second-13b
    parameters:
      <<: *usual
      weight: 0.3
  - model: org/third-13b
    parameters: {<<: [*usual, {density: 0.9}]}
base_model: *base
merge_method: ties
parameters: {normalize: yes, rescale: off, int8_mask: on}
dtype: bfloat16
...
`},
	{name: "slerp with gradients", models: 2, layers: 40, made: 40, text: `
slices:
  - sources:
      - model: org/first-13b
        layer_range: [0, 40]
      - model: org/second-13b
        layer_range: [0, 40]
merge_method: slerp
base_model: org/first-13b
parameters:
  t:
    - filter: self_attn
      value: [0, 0.4, 0.2, 0.8, 1]
    - filter: mlp
      value: [1, 0.6, 0.8, 0.2, 0]
    - value: 0.5 # the rest
dtype: float16
`},
	{name: "ties with gradients and filters", models: 4, layers: 40, made: 40, text: `
models:
  - model: org/first-13b
    parameters:
      density: [1, 0.6, 0.2] # along the layers
      weight: 1.0
  - model: org/second-13b
    parameters:
      density: 0.5
      weight: [0, 0.2, 0.8, 1]
  - model: org/third-13b
    parameters:
      density: 0.33
      weight:
        - filter: mlp
          value: 0.5
        - value: 0
merge_method: ties
base_model: org/base-13b
parameters:
  normalize: true
  int8_mask: true
dtype: float16
`},
	{name: "ties of two, not normalized", models: 3, layers: 32, made: 32, text: `
models:
  - model: org/instruct-7b
    parameters:
      density: 0.5
      weight: 0.5
  - model: org/medical-7b
    parameters:
      density: 0.5
      weight: 0.5
merge_method: ties
base_model: org/base-7b
parameters:
  normalize: false
  int8_mask: true
dtype: float16
`},
	{name: "passthrough of 44 layers", models: 2, layers: 40, made: 44, text: `
slices:
  - sources:
    - model: org/first-13b
      layer_range: [0, 24]
  - sources:
    - model: org/second-13b
      layer_range: [20, 40]
merge_method: passthrough
dtype: float16
`},
	{name: "passthrough of fewer layers", models: 1, layers: 12, made: 8, text: `
slices:
  - sources:
    - model: org/small
      layer_range: [0, 8]
merge_method: passthrough
dtype: float16
`},
	{name: "passthrough with silent layers", models: 1, layers: 32, made: 40, text: `
slices:
- sources:
  - model: org/base-8b
    layer_range: [0, 24]
- sources:
  - model: org/base-8b
    layer_range: [16, 24]
    parameters:
      scale:
        - filter: o_proj
          value: 0.0
        - filter: down_proj
          value: 0.0
        - value: 1.0
- sources:
  - model: org/base-8b
    layer_range: [24, 32]
merge_method: passthrough
dtype: bfloat16
`},
	{name: "task arithmetic, a model with an adapter", models: 3, layers: 32, made: 32, text: `
merge_method: task_arithmetic
base_model: org/base-7b
models:
  - model: org/base-7b
  - model: org/base-7b+org/adapter
    parameters: {weight: 0.6}
  - model: org/maths-7b
    parameters: {weight: 0.3}
parameters:
  lambda: 0.9
tokenizer_source: base
dtype: bfloat16
out_dtype: bfloat16
`},
	{name: "one after the other", refused: "several documents", text: `
slices:
  - sources:
      - {model: org/first-13b, layer_range: [0, 40]}
      - {model: org/second-13b, layer_range: [0, 40]}
merge_method: slerp
base_model: org/first-13b
parameters: {t: 0.5}
dtype: float16
name: half
---
models:
  - model: half
merge_method: ties
base_model: org/base-13b
name: whole
`},
	{name: "the place of the result", models: 1, layers: 4, made: 4, text: "merge_method: passthrough\nmodels: [{model: a}]\nout_path: ./models/a"},
	{name: "dare_ties", refused: "random numbers", text: `
models:
  - model: org/base-7b
  - model: org/first-7b
    parameters: {density: 0.53, weight: 0.4}
merge_method: dare_ties
base_model: org/base-7b
parameters: {int8_mask: true}
dtype: bfloat16
`},
	{name: "della", refused: "random numbers", text: "merge_method: della\nbase_model: a\nmodels: [{model: b, parameters: {epsilon: 0.1}}]"},
	{name: "model_stock", refused: "statistics", text: "merge_method: model_stock\nbase_model: a\nmodels: [{model: b}, {model: c}]"},
	{name: "arcee_fusion", refused: "statistics", text: "merge_method: arcee_fusion\nbase_model: a\nmodels: [{model: a}, {model: b}]"},
	{name: "nuslerp with both vocabularies", refused: "nuslerp", text: `
models:
  - model: org/instruct
  - model: org/chips
merge_method: nuslerp
parameters: {nuslerp_flatten: true}
tokenizer:
  source: union
`},
	{name: "tokens of both", refused: "tokenizer.tokens: rows of embeddings", text: "merge_method: linear\nmodels: [{model: a, parameters: {weight: 1}}]\ntokenizer: {source: union, tokens: {<|end|>: {source: a}}}"},
	{name: "a template", refused: "chat_template", text: "merge_method: linear\nmodels: [{model: a, parameters: {weight: 1}}]\nchat_template: chatml"},
	{name: "an encoder and a decoder", refused: "modules", text: `
merge_method: linear
modules:
  encoder:
    slices: [{sources: [{model: org/whisper, layer_range: [0, 4], parameters: {weight: 1}}]}]
  decoder:
    slices: [{sources: [{model: org/whisper, layer_range: [0, 4], parameters: {weight: 1}}]}]
`},
	{name: "slerp without a base", refused: "base_model is not there", text: "merge_method: slerp\nmodels: [{model: org/whisper, parameters: {weight: 0.7}}, {model: org/french, parameters: {weight: 0.3}}]"},
	{name: "a method of a fork", refused: `merge_method "lrp"`, text: "merge_method: lrp\nbase_model: a\nmodels: [{model: b, parameters: {weight: 1.0}}]"},
	{name: "a base of another class", refused: "base_model", text: "merge_method: slerp\nbase_model: {model: org/bert, override_architecture: BertModel}\nmodels: [{model: a}, {model: b}]"},
	{name: "experts", refused: "mergekit-moe", text: "base_model: org/base-7b\ngate_mode: hidden\nexperts:\n  - source_model: org/maths-7b\n    positive_prompts: [count]"},
	{name: "a search", refused: "merge_method is not there", text: "genome:\n  models: [a, b]\n  merge_method: dare_ties\ntasks:\n  - name: sst2"},
	{name: "metrics", refused: "merge_method is not there", text: "models: [{model: a}, {model: b}]\nmetric_method: all\ndtype: float32"},
}

// TestShapes: each is planned with its layers, or refused by its key in one line.
func TestShapes(t *testing.T) {
	for _, x := range shapes {
		r, err := Parse([]byte(x.text))
		if x.refused != "" {
			switch {
			case err == nil:
				t.Errorf("%s: it is read", x.name)
			case !strings.Contains(err.Error(), x.refused) || strings.Contains(err.Error(), "\n"):
				t.Errorf("%s: %q, want %q", x.name, err, x.refused)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", x.name, err)
			continue
		}
		if !Match([]byte(x.text)) || len(r.Models) != x.models {
			t.Errorf("%s: it is not known as a recipe, or names %q", x.name, r.Models)
		}
		list, err := r.Plan(llama(x.models, x.layers))
		if err != nil {
			t.Errorf("%s: %v", x.name, err)
			continue
		}
		if n := len(r.Layers(x.layers)); n != x.made || len(list) != 2*n+3 { // two tensors in each, and three besides
			t.Errorf("%s: %d layers and %d tensors, want %d", x.name, n, len(list), x.made)
		}
	}
}
