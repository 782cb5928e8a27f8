package architectures

import (
	"reflect"
	"slices"
	"testing"
)

// TestTokenizers holds how items of the word tokenizer are read: of a block that is like another, under
// conditions, and of no block.
func TestTokenizers(t *testing.T) {
	size := func(n int64) Facts {
		return func(name string) any { return map[string]any{"config.vocab_size": n, "added.gMASK": n == 5}[name] }
	}
	pieces := []string{"tokenizer.model"}
	for _, c := range []struct {
		block string
		size  int64
		want  Tokenizer
	}{
		{"llama", 32000, Tokenizer{Pieces: pieces, Space: "said"}},
		{"llama", 32016, Tokenizer{Pieces: pieces, Space: "said", Roles: map[string]string{"prefix": "32007", "suffix": "32008", "middle": "32009", "eot": "32010"}}},
		{"mistral", 49152, Tokenizer{Pieces: pieces, Space: "said", NoBOS: true}},
		{"internlm3", 1, Tokenizer{Pieces: pieces, Space: "said", End: "<|im_end|>"}},
		{"glm4moelite", 5, Tokenizer{Pre: "glm4", Roles: map[string]string{"bos": "[gMASK]", "eot": "<|user|>", "unk": "<|endoftext|>", "eom": "<|observation|>"}}},
		{"deepseek3", 1, Tokenizer{}},
		{"deepseek2-ocr", 1, Tokenizer{Template: "{% for m in messages %}{{m['content']}}{% endfor %}"}},
		{"gemma3", 1, Tokenizer{Pieces: pieces, Space: "never", Cut: true}},
		{"gemma-embedding", 1, Tokenizer{Pieces: pieces, Space: "never"}},
		{"xlm-roberta", 1, Tokenizer{Pieces: []string{"sentencepiece.bpe.model"}, Model: "t5", Shifted: true, Segments: 2}},
		{"kimi-linear", 1, Tokenizer{NamedEnd: true}},
		{"decoder", 1, Tokenizer{}},
		{"zzz", 1, Tokenizer{}},
	} {
		if c.want.Roles == nil {
			c.want.Roles = map[string]string{}
		}
		if got := TokenizerOf(c.block, size(c.size)); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s with %d tokens has %+v, want %+v", c.block, c.size, got, c.want)
		}
	}
}

// TestTraits: an architecture has the traits of its blocks, and not of blocks that they are like. Each trait is one of
// some architecture.
func TestTraits(t *testing.T) {
	for _, c := range []struct {
		gguf, trait, value string
		ok                 bool
	}{
		{"llama", WholeHeads, "", true}, {"llama", LargeIfShared, "80", true}, {"granite", WholeHeads, "", false}, {"qwen2", Large, "80", true},
		{"gemma-embedding", After, "dense_2,dense_3", true}, {"gemma3", After, "", false}, {"mistral", WholeHeads, "", false}, {"", WholeHeads, "", false},
		{"hy_v4", WideIf, "output.weight:enable_lm_head_fp32", true},
	} {
		if value, ok := Trait(c.gguf, c.trait); value != c.value || ok != c.ok {
			t.Errorf("%s has %s %q %v", c.gguf, c.trait, value, ok)
		}
	}
	for _, trait := range traits {
		if !slices.ContainsFunc(AllSettings(), func(s *Settings) bool { return HasTrait(s.GGUF, trait) }) {
			t.Errorf("no architecture has %s", trait)
		}
	}
}
