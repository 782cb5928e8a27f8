package hf_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/config"
	"github.com/tensorfs/tensorfs/formats/hf"
	"github.com/tensorfs/tensorfs/internal/testing/memory"
	"github.com/tensorfs/tensorfs/internal/testing/testmodel"
)

// FuzzOpen opens directories of any config.json, index and weights, and reads
// and prints all of what is accepted.
func FuzzOpen(f *testing.F) {
	add := func(config, index string, ts ...testmodel.SafeTensor) {
		f.Add([]byte(config), []byte(index), testmodel.Safetensors(ts, [][2]string{{"format", "mlx"}}))
	}
	add(`{"quantization":{"bits":4,"group_size":64,"`+x+`":{"bits":8}}}`, ``, st(x+".weight", tensorfs.U32, 2, 16), st(x+".scales", tensorfs.F16, 2, 2), st(x+".biases", tensorfs.F16, 2, 2))
	add(`{"quantization_config":{"quant_method":"fp8","weight_block_size":[2,2]}}`, `{"weight_map":{"a":"model.safetensors"}}`, st(x+".weight", tensorfs.F8_E4M3, 3, 4), st(x+".weight_scale_inv", tensorfs.F32, 2, 2))
	add(`{"quantization_config":{"quant_method":"mxfp4"},"nan":[NaN,{"a":-Infinity}]}`, ``, st(experts+"down_proj_blocks", tensorfs.U8, 2, 1, 2, 16), st(experts+"down_proj_scales", tensorfs.U8, 2, 1, 2))
	add(`{"text_config":{"quantization_config":{"quant_method":"gptq","bits":4}}}`, ``, st(x+".qweight", tensorfs.I32, 2, 2), st(x+".qzeros", tensorfs.I32, 2), st(x+".scales", tensorfs.F16, 2))
	add(`{"quantization_config":{"quant_method":"compressed-tensors","config_groups":{"g":{"weights":{"block_structure":[1,0]}}}}}`, ``, st(x+".weight", tensorfs.F8_E4M3, 0, 4), st(x+".weight_scale", tensorfs.F32, 0, 1))
	f.Fuzz(func(t *testing.T, config, index, weights []byte) {
		src := memory.New(map[string][]byte{})
		for name, b := range map[string][]byte{"config.json": config, "model.safetensors.index.json": index, "model.safetensors": weights} {
			if len(b) > 0 {
				src.Files[name] = b
			}
		}
		for _, open := range []func() (*tensorfs.Model, error){
			func() (*tensorfs.Model, error) { return hf.OpenFS(src, ".") },
			func() (*tensorfs.Model, error) { return hf.OpenFileFS(src, "model.safetensors") },
		} {
			m, err := open()
			if err != nil {
				if m != nil || err.Error() == "" || src.Opens.Load() != src.Closes.Load() {
					t.Fatal(m, err)
				}
				continue
			}
			for i := range m.Tensors {
				p := &m.Tensors[i]
				read(t, p.Data)
				if q := p.Quant; q != nil {
					n, ok := tensorfs.Elements(q.Shape)
					if !ok || p.Opaque != "" || q.Scales == nil || q.Scales.Owner != p.Name || n*int64(q.Bits) != p.Data.Size()*8 {
						t.Fatalf("%+v with %+v", p, q)
					}
				}
				if p.Owner != "" && m.Tensor(p.Owner) == nil {
					t.Fatalf("%s is owned by %s, which is not there", p.Name, p.Owner)
				}
			}
			for _, e := range m.Metadata {
				e.AppendText(e.AppendJSON(nil))
			}
			if err := m.Close(); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// FuzzConfig opens a tiny directory with weights of several schemes and any
// config.json: it opens or is refused in one line, at little cost, and all that
// is shown of it is sound.
func FuzzConfig(f *testing.F) {
	const f16 = tensorfs.F16
	weights := testmodel.Safetensors(tensors(
		st("model.embed_tokens.weight", f16, 3, 64), st(x+".weight", tensorfs.U32, 2, 16), st(x+".scales", f16, 2, 2), st(x+".biases", f16, 2, 2),
		st("model.layers.0.mlp.up_proj.weight", tensorfs.F8_E4M3, 3, 4), st("model.layers.0.mlp.up_proj.weight_scale_inv", tensorfs.F32, 2, 2),
		st("model.layers.0.mlp.down_proj.qweight", tensorfs.I32, 2, 2), st("model.layers.0.mlp.down_proj.qzeros", tensorfs.I32, 2), st("model.layers.0.mlp.down_proj.scales", f16, 2),
		st(experts+"down_proj_blocks", tensorfs.U8, 2, 1, 2, 16), st(experts+"down_proj_scales", tensorfs.U8, 2, 1, 2)), nil)
	for _, seed := range []string{
		``, `{}`, ` {"a":NaN,"a":[-Infinity,{"b":"Infinity"}]} `, `{"a":1}}`, `{"a":`, `[`,
		`{"model_type":"llama","hidden_size":64,"num_attention_heads":[4,2.0],"num_hidden_layers":1e0,"layer_types":["sliding_attention","full_attention"],"rope_parameters":{"full_attention":{"rope_theta":1e6}}}`,
		`{"architectures":["GptOssForCausalLM"],"text_config":{"hidden_size":64,"quantization_config":{"quant_method":"mxfp4"}}}`,
		`{"quantization":{"bits":4,"group_size":64,"mode":"affine","` + x + `":{"bits":8},"lm_head":false,"\u0078":true}}`,
		`{"quantization_config":{"quant_method":"fp8","weight_block_size":[2,2]}}`, `{"quantization_config":{"load_in_4bit":true}}`,
		`{"quantization_config":{"quant_method":"compressed-tensors","config_groups":{"g":{"weights":{"block_structure":[1,0],"num_bits":8}}}}}`,
	} {
		f.Add([]byte(seed))
	}
	line := func(t *testing.T, s string) {
		if s == "" || strings.ContainsAny(s, "\n\x1b\x00") || len(s) > 1000 {
			t.Fatalf("%q is not a clear line", s)
		}
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		src := memory.New(map[string][]byte{"config.json": text, "model.safetensors": weights})
		m, err := openCheaply(t, func() (*tensorfs.Model, error) { return hf.OpenFS(src, ".") }, len(text), 4<<20)
		if err != nil {
			line(t, err.Error())
			return
		}
		defer m.Close()
		for _, w := range m.Warnings {
			line(t, w)
		}
		for i := range m.Tensors {
			if p := &m.Tensors[i]; p.Opaque != "" {
				line(t, p.Opaque)
			}
		}
		for _, e := range m.Metadata {
			if j := e.AppendJSON(nil); !json.Valid(j) {
				t.Fatalf("metadata %q: %q", e.Key, j)
			}
			e.AppendText(nil)
		}
		if j := config.AppendJSON(nil, m.Config); !json.Valid(j) {
			t.Fatalf("config %q", j)
		}
	})
}
