package convert_test

import (
	"encoding/base64"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats"
	"github.com/tensorfs/tensorfs/formats/gguf"
	"github.com/tensorfs/tensorfs/internal/convert"
	"github.com/tensorfs/tensorfs/internal/convert/hf"
	"github.com/tensorfs/tensorfs/internal/testing/testwhole"
	"github.com/tensorfs/tensorfs/views/arrange"
)

// renameKeys gives all keys that begin with from another beginning.
func renameKeys(from, to string) func(*tensorfs.Model) {
	return func(m *tensorfs.Model) {
		for i, x := range m.Metadata {
			if rest, ok := strings.CutPrefix(x.Key, from); ok {
				m.Metadata[i].Key = to + rest
			}
		}
	}
}

// renameTensors replaces a part of names that end with it.
func renameTensors(from, to string) func(*tensorfs.Model) {
	return func(m *tensorfs.Model) {
		for i, x := range m.Tensors {
			if before, ok := strings.CutSuffix(x.Source, "."+from); ok {
				m.Tensors[i].Source = before + "." + to
			} else if x.Source == from {
				m.Tensors[i].Source = to
			}
		}
	}
}

// addTensors adds tensors of towers.
func addTensors(names ...string) func(*tensorfs.Model) {
	return func(m *tensorfs.Model) {
		for _, name := range names {
			t := m.Tensors[0]
			t.Source, t.Name = name, "unknown."+name
			m.Tensors = append(m.Tensors, t)
		}
	}
}

// changed changes the tensors whose names match a pattern: what it returns takes their place.
func changed(pattern string, change func(x tensorfs.Tensor) []tensorfs.Tensor) func(*tensorfs.Model) {
	return func(m *tensorfs.Model) {
		var list []tensorfs.Tensor
		for _, x := range m.Tensors {
			if ok, _ := path.Match(pattern, x.Source); ok {
				list = append(list, change(x)...)
			} else {
				list = append(list, x)
			}
		}
		m.Tensors = list
	}
}

// halves are the first and the second half of the rows, of each expert, of a tensor.
func halves(first, second string) func(tensorfs.Tensor) []tensorfs.Tensor {
	return func(x tensorfs.Tensor) []tensorfs.Tensor {
		parts := []tensorfs.Tensor{x, x}
		experts, dims := int64(1), len(x.Shape)
		if dims == 3 {
			experts = x.Shape[0]
		}
		half := x.Data.Size() / experts / 2
		for i, name := range []string{first, second} {
			var data []tensorfs.Data
			for e := range experts {
				data = append(data, tensorfs.Section(x.Data, (2*e+int64(i))*half, half))
			}
			parts[i].Source = x.Source[:strings.LastIndexByte(strings.TrimSuffix(x.Source, ".weight"), '.')+1] + name
			parts[i].Data, parts[i].Shape = tensorfs.Concat(data...), slices.Clone(x.Shape)
			parts[i].Shape[dims-2] /= 2
		}
		return parts
	}
}

// expertsApart makes a tensor of each expert. The expert's number replaces "*" in a name.
func expertsApart(name string) func(tensorfs.Tensor) []tensorfs.Tensor {
	return func(x tensorfs.Tensor) (list []tensorfs.Tensor) {
		each := x.Data.Size() / x.Shape[0]
		for e := range x.Shape[0] {
			t := x
			t.Source, t.Shape, t.Data = strings.Replace(name, "*", fmt.Sprint(e), 1), x.Shape[1:], tensorfs.Section(x.Data, e*each, each)
			list = append(list, t)
		}
		return list
	}
}

// minusOne takes one from every number of a tensor.
func minusOne(t *testing.T) func(tensorfs.Tensor) []tensorfs.Tensor {
	return func(x tensorfs.Tensor) []tensorfs.Tensor {
		less, err := arrange.Subtract(&x, 1)
		if err != nil {
			t.Fatal(err)
		}
		return []tensorfs.Tensor{*less}
	}
}

// longer adds rows to a tensor.
func longer(rows int64) func(tensorfs.Tensor) []tensorfs.Tensor {
	return func(x tensorfs.Tensor) []tensorfs.Tensor {
		each := x.Data.Size() / x.Shape[0]
		x.Data = tensorfs.Concat(x.Data, tensorfs.Section(x.Data, 0, rows*each))
		x.Shape = []int64{x.Shape[0] + rows, x.Shape[1]}
		return []tensorfs.Tensor{x}
	}
}

// moreTokens adds tokens to the vocabulary.
func moreTokens(n int) func(*tensorfs.Model) {
	return func(m *tensorfs.Model) {
		texts, scores, types := list[string](m, "tokenizer.ggml.tokens"), list[float32](m, "tokenizer.ggml.scores"), list[int32](m, "tokenizer.ggml.token_type")
		for i := range n {
			texts, scores, types = append(texts, fmt.Sprintf("<image_%d>", i)), append(scores, 0), append(types, 4)
		}
		set("tokenizer.ggml.tokens", texts)(m)
		set("tokenizer.ggml.scores", scores)(m)
		set("tokenizer.ggml.token_type", types)(m)
	}
}

// list returns the values of a key that is a list.
func list[T any](m *tensorfs.Model, key string) (values []T) {
	a, _ := m.Meta(key).(tensorfs.Array)
	for v := range a.Values() {
		values = append(values, v.(T))
	}
	return values
}

// computedBy applies a change that is computed from the model itself.
func computedBy(change func(*tensorfs.Model) func(*tensorfs.Model)) func(*tensorfs.Model) {
	return func(m *tensorfs.Model) { change(m)(m) }
}

// drops drops keys.
func drops(keys ...string) func(*tensorfs.Model) {
	return func(m *tensorfs.Model) {
		for _, key := range keys {
			drop(key)(m)
		}
	}
}

// mtp writes the layer of Qwen 3.5 that predicts further tokens as tensors of its own.
func mtp(t *testing.T, arch string, norms ...string) []func(*tensorfs.Model) {
	changes := []func(*tensorfs.Model){
		changed("blk.4.*", func(x tensorfs.Tensor) []tensorfs.Tensor {
			x.Source = "mtp.layers.0." + strings.TrimPrefix(x.Source, "blk.4.")
			return []tensorfs.Tensor{x}
		}),
		renameTensors("nextn.eh_proj.weight", "mtp.fc.weight"), renameTensors("nextn.enorm.weight", "mtp.pre_fc_norm_embedding.weight"),
		renameTensors("nextn.hnorm.weight", "mtp.pre_fc_norm_hidden.weight"), renameTensors("nextn.shared_head_norm.weight", "mtp.norm.weight"),
		func(m *tensorfs.Model) {
			for i := range m.Tensors {
				m.Tensors[i].Source = strings.Replace(m.Tensors[i].Source, "mtp.layers.0.mtp.", "mtp.", 1)
			}
		},
		renameTensors("ssm_dt.bias", "ssm_dt"), drops(arch+".nextn_predict_layers", arch+".attention.recurrent_layers"), set(arch+".block_count", uint32(4)),
		set(arch+".attention.head_count_kv", []uint32{0, 0, 0, 2}), set(arch+".ssm.v_head_reordered", true), set(arch+".rope.mrope_interleaved", true),
		computedBy(func(m *tensorfs.Model) func(*tensorfs.Model) {
			if m.Meta(arch+".rope.dimension_sections") == nil { // Qwen3-Next
				return func(*tensorfs.Model) {}
			}
			return set(arch+".rope.dimension_sections", list[int32](m, arch+".rope.dimension_sections")[:3])
		}),
	}
	for _, name := range append(norms, "mtp.norm.weight", "mtp.pre_fc_norm_*.weight") {
		changes = append(changes, changed(name, minusOne(t)))
	}
	return changes
}

// TestOllamaDialect writes golden models as Ollama's own converter did until May 2026, and
// holds gguf/ of them to the keys and tensors that llama.cpp's converter writes.
func TestOllamaDialect(t *testing.T) {
	renamed := func(from, to string) []func(*tensorfs.Model) {
		return []func(*tensorfs.Model){renameKeys(from+".", to+"."), set("general.architecture", to)}
	}
	for _, c := range []struct {
		golden string
		change []func(*tensorfs.Model)
		differ []string // keys that the dialect does not keep
		noHF   bool     // config.json cannot say it
	}{
		{"gpt-oss", append(renamed("gpt-oss", "gptoss"), drop("gptoss.expert_feed_forward_length"), drop("gptoss.rope.scaling.type"), drop("tokenizer.ggml.pre"),
			renameTensors("attn_output.weight", "attn_out.weight"), renameTensors("attn_output.bias", "attn_out.bias"),
			renameTensors("attn_sinks.weight", "attn_sinks"), renameTensors("post_attention_norm.weight", "ffn_norm.weight")), []string{"tokenizer.ggml.pre"}, false},
		{"qwen3-next", []func(*tensorfs.Model){renameTensors("ssm_dt.bias", "ssm_dt")}, nil, false},
		{"qwen3.5", []func(*tensorfs.Model){renameTensors("ssm_dt.bias", "ssm_dt"), set("qwen35.vision.block_count", uint32(2)), set("qwen35.image_token_id", uint32(7)), addTensors("v.blk.0.ln1.weight")}, nil, false},
		{"qwen3-vl", []func(*tensorfs.Model){drop("qwen3vl.rope.dimension_sections"), drop("qwen3vl.n_deepstack_layers"),
			set("qwen3vl.vision.deepstack_visual_indexes", []uint32{0, 1}), addTensors("v.patch_embd.weight")}, []string{"qwen3vl.n_deepstack_layers"}, false},
		{"ministral3", []func(*tensorfs.Model){renameKeys("mistral3.rope.scaling.yarn_beta_", "mistral3.rope.scaling.beta_"),
			renameKeys("mistral3.rope.scaling.yarn_log_multiplier", "mistral3.rope.scaling.mscale_all_dim"),
			renameKeys("mistral3.attention.temperature_scale", "mistral3.rope.scaling_beta"), addTensors("mm.patch_merger.weight")}, nil, false},
		{"olmo3", renamed("olmo2", "olmo3"), nil, false},
		{"lfm2", []func(*tensorfs.Model){renameTensors("token_embd_norm.weight", "output_norm.weight"), drop("lfm2.feed_forward_length")}, []string{"tokenizer.ggml.pre"}, false},
		{"laguna", []func(*tensorfs.Model){renameKeys("laguna.rope.dimension_count_swa", "laguna.rope.swa.dimension_count"), renameKeys("laguna.rope.freq_base_swa", "laguna.rope.swa.freq_base"),
			renameKeys("laguna.rope.scaling.yarn_", "laguna.rope.scaling."), set("laguna.rope.swa.scaling.type", "default"), set("laguna.rope.swa.scaling.factor", float32(1)),
			set("laguna.attention.layer_types", []uint32{0, 1, 1, 1}), renameTensors("attn_gate.weight", "attn_g.weight")}, nil, false},
		{"olmo3", append(renamed("olmo2", "olmo3"), renameKeys("olmo3.rope.scaling.yarn_attn_factor", "olmo3.rope.scaling.attn_factor")), nil, false},
		{"mistral3", []func(*tensorfs.Model){set("mistral3.rope.scaling.type", ""), set("mistral3.rope.scaling.factor", float32(0)), set("mistral3.rope.scaling.beta_fast", float32(0)),
			set("mistral3.rope.scaling.beta_slow", float32(0)), set("mistral3.vision.block_count", uint32(2)), addTensors("v.blk.0.attn_q.weight", "mm.linear_1.weight")}, nil, false},
		{"qwen3.5", mtp(t, "qwen35"), nil, false},
		{"qwen3.5", mtp(t, "qwen35", "mtp.layers.*_norm.weight"), nil, false},
		{"qwen3.5-moe", append(mtp(t, "qwen35moe", "mtp.layers.*_norm.weight"), set("qwen35moe.feed_forward_length", uint32(64)),
			changed("mtp.layers.0.ffn_gate_exps.weight", expertsApart("mtp.layers.0.mlp.experts.*.gate_proj.weight")),
			changed("mtp.layers.0.ffn_up_exps.weight", expertsApart("mtp.layers.0.mlp.experts.*.up_proj.weight")),
			changed("mtp.layers.0.ffn_down_exps.weight", expertsApart("mtp.layers.0.mlp.experts.*.down_proj.weight"))), nil, false},
		{"qwen3-next", append(slices.Concat(mtp(t, "qwen3next"), renamed("qwen3next", "qwen35moe")), drops("qwen35moe.rope.mrope_interleaved", "qwen35moe.rope.dimension_sections"),
			set("tokenizer.ggml.pre", "qwen35")), nil, false},
		{"qwen2.5-vl", append(renamed("qwen2vl", "qwen25vl"), renameKeys("qwen25vl.rope.dimension_sections", "qwen25vl.rope.mrope_section"),
			computedBy(func(m *tensorfs.Model) func(*tensorfs.Model) {
				return set("qwen25vl.rope.mrope_section", list[int32](m, "qwen25vl.rope.mrope_section")[:3])
			}),
			set("qwen25vl.vision.block_count", uint32(2)), addTensors("v.blk.0.ln1.weight")), nil, false},
		{"qwen3-vl-moe", []func(*tensorfs.Model){drops("qwen3vlmoe.rope.dimension_sections", "qwen3vlmoe.n_deepstack_layers", "qwen3vlmoe.expert_feed_forward_length"), set("qwen3vlmoe.norm_top_k_prob", true),
			set("qwen3vlmoe.vision.deepstack_visual_indexes", []uint32{0})}, []string{"qwen3vlmoe.n_deepstack_layers"}, false},
		{"glm-ocr", append(renamed("glm4", "glmocr"), changed("blk.*.ffn_up.weight", halves("ffn_gate.weight", "ffn_up.weight")), renameTensors("attn_output.weight", "attn_out.weight"),
			renameTensors("post_attention_norm.weight", "post_attn_norm.weight"), renameTensors("post_ffw_norm.weight", "post_ffn_norm.weight"),
			renameKeys("glmocr.rope.dimension_sections", "glmocr.rope.mrope_section"), drop("glmocr.rope.dimension_count"), set("glmocr.image_token_id", uint32(376)),
			set("glmocr.rope.partial_rotary_factor", float32(1)), set("tokenizer.ggml.pre", "llama-bpe"), drop("tokenizer.ggml.eot_token_id"),
			set("tokenizer.ggml.eos_token_ids", []int32{371, 372}), addTensors("v.blk.0.ln1.weight", "mm.gate.weight")), []string{"tokenizer.ggml.eos_token_ids"}, false},
		{"glm4moelite", append(renamed("deepseek2", "glm4moelite"), drops("glm4moelite.expert_group_count", "glm4moelite.expert_group_used_count", "tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id"),
			set("glm4moelite.attention.head_count_kv", uint32(4)), set("glm4moelite.attention.key_length", uint32(16)), set("glm4moelite.attention.value_length", uint32(8)),
			set("glm4moelite.attention.key_length_mla", uint32(24)), set("glm4moelite.attention.value_length_mla", uint32(16)), set("tokenizer.ggml.pre", "default"),
			set("tokenizer.ggml.eos_token_ids", []int32{371, 372, 375})), []string{"tokenizer.ggml.eos_token_ids"}, false},
		{"deepseek-ocr", append(renamed("deepseek2-ocr", "deepseekocr"), drops("deepseekocr.attention.layer_norm_rms_epsilon", "deepseekocr.expert_feed_forward_length", "deepseekocr.expert_shared_count",
			"deepseekocr.expert_group_count", "deepseekocr.expert_group_used_count"), set("tokenizer.ggml.pre", "default"), set("deepseekocr.sam.block_count", uint32(1)),
			addTensors("s.blk.0.norm1.weight", "v.blk.0.norm1.weight", "mm.layers.weight")), nil, false},
		{"gemma3-vl", []func(*tensorfs.Model){drops("gemma3.attention.layer_norm_rms_epsilon", "gemma3.rope.freq_base", "gemma3.rope.freq_base_swa"), moreTokens(3), set("gemma3.mm.tokens_per_image", uint32(256)),
			set("gemma3.vision.block_count", uint32(2)), addTensors("v.blk.0.layer_norm1.weight", "mm.mm_soft_emb_norm.weight")}, nil, false},
		{"gemma3-vl", []func(*tensorfs.Model){renameKeys("gemma3.rope.freq_base_swa", "gemma3.rope.local.freq_base"), renameKeys("gemma3.rope.freq_base", "gemma3.rope.global.freq_base"), drop("tokenizer.chat_template"),
			set("gemma3.rope.scaling.type", "yarn"), set("gemma3.rope.scaling.beta_fast", float32(64)), set("gemma3.rope.scaling.extrapolation_factor", float32(1)),
			set("gemma3.attention.sliding_window_pattern", []bool{false, false, false})}, []string{"tokenizer.chat_template", "gemma3.attention.sliding_window",
			"gemma3.rope.scaling.type", "gemma3.rope.scaling.yarn_beta_fast", "gemma3.rope.scaling.yarn_ext_factor"}, true},
		{"gemma3n", []func(*tensorfs.Model){renameKeys("gemma3n.rope.freq_base_swa", "gemma3n.rope.freq_base_local"), renameKeys("gemma3n.attention.key_length", "gemma3n.head_dim"), drop("gemma3n.attention.value_length"),
			drop("gemma3n.final_logit_softcapping"), set("gemma3n.altup.lr_multiplier", float32(1)), moreTokens(4), changed("token_embd.weight", longer(4)), set("tokenizer.ggml.model", "gpt2"),
			addTensors("a.blk.0.norm.weight", "v.blk.0.norm.weight")}, []string{"tokenizer.ggml.eos_token_ids"}, false},
		{"gemma4-moe", []func(*tensorfs.Model){changed("blk.*.ffn_gate_up_exps.weight", halves("ffn_gate_exps.weight", "ffn_up_exps.weight")), renameTensors("ffn_down_exps.scale", "ffn_gate_inp.per_expert_scale"),
			set("tokenizer.ggml.model", "llama"), computedBy(func(m *tensorfs.Model) func(*tensorfs.Model) {
				types := list[int32](m, "tokenizer.ggml.token_type")
				for i, of := range types {
					if of == 6 { // a byte
						types[i] = 1
					}
				}
				return set("tokenizer.ggml.token_type", types)
			}), set("gemma4.audio.block_count", uint32(1)), addTensors("a.blk.0.norm.weight", "v.blk.0.norm.weight", "mm.input_projection.weight")}, nil, false},
		{"nemotron_h-moe", append(renamed("nemotron_h_moe", "nemotron_h_omni"), set("nemotron_h_omni.vision.block_count", uint32(1)), set("nemotron_h_omni.audio.block_count", uint32(1)),
			addTensors("a.blk.0.norm.weight", "v.blk.0.norm.weight", "mm.0.weight")), nil, false},
		{"nemotron_h", append(renamed("nemotron_h", "nemotron_h_omni"), addTensors("a.blk.0.norm.weight")), nil, false},
		{"llama4", []func(*tensorfs.Model){set("llama4.attention.chunk_size", uint32(8192)), set("llama4.attention.head_dim", uint32(8)), set("llama4.use_qk_norm", true), addTensors("mm.linear_1.weight")}, nil, false},
		{"lfm2", []func(*tensorfs.Model){set("lfm2.vision.block_count", uint32(2)), addTensors("v.blk.0.ln1.weight", "mm.1.bias")}, nil, false},
		{"lfm2moe", []func(*tensorfs.Model){set("lfm2moe.vision.block_count", uint32(2)), addTensors("v.blk.0.ln1.weight")}, nil, false},
		{"xlm-roberta", []func(*tensorfs.Model){computedBy(func(m *tensorfs.Model) func(*tensorfs.Model) {
			letters := strings.Split(base64.StdEncoding.EncodeToString(list[uint8](m, "tokenizer.ggml.precompiled_charsmap")), "")
			return set("tokenizer.ggml.precompiled_charsmap", letters)
		})}, nil, false},
	} {
		dir := testdata + "architectures/" + c.golden
		m, err := formats.Open(dir)
		if err != nil {
			m, err = formats.Open(testdata + "whole-gguf/" + c.golden)
		}
		if err != nil {
			t.Errorf("%s: %v", c.golden, err)
			continue
		}
		defer m.Close()
		usual := testwhole.OpenGGUF(t, testwhole.Read(t, convert.GGUF(m, convert.Options{}).List[0].Data))
		if gguf.InLlama(usual) != nil {
			t.Errorf("%s: llama.cpp's file is taken for Ollama's", c.golden)
		}
		d := *usual
		d.Metadata, d.Tensors = slices.Clone(usual.Metadata), slices.Clone(usual.Tensors)
		for _, change := range c.change {
			change(&d)
		}
		dialect := reopened(t, &d)
		f := convert.GGUF(dialect, convert.Options{})
		if f.Reason != "" || len(notLoaded(f)) > 0 || !slices.Contains(f.Notes, gguf.FromOllama) {
			t.Errorf("%s: %s %q", c.golden, f.Reason, f.Notes)
			continue
		}
		byMeans := func(note string) bool { return strings.Contains(note, "is decided by their means") }
		if next := slices.ContainsFunc(d.Tensors, func(x tensorfs.Tensor) bool { return strings.HasPrefix(x.Source, "mtp.layers.") }); next != slices.ContainsFunc(f.Notes, byMeans) {
			t.Errorf("%s: layers for further tokens %t, %q", c.golden, next, f.Notes)
		}
		back := testwhole.OpenGGUF(t, testwhole.Read(t, f.List[0].Data))
		if got, want := keysOf(back, c.differ), keysOf(usual, c.differ); !maps.Equal(got, want) {
			for k, v := range want {
				if got[k] != v {
					t.Errorf("%s: %s is %s, want %s", c.golden, k, got[k], v)
				}
			}
			for k, v := range got {
				if _, ok := want[k]; !ok {
					t.Errorf("%s: %s is %s, want nothing", c.golden, k, v)
				}
			}
		}
		if got, want := tensorsOf(t, back), tensorsOf(t, usual); !maps.Equal(got, want) {
			t.Errorf("%s: tensors %v, want %v", c.golden, slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)))
		}
		if c.noHF {
			continue
		}
		got, want := hf.HF(dialect, convert.Options{}), hf.HF(usual, convert.Options{})
		if got, want := filesOf(t, got), filesOf(t, want); !maps.Equal(got, want) {
			t.Errorf("%s: hf/ is %v, want %v", c.golden, got, want)
		}
	}
}

// filesOf returns the digests of the files of hf/, and of the tensors in them.
func filesOf(t *testing.T, f *convert.Files) map[string]string {
	sums, files := map[string]string{"": f.Reason}, map[string][]byte{}
	for _, x := range f.List {
		files[x.Path] = testwhole.Read(t, x.Data)
		if !strings.Contains(x.Path, ".safetensors") {
			sums[x.Path] = testwhole.Sum(t, x.Data)
		}
	}
	if f.Reason == "" {
		for name, sum := range tensorsOf(t, testwhole.OpenFiles(t, files)) {
			sums["tensor "+name] = sum
		}
	}
	return sums
}

// keysOf returns the metadata as text, but for some keys.
func keysOf(m *tensorfs.Model, but []string) map[string]string {
	keys := map[string]string{}
	for _, x := range m.Metadata {
		if a, ok := x.Value.(tensorfs.Array); ok {
			keys[x.Key] = fmt.Sprint(slices.Collect(a.Values()))
		} else {
			keys[x.Key] = fmt.Sprint(x.Value)
		}
	}
	for _, key := range but {
		delete(keys, key)
	}
	return keys
}

// tensorsOf returns the digests of tensors by their names.
func tensorsOf(t *testing.T, m *tensorfs.Model) map[string]string {
	sums := map[string]string{}
	for _, x := range m.Tensors {
		sums[x.Source] = testwhole.Sum(t, x.Data)
	}
	return sums
}

// TestEmbeddingGemma writes EmbeddingGemma as Ollama has it: as Gemma 3 with two dense layers.
func TestEmbeddingGemma(t *testing.T) {
	usual := testwhole.OpenGGUF(t, testwhole.Read(t, convert.GGUF(testwhole.Open(t, testdata+"architectures/gemma-embedding"), convert.Options{}).List[0].Data))
	d := *usual
	d.Metadata, d.Tensors = slices.Clone(usual.Metadata), slices.Clone(usual.Tensors)
	dense := func(name string, rows, cols int64) func(*tensorfs.Model) {
		return func(m *tensorfs.Model) {
			m.Tensors = append(m.Tensors, tensorfs.Tensor{Source: name, DType: tensorfs.F32, Shape: []int64{rows, cols}, Data: tensorfs.Bytes(make([]byte, 4*rows*cols))})
		}
	}
	for _, change := range []func(*tensorfs.Model){renameKeys("gemma-embedding.", "gemma3."), set("general.architecture", "gemma3"), drops("gemma3.rope.freq_base_swa", "gemma3.attention.layer_norm_rms_epsilon"),
		set("gemma3.attention.causal", false), set("gemma3.attention.sliding_window_pattern", []bool{true, true, false}), dense("dense.0.weight", 96, 48), dense("dense.1.weight", 48, 96),
		renameTensors("output_norm.weight", "norm.weight")} {
		change(&d)
	}
	f := convert.GGUF(reopened(t, &d), convert.Options{})
	if f.Reason != "" || len(notLoaded(f)) > 0 {
		t.Fatalf("%s %q", f.Reason, f.Notes)
	}
	m := testwhole.OpenGGUF(t, testwhole.Read(t, f.List[0].Data))
	want := keysOf(usual, nil)
	for name, n := range map[string]int{"dense_2_feat_in": 48, "dense_2_feat_out": 96, "dense_3_feat_in": 96, "dense_3_feat_out": 48} {
		want["gemma-embedding."+name] = fmt.Sprint(n)
	}
	if got := keysOf(m, nil); !maps.Equal(got, want) {
		t.Errorf("keys %v, want %v", got, want)
	}
	for _, name := range []string{"dense_2.weight", "dense_3.weight", "output_norm.weight"} {
		if m.TensorBySource(name) == nil {
			t.Errorf("no %s", name)
		}
	}
	if len(m.Tensors) != len(usual.Tensors)+2 {
		t.Errorf("%d tensors, want two more than %d", len(m.Tensors), len(usual.Tensors))
	}
}

// reopened writes a model as a GGUF file, and opens that.
func reopened(t *testing.T, m *tensorfs.Model) *tensorfs.Model {
	stored := make([]gguf.Stored, len(m.Tensors))
	for i, x := range m.Tensors {
		stored[i] = gguf.Stored{Name: x.Source, DType: x.DType, Shape: x.Shape, Data: x.Data}
	}
	file, err := gguf.Compose(m.Metadata, stored)
	if err != nil {
		t.Fatal(err)
	}
	return testwhole.OpenGGUF(t, testwhole.Read(t, file))
}
