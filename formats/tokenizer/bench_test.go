package tokenizer_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs/internal/testing/testlimit"
)

const qwenSplit = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`

// bytePre is a chain of pre-tokenizers that llama.cpp knows as qwen2.
var bytePre = map[string]any{"type": "Sequence", "pretokenizers": []any{
	map[string]any{"type": "Split", "pattern": map[string]any{"Regex": qwenSplit}, "behavior": "Isolated", "invert": false},
	map[string]any{"type": "ByteLevel", "add_prefix_space": false, "use_regex": false},
}}

// large returns a tokenizer.json of n tokens, almost all made by a merge. Each token is its number,
// spelled in letters.
func large(n int, pairs, pretty bool) []byte {
	vocab := &strings.Builder{}
	var merges []any
	add := func(text string, id int) {
		if id > 0 {
			vocab.WriteByte(',')
		}
		q, _ := json.Marshal(text)
		fmt.Fprintf(vocab, "%s:%d", q, id)
	}
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	texts := []string{"Ġ"}
	for _, c := range letters {
		texts = append(texts, string(c))
	}
	for i := 0; len(texts) < n; i++ { // each token so far with each letter after it
		left, right := texts[i/len(letters)], string(letters[i%len(letters)])
		texts = append(texts, left+right)
		if pairs {
			merges = append(merges, []string{left, right})
		} else {
			merges = append(merges, left+" "+right)
		}
	}
	for id, text := range texts {
		add(text, id)
	}
	doc := map[string]any{"version": "1.0", "normalizer": nil, "pre_tokenizer": bytePre, "post_processor": nil, "added_tokens": []any{},
		"model": map[string]any{"type": "BPE", "vocab": json.RawMessage("{" + vocab.String() + "}"), "merges": merges}}
	b, err := json.Marshal(doc)
	if pretty {
		b, err = json.MarshalIndent(doc, "", "  ")
	}
	if err != nil {
		panic(err)
	}
	return b
}

// BenchmarkRead reads a vocabulary of the size of today's.
func BenchmarkRead(b *testing.B) {
	for _, c := range []struct {
		name          string
		pairs, pretty bool
	}{{"lines", false, false}, {"pairs", true, false}, {"lines-pretty", false, true}, {"pairs-pretty", true, true}} {
		b.Run(c.name, func(b *testing.B) {
			text := large(152000, c.pairs, c.pretty)
			f := files{"tokenizer.json": string(text)}
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := f.read(b, "qwen2", 152064); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// TestWork holds that a large vocabulary costs no more than a few looks through
// its text.
func TestWork(t *testing.T) {
	text := large(152000, true, true)
	f := files{"tokenizer.json": string(text)}
	testlimit.Work(t, 10*len(text)>>20, func() {
		got, err := f.read(t, "qwen2", 152064)
		if err != nil || got.Count != 152064 {
			t.Fatal(got, err)
		}
	})
}
