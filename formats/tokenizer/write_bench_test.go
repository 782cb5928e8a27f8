package tokenizer_test

import (
	"testing"

	"github.com/tensorfs/tensorfs/internal/testing/testlimit"
)

// pieces returns the metadata of a vocabulary of n tokens, each with its own score,
// whose merges follow from the scores. There are about twice as many, as in large
// vocabularies.
func pieces(n int) keys {
	texts, types := []string{"<unk>", "<s>", "</s>"}, []int32{2, 3, 3}
	add := func(text string, kind int32) { texts, types = append(texts, text), append(types, kind) }
	const hex = "0123456789ABCDEF"
	for c := range 256 {
		add("<0x"+string(hex[c>>4])+string(hex[c&15])+">", 6)
	}
	const letters = "abcdefghijklmnopqrst"
	var pairs, triples []string
	for i := range len(letters) {
		add(letters[i:i+1], 1)
		for j := range len(letters) {
			pairs = append(pairs, letters[i:i+1]+letters[j:j+1])
			for k := range len(letters) {
				triples = append(triples, pairs[len(pairs)-1]+letters[k:k+1])
			}
		}
	}
	for _, text := range append(pairs, triples...) {
		add(text, 1)
	}
	for i := 0; len(texts) < n; i++ { // two ways to cut each
		add(triples[i%len(triples)]+pairs[(i/len(triples)*13+i)%len(pairs)], 1)
	}
	scores := make([]float32, n)
	for id := range scores {
		scores[id] = -float32(id)
	}
	return keys{"tokenizer.ggml.model": "llama", "tokenizer.ggml.tokens": texts, "tokenizer.ggml.token_type": types, "tokenizer.ggml.scores": scores,
		"tokenizer.ggml.bos_token_id": uint32(1), "tokenizer.ggml.eos_token_id": uint32(2), "tokenizer.ggml.unknown_token_id": uint32(0)}
}

// arrays replaces slices, so that making arrays of them is not measured.
func (k keys) arrays() keys {
	other := k.with()
	for key := range k {
		other[key] = k.get(key)
	}
	return other
}

// BenchmarkWrite writes a vocabulary of the largest size there is.
func BenchmarkWrite(b *testing.B) {
	const n = 256000
	scored := pieces(n).arrays()
	p, err := written(scored.get, "llama")
	if err != nil {
		b.Fatal(err)
	}
	merges := document(b, p["tokenizer.json"])["model"].(map[string]any)["merges"].([]any)
	said := scored.with("tokenizer.ggml.model", "gpt2", "tokenizer.ggml.pre", "gpt-2", "tokenizer.ggml.merges", list(merges))
	for name, k := range map[string]keys{"scores": scored, "merges": said} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				files, err := written(k.get, "llama")
				if err != nil {
					b.Fatal(err)
				}
				b.SetBytes(int64(len(files["tokenizer.json"])))
			}
			b.ReportMetric(float64(len(merges)), "merges")
		})
	}
}

// TestWriteWork holds that the largest vocabularies cost no more than looking
// through a text several times as long as the one that is made.
func TestWriteWork(t *testing.T) {
	const n = 256000
	k := pieces(n).arrays()
	files, err := written(k.get, "llama")
	if err != nil {
		t.Fatal(err)
	}
	size := len(files["tokenizer.json"])
	testlimit.Work(t, 25*size>>20, func() {
		if _, err := written(k.get, "llama"); err != nil {
			t.Fatal(err)
		}
	})
	if used := testlimit.Allocated(func() { written(k.get, "llama") }); used > 10*uint64(size) {
		t.Errorf("%d bytes are allocated for a file of %d", used, size)
	}
}
