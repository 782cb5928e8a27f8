package tokenizer_test

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const unigrams = "../../testdata/unigram"

// unigramCases are golden models with Unigram, and the rows of their embeddings.
func unigramCases(t testing.TB) []goldenCase {
	t.Helper()
	cases := []goldenCase{{name: "t5", arch: "t5", rows: 127}, {name: "xlm-roberta", arch: "bert", rows: 125}}
	for i, c := range cases {
		b, err := os.ReadFile(filepath.Join(unigrams, c.name+".meta.json"))
		if err == nil {
			err = json.Unmarshal(b, &cases[i].want)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return cases
}

// TestUnigramGolden compares with what llama.cpp's converter wrote. It reads
// SentencePiece's own files, which lack the tokens that were added at the end.
func TestUnigramGolden(t *testing.T) {
	for _, c := range unigramCases(t) {
		got, err := load(t, filepath.Join(unigrams, c.name)).read(t, c.arch, c.rows)
		if err != nil {
			t.Fatal(err)
		}
		have := meta(got)
		for key, v := range c.want {
			if !strings.HasPrefix(key, "tokenizer.") {
				continue
			}
			want := expected(t, v)
			known := map[string]int{"t5": 123, "xlm-roberta": 124}[c.name]
			switch list := have[key].(type) {
			case []string:
				have[key], want = list[:known], want.([]string)[:known]
			case []int32:
				have[key], want = list[:known], want.([]int32)[:known]
			case []float32:
				have[key], want = list[:known], want.([]float32)[:known]
			}
			if !same(have[key], want) {
				t.Errorf("%s: %s is %T %.400v\nwant %T %.400v", c.name, key, have[key], have[key], want, want)
			}
			delete(have, key)
		}
		for key, v := range have { // which the converter omits if it is the default
			if key != "tokenizer.ggml.add_bos_token" || v != false {
				t.Errorf("%s: %s is %v, which the golden file does not have", c.name, key, v)
			}
		}
		// What is read can be written, and read again.
		files, err := written(keys(meta(got)).get, c.arch)
		if err != nil {
			t.Fatal(err)
		}
		f := load(t, filepath.Join(unigrams, c.name))
		for name, text := range files {
			f[name] = string(text)
		}
		again, err := f.read(t, c.arch, c.rows)
		if err != nil {
			t.Fatal(err)
		}
		for _, key := range []string{"tokens", "scores", "token_type", "precompiled_charsmap", "add_space_prefix", "remove_extra_whitespaces", "unknown_token_id", "eos_token_id"} {
			if a, b := meta(got)["tokenizer.ggml."+key], meta(again)["tokenizer.ggml."+key]; !same(a, b) || a == nil {
				t.Errorf("%s: %s is %.300v, then %.300v", c.name, key, a, b)
			}
		}
	}
}

// TestUnigramRules holds which tokenizers of Unigram are read, and how.
func TestUnigramRules(t *testing.T) {
	metaspace := object{"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": true}
	base := doc{
		added: []any{token(0, "<s>", true), token(3, "x", false)},
		top:   object{"pre_tokenizer": metaspace},
		model: object{"type": "Unigram", "unk_id": 1, "vocab": []any{[]any{"<s>", 0}, []any{"<unk>", 0}, []any{"▁a", -1.5}, []any{"x", -2}}},
	}
	change := func(top, model object) files { return files{"tokenizer.json": base.change(top, model).text(t)} }
	list := func(l ...any) object { return object{"type": "Sequence", "normalizers": l, "pretokenizers": l} }
	charsmap := func(text any) object { return object{"type": "Precompiled", "precompiled_charsmap": text} }
	replace := func(pattern object, with string) object {
		return object{"type": "Replace", "pattern": pattern, "content": with}
	}
	outer, inner := replace(object{"Regex": `\A +| +\z`}, ""), replace(object{"Regex": " {2,}"}, " ")
	never := maps.Clone(metaspace)
	never["prepend_scheme"] = "never"
	for what, c := range map[string]struct {
		f    files
		want map[string]any
	}{
		"as it is": {change(nil, nil), map[string]any{"g.model": "t5", "g.pre": "default", "g.tokens": strs{"<s>", "<unk>", "▁a", "x", "[PAD4]"}, "g.token_type": []int32{3, 2, 1, 4, 5}, "g.scores": []float32{0, 0, -1.5, -2, -10000},
			"g.add_space_prefix": true, "g.remove_extra_whitespaces": false, "g.precompiled_charsmap": nil, "g.merges": nil, "g.token_type_count": nil}},
		"old":             {change(nil, object{"type": nil}), map[string]any{"g.model": "t5"}},
		"no unknown":      {change(nil, object{"unk_id": nil}), map[string]any{"g.token_type": []int32{3, 1, 1, 4, 5}}},
		"no prefix":       {change(object{"pre_tokenizer": never}, nil), map[string]any{"g.add_space_prefix": false}},
		"characters":      {change(object{"normalizer": charsmap("/wA=")}, nil), map[string]any{"g.precompiled_charsmap": []uint8{255, 0}, "g.remove_extra_whitespaces": false}},
		"spaces":          {change(object{"normalizer": list(charsmap(""), outer, inner)}, nil), map[string]any{"g.precompiled_charsmap": []uint8{}, "g.remove_extra_whitespaces": true}},
		"split at spaces": {change(object{"pre_tokenizer": list(object{"type": "WhitespaceSplit"}, metaspace)}, nil), map[string]any{"g.remove_extra_whitespaces": true}},
		"a model of BERT": {change(nil, nil).with("config.json", `{"type_vocab_size":1}`), map[string]any{"g.token_type_count": uint32(1)}},
	} {
		want(t, what, c.f, "t5", 5, c.want)
	}
	for what, c := range map[string]struct {
		f      files
		reason string
	}{
		"bytes":           {change(nil, object{"byte_fallback": true}), "byte_fallback"},
		"an object":       {change(nil, object{"vocab": object{"a": 0}}), "has no list of tokens"},
		"no base64":       {change(object{"normalizer": charsmap("%")}, nil), "is not base64"},
		"NFKC":            {change(object{"normalizer": object{"type": "NFKC"}}, nil), `has the step "NFKC"`},
		"one of two":      {change(object{"normalizer": list(inner)}, nil), `has the step "Replace"`},
		"the other order": {change(object{"normalizer": list(inner, outer)}, nil), `has the step "Replace"`},
		"no cut":          {change(object{"pre_tokenizer": nil}, nil), "treats spaces"},
		"another cut":     {change(object{"pre_tokenizer": object{"type": "Whitespace"}}, nil), "treats spaces"},
		"no list":         {change(object{"normalizer": object{"type": "Sequence"}}, nil), "not a list of steps"},
		"unknown":         {change(nil, object{"unk_id": 4}), "its unk_id is"},
		"unknown, below":  {change(nil, object{"unk_id": -1}), "its unk_id is"},
		"too many":        {change(nil, object{"vocab": slices.Repeat([]any{[]any{"a", 0}}, 6)}), "past the 5 rows"},
		"twice":           {change(nil, object{"vocab": slices.Repeat([]any{[]any{"a", 0}}, 2)}), "twice"},
		"a text alone":    {change(nil, object{"vocab": []any{"a"}}), "wrong JSON type"},
		"no score":        {change(nil, object{"vocab": []any{[]any{"a"}}}), "the token 0 of its vocabulary is not a text and its score"},
		"three":           {change(nil, object{"vocab": []any{[]any{"a", 0, 0}}}), "is not a text and its score"},
		"a text as score": {change(nil, object{"vocab": []any{[]any{"a", "0"}}}), "is not a text and its score"},
		"a large score":   {change(nil, object{"vocab": []any{[]any{"a", json.Number("1e99")}}}), "is not a text and its score"},
	} {
		refuse(t, what, c.f, "t5", 5, c.reason)
	}
}

// TestUnigramLibrary holds that Hugging Face's library, with a tokenizer that was read and written
// again, gives the source's tokens. Texts with line breaks are left out: the sources split at line
// breaks, but llama.cpp expects the table of characters to turn them into spaces, which the tiny
// models' tables do not.
func TestUnigramLibrary(t *testing.T) {
	l := startLibrary(t)
	for _, c := range unigramCases(t) {
		got, err := load(t, filepath.Join(unigrams, c.name)).read(t, c.arch, c.rows)
		if err != nil {
			t.Fatal(err)
		}
		files, err := written(keys(meta(got)).get, c.arch)
		if err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(filepath.Join(unigrams, c.name+".run.json"))
		if err != nil {
			t.Fatal(err)
		}
		var want struct {
			Texts    []string
			HFTokens [][]int `json:"hf_tokens"`
		}
		if err := json.Unmarshal(b, &want); err != nil || len(want.Texts) == 0 || len(want.HFTokens) != len(want.Texts) {
			t.Fatalf("%d texts, %d lists of tokens, %v", len(want.Texts), len(want.HFTokens), err)
		}
		ids := l.encode(t, files["tokenizer.json"], want.Texts)
		for i, text := range want.Texts {
			if !strings.Contains(text, "\n") && !slices.Equal(ids.IDs[i], want.HFTokens[i]) {
				t.Errorf("%s: %q is %v, want %v", c.name, text, ids.IDs[i], want.HFTokens[i])
			}
		}
	}
}
