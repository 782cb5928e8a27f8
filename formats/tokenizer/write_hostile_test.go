package tokenizer_test

import (
	"fmt"
	"iter"
	"math"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/tensorfs/tensorfs/formats/tokenizer"
	"github.com/tensorfs/tensorfs/internal/testing/testlimit"
)

// claimed is an array that claims n equal values, and may end earlier.
type claimed struct {
	n, come int
	value   any
}

func (c claimed) Len() int { return c.n }
func (c claimed) Values() iter.Seq[any] {
	return func(yield func(any) bool) {
		for range c.come {
			if !yield(c.value) {
				return
			}
		}
	}
}

// TestWriteHostile holds that what no program writes is refused with one line.
func TestWriteHostile(t *testing.T) {
	key := func(k string) string { return "tokenizer.ggml." + k }
	const wrong = "of a wrong type"
	types := listOf[any](2, 3, 3, 1, 1, 1, 1, 1)
	type refused struct {
		k      keys
		reason string
	}
	cases := []refused{
		{keys{}, "no tokenizer"},
		{charKeys.with(key("model"), nil), "no tokenizer"},
		{charKeys.with(key("model"), 5), "cannot express"},
		{charKeys.with(key("model"), "\x1b[2J\n"), `"\x1b[2J\n"`},
		{charKeys.with(key("tokens"), nil), "no tokens"},
		{charKeys.with(key("tokens"), list{}), "no tokens"},
		{charKeys.with(key("tokens"), "x"), "is not an array"},
		{charKeys.with(key("tokens"), types), "the value 0 of tokenizer.ggml.tokens is of a wrong type"},
		{charKeys.with(key("tokens"), []string{"a", "b", "a", "c", "d", "e", "f", "g"}), `the tokens 0 and 2 are both "a"`},
		{charKeys.with(key("tokens"), []string{"", "[EMPTY_0]", "a", "c", "d", "e", "f", "g"}), `the tokens 0 and 1 are both "[EMPTY_0]"`},
		{charKeys.with(key("tokens"), []string{"\xff", "b", "a", "c", "d", "e", "f", "g"}), "not UTF-8"},
		{charKeys.with(key("tokens"), []string{"\xed\xa0\x80", "b", "a", "c", "d", "e", "f", "g"}), "not UTF-8"},
		{charKeys.with(key("tokens"), claimed{8, 5, "x"}), "has changed"},
		{charKeys.with(key("tokens"), claimed{math.MaxInt, 5, "x"}), "at most"},
		{charKeys.with(key("tokens"), claimed{1000, 1000, strings.Repeat("x", 1<<20)}), "have more than 33554432 bytes"},
		{charKeys.with(key("token_type"), types[1:]), "has 7 values, and there are 8 tokens"},
		{charKeys.with(key("token_type"), append(list{1}, types...)), "has 9 values, and there are 8 tokens"},
		{charKeys.with(key("token_type"), 5), "is not an array"},
		{charKeys.with(key("token_type"), []float32{1, 1, 1, 1, 1, 1, 1, 1}), wrong},
		{charKeys.with(key("token_type"), claimed{8, 8, list{}}), wrong},
		{charKeys.with(key("scores"), types), wrong},
		{charKeys.with(key("scores"), []float32{1}), "has 1 values"},
		{charKeys.with(key("scores"), true), "is not an array"},
		{charKeys.with(key("merges"), 5), "is not an array"},
		{charKeys.with(key("merges"), types), wrong},
		{charKeys.with(key("merges"), []string{"a b", "\xff b"}), "the merge 1"},
		{charKeys.with(key("merges"), claimed{10_000_000, 10_000_000, "a b"}), "has 10000000 values, and at most 4194304 are read"},
		{charKeys.with(key("merges"), claimed{5, 4, "a b"}), "has changed"},
		{charKeys.with(key("bos_token_id"), "1"), wrong},
		{charKeys.with(key("eos_token_id"), 1.0), wrong},
		{charKeys.with(key("mask_token_id"), list{1}), wrong},
		{charKeys.with(key("add_bos_token"), 1), wrong},
		{charKeys.with(key("add_eos_token"), "true"), wrong},
		{charKeys.with(key("add_space_prefix"), uint8(1)), wrong},
		{byteKeys.with(key("merges"), nil), "the file has no tokenizer.ggml.merges"},
		{byteKeys.with(key("model"), "gemma4", key("merges"), nil), "the file has no tokenizer.ggml.merges"},
		{byteKeys.with(key("pre"), 5), wrong},
		{byteKeys.with(key("pre"), "my-own"), `"my-own"`},
		{byteKeys.with(key("pre"), "\n\x1b\xff"), `\n`},
		{wordKeys.with(key("normalizer.lowercase"), 1), wrong},
		{wordKeys.with(key("normalizer.strip_accents"), 1), wrong},
		{wordKeys.with(key("tokens"), []string{"[PAD]", "[UNK]", "[CLS]", "[SEP]", "▁##b", "b"}), `both "##b"`},
		{pieceKeys.with(key("scores"), []float32{0, 0, 0, float32(math.NaN()), 0}), "JSON has no number for"},
		{pieceKeys.with(key("scores"), []float32{0, float32(math.Inf(-1)), 0, 0, 0}), "JSON has no number for"},
		{pieceKeys.with(key("precompiled_charsmap"), listOf[any](256)), wrong},
		{pieceKeys.with(key("precompiled_charsmap"), listOf[any](-129)), wrong},
		{pieceKeys.with(key("precompiled_charsmap"), listOf[any]("x")), wrong},
		{pieceKeys.with(key("precompiled_charsmap"), "x"), "is not an array"},
		{pieceKeys.with(key("precompiled_charsmap"), claimed{1 << 30, 1 << 30, 1}), "at most"},
		{pieceKeys.with(key("remove_extra_whitespaces"), 1), wrong},
	}
	for _, model := range []string{"rwkv", "plamo2", "hybriddna", "none", "whitespace", "no_vocab", "GPT2", ""} {
		cases = append(cases, refused{charKeys.with(key("model"), model), map[bool]string{true: "no tokenizer", false: "cannot express"}[model == ""]})
	}
	for _, c := range cases {
		files, err := written(c.k.get, "llama")
		if err == nil || files != nil || !strings.Contains(err.Error(), c.reason) || strings.ContainsFunc(err.Error(), unicode.IsControl) {
			t.Errorf("%.300v: %v, %d files, want %q", c.k, err, len(files), c.reason)
		}
		tokenizer.Ends(c.k.get)
	}
}

// TestWriteBounds holds that vocabularies made to cost much are given up early, or
// cost little.
func TestWriteBounds(t *testing.T) {
	with := func(tokens []string) keys {
		return charKeys.with("tokenizer.ggml.tokens", tokens, "tokenizer.ggml.token_type", nil, "tokenizer.ggml.scores", nil).arrays()
	}
	var chain, long []string
	for i := range 3000 {
		chain = append(chain, strings.Repeat("a", i+1)) // every cut is a merge
	}
	for i := range 20 {
		long = append(long, strings.Repeat("a", 1<<20+i), strings.Repeat("b", i+1))
	}
	for name, c := range map[string]struct {
		k      keys
		reason string
	}{
		"a chain": {with(chain), "too many or too long"},
		"long":    {with(long), "too many or too long"},
		"control characters": {with([]string{strings.Repeat("\x01", 31<<20)}).with("tokenizer.ggml.model", "gpt2", "tokenizer.ggml.merges", list{}),
			"tokenizer.json would have more than"},
		"merges of long tokens": {with(append(chain[:1000:1000], long[:2]...)).with("tokenizer.ggml.model", "gpt2", "tokenizer.ggml.merges", claimed{1 << 22, 1 << 22, "a aa"}), ""},
	} {
		testlimit.Work(t, 1000, func() {
			_, err := written(c.k.get, "llama")
			if reason := fmt.Sprint(err); c.reason == "" && err != nil || !strings.Contains(reason, c.reason) {
				t.Fatalf("%s: %v", name, err)
			}
		})
		if used := testlimit.Allocated(func() { written(c.k.get, "llama") }); used > 1<<30 {
			t.Errorf("%s: %d bytes are allocated", name, used)
		}
	}
}

// FuzzWrite writes tokenizers from any metadata. The output is JSON, has each token once, and its
// merges contain only tokens.
func FuzzWrite(f *testing.F) {
	const sep = "\xfe"
	for _, k := range []keys{byteKeys, charKeys, wordKeys, pieceKeys} {
		merges, _ := k["tokenizer.ggml.merges"].([]string)
		pre, _ := k["tokenizer.ggml.pre"].(string)
		types := ""
		kinds, _ := k["tokenizer.ggml.token_type"].([]int32)
		for _, kind := range kinds {
			types += string(rune(kind))
		}
		f.Add(k["tokenizer.ggml.model"].(string), pre, strings.Join(k["tokenizer.ggml.tokens"].([]string), sep), types, strings.Join(merges, sep), "bos_token_id", int64(1), uint16(3))
	}
	f.Add("gemma4", "", "a"+sep+"b"+sep+"ab", "", "a b", "add_bos_token", int64(-1), uint16(9))
	f.Add("t5", "", "a"+sep+"b"+sep+"ab", "\x04\x01\x03", "", "precompiled_charsmap", int64(1), uint16(9))
	f.Fuzz(func(t *testing.T, model, pre, tokens, types, merges, key string, value int64, bits uint16) {
		if len(tokens) > 1<<12 || len(merges) > 1<<12 {
			return
		}
		texts := strings.Split(tokens, sep)
		k := keys{"tokenizer.ggml.model": model, "tokenizer.ggml.pre": pre, "tokenizer.ggml.tokens": texts, "general.name": pre, "tokenizer.chat_template": merges}
		if types != "" {
			kinds := make(list, len(types))
			for i := range len(types) {
				kinds[i] = int32(types[i])
			}
			k["tokenizer.ggml.token_type"] = kinds
		}
		if bits&1 != 0 {
			scores := make([]float32, len(texts))
			for i := range scores {
				scores[i] = math.Float32frombits(uint32(bits) << (i % 32))
			}
			k["tokenizer.ggml.scores"] = scores
		}
		if bits&2 != 0 {
			k["tokenizer.ggml.merges"] = strings.Split(merges, sep)
		}
		for i, name := range []string{"bos", "eos", "unknown", "seperator", "padding", "cls", "mask", "eot", "eom"} {
			if bits>>(i+2)&1 != 0 {
				k["tokenizer.ggml."+name+"_token_id"] = uint32(value>>i) % 16
			}
		}
		k["tokenizer.ggml."+key] = []any{value, value&1 != 0, pre, listOf[any](value, uint8(value), pre), float32(value)}[bits>>12%5]
		ends := tokenizer.Ends(k.get)
		if len(ends) > 32 {
			t.Errorf("%d end tokens", len(ends))
		}
		for i, id := range ends {
			if id < 0 || id >= len(texts) || slices.Contains(ends[:i], id) {
				t.Errorf("end tokens %v of %d tokens", ends, len(texts))
			}
		}
		files, err := written(k.get, pre)
		if err != nil {
			if files != nil || err.Error() == "" || strings.ContainsFunc(err.Error(), unicode.IsControl) {
				t.Fatalf("%d files, %q", len(files), err)
			}
			return
		}
		for _, name := range []string{"tokenizer_config.json", "special_tokens_map.json"} {
			document(t, files[name])
		}
		written := document(t, files["tokenizer.json"])["model"].(map[string]any)
		if written["type"] == "Unigram" {
			if n := len(written["vocab"].([]any)); n != len(texts) {
				t.Fatalf("%d pieces of %d tokens", n, len(texts))
			}
			return
		}
		vocab := written["vocab"].(map[string]any)
		if len(vocab) != len(texts) {
			t.Fatalf("%d texts of %d tokens", len(vocab), len(texts))
		}
		pairs, _ := written["merges"].([]any)
		seen := map[string]bool{}
		for _, m := range pairs {
			var left, right string
			switch m := m.(type) {
			case string:
				var ok bool
				if left, right, ok = strings.Cut(m, " "); !ok || strings.Contains(right, " ") {
					t.Fatalf("merge %q", m)
				}
			case []any:
				left, right = m[0].(string), m[1].(string)
			}
			for _, text := range []string{left, right, left + right} {
				if vocab[text] == nil {
					t.Fatalf("the merge %q has %q, which is not a token", m, text)
				}
			}
			if both := left + "\x00\x00" + right; seen[both] {
				t.Fatalf("the merge %q is there twice", m)
			} else {
				seen[both] = true
			}
		}
	})
}
