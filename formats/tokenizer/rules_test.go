package tokenizer_test

import (
	"cmp"
	"encoding/json"
	"maps"
	"reflect"
	"strings"
	"testing"
)

// doc is a tokenizer.json that tests change.
type doc struct {
	vocab  map[string]int
	merges any
	added  []any
	top    object // instead of the usual keys
	model  object
}

func (d doc) text(t testing.TB) string {
	model := object{"type": "BPE", "vocab": d.vocab}
	if d.merges != nil {
		model["merges"] = d.merges
	}
	maps.Copy(model, d.model)
	top := object{"pre_tokenizer": object{"type": "ByteLevel", "add_prefix_space": false}, "added_tokens": d.added, "model": model}
	maps.Copy(top, d.top)
	return text(t, top)
}

func token(id int, content string, special bool) object {
	return object{"id": id, "content": content, "special": special, "normalized": false, "single_word": false, "lstrip": false, "rstrip": false}
}

// bytes is a small vocabulary of bytes.
func bytesDoc() doc {
	return doc{vocab: map[string]int{"a": 0, "b": 1, "ab": 2, "Ġ": 3, "Ġab": 4}, merges: []string{"a b", "Ġ ab"}}
}

// chars is a small vocabulary of characters.
func charsDoc() doc {
	return doc{vocab: map[string]int{"<unk>": 0, "<0x0A>": 1, "a": 2, "b": 3, "ab": 4, "▁": 5, "▁ab": 6, "<0x0g>": 7}, merges: []string{"a b", "▁ ab", "▁ ab"},
		top: object{"decoder": object{"type": "Sequence"}, "pre_tokenizer": nil,
			"normalizer": object{"type": "Sequence", "normalizers": []any{object{"type": "Prepend", "prepend": "▁"}, object{"type": "Replace", "pattern": object{"String": " "}, "content": "▁"}}}},
		model: object{"byte_fallback": true, "unk_token": "<unk>"}}
}

// wordsDoc is a small vocabulary of BERT.
func wordsDoc() doc {
	return doc{vocab: map[string]int{"[PAD]": 0, "[CLS]": 1, "[SEP]": 2, "a": 3, "##b": 4, "x": 5},
		added: []any{token(0, "[PAD]", true), token(1, "[CLS]", true), token(2, "[SEP]", true), token(5, "x", false)},
		top: object{"pre_tokenizer": object{"type": "BertPreTokenizer"},
			"normalizer": object{"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true, "strip_accents": false, "lowercase": false}},
		model: object{"type": "WordPiece", "continuing_subword_prefix": "##", "unk_token": "[UNK]"}}
}

// change returns a document with keys of its top or its model changed.
func (d doc) change(top, model object) doc {
	d.top, d.model = maps.Clone(d.top), maps.Clone(d.model)
	if d.top == nil {
		d.top = object{}
	}
	if d.model == nil {
		d.model = object{}
	}
	maps.Copy(d.top, top)
	maps.Copy(d.model, model)
	return d
}

// want holds that a model's tokenizer has those values; nil is for none.
func want(t *testing.T, what string, f files, arch string, rows int, values map[string]any) *keyed {
	t.Helper()
	got, err := f.read(t, arch, rows)
	if err != nil {
		t.Errorf("%s: %v", what, err)
		return &keyed{}
	}
	m := meta(got)
	for key, v := range values {
		key = "tokenizer." + strings.Replace(key, "g.", "ggml.", 1)
		if !same(m[key], v) {
			t.Errorf("%s: %s is %T %v, want %T %v", what, key, m[key], m[key], v, v)
		}
	}
	return got
}

// refuse holds that a model's tokenizer is refused for a reason.
func refuse(t *testing.T, what string, f files, arch string, rows int, reason string) {
	t.Helper()
	got, err := f.read(t, arch, rows)
	switch {
	case err == nil:
		t.Errorf("%s: %v, want an error that says %q", what, got.Meta[:2], reason)
	case got != nil || !strings.Contains(err.Error(), reason) || strings.ContainsAny(err.Error(), "\n\x00"):
		t.Errorf("%s: %q does not say %q", what, err, reason)
	}
}

type strs = []string

func TestWhichForm(t *testing.T) {
	gpt := files{"tokenizer.json": bytesDoc().text(t)}
	model := spModel{pieces: []spPiece{{"<unk>", 0, 2}, {"x", -1, 1}}}.text()
	both := gpt.with("tokenizer.model", model)
	for _, arch := range []string{"llama", "gemma2", "gemma3", "phi3", "qwen2"} {
		want(t, arch, both, arch, 9, map[string]any{"g.model": "llama", "g.pre": "default", "g.merges": nil})
	}
	for _, arch := range []string{"qwen3", "gpt2", "deepseek2", "gpt-oss"} {
		want(t, arch, both, arch, 9, map[string]any{"g.model": "gpt2", "g.pre": "gpt-2", "g.scores": nil})
		refuse(t, arch, both.with("tokenizer.json", ""), arch, 9, "tokenizer.model")
	}
	want(t, "phi4", both.with("tokenizer_config.json", `{"tokenizer_class":"GPT2Tokenizer"}`), "phi3", 9, map[string]any{"g.model": "gpt2"})
	want(t, "llama without", gpt, "llama", 9, map[string]any{"g.model": "gpt2"})
	for _, name := range []string{"vocab.txt", "qwen.tiktoken", "merges.txt", "vocab.json", "tokenizer_config.json"} {
		refuse(t, name, files{name: "{}"}, "llama", 9, "tokenizer format: the model has "+name)
	}
	none := want(t, "none", files{"config.json": "{}"}, "llama", 9, map[string]any{"g.model": "none"})
	if none.Count != 0 || len(none.Meta) != 1 {
		t.Errorf("none: %+v", none)
	}
	for kind, reason := range map[string]string{"Unigram": "spaces in a way that llama.cpp does not for Unigram", "WordLevel": `"WordLevel", which llama.cpp does not support`} {
		d := bytesDoc().change(nil, object{"type": kind, "vocab": []any{[]any{"a", 0.5}}})
		refuse(t, kind, files{"tokenizer.json": d.text(t)}, "llama", 9, reason)
	}
	old := bytesDoc().change(nil, object{"type": nil})
	want(t, "old BPE", files{"tokenizer.json": old.text(t)}, "gpt2", 9, map[string]any{"g.model": "gpt2"})
	old = wordsDoc().change(nil, object{"type": nil, "max_input_chars_per_word": 100})
	want(t, "old WordPiece", files{"tokenizer.json": old.text(t), "config.json": `{"type_vocab_size":2}`}, "bert", 9, map[string]any{"g.model": "bert"})
}

func TestBytes(t *testing.T) {
	d := bytesDoc()
	d.added = []any{token(5, "<|end|>", false), token(6, "x▁y", false), token(7, "<s>", true), token(8, "<tool>", true), token(1, "b", false)}
	f := files{"tokenizer.json": d.text(t)}
	got := want(t, "added", f, "llama", 11, map[string]any{
		"g.tokens":     strs{"a", "b", "ab", "Ġ", "Ġab", "<|end|>", "x y", "<s>", "<tool>", "[PAD9]", "[PAD10]"},
		"g.token_type": []int32{1, 4, 1, 1, 1, 3, 4, 3, 3, 5, 5}, "g.merges": strs{"a b", "Ġ ab"}, "g.scores": nil,
		"g.add_bos_token": false, "g.add_eos_token": false, "g.add_sep_token": false, "g.add_space_prefix": nil,
	})
	if got.Count != 11 || got.Notes != nil {
		t.Errorf("%d tokens, notes %q", got.Count, got.Notes)
	}
	for text, control := range map[string]bool{"<pad>": true, "<mask>": true, "<2mass>": true, "[@BOS@]": true, "<|x|>": true, "<｜x｜>": true, "<unused7>": true,
		"<|x": false, "x|>": false, "<｜x|>": false, "<bos>": false, "<unused7": false} {
		d := bytesDoc()
		d.added = []any{token(5, text, false)}
		kind := []int32{1, 1, 1, 1, 1, 4}
		if control {
			kind[5] = 3
		}
		want(t, text, files{"tokenizer.json": d.text(t)}, "llama", 6, map[string]any{"g.token_type": kind})
	}
	d = bytesDoc()
	d.vocab["a b"] = 5
	d.merges = [][]string{{"a", "b"}, {"Ġ", "ab"}}
	want(t, "pairs", files{"tokenizer.json": d.text(t)}, "llama", 6, map[string]any{"g.merges": strs{"a b", "Ġ ab"}})
	d.vocab["a bab"] = 6
	d.merges = [][]string{{"a b", "ab"}, {"a", "b"}}
	want(t, "a space in a pair", files{"tokenizer.json": d.text(t)}, "llama", 7, map[string]any{"g.merges": strs{"aĠb ab", "a b"}})

	nfc := object{"type": "NFC"}
	for what, n := range map[string]any{"NFC": nfc, "in a sequence": object{"type": "Sequence", "normalizers": []any{nfc}}} {
		got := want(t, what, files{"tokenizer.json": bytesDoc().change(object{"normalizer": n}, nil).text(t)}, "llama", 9, map[string]any{"g.model": "gpt2"})
		if len(got.Notes) != 1 || !strings.Contains(got.Notes[0], "NFC") {
			t.Errorf("%s: notes %q", what, got.Notes)
		}
	}
	want(t, "empty sequence", files{"tokenizer.json": bytesDoc().change(object{"normalizer": object{"type": "Sequence", "normalizers": []any{}}}, nil).text(t)}, "llama", 9, nil)
	for _, kind := range []string{"Lowercase", "Replace", "Prepend", "Strip", "NFKC", ""} {
		n := object{"type": kind}
		refuse(t, kind, files{"tokenizer.json": bytesDoc().change(object{"normalizer": n}, nil).text(t)}, "llama", 9, "its normalizer")
		refuse(t, kind, files{"tokenizer.json": bytesDoc().change(object{"normalizer": object{"type": "Sequence", "normalizers": []any{nfc, n}}}, nil).text(t)}, "llama", 9, "its normalizer")
	}
	for reason, model := range map[string]object{"no merges": {"merges": nil}, "at random": {"dropout": 0.1}, "at their end": {"end_of_word_suffix": "</w>"}, "no vocabulary": {"vocab": []any{}}} {
		text := bytesDoc().change(nil, model).text(t)
		refuse(t, reason, files{"tokenizer.json": strings.Replace(text, `"merges":null,`, "", 1)}, "llama", 9, reason)
	}
	want(t, "no dropout", files{"tokenizer.json": bytesDoc().change(nil, object{"dropout": 0.0, "end_of_word_suffix": "", "continuing_subword_prefix": nil}).text(t)}, "llama", 9, nil)
}

// TestAddedIDs holds that added tokens have the ids that the tokenizers library assigns. The
// expected tokens and types come from tokenizers 0.23.3 with transformers 5.23.
func TestAddedIDs(t *testing.T) {
	x, y, z := func(id int) object { return token(id, "<x>", true) }, func(id int) object { return token(id, "<y>", true) }, func(id int) object { return token(id, "<z>", false) }
	const decoder = `{"added_tokens_decoder":{"9":{"content":"<y>","special":true},"8":{"content":"<z>","special":false}}}`
	for _, c := range []struct {
		what     string
		added    []any
		settings string
		tokens   string // after the five of the vocabulary
		types    string
		note     string // "" for none
	}{
		{"in order", []any{x(5), y(6), z(7)}, "", "<x> <y> <z> [PAD8]", "3345", ""},
		{"out of order", []any{x(7), y(6), z(5)}, "", "<x> <y> <z> [PAD8]", "3345", `gives 2 added tokens ids that the tokenizers library ignores, such as "<x>", 7 instead of 5`},
		{"a gap", []any{x(5), y(8)}, "", "<x> <y> [PAD7] [PAD8]", "3355", `"<y>", 8 instead of 6`},
		{"a clash", []any{x(5), y(5)}, "", "<x> <y> [PAD7] [PAD8]", "3355", `"<y>", 5 instead of 6`},
		{"the id of another token", []any{x(2), y(5)}, "", "<x> <y> [PAD7] [PAD8]", "3355", `gives 2 added tokens ids`},
		{"past the embedding", []any{x(4294967295)}, "", "<x> [PAD6] [PAD7] [PAD8]", "3555", `"<x>", 4294967295 instead of 5`},
		{"a token of the vocabulary", []any{token(7, "b", false), x(6)}, "", "<x> [PAD6] [PAD7] [PAD8]", "3555", `"b", 7 instead of 1`},
		{"twice", []any{x(5), token(6, "<x>", false), y(7)}, "", "<x> <y> [PAD7] [PAD8]", "4355", `"<y>", 7 instead of 6`},
		{"empty", []any{token(5, "", true), y(6)}, "", "<y> [PAD6] [PAD7] [PAD8]", "3555", `"<y>", 6 instead of 5`},
		{"added by tokenizer_config.json", []any{x(5)}, decoder, "<x> <z> <y> [PAD8]", "3435", `"<z>", 8 instead of 6`},
		{"special in tokenizer_config.json", []any{token(5, "<x>", false)}, `{"added_tokens_decoder":{"5":{"content":"<x>","special":true}}}`, "<x> [PAD6] [PAD7] [PAD8]", "3555", ""},
		{"not special in tokenizer_config.json", []any{x(5)}, `{"added_tokens_decoder":{"5":{"content":"<x>","special":false}}}`, "<x> [PAD6] [PAD7] [PAD8]", "4555", ""},
		{"a role that tokenizer.json lacks", []any{x(5)}, `{"pad_token":"<pad>","eos_token":{"content":"<end>"},"bos_token":null}`, "<x> <end> <pad> [PAD8]", "3335", ""},
		{"a role of a plain token", []any{z(5)}, `{"pad_token":"<z>"}`, "<z> [PAD6] [PAD7] [PAD8]", "3555", ""},
		{"extra tokens", []any{x(5)}, `{"additional_special_tokens":["<u>"],"extra_special_tokens":{"image_token":"<i>"}}`, "<x> <i> <u> [PAD8]", "3335", ""},
		{"roles of the vocabulary's own tokens", []any{x(5)}, `{"eos_token":"b","additional_special_tokens":["ab"]}`, "<x> [PAD6] [PAD7] [PAD8]", "3555", ""},
		{"more than the embedding has rows", []any{x(5), y(6), z(7)}, `{"bos_token":"<1>","eos_token":"<2>","pad_token":"<3>"}`, "<x> <y> <z> <1>", "3343", `2 added tokens of tokenizer_config.json are left out, such as "<2>"`},
	} {
		d := bytesDoc()
		d.added = c.added
		kinds, settings := []int32{1, 1, 1, 1, 1}, cmp.Or(c.settings, "{}")
		if c.what == "a token of the vocabulary" {
			kinds[1] = 4
		}
		if strings.HasPrefix(c.what, "roles of") {
			kinds[1], kinds[2] = 3, 3
		}
		for _, k := range c.types {
			kinds = append(kinds, int32(k-'0'))
		}
		got := want(t, c.what, files{"tokenizer.json": d.text(t), "tokenizer_config.json": settings}, "llama", 9,
			map[string]any{"g.tokens": append(strs{"a", "b", "ab", "Ġ", "Ġab"}, strings.Fields(c.tokens)...), "g.token_type": kinds})
		if notes := strings.Join(got.Notes, "; "); (c.note == "") != (notes == "") || !strings.Contains(notes, c.note) {
			t.Errorf("%s: notes %q, want %q", c.what, notes, c.note)
		}
	}
	// Ids of special tokens are the file's: its post-processor and generation_config.json have the same numbering.
	d := bytesDoc()
	d.added = []any{x(6), y(5)}
	want(t, "roles", files{"tokenizer.json": d.text(t), "tokenizer_config.json": `{"bos_token":"<x>","eos_token":"<y>"}`}, "llama", 9,
		map[string]any{"g.bos_token_id": uint32(6), "g.eos_token_id": uint32(5)})
	d.vocab["q"], d.added = 6, []any{x(5), y(7)} // the vocabulary has six tokens, so the library counts on from its last id
	refuse(t, "a hole in the vocabulary", files{"tokenizer.json": d.text(t)}, "llama", 9, `the tokenizers library gives the added token "<x>" the id 6, which a token of the vocabulary has`)
	slow := files{"vocab.json": `{"a":0,"b":1}`, "merges.txt": "#version: 0.2\n", "tokenizer_config.json": `{"tokenizer_class":"Qwen2Tokenizer"}`}
	for added, tokens := range map[string]string{`{"<x>":4,"<y>":3,"<z>":2}`: "<z> <y> <x>", `{"<x>":2,"<y>":4}`: "<x> <y> [PAD4]", `{"<x>":2,"a":4}`: "<x> [PAD3] [PAD4]"} {
		want(t, added, slow.with("added_tokens.json", added), "qwen2", 5, map[string]any{"g.tokens": append(strs{"a", "b"}, strings.Fields(tokens)...)})
	}
}

func TestGemmaIsCut(t *testing.T) {
	d := bytesDoc()
	d.added = []any{token(5, "<x>", true)}
	f := files{"tokenizer.json": d.text(t)}
	for _, rows := range []int{6, 7, 100} {
		if got := want(t, "cut", f, "gemma3", rows, map[string]any{"g.tokens": strs{"a", "b", "ab", "Ġ", "Ġab", "<x>"}}); got.Count != 6 {
			t.Errorf("%d tokens of %d rows", got.Count, rows)
		}
	}
	d.added = []any{token(4, "<x>", true)} // counted twice, as the converter does
	if got := want(t, "twice", files{"tokenizer.json": d.text(t)}, "gemma3", 100, nil); got.Count != 6 {
		t.Errorf("%d tokens", got.Count)
	}
	d.added, d.vocab["y"] = nil, 9
	refuse(t, "a gap", files{"tokenizer.json": d.text(t)}, "gemma3", 100, "its ids have gaps")
	if got := want(t, "a gap", files{"tokenizer.json": d.text(t)}, "llama", 100, nil); got.Count != 100 {
		t.Errorf("%d tokens", got.Count)
	}
}

func TestChars(t *testing.T) {
	d := charsDoc()
	d.added = []any{token(0, "<unk>", false), token(6, "▁ab", false), token(8, "<|x|>", false), token(9, "▁▁", false), token(10, "</s>", true)}
	want(t, "scores", files{"tokenizer.json": d.text(t)}, "llama", 12, map[string]any{
		"g.model": "llama", "g.pre": "default", "g.merges": nil, "g.add_space_prefix": true, "g.add_bos_token": true, "g.add_eos_token": false,
		"g.tokens":     strs{"<unk>", "<0x0A>", "a", "b", "ab", "▁", "▁ab", "<0x0g>", "<|x|>", "▁▁", "</s>", "[PAD11]"},
		"g.token_type": []int32{4, 6, 1, 1, 1, 1, 4, 1, 4, 4, 3, 5},
		"g.scores":     []float32{-1e6, -1e6, -1e6, -1e6, 0, -1e6, -1, -1e6, -1e6, -1e6, -1e6, -10000},
	})
	d.added = nil
	want(t, "unknown", files{"tokenizer.json": d.text(t)}, "llama", 8, map[string]any{"g.token_type": []int32{3, 6, 1, 1, 1, 1, 1, 1}})

	replace := object{"type": "Replace", "pattern": object{"String": " "}, "content": "▁"}
	prepend := object{"type": "Prepend", "prepend": "▁"}
	list := func(l ...any) object { return object{"type": "Sequence", "normalizers": l} }
	metaspace := func(scheme string) object {
		return object{"type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme, "split": false}
	}
	split := object{"type": "Split", "pattern": object{"String": " "}, "behavior": "MergedWithPrevious", "invert": false}
	without := func(o object, key string, value any) object {
		o = maps.Clone(o)
		if o[key] = value; value == nil {
			delete(o, key)
		}
		return o
	}
	for _, c := range []struct {
		normalizer, pre any
		want            any // the prefix; nil: refused
	}{
		{list(prepend, replace), nil, true},
		{list(replace, prepend), nil, nil}, {list(prepend), nil, nil}, {replace, nil, false}, {list(replace), nil, false}, {nil, nil, nil}, {list(prepend, replace), metaspace("first"), nil},
		{nil, metaspace("always"), true}, {nil, metaspace("first"), true}, {nil, metaspace("never"), false},
		{replace, metaspace("always"), true}, {replace, metaspace("first"), true}, {list(replace), metaspace("never"), false},
		{nil, metaspace("split"), nil}, {replace, metaspace("split"), nil}, {replace, metaspace(""), nil}, {nil, without(metaspace("first"), "split", true), nil}, {nil, without(metaspace("first"), "split", nil), nil},
		{nil, without(metaspace("first"), "replacement", "_"), nil},
		{replace, split, false}, {replace, object{"type": "Sequence", "pretokenizers": []any{split}}, false}, {nil, split, nil}, {list(prepend, replace), split, nil},
		{replace, without(split, "invert", true), nil}, {replace, without(split, "behavior", "Isolated"), nil}, {replace, without(split, "pattern", object{"Regex": " "}), nil},
		{replace, object{"type": "Sequence", "pretokenizers": []any{split, split}}, nil},
		{list(prepend, replace, object{"type": "NFC"}), nil, nil}, {without(prepend, "prepend", "_"), nil, nil}, {without(replace, "content", "_"), metaspace("never"), nil},
		{"x", nil, nil}, {object{}, nil, nil},
	} {
		f := files{"tokenizer.json": d.change(object{"normalizer": c.normalizer, "pre_tokenizer": c.pre}, nil).text(t)}
		what := text(t, []any{c.normalizer, c.pre})
		if c.want == nil {
			refuse(t, what, f, "llama", 8, "tokenizer.json: its ")
		} else {
			want(t, what, f, "llama", 8, map[string]any{"g.add_space_prefix": c.want})
		}
	}
	for reason, change := range map[string][2]object{"ignores its merges": {nil, {"ignore_merges": true}}, "its decoder": {{"decoder": object{"type": "ByteLevel"}}, nil}} {
		refuse(t, reason, files{"tokenizer.json": d.change(change[0], change[1]).text(t)}, "llama", 8, reason)
	}
	// A tokenizer of another class than Llama's follows its tokenizer.json.
	for class, bos := range map[string]bool{"LlamaTokenizer": true, "LlamaTokenizerFast": true, "CodeLlamaTokenizer": true, "GemmaTokenizer": true, "PreTrainedTokenizerFast": false} {
		f := files{"tokenizer.json": d.text(t), "tokenizer_config.json": `{"tokenizer_class":"` + class + `"}`}
		want(t, class, f, "llama", 8, map[string]any{"g.add_bos_token": bos})
	}
}

func TestWords(t *testing.T) {
	config := `{"type_vocab_size":2}`
	f := files{"tokenizer.json": wordsDoc().text(t), "config.json": config}
	want(t, "words", f, "bert", 7, map[string]any{
		"g.model": "bert", "g.pre": "default", "g.tokens": strs{"[PAD]", "[CLS]", "[SEP]", "▁a", "b", "▁x", "▁[PAD6]"}, "g.token_type": []int32{3, 3, 3, 1, 1, 4, 5},
		"g.token_type_count": uint32(2), "g.normalizer.lowercase": false, "g.normalizer.strip_accents": false, "g.scores": nil, "g.merges": nil,
		"g.add_bos_token": false, "g.add_eos_token": false, "g.add_sep_token": false,
	})
	want(t, "no types", f.with("config.json", "{}"), "bert", 7, map[string]any{"g.token_type_count": uint32(2)})
	want(t, "other types", f.with("config.json", `{"text_config":{"type_vocab_size":3}}`), "bert", 7, map[string]any{"g.token_type_count": uint32(3)})
	for _, bad := range []string{`"2"`, `-1`, `0`, `2.5`, `[2]`} {
		refuse(t, bad, f.with("config.json", `{"type_vocab_size":`+bad+`}`), "bert", 7, "type_vocab_size")
	}
	want(t, "another architecture", f.with("config.json", "{}"), "llama", 7, map[string]any{"g.token_type_count": nil})
	normalizer := func(key string, value any) object {
		n := maps.Clone(wordsDoc().top["normalizer"].(object))
		if n[key] = value; value == nil {
			delete(n, key)
		}
		return object{"normalizer": n}
	}
	want(t, "accents", files{"tokenizer.json": wordsDoc().change(normalizer("strip_accents", nil), nil).text(t), "config.json": config}, "bert", 7, map[string]any{"g.normalizer.strip_accents": nil})
	for what, change := range map[string][2]object{
		"its normalizer": {{"normalizer": nil}, nil}, "its normalizer is": {normalizer("lowercase", nil), nil}, "does not clean_text": {normalizer("clean_text", false), nil},
		"does not handle_chinese": {normalizer("handle_chinese_chars", false), nil}, "its pre_tokenizer": {{"pre_tokenizer": object{"type": "Whitespace"}}, nil},
		"inside of words": {nil, {"continuing_subword_prefix": "_"}}, "no vocabulary": {nil, {"vocab": []any{}}},
		"[PAD]": {nil, {"vocab": object{"##▁a": 0, "a": 1}}}, // equal after marks have moved
	} {
		d := wordsDoc().change(change[0], change[1])
		if what == "[PAD]" {
			d.added, what = nil, "are both"
		}
		refuse(t, what, files{"tokenizer.json": d.text(t), "config.json": config}, "bert", 7, what)
	}
}

func TestSlow(t *testing.T) {
	vocab := `{"a":0,"b":1,"ab":2,"<|endoftext|>":3,"Ġ":4}`
	f := files{"vocab.json": vocab, "merges.txt": "#version: 0.2\na b\n", "tokenizer_config.json": `{"tokenizer_class":"GPT2Tokenizer"}`, "config.json": `{"bos_token_id":3}`}
	want(t, "gpt2", f, "gpt2", 6, map[string]any{"g.model": "gpt2", "g.pre": "gpt-2", "g.tokens": strs{"a", "b", "ab", "<|endoftext|>", "Ġ", "[PAD5]"},
		"g.token_type": []int32{1, 1, 1, 3, 1, 5}, "g.merges": strs{"a b"}, "g.bos_token_id": uint32(3), "g.add_space_prefix": nil})
	qwen := f.with("tokenizer_config.json", `{"tokenizer_class":"Qwen2Tokenizer","added_tokens_decoder":{"5":{"content":"<|im|>","special":true}},"additional_special_tokens":["<t>"],"extra_special_tokens":["<u>"]}`).
		with("added_tokens.json", `{"<t>":6,"<u>":7,"<|im|>":5}`).with("merges.txt", "a b\r\n\n")
	got := want(t, "qwen2", qwen, "qwen2", 8, map[string]any{"g.pre": "qwen2", "g.tokens": strs{"a", "b", "ab", "<|endoftext|>", "Ġ", "<|im|>", "<t>", "<u>"},
		"g.token_type": []int32{1, 1, 1, 3, 1, 3, 3, 3}, "g.merges": strs{"a b"}})
	if len(got.Notes) != 1 {
		t.Errorf("notes %q", got.Notes)
	}
	want(t, "prefix", f.with("tokenizer_config.json", `{"tokenizer_class":"GPT2TokenizerFast","add_prefix_space":true}`), "gpt2", 6, map[string]any{"g.add_space_prefix": true})
	for reason, g := range map[string]files{
		"for the class \"Other\"": f.with("tokenizer_config.json", `{"tokenizer_class":"Other"}`), "for the class \"\"": f.with("tokenizer_config.json", ""),
		"the model has vocab.json": f.with("merges.txt", ""), "the model has merges.txt": f.with("vocab.json", ""),
		"which is not two tokens": f.with("merges.txt", "a b c\n"), "not in the vocabulary": f.with("merges.txt", "a c\n"), "is not UTF-8": f.with("merges.txt", "a \xff\n"),
		"vocab.json: it is not JSON": f.with("vocab.json", "{"), "it is not an object": f.with("vocab.json", "[]"), "vocab.json: the id": f.with("vocab.json", `{"a":9}`),
		"something follows": f.with("vocab.json", vocab+"x"), "twice": f.with("vocab.json", `{"a":0,"a":1,"b":2,"ab":3}`),
		"past the 6 rows": f.with("added_tokens.json", `{"x":6}`), "not a number of a row": f.with("added_tokens.json", `{"x":-1}`),
		"for gpt-2": f.with("tokenizer_config.json", `{"tokenizer_class":"Qwen2Tokenizer","add_prefix_space":true}`),
	} {
		refuse(t, reason, g, "gpt2", 6, reason)
	}
}

func TestSpecialTokens(t *testing.T) {
	d := bytesDoc()
	d.added = []any{token(5, "<s>", true), token(6, "</s>", true), token(7, "<sep>", true), token(8, "<eot>", true), token(9, "<s>2", true)}
	s := func(id string) object { return object{"SpecialToken": object{"id": id, "type_id": 0}} }
	a, b := object{"Sequence": object{"id": "A"}}, object{"Sequence": object{"id": "B"}}
	template := func(single, pair []any) object {
		return object{"type": "TemplateProcessing", "single": single, "pair": pair}
	}
	type l = []any
	const no = -1
	for _, c := range []struct {
		what             string
		post             any
		settings, config string
		ids              map[string]int
		bos, eos, sep    bool
	}{
		{"nothing", nil, "", `{}`, map[string]int{"bos": no, "eos": no, "unknown": no}, false, false, false},
		{"config", nil, "", `{"bos_token_id":5,"eos_token_id":[6],"pad_token_id":10,"unk_token_id":-1,"mask_token_id":"5","sep_token_id":7.0,"cls_token_id":7}`,
			map[string]int{"bos": 5, "eos": no, "padding": no, "unknown": no, "mask": no, "seperator": no, "cls": no}, false, false, false},
		{"text_config", nil, "", `{"bos_token_id":null,"text_config":{"bos_token_id":5,"eos_token_id":6},"eos_token_id":7}`, map[string]int{"bos": 5, "eos": 7}, false, false, false},
		{"settings first", nil, `{"bos_token":"<s>","eos_token":{"content":"</s>"},"pad_token":"a","unk_token":5,"add_bos_token":true,"add_eos_token":"true"}`, `{"bos_token_id":1,"eos_token_id":1,"pad_token_id":2}`,
			map[string]int{"bos": 5, "eos": 6, "padding": 2}, true, false, false},
		{"cls and sep", nil, `{"cls_token":"<s>","sep_token":"<sep>"}`, `{}`, map[string]int{"bos": 5, "eos": 7, "seperator": 7}, false, false, false},
		{"roberta", object{"type": "RobertaProcessing", "sep": l{"<sep>", 7}, "cls": l{"<s>", 5}}, `{"eos_token":"</s>"}`, `{}`, map[string]int{"eos": 6, "seperator": 7, "bos": no}, true, true, true},
		{"bert", object{"type": "BertProcessing", "sep": l{"<sep>", 7}, "cls": l{"<s>", 5}}, `{"cls_token":"<s>"}`, `{}`, map[string]int{"bos": 5}, true, true, false},
		{"byte level", object{"type": "Sequence", "processors": l{object{"type": "ByteLevel"}}}, `{}`, `{}`, nil, false, false, false},
		{"bos", template(l{s("<s>"), a}, l{s("<s>"), a, s("<s>"), b}), `{"bos_token":"<s>"}`, `{}`, map[string]int{"bos": 5}, true, false, false},
		{"bos in a sequence", object{"type": "Sequence", "processors": l{object{"type": "ByteLevel"}, template(l{s("<s>"), a}, nil)}}, `{"bos_token":"<s>"}`, `{}`, map[string]int{"bos": 5}, true, false, false},
		{"bos that is not configured", template(l{s("<s>"), a}, nil), `{}`, `{"bos_token_id":1}`, map[string]int{"bos": 5}, true, false, false},
		{"another before", template(l{s("<sep>"), a}, nil), `{"bos_token":"<s>"}`, `{}`, map[string]int{"bos": 5}, false, false, false},
		{"cls before", template(l{s("<sep>"), a}, nil), `{"bos_token":"<s>","cls_token":"<sep>"}`, `{}`, map[string]int{"bos": 5}, true, false, false},
		{"eos", template(l{a, s("</s>")}, l{a, s("</s>"), b, s("</s>")}), `{"eos_token":"</s>"}`, `{}`, map[string]int{"eos": 6, "eot": no}, false, true, false},
		{"eos moves", template(l{a, s("</s>")}, nil), `{"eos_token":"<eot>"}`, `{"eos_token_id":1,"eot_token_id":1}`, map[string]int{"eos": 6, "eot": 8}, false, true, false},
		{"eos that is not configured", template(l{a, s("</s>")}, nil), `{}`, `{}`, map[string]int{"eos": 6, "eot": no}, false, true, false},
		{"eos twice", object{"type": "Sequence", "processors": l{template(l{a, s("</s>")}, nil), template(l{a, s("<sep>")}, nil)}}, `{"eos_token":"<eot>"}`, `{}`, map[string]int{"eos": 7, "eot": 8, "eom": 6}, false, true, false},
		{"sep", template(l{a, b}, l{a, s("<sep>"), b}), `{"sep_token":"<sep>"}`, `{}`, map[string]int{"seperator": 7, "eos": 7}, false, false, true},
		{"eos between", template(l{s("<s>"), a}, l{s("<s>"), a, s("</s>"), b}), `{"bos_token":"<s>","eos_token":"</s>"}`, `{}`, map[string]int{"seperator": 6}, true, false, true},
		{"two between", template(l{s("<s>"), a, s("</s>")}, l{s("<s>"), a, s("</s>"), s("</s>"), b, s("</s>")}), `{"bos_token":"<s>","eos_token":"</s>"}`, `{}`, map[string]int{"seperator": 6}, true, true, true},
		{"one between and one after", template(l{a, s("</s>")}, l{a, s("</s>"), b, s("</s>")}), `{"eos_token":"</s>","add_sep_token":true}`, `{}`, nil, false, true, true},
		{"a flag against what begins a text", template(l{s("<s>"), a}, nil), `{"bos_token":"<s>","add_bos_token":false}`, `{}`, nil, true, false, false},
		{"a flag of an end that nothing puts", template(l{s("<s>"), a}, nil), `{"bos_token":"<s>","eos_token":"</s>","add_eos_token":true}`, `{}`, nil, true, false, false},
		{"a flag against what ends a text", template(l{a, s("</s>")}, nil), `{"eos_token":"</s>","add_eos_token":false,"add_bos_token":true}`, `{}`, nil, false, true, false},
		{"flags against roberta", object{"type": "RobertaProcessing", "sep": l{"<sep>", 7}, "cls": l{"<s>", 5}}, `{"add_bos_token":false,"add_eos_token":false}`, `{}`, nil, true, true, true},
		{"a Llama without a beginning", template(l{a}, nil), `{"tokenizer_class":"LlamaTokenizer","add_bos_token":true}`, `{}`, nil, false, false, false},
		{"flags beside byte level", object{"type": "ByteLevel"}, `{"bos_token":"<s>","add_bos_token":true}`, `{}`, nil, true, false, false},
		{"a text alone", template(l{s("<s>")}, nil), `{"bos_token":"<s>"}`, `{}`, nil, false, false, false},
	} {
		f := files{"tokenizer.json": d.change(object{"post_processor": c.post}, nil).text(t), "tokenizer_config.json": c.settings, "config.json": c.config}
		if c.settings == "" {
			delete(f, "tokenizer_config.json")
		}
		values := map[string]any{"g.add_bos_token": c.bos, "g.add_eos_token": c.eos, "g.add_sep_token": c.sep}
		for role, id := range c.ids {
			if values["g."+role+"_token_id"] = uint32(id); id == no {
				values["g."+role+"_token_id"] = nil
			}
		}
		want(t, c.what, f, "qwen3", 10, values)
	}
	two := d.change(object{"post_processor": template(l{s("<s>"), s("<sep>"), a, s("</s>")}, nil)}, nil)
	got := want(t, "two before a text", files{"tokenizer.json": two.text(t), "tokenizer_config.json": `{"bos_token":"<s>","eos_token":"</s>"}`}, "qwen3", 10, map[string]any{"g.add_bos_token": true, "g.add_eos_token": true})
	if notes := strings.Join(got.Notes, "\n"); !strings.Contains(notes, `"<sep>" of the source is left out`) {
		t.Errorf("two before a text: %q", notes)
	}
	for what, post := range map[string]any{"Unheard": object{"type": "Unheard"}, "single": template(l{"$A"}, nil), "pair": object{"type": "TemplateProcessing", "single": l{a}, "pair": "x"},
		"of another form": template(l{object{"SpecialToken": object{"id": "x"}, "Sequence": object{"id": "A"}}}, nil), "not a list of steps": object{"type": "Sequence"}} {
		refuse(t, what, files{"tokenizer.json": d.change(object{"post_processor": post}, nil).text(t)}, "qwen3", 10, what)
	}
	// Sizes that say which model it is.
	code := files{"tokenizer.model": spModel{pieces: []spPiece{{"<unk>", 0, 2}}}.text(), "config.json": `{"vocab_size":32016}`}
	want(t, "Code Llama", code, "llama", 32016, map[string]any{"g.prefix_token_id": uint32(32007), "g.suffix_token_id": uint32(32008), "g.middle_token_id": uint32(32009), "g.eot_token_id": uint32(32010)})
	want(t, "not Code Llama", code, "gemma2", 32016, map[string]any{"g.prefix_token_id": nil})
	want(t, "too few for Code Llama", code, "llama", 32000, map[string]any{"g.prefix_token_id": nil})
	granite := files{"tokenizer.json": d.text(t), "config.json": `{"vocab_size":49152}`, "tokenizer_config.json": `{"add_bos_token":true}`}
	want(t, "Granite", granite, "llama", 49152, map[string]any{"g.add_bos_token": false})
}

func TestChatTemplates(t *testing.T) {
	f := files{"tokenizer.json": bytesDoc().text(t)}
	set := func(v any) files { return f.with("tokenizer_config.json", text(t, object{"chat_template": v})) }
	named := func(name, template any) object { return object{"name": name, "template": template} }
	for what, c := range map[string]struct {
		f    files
		want map[string]any
		note bool
	}{
		"none":            {f, map[string]any{"chat_template": nil, "chat_templates": nil}, false},
		"settings":        {set("x\r\n"), map[string]any{"chat_template": "x\r\n"}, false},
		"two that differ": {set("x").with("chat_template.jinja", "y"), map[string]any{"chat_template": "y"}, true},
		"two of one text": {set("x").with("chat_template.jinja", "x"), map[string]any{"chat_template": "x"}, false},
		"jinja":           {set(nil).with("chat_template.jinja", "y\n").with("chat_template.json", `{"chat_template":"z"}`), map[string]any{"chat_template": "y\n", "chat_templates": nil}, false},
		"jinja and more":  {f.with("chat_template.jinja", "y").with("additional_chat_templates/tool_use.jinja", "t"), map[string]any{"chat_template": "y", "chat_template.tool_use": "t", "chat_templates": strs{"tool_use"}}, false},
		"json":            {f.with("chat_template.json", `{"chat_template":"z"}`), map[string]any{"chat_template": "z"}, false},
		"list":            {set([]any{named("default", "d"), named("tool-use.é", "t"), named("", "e")}), map[string]any{"chat_template": "d", "chat_template.tool_use__": "t", "chat_templates": strs{"tool_use__"}}, false},
		"no default":      {set([]any{named("rag", "r")}), map[string]any{"chat_template": nil, "chat_template.rag": "r", "chat_templates": strs{"rag"}}, false},
		"a number":        {set(5), map[string]any{"chat_template": nil}, true},
		"a bad list":      {set([]any{named("default", "d"), named("x", 5)}), map[string]any{"chat_template": nil}, true},
		"equal names":     {set([]any{named("a-b", "d"), named("a_b", "e")}), map[string]any{"chat_template.a_b": nil}, true},
		"a long name":     {set([]any{named(strings.Repeat("x", 100), "d")}), map[string]any{"chat_templates": nil}, true},
	} {
		got := want(t, what, c.f, "qwen3", 5, c.want)
		if (len(got.Notes) > 0) != c.note {
			t.Errorf("%s: notes %q", what, got.Notes)
		}
	}
	refuse(t, "not a text", f.with("chat_template.jinja", "\xff"), "qwen3", 5, "not UTF-8")
}

// TestOrder holds that the same files give the same keys in the same order.
func TestOrder(t *testing.T) {
	f := load(t, golden+"/bert")
	first, err := f.read(t, "bert", 231)
	if err != nil {
		t.Fatal(err)
	}
	for range 5 {
		if got, _ := f.read(t, "bert", 231); !reflect.DeepEqual(got, first) {
			t.Fatal("it is different every time")
		}
	}
	if _, err := json.Marshal(first.Meta); err != nil {
		t.Fatal(err)
	}
}
