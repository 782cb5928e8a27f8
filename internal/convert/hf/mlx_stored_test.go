package hf

import (
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs"
)

// withTensors returns a model whose tensors have these names and the shape [2, 3, 4], and forMLX's
// answer to its config.json.
func withTensors(t *testing.T, config, names string) (*tensorfs.Model, mlxText) {
	t.Helper()
	m := &tensorfs.Model{}
	for _, name := range strings.Fields(names) {
		m.Tensors = append(m.Tensors, tensorfs.Tensor{Source: name, Shape: []int64{2, 3, 4}})
	}
	text, err := forMLX([]byte(config), true, sourceNames(m))
	if err != nil {
		t.Fatal(err)
	}
	return m, text
}

// TestMLXRefuses holds which releases mlx-lm does not load.
func TestMLXRefuses(t *testing.T) {
	for _, c := range []struct{ config, tensor, why string }{
		{`{"model_type":"new"}`, "", `mlx-lm is not known to have the model type "new"`},
		{`{"model_type":"llama4/TextArgs"}`, "", "not known to have"},
		{`{"model_type":"gpt2"}`, "transformer.wte.weight", ""},
		{`{"model_type":"gpt_oss"}`, "model.layers.0.mlp.experts.gate_up_proj", "only experts in MXFP4"},
		{`{"model_type":"gpt_oss"}`, "model.layers.0.mlp.experts.gate_up_proj_blocks", ""},
		{`{"model_type":"qwen3"}`, "embed_tokens.weight", ""},
		{`{"model_type":"gpt_neox","hidden_size":8,"intermediate_size":16}`, "", "four times the width 8"},
		{`{"model_type":"gpt_neox","hidden_size":8,"intermediate_size":32}`, "", ""},
		{`{"model_type":"gptj","n_embd":8,"n_inner":16}`, "", "four times the width 8"},
		{`{"model_type":"gptj","n_embd":8,"n_inner":null}`, "", ""},
		{`{"model_type":"olmo"}`, "", "first release"},
		{`{"model_type":"deepseek_v3","num_hidden_layers":3}`, "model.layers.3.eh_proj.weight lm_head.weight", ""},
		{`{"model_type":"deepseek_v3"}`, "model.embed_tokens.weight", "has a matrix for the output"},
		{`{"model_type":"cohere2"}`, "lm_head.weight", "takes the embedding"},
		{`{"model_type":"minimax"}`, "", "MiniMax M2"},
		{`{"model_type":"minimax_m2"}`, "", ""},
		{`{"model_type":"kimi_vl"}`, "language_model.model.layers.0.self_attn.kv_b_proj.weight", "two parts"},
		{`{"model_type":"nanochat"}`, "model.embed_tokens.weight", "first release"},
		{`{"model_type":"bitnet"}`, "model.layers.0.mlp.up_proj.weight", "two bits"},
		{`{"model_type":"bitnet"}`, "model.layers.0.mlp.up_proj.weight_scale", ""},
		{`{"model_type":"recurrent_gemma","num_key_value_heads":2}`, "", "one head"},
		{`{"model_type":"recurrent_gemma","num_key_value_heads":1}`, "", ""},
		{`{"model_type":"olmo_hybrid"}`, "model.layers.0.attention_layer_norm.weight", "other names"},
		{`{"model_type":"qwen3_5_moe_text"}`, "model.layers.0.mlp.experts.0.gate_proj.weight", "stacked experts"},
		{`{"model_type":"qwen3_vl_moe","text_config":{"hidden_size":4}}`, "model.language_model.layers.0.mlp.experts.gate_up_proj", "second axis is the width 4"},
		{`{"model_type":"qwen3_vl_moe","text_config":{"hidden_size":3}}`, "model.language_model.layers.0.mlp.experts.gate_up_proj", ""},
	} {
		got := unloaded(withTensors(t, c.config, c.tensor))
		if !strings.Contains(got, c.why) || c.why == "" && got != "" {
			t.Errorf("%s with %s: %q, want %q", c.config, c.tensor, got, c.why)
		}
	}
}

// TestMLXTypes holds that a file with a type that MLX does not have is refused.
func TestMLXTypes(t *testing.T) {
	for dtype, want := range map[tensorfs.DType]string{tensorfs.F64: "MLX loads no F64", tensorfs.F8_E5M2: "MLX loads no F8_E5M2", tensorfs.F32: "", tensorfs.U64: ""} {
		m, text := withTensors(t, `{"model_type":"qwen3"}`, "model.norm.weight")
		m.Tensors[0].DType = dtype
		if got := unloaded(m, text); !strings.HasPrefix(got, want) || want == "" && got != "" {
			t.Errorf("%s: %q, want %q", dtype, got, want)
		}
	}
}

// TestMLXLacks holds what is said of fields that a class wants.
func TestMLXLacks(t *testing.T) {
	for config, want := range map[string]string{
		`{"model_type":"mixtral"}`: "",
		`{"model_type":"starcoder2","hidden_size":1,"num_hidden_layers":1,"intermediate_size":1,"num_attention_heads":1}`: "mlx-lm's starcoder2 wants fields of config.json that the model does not have: num_key_value_heads",
		`{"model_type":"kimi_vl"}`:                                         "text_config",
		`{"model_type":"kimi_vl","text_config":{"a":1}}`:                   "",
		`{"model_type":"mistral3","text_config":{"model_type":"mistral"}}`: "does not have in its text_config: hidden_size",
		`{"model_type":"qwen2_vl"}`:                                        "hidden_size", // all of it is about the language model
		`{"model_type":"new"}`:                                             "",
	} {
		_, text := withTensors(t, config, "")
		if !strings.Contains(text.lacks, want) || want == "" && text.lacks != "" {
			t.Errorf("%s: %q, want %q", config, text.lacks, want)
		}
	}
}

// TestMLXFieldsOfTensors holds the fields that follow from the names of tensors.
func TestMLXFieldsOfTensors(t *testing.T) {
	for _, c := range []struct{ config, tensors, want string }{
		{`{"model_type":"gpt_bigcode"}`, "lm_head.weight", `"tie_word_embeddings": false`},
		{`{"model_type":"gpt_bigcode"}`, "transformer.wte.weight", ""},
		{`{"model_type":"bailing_moe"}`, "model.layers.1.mlp.gate.expert_bias", `"moe_router_enable_expert_bias": true`},
		{`{"model_type":"minicpm","tie_word_embeddings":true}`, "", `"tie_word_embeddings": false`},
		{`{"model_type":"qwen3_5_text"}`, "", `"model_type": "qwen3_5"`},
		{`{"model_type":"qwen3","tie_word_embeddings":false}`, "embed_tokens.weight", `"tie_word_embeddings": true`},
		{`{"model_type":"qwen3","tie_word_embeddings":false}`, "embed_tokens.weight lm_head.weight", ""},
		{`{"model_type":"pixtral","text_config":{"a":1}}`, "", `{"a":1,"num_attention_heads":32}`},
		{`{"model_type":"granitemoehybrid","layer_types":["linear_attention","full_attention"],"position_embedding_type":null}`, "", `"layer_types": ["mamba","attention"]`},
		{`{"model_type":"glm4_moe","mlp_layer_types":["dense","dense","sparse"]}`, "", `"first_k_dense_replace": 2`},
		{`{"model_type":"glm4_moe_lite","mlp_layer_types":["dense","sparse","dense"]}`, "", ""},
		{`{"model_type":"exaone_moe","mlp_layer_types":["dense","sparse"]}`, "", `"is_moe_layer": [false,true]`},
		{`{"model_type":"falcon_h1","hidden_size":64,"num_attention_heads":4}`, "", `"head_dim": 16`},
		{`{"model_type":"falcon_h1","hidden_size":64,"num_attention_heads":0}`, "", ""},
		{`{"model_type":"gemma4_text","head_dim":16,"layer_types":["sliding_attention","full_attention"],"per_layer_config":{"1":{"head_dim":32}}}`, "", `"global_head_dim": 32`},
		{`{"model_type":"gemma4_text","head_dim":16,"layer_types":["sliding_attention","full_attention"],"per_layer_config":{"0":{"head_dim":32}}}`, "", ""},
		{`{"model_type":"gemma4_text","head_dim":16,"layer_types":["full_attention","full_attention"],"per_layer_config":{"1":{"head_dim":32}}}`, "", ""},
		{`{"model_type":"mamba2","hidden_size":40,"expand":2}`, "", `"time_step_rank": 3`},
	} {
		_, text := withTensors(t, c.config, c.tensors)
		if got := string(text.text); !strings.Contains(got, c.want) || c.want == "" && got != c.config {
			t.Errorf("%s with %s: %s, want %s", c.config, c.tensors, got, c.want)
		}
	}
}

// TestMLXNames holds the names by which mlx-lm knows tensors.
func TestMLXNames(t *testing.T) {
	for _, c := range []struct{ config, names, want string }{
		{`{"model_type":"llama"}`, "model.embed_tokens.weight lm_head.weight", "model.embed_tokens.weight lm_head.weight"},
		{`{"model_type":"qwen3"}`, "embed_tokens.weight layers.0.x lm_head.weight", "model.embed_tokens.weight model.layers.0.x lm_head.weight"},
		{`{"model_type":"gpt2"}`, "transformer.wte.weight wpe.weight", "wte.weight wpe.weight"},
		{`{"model_type":"deepseek_v3","num_hidden_layers":3}`, "model.layers.2.x model.layers.3.x model.layers.31.x model.norm.weight", "model.layers.2.x model.norm.weight"},
		{`{"model_type":"kimi_k2","num_hidden_layers":3}`, "model.layers.3.x", ""},
		{`{"model_type":"deepseek_v3"}`, "model.layers.3.x", "model.layers.3.x"},
		{`{"model_type":"glm4_moe","num_hidden_layers":3}`, "model.layers.3.x", "model.layers.3.x"}, // leaves it out itself
	} {
		m, text := withTensors(t, c.config, c.names)
		var got []string
		name := namesForMLX(text)
		for _, tensor := range m.Tensors {
			if n := name(tensor.Source); n != "" {
				got = append(got, n)
			}
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s: %s, want %s", c.names, got, c.want)
		}
	}
}

// TestMLXPacked holds which quantisations of other libraries mlx-lm loads. AWQ, MXFP4, integers of
// four bits and F8 in blocks were loaded in mlx-lm and gave the model's numbers; the rest follows
// its loader and its classes.
func TestMLXPacked(t *testing.T) {
	const (
		awq    = `"quant_method":"awq","bits":4,"group_size":128,"version":"gemm"`
		int4   = `"quant_method":"compressed-tensors","format":"pack-quantized","config_groups":{"group_0":{"weights":{"num_bits":4,"type":"int","symmetric":true,"group_size":32}}}`
		blocks = `"quant_method":"fp8","weight_block_size":[128,128]`
	)
	for _, c := range []struct{ kind, quant, tensors, why string }{
		{"gpt_oss", `"quant_method":"mxfp4"`, "model.layers.0.mlp.experts.gate_up_proj_blocks", ""},
		{"gpt_oss", `"quant_method":"fp8"`, "", `does not load: "fp8"`},
		{"llama", `"quant_method":"mxfp4"`, "", `mlx-lm's llama does not load: "mxfp4"`},
		{"llama", ``, "", `does not load: ""`},
		{"llama", awq, "model.layers.0.mlp.up_proj.qweight", ""},
		{"mistral", awq, "model.layers.0.mlp.up_proj.qweight", ""},
		{"qwen2_5_vl", `"quant_method":"awq"`, "", ""},
		{"llama", `"quant_method":"awq","bits":8`, "", "8 bits"},
		{"llama", `"quant_method":"awq","bits":4,"version":"gemv"`, "", `"awq", gemv, 4 bits`},
		{"llama", `"quant_method":"awq","bits":4,"group_size":-1`, "", `"awq"`},
		{"mixtral", awq, "model.layers.0.block_sparse_moe.experts.0.w1.qweight", `mlx-lm's mixtral does not load: "awq"`},
		{"mistral3", awq, "language_model.model.layers.0.mlp.experts.0.gate_proj.qweight", "experts and kv_b_proj"},
		{"llama", `"quant_method":"gptq","bits":4,"group_size":128`, "model.layers.0.mlp.up_proj.g_idx", `"gptq", 4 bits`},
		{"kimi_k2", int4, "model.layers.1.mlp.experts.0.up_proj.weight_packed", ""},
		{"deepseek_v3", int4, "model.layers.1.mlp.experts.0.up_proj.weight_zero_point", "zeros of their own"},
		{"deepseek_v3", strings.Replace(int4, `"symmetric":true`, `"symmetric":false`, 1), "", "pack-quantized"},
		{"deepseek_v3", strings.Replace(int4, `"num_bits":4`, `"num_bits":8`, 1), "", "pack-quantized"},
		{"deepseek_v3", `"quant_method":"compressed-tensors","format":"pack-quantized","config_groups":{}`, "", "pack-quantized"},
		{"deepseek_v3", `"quant_method":"compressed-tensors","format":"nvfp4-pack-quantized"`, "", "nvfp4-pack-quantized"},
		{"llama", int4, "", "pack-quantized"},
		{"kimi_k3", `"quant_method":"compressed-tensors","format":"mxfp4-pack-quantized"`, "", ""},
		{"deepseek_v3", blocks, "", ""},
		{"minimax_m2", blocks, "", ""},
		{"qwen3", blocks, "", `"fp8"`},
		{"ministral3", blocks, "", `"fp8"`}, // it would take the codes for numbers
		{"deepseek_v3", `"quant_method":"fp8","weight_block_size":[128,64]`, "", `"fp8"`},
		{"deepseek_v3", `"quant_method":"fp8"`, "", `"fp8"`},
		{"deepseek_v41", `"quant_method":"fp8","scale_fmt":"ue8m0","weight_block_size":[32,32]`, "", ""},
		{"minimax_m3_vl", `"quant_method":"mxfp8"`, "", ""},
		{"muse_spark", `"quant_method":"modelopt","quant_algo":"NVFP4"`, "", ""},
		{"muse_spark", `"quant_method":"modelopt","quantization":{"quant_algo":"NVFP4"}`, "", ""},
		{"muse_spark", `"quant_method":"modelopt","quant_algo":"FP8"`, "", `"modelopt", FP8`},
		{"llama", `"quant_method":"modelopt","quant_algo":"NVFP4"`, "", `"modelopt", NVFP4`},
		{"llama", `"quant_method":"bitnet"`, "model.layers.0.mlp.up_proj.weight_scale", ""},
		{"bitnet", `"quant_method":"bitnet","quantization_mode":"online"`, "", `"bitnet"`},
		{"llama", `"quant_method":"bitsandbytes"`, "", `"bitsandbytes"`},
	} {
		for _, config := range []string{
			`{"model_type":"` + c.kind + `","quantization_config":{` + c.quant + `}}`,
			`{"model_type":"` + c.kind + `","text_config":{"quantization_config":{` + c.quant + `}}}`,
		} {
			got := unpacked(withTensors(t, config, c.tensors))
			if !strings.Contains(got, c.why) || c.why == "" && got != "" || strings.Contains(got, "\n") {
				t.Errorf("%s with %s: %q, want %q", config, c.tensors, got, c.why)
			}
		}
	}
	m, text := withTensors(t, `{"model_type":"llama","quantization_config":null}`, "")
	if got := unpacked(m, text); got != "" {
		t.Errorf("null: %q", got)
	}
	_, text = withTensors(t, `{"model_type":"llama"}`, "")
	m.Sources = []tensorfs.Source{{Name: "hf_quant_config.json"}}
	if got := unpacked(m, text); !strings.Contains(got, "does not name it") {
		t.Errorf("ModelOpt's own file: %q", got)
	}
}
