package hf

import (
	"math"
	"strings"
	"testing"
)

// chat is a vocabulary with three tokens that end a generation.
var chat = map[string]any{"tokenizer.ggml.tokens": listOf("<|endoftext|>", "<s>", "<|im_end|>", "</s>", "a"), "tokenizer.ggml.eos_token_id": uint32(2),
	"tokenizer.ggml.bos_token_id": uint32(1), "tokenizer.ggml.padding_token_id": uint32(0)}

// with returns metadata with more of it.
func with(meta map[string]any, pairs ...any) map[string]any {
	all := map[string]any{}
	for k, v := range meta {
		all[k] = v
	}
	for i := 0; i < len(pairs); i += 2 {
		all[pairs[i].(string)] = pairs[i+1]
	}
	return all
}

// TestGeneration holds every byte of generation_config.json, and what is said of
// what it lacks.
func TestGeneration(t *testing.T) {
	const temp, topK, topP, minP, penalty = "general.sampling.temp", "general.sampling.top_k", "general.sampling.top_p", "general.sampling.min_p", "general.sampling.penalty_repeat"
	for name, c := range map[string]struct {
		arch  string
		meta  map[string]any
		want  string // without white space
		notes string
	}{
		"nothing":      {"llama", nil, `{"_from_model_config":true}`, ""},
		"ends":         {"llama", chat, `{"_from_model_config":true,"bos_token_id":1,"eos_token_id":[2,0,3],"pad_token_id":0}`, ""},
		"also phi3":    {"phi3", chat, `{"_from_model_config":true,"bos_token_id":1,"eos_token_id":[2,0,3],"pad_token_id":0}`, ""},
		"one end":      {"qwen2", map[string]any{"tokenizer.ggml.tokens": listOf("a", "</s>")}, `{"_from_model_config":true,"eos_token_id":1}`, ""},
		"Qwen":         {"qwen2", map[string]any{temp: float32(0.7), topK: int32(20), topP: float32(0.8), penalty: float32(1.1)}, `{"do_sample":true,"temperature":0.7,"top_k":20,"top_p":0.8,"repetition_penalty":1.1}`, ""},
		"whole floats": {"llama", map[string]any{temp: float32(1), penalty: float64(1), minP: float32(0)}, `{"do_sample":true,"temperature":1.0,"min_p":0.0,"repetition_penalty":1.0}`, ""},
		"one":          {"llama", with(chat, topP, float32(0.95)), `{"do_sample":true,"bos_token_id":1,"eos_token_id":[2,0,3],"pad_token_id":0,"top_p":0.95}`, ""},
		"greedy":       {"llama", map[string]any{temp: float32(0), topK: int32(1)}, `{"do_sample":false,"temperature":0.0,"top_k":1}`, ""},
		"all tokens":   {"llama", map[string]any{topK: int32(-1)}, `{"do_sample":true,"top_k":0}`, ""},
		"others":       {"llama", map[string]any{"general.sampling.mirostat": int32(2), "general.sampling.xtc_threshold": float32(0.1)}, `{"_from_model_config":true}`, ""},
		"too high": {"llama", map[string]any{topP: float32(1.5), temp: float32(0.5)}, `{"do_sample":true,"temperature":0.5}`,
			"generation_config.json has no top_p: general.sampling.top_p is 1.5, which it cannot say"},
		"no number":  {"llama", map[string]any{penalty: float32(math.NaN())}, `{"_from_model_config":true}`, "general.sampling.penalty_repeat is NaN"},
		"infinite":   {"llama", map[string]any{temp: float32(math.Inf(1))}, `{"_from_model_config":true}`, "general.sampling.temp is +Inf"},
		"below zero": {"llama", map[string]any{temp: float32(-1), penalty: float32(0), minP: float64(-1), topP: float32(0)}, `{"_from_model_config":true}`, "is -1,"},
		"a text":     {"llama", map[string]any{temp: "0.7\n\x1b"}, `{"_from_model_config":true}`, `general.sampling.temp is "0.7\n\x1b"`},
		"a list":     {"llama", map[string]any{topK: listOf(int32(1))}, `{"_from_model_config":true}`, "a list of 1"},
		"no integer": {"llama", map[string]any{topK: float32(20)}, `{"_from_model_config":true}`, "general.sampling.top_k is 20,"},
		"too many":   {"llama", map[string]any{topK: uint64(math.MaxUint64)}, `{"_from_model_config":true}`, "top_k"},
		"BERT":       {"bert", chat, "", ""},
	} {
		m, err := newSample(c.arch, c.meta).maker(false)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		text, notes := m.Generation()
		got, said := strings.NewReplacer("\n", "", " ", "").Replace(string(text)), strings.Join(notes, "; ")
		if got != c.want || !strings.Contains(said, c.notes) || c.notes == "" && said != "" || strings.ContainsAny(said, "\n\x1b") {
			t.Errorf("%s: %s, %q, want %s, %q", name, got, said, c.want, c.notes)
		}
	}
}

// TestEndTokens holds for which models config.json lists all tokens that end a generation. Candle
// refuses a list for the remaining models, whose published config.json has one token.
func TestEndTokens(t *testing.T) {
	one := map[string]bool{"phi3": true, "falcon": true, "gpt2": true, "bloom": true, "starcoder2": true, "bert": true}
	for arch := range samples {
		for _, mlx := range []bool{false, true} {
			text, err := newSample(arch, chat).config(mlx)
			if err != nil && mlx {
				continue // mlx-lm has no such model
			} else if err != nil {
				t.Errorf("%s: %v", arch, err)
				continue
			}
			got, want := strings.NewReplacer("\n", "", " ", "").Replace(string(text)), `"eos_token_id":[2,0,3]`
			if one[arch] {
				want = `"eos_token_id":2,`
			}
			if !strings.Contains(got, want) {
				t.Errorf("%s, mlx %v: %s", arch, mlx, got)
			}
		}
	}
	s := newSample("llama", chat)
	s.shapes["token_embedding.weight"] = []int64{3, 32} // </s> has no row
	if text, err := s.config(false); err != nil || strings.Contains(string(text), "3\n  ]") {
		t.Errorf("%s, %v", text, err)
	}
}
