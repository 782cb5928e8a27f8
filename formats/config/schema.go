package config

import (
	"slices"
	"strings"
	"sync"

	"github.com/tensorfs/tensorfs/formats/architectures"
)

// kind is what a field's value may be.
type kind int

const (
	count   kind = iota // integer from 0 to 2^32-1
	counts              // the same, or one for each layer
	real                // finite float, not negative
	text                // string
	boolean             // bool
	pattern             // sliding_window_pattern, see pattern.go
)

// field is a row of the schema.
type field struct {
	name  string
	kind  kind
	facts []string // names in the descriptions; nil: the name of the field
	gguf  []string // keys after the architecture's prefix, tried in order
	hf    []string // paths in config.json, tried in order; "rope." is the object about rotary embeddings
	// without gives the value if no key is present: a default, or something derived
	// from other fields and the tensors; nil if there is no such rule.
	without func(m *model) (any, bool)
	// first returns a value that overrides the key's, as a number or as a []int64 with one
	// for each layer. May be nil.
	first func(m *model) (any, bool)
	// tensors marks a derivation that is not a guess even without a config.
	tensors bool
	// same are texts that mean what another one does.
	same map[string]string
	// unless are paths in config.json of flags: if one is false, the field is 0, and its
	// own key is ignored.
	unless []string
	// only restricts the field to some models; nil means all.
	only func(m *model) bool
}

// schema returns the table. A field may use the fields above it.
var schema = sync.OnceValue(func() []field {
	for i := range table {
		f := &table[i]
		if f.facts == nil {
			f.facts = []string{f.name}
		}
		if fact := architectures.FactOf(f.name); fact != nil {
			f.gguf, f.hf = slices.Concat(fact.Keys, f.gguf), slices.Concat(fact.Fields, f.hf)
		}
	}
	return table
})

// table is the schema, in which rows with the name of a fact get its keys and fields.
var table = []field{
	{name: "architecture", kind: text, without: architecture, tensors: true},
	{name: "dim", gguf: keys("decoder.embedding_length"), hf: keys("d_model"),
		without: columns("token_embedding.weight"), tensors: true},
	{name: "n_layers", gguf: keys("decoder.block_count"), hf: keys("decoder_layers"),
		first: layersProper, without: layerCount, tensors: true},
	{name: "n_heads", kind: counts, gguf: keys("decoder.attention.head_count"), hf: keys("num_heads decoder_attention_heads")},
	{name: "n_kv_heads", kind: counts, hf: keys("n_head_kv multi_query_group_num num_attention_groups"),
		without: kvHeads},
	{name: "head_dim", kind: counts, hf: keys("kv_channels attention_head_dim"), first: headOfEach, without: quotient("dim", "n_heads")},
	{name: "v_head_dim", facts: keys("value_dim"), gguf: keys("attention.value_length"), hf: keys("v_head_dim"), without: valueDim},
	{name: "q_dim", without: rows("n_heads", "layers.0.attention.q.weight"), tensors: true},
	{name: "kv_dim", without: rows("n_kv_heads", "layers.0.attention.k.weight"), tensors: true},
	{name: "ffn_dim", kind: counts, gguf: keys("decoder.feed_forward_length"), hf: keys("ffn_dim d_ff decoder_ffn_dim ffn_hidden_size moe_ffn_hidden_size"),
		without: inner("layers.0.ffn.down.weight"), tensors: true},
	{name: "vocab_size", hf: keys("padded_vocab_size"), without: vocabulary, tensors: true},
	{name: "max_seq_len", gguf: keys("decoder.context_length"), hf: keys("max_seq_len seq_length max_target_positions"),
		without: always(int64(2048))},

	{name: "norm_eps", kind: real, facts: keys("rms_norm_eps layer_norm_eps"), gguf: keys("attention.layer_norm_rms_epsilon attention.layer_norm_epsilon"), hf: keys("rms_norm_eps layer_norm_eps layer_norm_epsilon norm_epsilon norm_eps layernorm_epsilon"),
		without: always(1e-5)},
	{name: "rope_theta", kind: real, hf: keys("attn_config.rope_theta"), without: always(10000.0)},
	{name: "rope_dim", hf: keys("rotary_dim"), without: ropeDim},
	{name: "rope_scaling_type", kind: text, hf: keys("rope.rope_type rope.type"),
		// mrope and proportional say which numbers turn, and scale nothing.
		same: map[string]string{"default": "none", "mrope": "none", "proportional": "none", "su": "longrope"}, first: scalingTensors, without: always("none")},
	{name: "rope_scaling_factor", kind: real, without: unlessScaledByTensors(1.0)},
	{name: "rope_orig_ctx"},

	{name: "sliding_window", hf: keys("window_size local_attention sliding_window_size"), unless: keys("use_sliding_window"), first: unusedWindow, without: always(int64(0))},
	{name: "sliding_window_pattern", kind: pattern, gguf: keys("attention.sliding_window_pattern"), hf: keys("layer_types sliding_window_pattern _sliding_window_pattern global_attn_every_n_layers"),
		without: usualPattern},
	{name: "rope_local_theta", kind: real, hf: keys("rope_local_theta swa_rope_theta"), without: same("rope_theta")},
	{name: "tie_embeddings", kind: boolean, hf: keys("tie_word_embeddings"), without: tied, tensors: true},
	{name: "attn_logit_softcap", kind: real, without: always(0.0)},
	{name: "final_logit_softcap", kind: real, without: always(0.0)},

	{name: "n_experts", hf: keys("moe_num_experts moe_num_primary_experts ffn_config.moe_num_experts"), without: always(int64(0))},
	{name: "n_experts_used", hf: keys("moe_topk moe_top_k moe_k moe_num_active_primary_experts ffn_config.moe_top_k"), without: always(int64(0))},
	{name: "n_experts_shared", hf: keys("num_shared_experts moe_num_shared_experts num_shared_expert"), without: always(int64(0))},
	{name: "expert_ffn_dim", hf: keys("expert_ffn_size moe_ffn_hidden_size ffn_config.ffn_hidden_size"), without: same("ffn_dim")},
	{name: "shared_expert_ffn_dim", hf: keys("moe_shared_expert_intermediate_size shared_intermediate_size"), without: product("expert_ffn_dim", "n_experts_shared")},
	{name: "n_dense_layers", hf: keys("moe_layer_start_index num_dense_layers"), without: always(int64(0))},
	{name: "n_nextn_layers", hf: keys("mtp_num_hidden_layers"), without: nextLayers},

	{name: "q_lora_rank", without: always(int64(0))},
	{name: "kv_lora_rank", without: always(int64(0))},
	{name: "qk_nope_head_dim", hf: keys("qk_nope_head_dim"), without: nopeDim, only: isMLA},
	{name: "mla_v_head_dim", gguf: keys("attention.value_length"), without: compressedValueDim, only: isMLA},

	{name: "ssm_conv_kernel", gguf: keys("shortconv.l_cache"), hf: keys("conv_L_cache linear_attn_config.short_conv_kernel_size")},
	{name: "ssm_inner"},
	{name: "ssm_state"},
	{name: "ssm_dt_rank", hf: keys("mamba_n_heads mamba_num_heads")},
	{name: "ssm_groups"},

	{name: "enc_n_layers", gguf: keys("encoder.block_count"), hf: keys("encoder_layers"), without: always(int64(0))},
	{name: "enc_n_heads", gguf: keys("encoder.attention.head_count"), hf: keys("encoder_attention_heads")},
	{name: "enc_dim", gguf: keys("encoder.embedding_length"), hf: keys("d_model"), only: hasEncoder},
	{name: "enc_ffn_dim", gguf: keys("encoder.feed_forward_length"), hf: keys("encoder_ffn_dim"), without: func(m *model) (any, bool) {
		dim, ok := m.count("enc_dim")
		return inRange(4*dim, ok)
	}},
	{name: "enc_max_len", gguf: keys("encoder.context_length"), hf: keys("max_source_positions"), without: always(int64(1500))},
	{name: "n_mels", gguf: keys("encoder.mels_count"), hf: keys("num_mel_bins"), without: always(int64(80))},

	{name: "quant_bits", hf: keys("quantization.bits quantization_config.bits"), without: always(int64(0))},
	{name: "quant_group_size", hf: keys("quantization.group_size quantization_config.group_size"), without: func(m *model) (any, bool) {
		return int64(64), m.positive("quant_bits")
	}},
	{name: "quant_mode", kind: text, hf: keys("quantization.mode quantization_config.mode"), without: func(m *model) (any, bool) {
		_, foreign := m.firstValue(nil, keys("quantization_config.quant_method"))
		return "affine", m.positive("quant_bits") && !foreign
	}},
}

func keys(s string) []string { return strings.Fields(s) }

// kindNames are the words of Kinds for values.
var kindNames = map[kind]string{count: "integer", counts: "integer", real: "number", text: "string", boolean: "boolean", pattern: "integer or booleans"}

// listNames are the words of Kinds for the lists that fields of some kinds accept besides.
var listNames = map[kind]string{counts: "integers", pattern: "booleans"}

// Kinds returns the type of each name in config.json: an
// integer, a number, a string, a boolean, or lists of these.
func Kinds() map[string]string {
	all := map[string]string{"layout": kindNames[text]}
	for _, f := range schema() {
		all[f.name] = kindNames[f.kind]
		if list := listNames[f.kind]; list != "" {
			all[f.name+perLayer] = list
		}
	}
	return all
}
