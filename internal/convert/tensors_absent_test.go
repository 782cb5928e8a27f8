package convert

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/gguf"
	"github.com/tensorfs/tensorfs/internal/convert/preset"
)

// TestNoTensors holds that there is no file of a model that llama.cpp would refuse, or in which
// something would have to be guessed, and that the reason names the tensor.
func TestNoTensors(t *testing.T) {
	for _, c := range []struct {
		name, model string
		change      func(t *testing.T, s *sampleModel)
		want        string
	}{
		{"unknown tensor", "llama3", func(t *testing.T, s *sampleModel) { s.add("model.layers.0.something.weight", tensorfs.BF16, 1, 8) }, `does not have in llama: "model.layers.0.something.weight"`},
		{"tensor of another architecture", "llama3", func(t *testing.T, s *sampleModel) {
			s.add("model.layers.0.self_attn.q_norm.weight", tensorfs.BF16, 1, 16)
		}, "q_norm"},
		{"layer after the last", "llama3", func(t *testing.T, s *sampleModel) {
			s.add("model.layers.2.input_layernorm.weight", tensorfs.BF16, 1, 64)
		}, "model.layers.2"},
		{"bias that llama.cpp does not ask for", "qwen2", func(t *testing.T, s *sampleModel) {
			s.add("model.layers.0.self_attn.o_proj.bias", tensorfs.BF16, 1, 64)
		}, "o_proj.bias"},
		{"mask in another architecture", "llama3", func(t *testing.T, s *sampleModel) { s.add("h.0.attn.bias", tensorfs.F32, 1, 1, 1, 8, 8) }, "h.0.attn.bias"},
		{"missing weight", "llama3", func(t *testing.T, s *sampleModel) { s.drop(t, `layers\.1\.mlp\.up_proj`) }, "layers.1.ffn.up.weight is missing, which is blk.1.ffn_up.weight"},
		{"missing bias", "qwen2", func(t *testing.T, s *sampleModel) { s.drop(t, `layers\.1\.self_attn\.k_proj\.bias`) }, "layers.1.attention.k.bias is missing"},
		{"missing layer", "llama3", func(t *testing.T, s *sampleModel) { s.drop(t, `layers\.1\.`) }, "missing"},
		{"missing embedding", "llama3", func(t *testing.T, s *sampleModel) { s.drop(t, `embed_tokens`) }, "token_embedding.weight is missing"},
		{"missing norm", "llama3", func(t *testing.T, s *sampleModel) { s.drop(t, `model\.norm`) }, "output_norm.weight is missing"},
		{"missing expert", "mixtral", func(t *testing.T, s *sampleModel) { s.drop(t, `layers\.1\..*experts\.3\.w1`) }, "4 experts, and the model has 3"},
		{"missing expert between", "mixtral", func(t *testing.T, s *sampleModel) { s.drop(t, `layers\.1\..*experts\.2\.w1`) }, "4 experts, and the model has 2"},
		{"another expert", "mixtral", func(t *testing.T, s *sampleModel) {
			s.add("model.layers.0.block_sparse_moe.experts.4.w1.weight", tensorfs.BF16, 1, 64, 32)
		}, "4 experts, and the model has 5"},
		{"dense layer among those with experts", "mixtral", func(t *testing.T, s *sampleModel) {
			s.drop(t, `layers\.1\.block_sparse_moe`)
			for _, p := range []string{"gate_proj", "up_proj"} {
				s.add("model.layers.1.mlp."+p+".weight", tensorfs.BF16, 1, 64, 32)
			}
			s.add("model.layers.1.mlp.down_proj.weight", tensorfs.BF16, 1, 32, 64)
		}, "layers.1.ffn.router.weight is missing"},
		{"experts of two types", "mixtral", func(t *testing.T, s *sampleModel) {
			x := s.get(t, "model.layers.0.block_sparse_moe.experts.2.w2.weight")
			x.DType = tensorfs.F16
		}, "experts of"},
		{"experts of two shapes", "mixtral", func(t *testing.T, s *sampleModel) {
			x := s.get(t, "model.layers.0.block_sparse_moe.experts.2.w2.weight")
			x.Shape = []int64{64, 32}
		}, "experts of"},
		{"dense layer first, unannounced", "deepseek3", func(t *testing.T, s *sampleModel) {
			s.set(t, `"first_k_dense_replace": 1`, `"first_k_dense_replace": 0`)
		}, "router"},
		{"dense layers by config", "deepseek3", func(t *testing.T, s *sampleModel) {
			s.set(t, `"first_k_dense_replace": 1`, `"first_k_dense_replace": 2`)
		}, "blk.1.ffn_gate.weight"},
		{"width of another model", "llama3", func(t *testing.T, s *sampleModel) { s.set(t, `"hidden_size": 64`, `"hidden_size": 96`) }, "96"},
		{"feed-forward of another model", "llama3", func(t *testing.T, s *sampleModel) { s.set(t, `"intermediate_size": 96`, `"intermediate_size": 128`) }, "config.json has 128"},
		{"feed-forward of nothing", "llama3", func(t *testing.T, s *sampleModel) { s.set(t, `"intermediate_size": 96`, `"intermediate_size": 0`) }, "config.json has 0"},
		{"heads of another model", "llama3", func(t *testing.T, s *sampleModel) { s.set(t, `"num_attention_heads": 4`, `"num_attention_heads": 3`) }, "3 heads"},
		{"kv heads of another model", "llama3", func(t *testing.T, s *sampleModel) { s.set(t, `"num_key_value_heads": 2`, `"num_key_value_heads": 4`) }, "k"},
		{"no heads", "llama3", func(t *testing.T, s *sampleModel) {
			s.set(t, `"num_attention_heads": 4`, `"num_attention_heads": null`)
		}, "num_attention_heads"},
		{"no layers", "llama3", func(t *testing.T, s *sampleModel) { s.set(t, `"num_hidden_layers": 2`, `"num_hidden_layers": 0`) }, "layers"},
		{"a text for a number", "llama3", func(t *testing.T, s *sampleModel) { s.set(t, `"hidden_size": 64`, `"hidden_size": "64"`) }, "hidden_size"},
		{"transposed weight", "llama3", func(t *testing.T, s *sampleModel) {
			s.get(t, "model.layers.1.mlp.up_proj.weight").Shape = []int64{64, 96}
		}, "up_proj"},
		{"rank of a norm", "llama3", func(t *testing.T, s *sampleModel) { s.get(t, "model.norm.weight").Shape = []int64{1, 64} }, "dimensions"},
		{"output of another vocabulary", "llama3", func(t *testing.T, s *sampleModel) {
			x := s.get(t, "lm_head.weight")
			x.Shape, x.Data = []int64{370, 64}, x.Data[:370*128]
		}, "vocab"},
		{"norm of another length", "qwen3", func(t *testing.T, s *sampleModel) {
			x := s.get(t, "model.layers.1.self_attn.q_norm.weight")
			x.Shape, x.Data = []int64{16}, x.Data[:32]
		}, "q_norm"},
		{"integers", "llama3", func(t *testing.T, s *sampleModel) { s.get(t, "model.layers.0.mlp.up_proj.weight").DType = tensorfs.I16 }, "up_proj"},
		{"integers for a norm", "llama3", func(t *testing.T, s *sampleModel) { s.get(t, "model.norm.weight").DType = tensorfs.I16 }, "model.norm"},
		{"norms of bytes in gemma", "gemma3", func(t *testing.T, s *sampleModel) { s.get(t, "model.norm.weight").DType = tensorfs.I16 }, "added"},
		{"rows of Meta's order", "llama3", func(t *testing.T, s *sampleModel) {
			for i := range s.list {
				s.list[i].Name = strings.NewReplacer("self_attn.q_proj", "attention.wq", "self_attn.k_proj", "attention.wk").Replace(s.list[i].Name)
			}
		}, "order of its rows"},
		{"both forms of kv_b", "deepseek3", func(t *testing.T, s *sampleModel) {
			s.add("model.layers.0.self_attn.embed_q.weight", tensorfs.BF16, 1, 4, 32, 16)
		}, "the same"},
		{"no dimensions of kv_b", "deepseek3", func(t *testing.T, s *sampleModel) { s.set(t, `"qk_nope_head_dim": 16`, `"qk_nope_head_dim": null`) }, "qk_nope_head_dim"},
		{"no shared experts", "deepseek3", func(t *testing.T, s *sampleModel) { s.set(t, `"n_shared_experts": 1`, `"n_shared_experts": 0`) }, "n_shared_experts"},
		{"short list of factors", "phi3", func(t *testing.T, s *sampleModel) { s.set(t, `"long_factor": [`, `"long_factor": [1.0, `) }, "long_factor"},
		{"no list of factors", "phi3", func(t *testing.T, s *sampleModel) { s.set(t, `"long_factor"`, `"longer_factor"`) }, "long_factor"},
		{"experts of another width than moe_latent_size", "../published/nemotron-latent", func(t *testing.T, s *sampleModel) {
			s.set(t, `"moe_latent_size": 16`, `"moe_latent_size": 32`)
		}, "moe_latent_size"},
		{"experts of the model's width with moe_latent_size", "../architectures/nemotron_h-moe", func(t *testing.T, s *sampleModel) {
			s.set(t, `"moe_intermediate_size"`, `"moe_latent_size": 2048, "moe_intermediate_size"`)
		}, "moe_latent_size"},
		{"no projections to moe_latent_size", "../published/nemotron-latent", func(t *testing.T, s *sampleModel) { s.drop(t, `latent_proj`) }, "latent_down.weight is missing"},
		{"no moe_latent_size", "../published/nemotron-latent", func(t *testing.T, s *sampleModel) {
			s.set(t, `"moe_latent_size": 16`, `"moe_latent_size": null`)
		}, "latent"},
		{"experts that are rows or columns", "qwen3moe", func(t *testing.T, s *sampleModel) {
			for _, layer := range []string{"0", "1"} {
				s.drop(t, `layers\.`+layer+`\.mlp\.experts`)
				s.add("model.layers."+layer+".mlp.experts.gate_up_proj", tensorfs.BF16, 1, 4, 32, 32)
				s.add("model.layers."+layer+".mlp.experts.down_proj", tensorfs.BF16, 1, 4, 32, 32)
			}
		}, "rows from columns"},
		{"a quantisation that is not decoded", "llama3", func(t *testing.T, s *sampleModel) {
			s.config = strings.TrimRight(strings.TrimSpace(s.config), "}") + `, "quantization_config": {"quant_method": "gptq", "checkpoint_format": "marlin", "bits": 4, "group_size": 32}}`
			s.drop(t, `layers\.0\.mlp\.up_proj`)
			s.add("model.layers.0.mlp.up_proj.qweight", tensorfs.I32, 1, 8, 96)
			s.add("model.layers.0.mlp.up_proj.scales", tensorfs.F16, 1, 2, 96)
			s.add("model.layers.0.mlp.up_proj.qzeros", tensorfs.I32, 1, 2, 12)
		}, "up_proj"},
		{"unknown architecture", "llama3", func(t *testing.T, s *sampleModel) {
			s.set(t, "LlamaForCausalLM", "NobodysForCausalLM")
			s.set(t, `"model_type": "llama"`, `"model_type": "nobody"`)
		}, "not known"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := published(t, c.model)
			c.change(t, s)
			_, _, err := s.make(t, Options{}, 0)
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}

// TestWindowsOfTensors: any part of any tensor is what a read of the whole has, from
// many threads.
func TestWindowsOfTensors(t *testing.T) {
	for _, name := range []string{"llama3", "falcon", "gpt2", "deepseek3", "gpt-oss", "mlx-mixtral-mxfp4", "mlx-llama2-nvfp4", "gemma3"} {
		m, cfg := open(t, testdata+"/whole-gguf/"+name)
		list, _, err := tensors(m, cfg, Options{}, 0, preset.Model{Architecture: m.Architecture})
		if err != nil {
			t.Fatal(err)
		}
		d, err := gguf.Compose(nil, list)
		if err != nil {
			t.Fatal(err)
		}
		want := make([]byte, d.Size())
		if err := tensorfs.ReadFull(d, want, 0); err != nil {
			t.Fatal(err)
		}
		var wait sync.WaitGroup
		for seed := range uint64(4) {
			wait.Go(func() {
				r := rand.New(rand.NewPCG(seed, 2))
				for range 300 {
					n := 1 + r.IntN(1<<r.IntN(18))
					off := r.Int64N(max(d.Size()-int64(n), 1))
					p := make([]byte, min(int64(n), d.Size()-off))
					if err := tensorfs.ReadFull(d, p, off); err != nil || !bytes.Equal(p, want[off:][:len(p)]) {
						t.Errorf("%s: %d bytes at %d: %v", name, len(p), off, err)
						return
					}
				}
			})
		}
		wait.Wait()
	}
}
