package whole

import (
	"slices"

	"github.com/tensorfs/tensorfs"
)

// What single architectures ask of a config.json, and rows cannot say.

// modelType is the family of a model whose architecture has several.
func (d *describer) modelType() string { return d.cfg.word("model_type") }

// mistralEpsilon returns the default of the mistral class; llama's must be said.
func mistralEpsilon(d *describer) any {
	if d.modelType() != "mistral" {
		return nil
	}
	return is(1e-6, "rms_norm_eps")(d)
}

// mixtralBase returns the default of the mixtral class; the others have
// llama.cpp's.
func mixtralBase(d *describer) any {
	if d.modelType() != "mixtral" {
		return nil
	}
	return is(1e6, "rope_theta")(d)
}

// denseLayers refuses models some of whose layers have no experts.
func denseLayers(_ *tensorfs.Model, cfg settings) string {
	if len(cfg.numbers("mlp_only_layers")) > 0 {
		return "mlp_only_layers names layers without experts, and llama.cpp has none in such models"
	}
	return ""
}

// attentionScale refuses a scale of attention other than llama.cpp's, which has
// that of a head and knows the largest model, which has another, by its layers.
func attentionScale(largest int64) func(d *describer) {
	return func(d *describer) {
		want := d.headSize()
		if d.count("block_count") == largest {
			want = d.count("embedding_length") / max(d.count("attention.head_count"), 1)
		}
		if got, ok := d.cfg.number("query_pre_attn_scalar"); ok && got != float64(want) {
			d.refuse("query_pre_attn_scalar is %v, and llama.cpp has %d for such a model", got, want)
		}
	}
}

// alternate refuses an order of layers other than llama.cpp's: one that sees a
// window, then one that sees everything.
func alternate(d *describer) {
	if kinds := d.layerKinds(); kinds != nil && !hasPeriod(kinds, 2) {
		d.refuse("layer_types does not alternate between sliding_attention and full_attention, as llama.cpp does")
	}
}

// gemmaUsual is after how many layers of gemma3 one sees everything, if the file
// does not say it.
const gemmaUsual = 6

// slides reports whether any layer of a gemma3 sees a window only.
func slides(d *describer) bool { return period(gemmaUsual)(d) != 1 }

// gemmaPeriod returns after how many layers one sees everything, where that is not
// what llama.cpp assumes.
func gemmaPeriod(d *describer) any {
	if n := period(gemmaUsual)(d); n != gemmaUsual {
		return n
	}
	return nil
}

// falconKeyHeads returns the number of heads of k and v by config.json alone.
func falconKeyHeads(d *describer) any {
	multi, _ := d.cfg.flag("multi_query")
	decoder, _ := d.cfg.flag("new_decoder_architecture")
	if n, ok := d.cfg.integer("num_kv_heads", "n_head_kv"); ok && (decoder || !multi) {
		return n
	}
	return int64(1)
}

// falconAgrees refuses a tensor of q, k and v that does not have the heads that
// config.json says. Old ones with a single head of k and v say any number.
func falconAgrees(d *describer) {
	want, _ := falconKeyHeads(d).(int64)
	if got := d.keyHeadCount(); got != want {
		d.refuse("it has %d heads of k and v, and its tensors have %d", want, got)
	}
}

// deepseekGating returns how experts are weighed; the third version of the model
// does it one way without saying so.
func deepseekGating(d *describer) any {
	if v := gating(d); v != nil || d.modelType() != "deepseek_v3" {
		return v
	}
	return gatings["sigmoid"]
}

// lightLayers refuses a model that compresses k and v but not q, unless llama.cpp
// knows it by its number of layers.
func lightLayers(d *describer) {
	n := d.count("block_count")
	if !d.has("attention.q_lora_rank") && !slices.Contains([]int64{26, 27}, n) && !(n == 48 && d.facts.rows == 128256) {
		d.refuse("it has no q_lora_rank, without which llama.cpp takes models of 26 or 27 layers")
	}
}

// nomicContext returns how many tokens a model was trained with.
func nomicContext(d *describer) any {
	n, ok := d.cfg.integer("n_positions", "max_position_embeddings", "n_ctx")
	if trained, _ := d.cfg.integer("max_trained_positions"); n == 8192 && trained == 2048 {
		return trained
	}
	if !ok {
		return nil
	}
	return n
}
