package tokenizer_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/gguf"
	"github.com/tensorfs/tensorfs/internal/testing/testclient"
)

// llama is llama.cpp in a process of its own: see scripts/llama/run.mjs.
type llama struct{ *testclient.Script }

// startLlama starts llama.cpp, or skips the test if it is not installed.
func startLlama(t *testing.T) *llama {
	t.Helper()
	return &llama{testclient.Start(t, "../../scripts/llama", "run.mjs", "node-llama-cpp")}
}

// encode returns llama.cpp's tokens of texts, with special tokens recognised, from a GGUF file that
// has only a vocabulary.
func (l *llama) encode(t *testing.T, keys []tensorfs.Meta, texts []string) [][]int {
	t.Helper()
	d, err := gguf.Compose(append([]tensorfs.Meta{{Key: "general.architecture", Value: "llama"}, {Key: "general.name", Value: "x"},
		{Key: "llama.context_length", Value: uint32(128)}, {Key: "llama.embedding_length", Value: uint32(8)}, {Key: "llama.block_count", Value: uint32(1)},
		{Key: "llama.feed_forward_length", Value: uint32(8)}, {Key: "llama.attention.head_count", Value: uint32(1)},
		{Key: "llama.attention.layer_norm_rms_epsilon", Value: float32(1e-5)}}, keys...), nil)
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, d.Size())
	if err := tensorfs.ReadFull(d, b, 0); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "m.gguf")
	if err := os.WriteFile(file, b, 0o600); err != nil {
		t.Fatal(err)
	}
	var r struct {
		OK            bool
		Error         string
		TokensSpecial [][]int
	}
	l.Do(t, map[string]any{"model": file, "texts": texts, "vocabOnly": true, "mmap": true}, &r)
	if !r.OK || len(r.TokensSpecial) != len(texts) {
		t.Fatalf("%d lists of tokens, %s", len(r.TokensSpecial), r.Error)
	}
	return r.TokensSpecial
}

// gemmaDoc is a vocabulary like Gemma's: runs of spaces, line breaks and tabs are user-defined
// tokens, and every way to split a token in two is a merge, the highest scores first.
func gemmaDoc() doc {
	d := charsDoc()
	d.vocab, d.added, d.merges = map[string]int{}, nil, nil
	scores := map[string]float64{}
	add := func(score float64, texts ...string) {
		for _, text := range texts {
			scores[text], d.vocab[text] = score, len(d.vocab)
			score -= 0.001
		}
	}
	add(-1e9, "<pad>", "<eos>", "<bos>", "<unk>", "<start_of_turn>")
	for text, id := range d.vocab {
		d.added = append(d.added, token(id, text, true))
	}
	for _, run := range []string{"▁", "\n", "\t"} {
		for n := len(run) / 2; n < 31; n++ { // one space is a character
			text := strings.Repeat(run, n+1)
			add(0, text)
			d.added = append(d.added, token(d.vocab[text], text, false))
		}
	}
	for c := range 256 {
		add(-1e9, fmt.Sprintf("<0x%02X>", c))
	}
	add(-1, strings.Fields("in er an th the he ▁t ▁a ▁the on ▁s at ab ing ▁in def ▁def ret return ▁return ▁x ▁= ▁y")...)
	add(-1000, strings.Split("▁etaoinshrdlucmfwypvbgkjqxz0123456789.,:!?()[]=+-", "")...)
	type merge struct {
		left, right string
		score       float64
	}
	var merges []merge
	for text, score := range scores {
		for at := range text {
			_, left := d.vocab[text[:at]]
			_, right := d.vocab[text[at:]]
			if left && right && score > -1e9 {
				merges = append(merges, merge{text[:at], text[at:], score})
			}
		}
	}
	slices.SortFunc(merges, func(a, b merge) int {
		return cmp.Or(cmp.Compare(b.score, a.score), len(b.left)-len(a.left), len(b.right)-len(a.right), strings.Compare(a.left, b.left))
	})
	var pairs []any
	for _, m := range merges {
		pairs = append(pairs, []string{m.left, m.right})
	}
	replace := object{"type": "Replace", "pattern": object{"String": " "}, "content": "▁"}
	decoder := object{"type": "Sequence", "decoders": []any{object{"type": "ByteFallback"}}}
	return d.change(object{"normalizer": replace, "decoder": decoder, "pre_tokenizer": object{"type": "Split", "pattern": object{"String": " "}, "behavior": "MergedWithPrevious", "invert": false}},
		object{"unk_token": "<unk>", "fuse_unk": true, "merges": pairs})
}

// TestRunsOfSpaces holds that llama.cpp gives the tokens of a Gemma without a
// tokenizer.model, in which runs of spaces are found by merges and not as tokens that
// the user defined, by either of the models that such a vocabulary becomes.
func TestRunsOfSpaces(t *testing.T) {
	library, cpp := startLibrary(t), startLlama(t)
	d := gemmaDoc()
	texts := []string{}
	for n := 1; n < 70; n++ {
		for _, around := range []string{"%s", "a%s", "%sa", "a%sthe", " x%s= y", "in%s\n%sthe", "\t%sx"} {
			texts = append(texts, strings.ReplaceAll(around, "%s", strings.Repeat(" ", n)))
		}
	}
	parts := []string{" ", "  ", "   ", "\n", "\n\n", "\t", "the", "def return x", " a", "[", "é", "日", "▁▁", "<start_of_turn>"}
	random := rand.New(rand.NewPCG(1, 2))
	for range 400 {
		text := ""
		for range 1 + random.IntN(14) {
			text += parts[random.IntN(len(parts))]
		}
		texts = append(texts, text)
	}
	f := files{"tokenizer.json": d.text(t), "tokenizer_config.json": `{"tokenizer_class":"GemmaTokenizer","bos_token":"<bos>"}`}
	want := library.encode(t, []byte(f["tokenizer.json"]), texts).IDs
	for _, arch := range []string{"gemma2", "gemma4"} {
		read, err := f.read(t, arch, len(d.vocab))
		if err != nil {
			t.Fatal(err)
		}
		differ := 0
		for i, got := range cpp.encode(t, read.Meta, texts) {
			if !slices.Equal(got, want[i]) {
				if differ++; differ < 5 {
					t.Errorf("%s: %q is %v, want %v", arch, texts[i], got, want[i])
				}
			}
		}
		if differ > 0 {
			t.Errorf("%s: %d of %d texts differ", arch, differ, len(texts))
		}
	}
}

// TestKimi holds that llama.cpp and Hugging Face's library cut texts of Kimi in the same
// way, where llama.cpp has code for what is an expression in the source, but for words
// with capital letters inside, which that code takes whole.
func TestKimi(t *testing.T) {
	library, cpp := startLibrary(t), startLlama(t)
	b, err := os.ReadFile(filepath.Join(golden, "pre-cases.json"))
	if err != nil {
		t.Fatal(err)
	}
	var cases struct{ Vocab, Merges, Texts []string }
	if err := json.Unmarshal(b, &cases); err != nil || len(cases.Texts) < 30 {
		t.Fatal(len(cases.Texts), err)
	}
	k := keys{"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "kimi-k2", "tokenizer.ggml.tokens": cases.Vocab, "tokenizer.ggml.merges": cases.Merges,
		"tokenizer.ggml.token_type": slices.Repeat([]int32{1}, len(cases.Vocab))}
	written, err := written(k.get, "deepseek2")
	if err != nil {
		t.Fatal(err)
	}
	texts := append(cases.Texts, "中文abc中文 abc中文 12345", "漢字かな ABCdef it's 'S\n\n x", "日本語のテキスト 한국어 中文，标点。中")
	want := library.encode(t, written["tokenizer.json"], texts).IDs
	var meta []tensorfs.Meta
	for key, v := range k {
		meta = append(meta, tensorfs.Meta{Key: key, Value: v})
	}
	for i, got := range cpp.encode(t, meta, texts) {
		if equal := slices.Equal(got, want[i]); equal == strings.Contains(texts[i], "wOrLD") {
			t.Errorf("%q is %v, and %v by the library", texts[i], got, want[i])
		}
	}
	source := strings.ReplaceAll(string(written["tokenizer.json"]), "(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])?", "(?i:'s|'t|'re|'ve|'m|'ll|'d)?")
	again, err := files{"tokenizer.json": source}.read(t, "deepseek2", len(cases.Vocab))
	if err != nil || !slices.ContainsFunc(again.Meta, func(m tensorfs.Meta) bool { return m.Value == any("kimi-k2") }) {
		t.Errorf("it is read as %.200v, %v", again, err)
	}
}
