package metal

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/config"
	"github.com/tensorfs/tensorfs/formats/names"
)

// Config is config.json, whose fields are the same for all formats and described in
// docs/tree.md. A field that is not known is zero.
type Config struct {
	Architecture                 string  `json:"architecture"`
	Dim                          int64   `json:"dim"`
	NLayers                      int64   `json:"n_layers"`
	NHeads                       int64   `json:"n_heads"`
	NHeadsPerLayer               []int64 `json:"n_heads_per_layer"`
	NKVHeads                     int64   `json:"n_kv_heads"`
	NKVHeadsPerLayer             []int64 `json:"n_kv_heads_per_layer"`
	HeadDim                      int64   `json:"head_dim"`
	HeadDimPerLayer              []int64 `json:"head_dim_per_layer"`
	VHeadDim                     int64   `json:"v_head_dim"`
	QDim                         int64   `json:"q_dim"`
	KVDim                        int64   `json:"kv_dim"`
	FFNDim                       int64   `json:"ffn_dim"`
	FFNDimPerLayer               []int64 `json:"ffn_dim_per_layer"`
	VocabSize                    int64   `json:"vocab_size"`
	MaxSeqLen                    int64   `json:"max_seq_len"`
	NormEps                      float64 `json:"norm_eps"`
	RoPETheta                    float64 `json:"rope_theta"`
	RoPEDim                      int64   `json:"rope_dim"`
	RoPEScalingType              string  `json:"rope_scaling_type"`
	RoPEScalingFactor            float64 `json:"rope_scaling_factor"`
	RoPEOrigCtx                  int64   `json:"rope_orig_ctx"`
	SlidingWindow                int64   `json:"sliding_window"`
	SlidingWindowPattern         Pattern `json:"sliding_window_pattern"`
	SlidingWindowPatternPerLayer []bool  `json:"sliding_window_pattern_per_layer"`
	RoPELocalTheta               float64 `json:"rope_local_theta"`
	TieEmbeddings                bool    `json:"tie_embeddings"`
	AttnLogitSoftcap             float64 `json:"attn_logit_softcap"`
	FinalLogitSoftcap            float64 `json:"final_logit_softcap"`
	NExperts                     int64   `json:"n_experts"`
	NExpertsUsed                 int64   `json:"n_experts_used"`
	NExpertsShared               int64   `json:"n_experts_shared"`
	ExpertFFNDim                 int64   `json:"expert_ffn_dim"`
	SharedExpertFFNDim           int64   `json:"shared_expert_ffn_dim"`
	NDenseLayers                 int64   `json:"n_dense_layers"`
	NNextnLayers                 int64   `json:"n_nextn_layers"`
	QLoRARank                    int64   `json:"q_lora_rank"`
	KVLoRARank                   int64   `json:"kv_lora_rank"`
	QKNopeHeadDim                int64   `json:"qk_nope_head_dim"`
	MLAVHeadDim                  int64   `json:"mla_v_head_dim"`
	SSMConvKernel                int64   `json:"ssm_conv_kernel"`
	SSMInner                     int64   `json:"ssm_inner"`
	SSMState                     int64   `json:"ssm_state"`
	SSMDTRank                    int64   `json:"ssm_dt_rank"`
	SSMGroups                    int64   `json:"ssm_groups"`
	EncNLayers                   int64   `json:"enc_n_layers"`
	EncNHeads                    int64   `json:"enc_n_heads"`
	EncDim                       int64   `json:"enc_dim"`
	EncFFNDim                    int64   `json:"enc_ffn_dim"`
	EncMaxLen                    int64   `json:"enc_max_len"`
	NMels                        int64   `json:"n_mels"`
	QuantBits                    int64   `json:"quant_bits"`
	QuantGroupSize               int64   `json:"quant_group_size"`
	QuantMode                    string  `json:"quant_mode"`
	Layout                       string  `json:"layout"`
}

// Pattern tells which layers see only a window of the context.
type Pattern struct {
	Every   int64  // every such layer has full attention, the rest a window; 0: no layer has a window, or Windows lists them
	Windows []bool // by layer, true for a window; nil if Every is set
}

// Window reports whether a layer, counted from 0, sees only a window.
func (p Pattern) Window(layer int) bool {
	if p.Windows != nil {
		return layer >= 0 && layer < len(p.Windows) && p.Windows[layer]
	}
	return p.Every > 0 && (int64(layer)+1)%p.Every != 0
}

// UnmarshalJSON takes an integer or a list of booleans.
func (p *Pattern) UnmarshalJSON(text []byte) error {
	*p = Pattern{}
	if len(text) > 0 && text[0] == '[' {
		return json.Unmarshal(text, &p.Windows)
	}
	return json.Unmarshal(text, &p.Every)
}

// MarshalJSON is the reverse.
func (p Pattern) MarshalJSON() ([]byte, error) {
	if p.Windows != nil {
		return json.Marshal(p.Windows)
	}
	return json.Marshal(p.Every)
}

// Config returns the model's config.
func (l *Loader) Config() (Config, error) {
	var c Config
	if err := json.Unmarshal(config.JSON(l.Model()), &c); err != nil {
		return Config{}, fmt.Errorf("metal: config.json: %w", err)
	}
	return c, nil
}

// Has reports whether a view has a tensor.
func (l *Loader) Has(view, name string) bool {
	_, err := l.tree.Tensor(Ref{view, name})
	return err == nil
}

// Count returns how many tensors a view has.
func (l *Loader) Count(view string) int { return len(l.tree.Names(view)) }

// MetaString returns the string under a key of the model's metadata, or def if it is
// missing.
func (l *Loader) MetaString(key, def string) string { return metaOr(l, key, def, toString) }

// MetaInt returns the integer under a key of the model's metadata, or def if it is missing.
func (l *Loader) MetaInt(key string, def int64) int64 { return metaOr(l, key, def, toInt) }

// MetaFloat returns the number under a key of the model's metadata, or def if it is
// missing.
func (l *Loader) MetaFloat(key string, def float64) float64 { return metaOr(l, key, def, toFloat) }

// MetaBool returns the boolean under a key of the model's metadata, or def if it is
// missing.
func (l *Loader) MetaBool(key string, def bool) bool { return metaOr(l, key, def, toBool) }

// MetaStrings returns the strings under a key of the model's metadata, such as the tokens
// of a vocabulary; nil if it is not a list of strings.
func (l *Loader) MetaStrings(key string) []string { return metaOr(l, key, nil, listOf(toString)) }

// MetaInts returns the integers under a key of the model's metadata; nil if it is not a
// list of integers.
func (l *Loader) MetaInts(key string) []int64 { return metaOr(l, key, nil, listOf(toInt)) }

// MetaFloats returns the numbers under a key of the model's metadata; nil if it is not a
// list of numbers.
func (l *Loader) MetaFloats(key string) []float64 { return metaOr(l, key, nil, listOf(toFloat)) }

// metaOr returns a value of the metadata as another type, or def if it is absent or of
// another kind.
func metaOr[T any](l *Loader, key string, def T, to func(any) (T, bool)) T {
	list := l.Model().Metadata
	i := slices.IndexFunc(list, func(m tensorfs.Meta) bool { return names.Escape(m.Key) == key }) // as metadata.json has it
	if i < 0 {
		return def
	}
	var v any
	d := json.NewDecoder(bytes.NewReader(list[i].AppendJSON(nil)))
	d.UseNumber()
	if d.Decode(&v) != nil {
		return def
	}
	if x, ok := to(v); ok {
		return x
	}
	return def
}

// listOf takes lists of what to takes.
func listOf[T any](to func(any) (T, bool)) func(any) ([]T, bool) {
	return func(v any) ([]T, bool) {
		list, ok := v.([]any)
		if !ok {
			return nil, false
		}
		out := make([]T, len(list))
		for i, e := range list {
			if out[i], ok = to(e); !ok {
				return nil, false
			}
		}
		return out, true
	}
}

// toString accepts strings, including strings that are not UTF-8, which metadata.json has
// in base64.
func toString(v any) (string, bool) {
	if o, ok := v.(map[string]any); ok && len(o) == 1 {
		text, ok := o["base64"].(string)
		b, err := base64.StdEncoding.DecodeString(text)
		return string(b), ok && err == nil
	}
	s, ok := v.(string)
	return s, ok
}

func toBool(v any) (bool, bool) {
	b, ok := v.(bool)
	return b, ok
}

func toInt(v any) (int64, bool) {
	s, ok := v.(json.Number)
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseInt(string(s), 10, 64)
	return n, err == nil
}

// toFloat accepts numbers, and the strings that replace numbers without a form in JSON.
func toFloat(v any) (float64, bool) {
	switch v := v.(type) {
	case json.Number:
		f, err := strconv.ParseFloat(string(v), 64)
		return f, err == nil
	case string:
		f, ok := noNumbers[v]
		return f, ok
	}
	return 0, false
}

var noNumbers = map[string]float64{"NaN": math.NaN(), "Infinity": math.Inf(1), "-Infinity": math.Inf(-1)}
