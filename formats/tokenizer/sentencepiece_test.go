package tokenizer_test

import (
	"math"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
)

// spPiece is a token of SentencePiece; a type of 0 is not written.
type spPiece struct {
	text  string
	score float32
	kind  uint64
}

// spModel is a tokenizer.model. What is nil or 0 is not written.
type spModel struct {
	pieces    []spPiece
	algorithm uint64
	charsmap  string
	flags     map[protowire.Number]uint64 // of the normalizer
}

func (m spModel) text() string {
	message := func(b []byte, n protowire.Number, inside []byte) []byte {
		return protowire.AppendBytes(protowire.AppendTag(b, n, protowire.BytesType), inside)
	}
	number := func(b []byte, n protowire.Number, v uint64) []byte {
		return protowire.AppendVarint(protowire.AppendTag(b, n, protowire.VarintType), v)
	}
	var b []byte
	for _, p := range m.pieces {
		one := message(nil, 1, []byte(p.text))
		one = protowire.AppendFixed32(protowire.AppendTag(one, 2, protowire.Fixed32Type), math.Float32bits(p.score))
		if p.kind != 0 {
			one = number(one, 3, p.kind)
		}
		b = message(b, 1, one)
	}
	if m.algorithm != 0 {
		b = message(b, 2, number(number(nil, 3, m.algorithm), 43, math.MaxUint64))
	}
	normalizer := message(message(nil, 1, []byte("identity")), 2, []byte(m.charsmap))
	for n := protowire.Number(3); n <= 5; n++ {
		if v, ok := m.flags[n]; ok {
			normalizer = number(normalizer, n, v)
		}
	}
	return string(message(b, 3, normalizer))
}

// identity are the flags of a normalizer that leaves text unchanged.
var identity = map[protowire.Number]uint64{4: 0}

func TestSentencePiece(t *testing.T) {
	pieces := []spPiece{{"<unk>", 0, 2}, {"<s>", 0, 3}, {"<0x00>", 0, 6}, {"a", -1.5, 1}, {"b", float32(math.Copysign(0, -1)), 0}, {"u", -3, 4}, {"gone", -4, 5}, {"odd", -5, 99}}
	f := files{"tokenizer.model": spModel{pieces: pieces, algorithm: 2, flags: identity}.text()}
	zero := float32(math.Copysign(0, -1))
	got := want(t, "types", f, "llama", 10, map[string]any{
		"g.model": "llama", "g.pre": "default", "g.tokens": strs{"<unk>", "<s>", "<0x00>", "a", "b", "u", "gone", "odd", "[PAD8]", "[PAD9]"},
		"g.token_type": []int32{2, 3, 6, 1, 1, 1, 5, 1, 5, 5}, "g.scores": []float32{0, 0, 0, -1.5, zero, -3, -4, -5, -10000, -10000},
		"g.add_space_prefix": nil, "g.add_bos_token": true, "g.add_eos_token": false, "g.add_sep_token": false, "g.merges": nil,
	})
	if got.Count != 10 || got.Notes != nil {
		t.Errorf("%d tokens, notes %q", got.Count, got.Notes)
	}
	added := f.with("added_tokens.json", `{"x▁y":8,"a2":3,"far":10,"farther":99999999999999999999999}`).
		with("tokenizer_config.json", `{"added_tokens_decoder":{"5":{"content":"u▁","special":false},"9":{"content":"<|z|>"},"3":{"content":"a3","special":true},"10":{"content":"far"}}}`).
		with("tokenizer.json", `{"model":{"vocab":{"a":-1}},"added_tokens":[{"id":9,"content":"z▁","special":false},{"id":4,"content":"<|b|>","special":true},{"id":10,"content":"far"}]}`)
	tokens, types := strs{"<unk>", "<s>", "<0x00>", "a3", "b", "u ", "gone", "odd", "x▁y", "<|z|>"}, []int32{2, 3, 6, 3, 1, 4, 5, 1, 4, 3}
	scores := []float32{0, 0, 0, -1000, zero, -1000, -4, -5, -1000, -1000}
	want(t, "added", added, "llama", 10, map[string]any{"g.tokens": tokens, "g.token_type": types, "g.scores": scores})
	tokens[9], types[9] = "z▁", 4 // which looks special to no one here
	tokens[4], types[4], scores[4] = "<|b|>", 3, -1000
	want(t, "phi3", added, "phi3", 10, map[string]any{"g.tokens": tokens, "g.token_type": types, "g.scores": scores})

	for _, c := range []struct {
		what, arch, settings string
		dummy                uint64
		want                 any
	}{
		{"says nothing", "llama", `{}`, 1, nil},
		{"no prefix in the model", "llama", `{}`, 0, false},
		{"no prefix in the model", "phi3", `{}`, 0, false},
		{"the config decides", "llama", `{"add_prefix_space":true}`, 0, true},
		{"the config decides", "llama", `{"add_prefix_space":false}`, 1, false},
		{"of another type", "llama", `{"add_prefix_space":null}`, 1, nil},
		{"gemma", "gemma2", `{"add_prefix_space":true}`, 1, false},
		{"gemma", "gemma3", `{}`, 1, false},
		{"llama's alone", "qwen2", `{"add_prefix_space":false}`, 1, nil},
	} {
		f := files{"tokenizer.model": spModel{pieces: pieces, algorithm: 1, flags: map[protowire.Number]uint64{3: c.dummy, 4: 0}}.text(), "tokenizer_config.json": c.settings}
		want(t, c.what, f, c.arch, 10, map[string]any{"g.add_space_prefix": c.want})
	}
	got = want(t, "notes", files{"tokenizer.model": spModel{pieces: pieces, charsmap: "x"}.text()}, "llama", 10, nil)
	if len(got.Notes) != 2 {
		t.Errorf("notes %q", got.Notes)
	}
	// The tokenizer.json of another class decides about bos, if there is such a file.
	both := f.with("tokenizer.json", `{}`).with("tokenizer_config.json", `{"tokenizer_class":"PreTrainedTokenizerFast"}`)
	want(t, "another class", both, "llama", 10, map[string]any{"g.add_bos_token": false})
}

func TestSentencePieceRefuses(t *testing.T) {
	one := []spPiece{{"a", 0, 1}}
	whole := spModel{pieces: one, algorithm: 2, flags: identity}.text()
	tiktoken := strings.Repeat("IQ== 0\nIg== 1\n", 100)
	for reason, model := range map[string]string{
		"number 3 of SentencePiece": spModel{pieces: one, algorithm: 3}.text(), "escape_whitespaces": spModel{pieces: one, flags: map[protowire.Number]uint64{5: 0}}.text(),
		"it has no tokens": spModel{}.text(), "more tokens than": spModel{pieces: []spPiece{{"a", 0, 1}, {"b", 0, 1}, {"c", 0, 1}, {"d", 0, 1}}}.text(),
		"are both": spModel{pieces: []spPiece{{"a", 0, 1}, {"b", 0, 1}, {"a", 0, 1}}}.text(), "is not UTF-8": spModel{pieces: []spPiece{{"\xff", 0, 1}}}.text(),
		"not SentencePiece's": tiktoken, "is cut off": "\x0a\xff\xff\xff\xff\x7f", "or is cut off": "\x0b",
	} {
		refuse(t, reason, files{"tokenizer.model": model}, "llama", 3, reason)
	}
	f := files{"tokenizer.model": whole}
	for n := range len(whole) { // whatever is left of it
		if _, err := f.with("tokenizer.model", whole[:n]+"\xff").read(t, "llama", 3); err == nil {
			t.Errorf("%d bytes and one that begins nothing are accepted", n)
		}
	}
	if got, err := (files{"tokenizer.model": ""}).read(t, "llama", 3); err == nil {
		t.Errorf("an empty file: %v", got)
	}
	for reason, g := range map[string]files{
		"added_tokens.json: the id":         f.with("added_tokens.json", `{"x":"1"}`),
		"added_tokens.json: it is not":      f.with("added_tokens.json", `[`),
		"is not a number of a row":          f.with("tokenizer_config.json", `{"added_tokens_decoder":{"-1":{"content":"x"}}}`),
		"an id is empty":                    f.with("tokenizer_config.json", `{"added_tokens_decoder":{"":{"content":"x"}}}`),
		"has no content":                    f.with("tokenizer_config.json", `{"added_tokens_decoder":{"1":{"content":5}}}`),
		"wrong JSON type":                   f.with("tokenizer_config.json", `{"added_tokens_decoder":{"1":{"content":"x","special":1}}}`),
		"decoder is not an object":          f.with("tokenizer_config.json", `{"added_tokens_decoder":[]}`),
		"tokenizer_config.json: its top":    f.with("tokenizer_config.json", `[]`),
		"tokenizer.json: it is not JSON":    f.with("tokenizer.json", `{`),
		"the tokens 0 and 1 are both \"a\"": f.with("added_tokens.json", `{"a":1}`),
	} {
		refuse(t, reason, g, "llama", 3, reason)
	}
}
