package tokenizer_test

import (
	"strings"
	"testing"
)

// TestHabits holds what is done for the tokenizers of single architectures, where the
// golden models do not show it.
func TestHabits(t *testing.T) {
	pieces := []spPiece{{"<unk>", 0, 2}, {"<s>", 0, 3}, {"</s>", 0, 3}, {"a", -1, 1}, {"b", -2, 1}}
	unigram := spModel{pieces: pieces, algorithm: 1, charsmap: "\xff\x00"}.text()
	bpe := spModel{pieces: pieces, algorithm: 2, flags: identity}.text()
	xlm := files{"sentencepiece.bpe.model": unigram, "config.json": `{"model_type":"xlm-roberta","type_vocab_size":1,"bos_token_id":0}`}
	words := files{"tokenizer.json": wordsDoc().text(t)}
	replace := object{"type": "Replace", "pattern": object{"String": " "}, "content": "▁"}
	split := func(pattern object, behavior string) object {
		return object{"type": "Split", "pattern": pattern, "behavior": behavior, "invert": false}
	}
	lines := split(object{"Regex": `[^\n]+|[\n]+`}, "Isolated")
	chars := func(pre any, added ...any) files {
		d := charsDoc()
		d.added = append(d.added, added...)
		return files{"tokenizer.json": d.change(object{"normalizer": replace, "pre_tokenizer": pre}, nil).text(t)}
	}
	d := bytesDoc()
	d.added = []any{token(5, "[gMASK]", true), token(6, "<|user|>", true), token(7, "<|endoftext|>", true)}
	glm := files{"tokenizer.json": d.text(t), "config.json": `{"model_type":"glm4_moe_lite","eos_token_id":7}`}
	for _, c := range []struct {
		what, arch string
		f          files
		rows       int
		want       map[string]any
	}{
		{"T5", "t5", files{"spiece.model": unigram}, 6, map[string]any{"g.model": "t5", "g.pre": "default", "g.tokens": strs{"<unk>", "<s>", "</s>", "a", "b", "[PAD5]"}, "g.token_type": []int32{2, 3, 3, 1, 1, 5},
			"g.scores": []float32{0, 0, 0, -1, -2, -10000}, "g.precompiled_charsmap": []uint8{255, 0}, "g.add_space_prefix": true, "g.remove_extra_whitespaces": true,
			"g.add_eos_token": true, "g.add_bos_token": false, "g.add_sep_token": false, "g.token_type_count": nil}},
		{"T5, tokenizer.model first", "t5encoder", files{"tokenizer.model": unigram, "spiece.model": "x"}, 6, map[string]any{"g.model": "t5"}},
		{"T5, added", "t5", files{"spiece.model": unigram, "added_tokens.json": `{"<x>":5}`, "tokenizer_config.json": `{"added_tokens_decoder":{"4":{"content":"no"}}}`}, 6, map[string]any{"g.tokens": strs{"<unk>", "<s>", "</s>", "a", "b", "<x>"}, "g.token_type": []int32{2, 3, 3, 1, 1, 4}}},
		{"T5, of pairs", "t5", files{"tokenizer.model": bpe}, 5, map[string]any{"g.model": "llama", "g.precompiled_charsmap": nil}},
		{"Unigram elsewhere", "llama", files{"tokenizer.model": unigram}, 5, map[string]any{"g.model": "llama"}},
		{"XLM-R", "bert", xlm.with("added_tokens.json", `{"<x>":6}`), 8, map[string]any{"g.model": "t5", "g.tokens": strs{"<s>", "<pad>", "</s>", "<unk>", "a", "b", "[PAD5]", "[PAD6]"}, "g.token_type": []int32{3, 3, 3, 2, 1, 1, 5, 5},
			"g.scores": []float32{0, 0, 0, 0, -1, -2, -10000, -10000}, "g.token_type_count": uint32(1), "g.bos_token_id": uint32(0), "g.add_bos_token": true, "g.add_eos_token": true, "g.add_sep_token": true}},
		{"BERT", "bert", words, 231, map[string]any{"g.token_type_count": uint32(2)}},
		{"DistilBERT", "bert", words.with("config.json", `{"model_type":"distilbert"}`), 231, map[string]any{"g.token_type_count": uint32(1)}},
		{"RoBERTa", "bert", files{"tokenizer.json": bytesDoc().text(t)}, 5, map[string]any{"g.model": "gpt2", "g.token_type_count": uint32(2)}},
		{"Gemma 4, as written", "gemma4", chars(lines), 8, map[string]any{"g.model": "gemma4", "g.add_space_prefix": false, "g.pre": nil}},
		{"Gemma 4, visible", "gemma4", chars(nil, token(8, "<|channel>", true)), 9, map[string]any{"g.token_type": []int32{3, 6, 1, 1, 1, 1, 1, 1, 4}}},
		{"GLM", "deepseek2", glm, 8, map[string]any{"g.bos_token_id": uint32(5), "g.eot_token_id": uint32(6), "g.eos_token_id": uint32(7), "g.unknown_token_id": uint32(7), "g.eom_token_id": nil}},
		{"GLM as DeepSeek", "deepseek2", glm.with("config.json", `{"model_type":"deepseek_v3"}`), 8, map[string]any{"g.bos_token_id": uint32(5)}},
		{"not GLM", "deepseek2", glm.with("tokenizer.json", strings.Replace(glm["tokenizer.json"], "[gMASK]", "[MASK]", 1)), 8, map[string]any{"g.bos_token_id": nil}},
		{"said before GLM", "glm4moe", glm.with("config.json", `{"bos_token_id":0}`), 8, map[string]any{"g.bos_token_id": uint32(0)}},
		{"ids of the language model", "qwen3", glm.with("config.json", `{"text_config":{"bos_token_id":0},"llm_config":{"eos_token_id":1}}`), 8, map[string]any{"g.bos_token_id": uint32(0), "g.eos_token_id": nil}},
		{"Phi 4", "phi3", files{"tokenizer.model": unigram, "tokenizer.json": bytesDoc().text(t), "tokenizer_config.json": `{"tokenizer_class":"GPT2Tokenizer"}`}, 5, map[string]any{"g.model": "gpt2"}},
	} {
		want(t, c.what, c.f, c.arch, c.rows, c.want)
	}
	for _, c := range []struct {
		arch   string
		f      files
		reason string
	}{
		{"bert", xlm.with("sentencepiece.bpe.model", bpe), "sentencepiece.bpe.model: it is not a Unigram model"},
		{"bert", files{"sentencepiece.bpe.model": unigram}, "the model has sentencepiece.bpe.model and neither"}, // as of CamemBERT, whose ids are others
		{"t5", files{"spiece.model": "x"}, "spiece.model: it is not a message"},
		{"llama", chars(lines), "treat spaces in a way"},
		{"gemma4", files{"tokenizer.json": charsDoc().text(t)}, "treat spaces in a way"},
	} {
		refuse(t, c.arch, c.f, c.arch, 8, c.reason)
	}
}
