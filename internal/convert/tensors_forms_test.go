package convert

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"maps"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/gguf"
	"github.com/tensorfs/tensorfs/internal/convert/preset"
	"github.com/tensorfs/tensorfs/internal/testing/datatest"
	"github.com/tensorfs/tensorfs/internal/testing/testmodel"
	"github.com/tensorfs/tensorfs/internal/testing/testwhole"
)

// sampleModel is a model as its files have it.
type sampleModel struct {
	config string
	list   []testmodel.SafeTensor
}

// published returns one of the models that have a table of tensors.
func published(t testing.TB, name string) *sampleModel {
	t.Helper()
	dir := filepath.Join(testdata, "whole-gguf", name)
	m, _ := open(t, dir)
	config, err := os.ReadFile(filepath.Join(dir, "config.json"))
	if err != nil {
		t.Fatal(err)
	}
	s := &sampleModel{config: string(config)}
	for _, x := range m.Tensors {
		b := make([]byte, x.Data.Size())
		if err := tensorfs.ReadFull(x.Data, b, 0); err != nil {
			t.Fatal(err)
		}
		s.list = append(s.list, testmodel.SafeTensor{Name: x.Source, DType: x.DType, Shape: x.Shape, Data: b})
	}
	return s
}

// made returns a model of random tensors: name, type and shape of each.
func made(config string, dtype tensorfs.DType, tensors map[string][]int64) *sampleModel {
	s := &sampleModel{config: config}
	for i, name := range slices.Sorted(maps.Keys(tensors)) {
		s.add(name, dtype, uint64(i), tensors[name]...)
	}
	return s
}

func (s *sampleModel) add(name string, dtype tensorfs.DType, seed uint64, shape ...int64) {
	x := testmodel.SafeTensor{Name: name, DType: dtype, Shape: shape}
	x.Data = datatest.Random(seed, int(x.Size()))
	s.list = append(s.list, x)
}

// drop removes the tensors whose names match, and returns them.
func (s *sampleModel) drop(t testing.TB, pattern string) (out []testmodel.SafeTensor) {
	t.Helper()
	re := regexp.MustCompile(pattern)
	s.list = slices.DeleteFunc(s.list, func(x testmodel.SafeTensor) bool {
		if re.MatchString(x.Name) {
			out = append(out, x)
			return true
		}
		return false
	})
	if len(out) == 0 {
		t.Fatalf("no tensor matches %s", pattern)
	}
	return out
}

// get returns a tensor.
func (s *sampleModel) get(t testing.TB, name string) *testmodel.SafeTensor {
	t.Helper()
	for i := range s.list {
		if s.list[i].Name == name {
			return &s.list[i]
		}
	}
	t.Fatalf("there is no %s", name)
	return nil
}

// set replaces a text of the config.
func (s *sampleModel) set(t testing.TB, old, new string) {
	t.Helper()
	if !strings.Contains(s.config, old) {
		t.Fatalf("the config does not have %s", old)
	}
	s.config = strings.Replace(s.config, old, new, 1)
}

// make makes the tensors of the model's GGUF file.
func (s *sampleModel) make(t testing.TB, opts Options, rows int) ([]gguf.Stored, tensorNotes, error) {
	t.Helper()
	dir := t.TempDir()
	for name, b := range map[string][]byte{"config.json": []byte(s.config), "model.safetensors": testmodel.Safetensors(s.list, [][2]string{{"format", "pt"}})} {
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	m, cfg := open(t, dir)
	return tensors(m, cfg, opts, rows, preset.Model{Architecture: m.Architecture})
}

// must is make for a model that has a file.
func (s *sampleModel) must(t testing.TB) map[string]gguf.Stored {
	t.Helper()
	list, _, err := s.make(t, Options{}, 0)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]gguf.Stored{}
	for _, x := range list {
		all[x.Name] = x
	}
	return all
}

// expected returns the table of a golden model.
func expected(t testing.TB, name string) map[string]string {
	t.Helper()
	want := map[string]string{}
	for _, r := range testwhole.Table(t, filepath.Join(testdata, "whole-gguf", "expected", name+".tensors.tsv")) {
		want[r[0]] = strings.Join(r[1:5], " ")
	}
	return want
}

// TestForms: a model that is stored in another form makes the same file.
func TestForms(t *testing.T) {
	transposed := func(x testmodel.SafeTensor) testmodel.SafeTensor {
		e, rows, cols := int(x.Shape[0]), int(x.Shape[1]), int(x.Shape[2])
		out := make([]byte, 0, len(x.Data))
		for m := range e {
			for c := range cols {
				for r := range rows {
					out = append(out, x.Data[2*((m*rows+r)*cols+c):][:2]...)
				}
			}
		}
		x.Shape, x.Data = []int64{x.Shape[0], x.Shape[2], x.Shape[1]}, out
		return x
	}
	// stack replaces the experts of a layer by one tensor of each.
	stack := func(t *testing.T, s *sampleModel, layer string, change func(x testmodel.SafeTensor) testmodel.SafeTensor) {
		at := "model.layers." + layer + ".mlp.experts."
		joined := testmodel.SafeTensor{Name: at + "gate_up_proj", DType: tensorfs.BF16}
		down := testmodel.SafeTensor{Name: at + "down_proj", DType: tensorfs.BF16}
		for e := range 4 {
			for _, p := range []struct {
				to   *testmodel.SafeTensor
				part string
			}{{&joined, "gate"}, {&joined, "up"}, {&down, "down"}} {
				x := s.drop(t, regexp.QuoteMeta(at)+string(rune('0'+e))+`\.`+p.part+"_proj")[0]
				p.to.Data = append(p.to.Data, x.Data...)
				p.to.Shape = []int64{4, x.Shape[0], x.Shape[1]}
			}
		}
		joined.Shape[1] *= 2
		s.list = append(s.list, change(joined), change(down))
	}
	asIs := func(x testmodel.SafeTensor) testmodel.SafeTensor { return x }
	for _, c := range []struct {
		name, model string
		change      func(t *testing.T, s *sampleModel)
	}{
		{"stacked experts", "qwen3moe", func(t *testing.T, s *sampleModel) {
			stack(t, s, "0", asIs)
			stack(t, s, "1", asIs)
		}},
		{"transposed experts", "qwen3moe", func(t *testing.T, s *sampleModel) {
			stack(t, s, "0", transposed)
			stack(t, s, "1", transposed)
		}},
		{"names without model.", "llama3", func(_ *testing.T, s *sampleModel) {
			for i := range s.list {
				s.list[i].Name = strings.TrimPrefix(s.list[i].Name, "model.")
			}
		}},
		{"names with transformer.", "gpt2", func(_ *testing.T, s *sampleModel) {
			for i := range s.list {
				s.list[i].Name = "transformer." + s.list[i].Name
			}
		}},
		{"names with bert.", "bert", func(_ *testing.T, s *sampleModel) {
			for i := range s.list {
				s.list[i].Name = "bert." + s.list[i].Name
			}
			s.add("cls.predictions.bias", tensorfs.F32, 1, 231)
			s.add("cls.predictions.decoder.weight", tensorfs.F32, 1, 231, 48)
			s.add("cls.seq_relationship.weight", tensorfs.F32, 1, 2, 48)
		}},
		{"a model of images too", "gemma3", func(_ *testing.T, s *sampleModel) {
			for i := range s.list {
				s.list[i].Name = "language_model." + s.list[i].Name
			}
			s.add("vision_tower.vision_model.embeddings.patch_embedding.weight", tensorfs.BF16, 1, 8, 3, 2, 2)
			s.add("vision_tower.something.else", tensorfs.BF16, 1, 8)
			s.add("multi_modal_projector.mm_soft_emb_norm.weight", tensorfs.BF16, 1, 8)
		}},
		{"weights as MLX has them", "gpt2", func(_ *testing.T, s *sampleModel) {
			for i := range s.list {
				x := &s.list[i]
				if len(x.Shape) != 2 || !strings.Contains(x.Name, ".c_") {
					continue
				}
				rows, cols, b := int(x.Shape[0]), int(x.Shape[1]), []byte(nil)
				for c := range cols {
					for r := range rows {
						b = append(b, x.Data[4*(r*cols+c):][:4]...)
					}
				}
				x.Shape, x.Data = []int64{x.Shape[1], x.Shape[0]}, b
			}
		}},
		{"a causal mask", "gpt2", func(_ *testing.T, s *sampleModel) { s.add("h.1.attn.masked_bias", tensorfs.F32, 1) }},
		{"k and v apart", "deepseek3", func(t *testing.T, s *sampleModel) {
			had := s.must(t)
			for _, layer := range []string{"0", "1"} {
				at := "model.layers." + layer + ".self_attn."
				s.drop(t, regexp.QuoteMeta(at+"kv_b_proj"))
				for name, part := range map[string]string{"embed_q": "k", "unembed_out": "v"} {
					g := had["blk."+layer+".attn_"+part+"_b.weight"]
					b := make([]byte, g.Data.Size())
					if err := tensorfs.ReadFull(g.Data, b, 0); err != nil {
						t.Fatal(err)
					}
					s.list = append(s.list, testmodel.SafeTensor{Name: at + name + ".weight", DType: g.DType, Shape: g.Shape, Data: b})
				}
			}
		}},
		{"another order of fields", "phi3", func(_ *testing.T, s *sampleModel) {
			s.config = strings.ReplaceAll(s.config, `"rope_scaling"`, `"rope_parameters"`)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := published(t, c.model)
			c.change(t, s)
			list, _, err := s.make(t, Options{}, 0)
			if err != nil {
				t.Fatal(err)
			}
			got, _ := lines(t, list)
			testwhole.Same(t, got, expected(t, c.model))
		})
	}
}

// TestOutput: an output that the model does not have is the embedding again where
// llama.cpp demands it, one that Gemma 2 has is dropped.
func TestOutput(t *testing.T) {
	s := published(t, "qwen2moe")
	s.drop(t, "lm_head")
	list, _, err := s.make(t, Options{}, 300)
	if err != nil {
		t.Fatal(err)
	}
	got, _ := lines(t, list)
	if got["output.weight"] != got["token_embd.weight"] || !strings.HasPrefix(got["output.weight"], "BF16 32x300 ") {
		t.Error(got["output.weight"], got["token_embd.weight"])
	}
	if rows := s.get(t, "model.embed_tokens.weight"); !strings.HasSuffix(got["output.weight"], " "+hashOf(rows.Data[:300*64])) {
		t.Error("the rows that are kept are not the first ones")
	}
	if _, _, err := s.make(t, Options{}, 342); err == nil || !strings.Contains(err.Error(), "342 tokens") {
		t.Error(err)
	}
	if n := embeddingRows(&tensorfs.Model{}); n != 0 {
		t.Error(n, "rows of no embedding")
	}
	if s = published(t, "qwen2"); s.must(t)["output.weight"].Data != nil {
		t.Error("an output out of nothing")
	}
}

// TestOutputTwice: an output of Mamba that has the numbers of the embedding is left out, as
// llama.cpp's converter does, and one that differs in the last bit is not.
func TestOutputTwice(t *testing.T) {
	s := published(t, "../architectures/mamba")
	s.list = append(s.list, *s.get(t, "backbone.embeddings.weight"))
	output := &s.list[len(s.list)-1]
	output.Name, output.Data = "lm_head.weight", slices.Clone(output.Data)
	if x := s.must(t)["output.weight"]; x.Data != nil {
		t.Error("the embedding is there twice")
	}
	output.Data[len(output.Data)-1] ^= 1
	if x := s.must(t)["output.weight"]; x.Data == nil {
		t.Error("an output of its own is left out")
	}
}

// TestPaddedTokens: embeddings of Gemma 3n have rows of zeros up to vocab_size.
func TestPaddedTokens(t *testing.T) {
	s := published(t, "../architectures/gemma3n")
	x := s.get(t, "model.language_model.embed_tokens_per_layer.weight")
	x.Shape, x.Data = []int64{400, 40}, x.Data[:400*80]
	made := s.must(t)["per_layer_token_embd.weight"]
	b := make([]byte, made.Data.Size())
	if err := tensorfs.ReadFull(made.Data, b, 0); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(b, append(slices.Clone(x.Data), make([]byte, 30*80)...)) {
		t.Errorf("%d bytes, and not the %d that are there with zeros after them", len(b), len(x.Data))
	}
	s.set(t, `"vocab_size": 430`, `"vocab_size": 1000000000`)
	if _, _, err := s.make(t, Options{}, 0); err == nil || !strings.Contains(err.Error(), "vocab_size is 1000000000") {
		t.Error(err)
	}
}

func hashOf(b []byte) string {
	h := sha256.Sum256(b)
	return hex.EncodeToString(h[:])
}

// gemma2 is a model of the kind, whose norms are halves.
func gemma2() *sampleModel {
	return made(`{"architectures":["Gemma2ForCausalLM"],"hidden_size":32,"num_hidden_layers":1,"num_attention_heads":4,"num_key_value_heads":2,"head_dim":16,"intermediate_size":48}`, tensorfs.F16, map[string][]int64{
		"model.embed_tokens.weight": {70, 32}, "lm_head.weight": {70, 32}, "model.norm.weight": {32},
		"model.layers.0.input_layernorm.weight": {32}, "model.layers.0.post_attention_layernorm.weight": {32},
		"model.layers.0.pre_feedforward_layernorm.weight": {32}, "model.layers.0.post_feedforward_layernorm.weight": {32},
		"model.layers.0.self_attn.q_proj.weight": {64, 32}, "model.layers.0.self_attn.k_proj.weight": {32, 32}, "model.layers.0.self_attn.v_proj.weight": {32, 32},
		"model.layers.0.self_attn.o_proj.weight": {32, 64}, "model.layers.0.mlp.gate_proj.weight": {48, 32}, "model.layers.0.mlp.up_proj.weight": {48, 32}, "model.layers.0.mlp.down_proj.weight": {32, 48},
	})
}

func starcoder2() *sampleModel {
	all := map[string][]int64{"model.embed_tokens.weight": {70, 32}, "model.norm.weight": {32}, "model.norm.bias": {32}}
	for name, shape := range map[string][]int64{
		"input_layernorm": {32}, "post_attention_layernorm": {32}, "self_attn.q_proj": {32, 32}, "self_attn.k_proj": {16, 32}, "self_attn.v_proj": {16, 32},
		"self_attn.o_proj": {32, 32}, "mlp.c_fc": {128, 32}, "mlp.c_proj": {32, 128},
	} {
		all["model.layers.0."+name+".weight"] = shape
		all["model.layers.0."+name+".bias"] = shape[:1]
	}
	return made(`{"architectures":["Starcoder2ForCausalLM"],"hidden_size":32,"num_hidden_layers":1,"num_attention_heads":4,"num_key_value_heads":2,"intermediate_size":128}`, tensorfs.BF16, all)
}

func nomic() *sampleModel {
	all := map[string][]int64{"embeddings.word_embeddings.weight": {70, 32}, "embeddings.token_type_embeddings.weight": {2, 32}, "emb_ln.weight": {32}, "emb_ln.bias": {32}}
	for name, shape := range map[string][]int64{
		"attn.Wqkv.weight": {96, 32}, "attn.out_proj.weight": {32, 32}, "mlp.fc11.weight": {64, 32}, "mlp.fc12.weight": {64, 32}, "mlp.fc2.weight": {32, 64},
		"norm1.weight": {32}, "norm1.bias": {32}, "norm2.weight": {32}, "norm2.bias": {32},
	} {
		all["encoder.layers.0."+name] = shape
	}
	return made(`{"architectures":["NomicBertModel"],"n_embd":32,"n_layer":1,"n_head":4,"n_inner":64,"type_vocab_size":2}`, tensorfs.F32, all)
}

// oss is gpt-oss whose experts are plain numbers, [E, in, out].
func oss() *sampleModel {
	all := map[string][]int64{"model.embed_tokens.weight": {70, 32}, "lm_head.weight": {70, 32}, "model.norm.weight": {32}}
	for name, shape := range map[string][]int64{
		"input_layernorm.weight": {32}, "post_attention_layernorm.weight": {32}, "self_attn.sinks": {4},
		"self_attn.q_proj.weight": {32, 32}, "self_attn.q_proj.bias": {32}, "self_attn.k_proj.weight": {16, 32}, "self_attn.k_proj.bias": {16},
		"self_attn.v_proj.weight": {16, 32}, "self_attn.v_proj.bias": {16}, "self_attn.o_proj.weight": {32, 32}, "self_attn.o_proj.bias": {32},
		"mlp.router.weight": {2, 32}, "mlp.router.bias": {2},
		"mlp.experts.gate_up_proj": {2, 32, 64}, "mlp.experts.gate_up_proj_bias": {2, 64}, "mlp.experts.down_proj": {2, 32, 32}, "mlp.experts.down_proj_bias": {2, 32},
	} {
		all["model.layers.0."+name] = shape
	}
	return made(`{"architectures":["GptOssForCausalLM"],"hidden_size":32,"num_hidden_layers":1,"num_attention_heads":4,"num_key_value_heads":2,"head_dim":8,"intermediate_size":32,"num_local_experts":2}`, tensorfs.BF16, all)
}

// TestOtherArchitectures are architectures that llama.cpp's converter was not run for.
func TestOtherArchitectures(t *testing.T) {
	for _, c := range []struct {
		s    *sampleModel
		want string // names of the tensors
	}{
		{gemma2(), "token_embd.weight output_norm.weight blk.0.attn_norm.weight blk.0.attn_q.weight blk.0.attn_k.weight blk.0.attn_v.weight blk.0.attn_output.weight " +
			"blk.0.post_attention_norm.weight blk.0.ffn_norm.weight blk.0.ffn_gate.weight blk.0.ffn_up.weight blk.0.ffn_down.weight blk.0.post_ffw_norm.weight"},
		{starcoder2(), "token_embd.weight output_norm.weight output_norm.bias blk.0.attn_norm.weight blk.0.attn_norm.bias blk.0.attn_q.weight blk.0.attn_q.bias blk.0.attn_k.weight blk.0.attn_k.bias " +
			"blk.0.attn_v.weight blk.0.attn_v.bias blk.0.attn_output.weight blk.0.attn_output.bias blk.0.ffn_norm.weight blk.0.ffn_norm.bias blk.0.ffn_up.weight blk.0.ffn_up.bias blk.0.ffn_down.weight blk.0.ffn_down.bias"},
		{nomic(), "token_embd.weight token_types.weight token_embd_norm.weight token_embd_norm.bias blk.0.attn_qkv.weight blk.0.attn_output.weight blk.0.attn_output_norm.weight blk.0.attn_output_norm.bias " +
			"blk.0.ffn_up.weight blk.0.ffn_gate.weight blk.0.ffn_down.weight blk.0.layer_output_norm.weight blk.0.layer_output_norm.bias"},
		{oss(), "token_embd.weight output_norm.weight output.weight blk.0.attn_norm.weight blk.0.attn_q.weight blk.0.attn_q.bias blk.0.attn_k.weight blk.0.attn_k.bias blk.0.attn_v.weight blk.0.attn_v.bias " +
			"blk.0.attn_output.weight blk.0.attn_output.bias blk.0.attn_sinks.weight blk.0.post_attention_norm.weight blk.0.ffn_gate_inp.weight blk.0.ffn_gate_inp.bias " +
			"blk.0.ffn_gate_exps.weight blk.0.ffn_gate_exps.bias blk.0.ffn_up_exps.weight blk.0.ffn_up_exps.bias blk.0.ffn_down_exps.weight blk.0.ffn_down_exps.bias"},
	} {
		got := c.s.must(t)
		want := strings.Fields(c.want)
		for _, name := range want {
			if _, ok := got[name]; !ok {
				t.Errorf("%s: there is no %s", want[1], name)
			}
		}
		if len(got) != len(want) {
			t.Errorf("%d tensors, want %d", len(got), len(want))
		}
	}
}

// TestAlternatingExperts: expert e, row f, column d of gate is [e][d][2f] of what
// gpt-oss stores.
func TestAlternatingExperts(t *testing.T) {
	s := oss()
	got := s.must(t)
	joined, down := s.get(t, "model.layers.0.mlp.experts.gate_up_proj").Data, s.get(t, "model.layers.0.mlp.experts.down_proj").Data
	bias := s.get(t, "model.layers.0.mlp.experts.gate_up_proj_bias").Data
	read := func(name string) []byte {
		b := make([]byte, got[name].Data.Size())
		if err := tensorfs.ReadFull(got[name].Data, b, 0); err != nil {
			t.Fatal(err)
		}
		return b
	}
	for up, part := range []string{"gate", "up"} {
		b, biases := read("blk.0.ffn_"+part+"_exps.weight"), read("blk.0.ffn_"+part+"_exps.bias")
		for e := range 2 {
			for f := range 32 {
				for d := range 32 {
					if !bytes.Equal(b[2*((e*32+f)*32+d):][:2], joined[2*((e*32+d)*64+2*f+up):][:2]) {
						t.Fatal(part, e, f, d)
					}
				}
				if !bytes.Equal(biases[4*(e*32+f)+2:][:2], bias[2*(e*64+2*f+up):][:2]) {
					t.Fatal(part, "bias", e, f)
				}
			}
		}
	}
	b := read("blk.0.ffn_down_exps.weight")
	for i := range 2 * 32 * 32 {
		e, d, f := i/32/32, i/32%32, i%32
		if !bytes.Equal(b[2*i:][:2], down[2*((e*32+f)*32+d):][:2]) {
			t.Fatal("down", e, d, f)
		}
	}
}

// TestRobertaPositions: the first rows of the table are for no position.
func TestRobertaPositions(t *testing.T) {
	for pad, first := range map[string]int64{"1": 2, "4": 5, "null": 2} {
		s := published(t, "bert")
		s.set(t, `"model_type": "bert"`, `"model_type": "roberta"`)
		s.set(t, `"pad_token_id": 0`, `"pad_token_id": `+pad)
		got := s.must(t)["position_embd.weight"]
		if want := s.get(t, "embeddings.position_embeddings.weight").Data[first*48*4:]; !slices.Equal(got.Shape, []int64{64 - first, 48}) || !strings.HasSuffix(line(t, got), hashOf(want)) {
			t.Errorf("pad %s: %v", pad, got.Shape)
		}
	}
}

// TestRopeDefaults: what a config leaves out of Llama 3's scaling has the values of
// the first such models.
func TestRopeDefaults(t *testing.T) {
	scaled := func(rope string) string {
		s := published(t, "llama3")
		s.set(t, `"rope_theta"`, `"rope_theta_of_old"`)
		at := strings.Index(s.config, `"rope_scaling": {`)
		end := at + strings.IndexByte(s.config[at:], '}') + 1
		s.config = s.config[:at] + rope + s.config[end:]
		return line(t, s.must(t)["rope_freqs.weight"])
	}
	without := scaled(`"rope_scaling": {"rope_type": "llama3"}`)
	with := scaled(`"rope_parameters": {"type": "llama3", "factor": 8, "low_freq_factor": 1.0, "high_freq_factor": 4, "original_max_position_embeddings": 8192, "rope_theta": 1e4}`)
	if without != with || without == strings.Join(strings.Fields(expected(t, "llama3")["rope_freqs.weight"]), " ") {
		t.Error(without, with)
	}
}

// TestFloat8: 8-bit floats whose scales belong to blocks are rounded to BF16 once, as the converter does it, and moved
// as such.
func TestFloat8(t *testing.T) {
	s := published(t, "deepseek3")
	s.config = strings.TrimRight(strings.TrimSpace(s.config), "}") + `, "quantization_config": {"quant_method": "fp8", "weight_block_size": [32, 16]}}`
	names := []string{"model.layers.0.self_attn.kv_b_proj", "model.layers.1.mlp.experts.0.up_proj", "model.layers.1.mlp.experts.1.up_proj", "model.layers.1.mlp.experts.2.up_proj", "model.layers.1.mlp.experts.3.up_proj"}
	for i, name := range names {
		shape := s.get(t, name+".weight").Shape
		s.drop(t, "^"+regexp.QuoteMeta(name)+`\.weight$`)
		s.add(name+".weight", tensorfs.F8_E4M3, uint64(i), shape...)
		scale := testmodel.SafeTensor{Name: name + ".weight_scale_inv", DType: tensorfs.F32, Shape: []int64{(shape[0] + 31) / 32, (shape[1] + 15) / 16}}
		for n := range scale.Size() / 4 {
			scale.Data = binary.LittleEndian.AppendUint32(scale.Data, math.Float32bits(float32(n+1)/8))
		}
		s.list = append(s.list, scale)
	}
	got := s.must(t)
	numbers := func(name string, row, col int) float32 {
		x := s.get(t, name+".weight")
		cols := int(x.Shape[1])
		v, exponent, mantissa := x.Data[row*cols+col], 0, 0
		exponent, mantissa = int(v>>3&15), int(v&7)
		f := math.Ldexp(float64(mantissa), -9)
		if exponent > 0 {
			f = math.Ldexp(float64(8+mantissa), exponent-10)
		}
		if v&0x7f == 0x7f {
			f = math.NaN()
		}
		if v > 127 {
			f = -f
		}
		return float32(f) * float32(row/32*((cols+15)/16)+col/16+1) / 8
	}
	compare := func(name string, i int, want float32) {
		var b [2]byte
		if err := tensorfs.ReadFull(got[name].Data, b[:], int64(2*i)); err != nil {
			t.Fatal(err)
		}
		bits := math.Float32bits(want)
		want = math.Float32frombits((bits + 0x7FFF + bits>>16&1) &^ 0xFFFF)
		if v := math.Float32frombits(uint32(binary.LittleEndian.Uint16(b[:])) << 16); v != want && !math.IsNaN(float64(want)) {
			t.Fatalf("%s[%d] is %g, want %g", name, i, v, want)
		}
	}
	// Heads are 16 rows of k and 16 of v, of 32 columns.
	for h := range 4 {
		for r := range 16 {
			for c := range 32 {
				compare("blk.0.attn_k_b.weight", (h*32+c)*16+r, numbers(names[0], h*32+r, c))
				compare("blk.0.attn_v_b.weight", (h*16+r)*32+c, numbers(names[0], h*32+16+r, c))
			}
		}
	}
	for e := range 4 {
		for i := range 32 * 64 {
			compare("blk.1.ffn_up_exps.weight", e*32*64+i, numbers(names[1+e], i/64, i%64))
		}
	}
	if got["blk.0.attn_k_b.weight"].DType != tensorfs.BF16 {
		t.Error(got["blk.0.attn_k_b.weight"].DType)
	}
}
