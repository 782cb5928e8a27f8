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

const tekken = "../../testdata/tekken"

// tekkenRows are the rows of the embedding that the golden tekken.json is for.
const tekkenRows = 448

// tekkenFile reads a JSON file of the golden tekken.json.
func tekkenFile(t testing.TB, name string, into any) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(tekken, name))
	if err == nil {
		err = json.Unmarshal(b, into)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestTekken compares with what llama.cpp's converter wrote.
func TestTekken(t *testing.T) {
	var golden map[string]typed
	tekkenFile(t, "mistral.meta.json", &golden)
	f := load(t, filepath.Join(tekken, "mistral"))
	got, err := f.read(t, "llama", tekkenRows)
	if err != nil {
		t.Fatal(err)
	}
	have := meta(got)
	for key, v := range golden {
		if !strings.HasPrefix(key, "tokenizer.ggml.") || key == "tokenizer.ggml.scores" {
			continue
		}
		if want := expected(t, v); !same(have[key], want) {
			t.Errorf("%s is %.300v, want %.300v", key, have[key], want)
		}
		delete(have, key)
	}
	delete(have, "tokenizer.ggml.add_sep_token")
	if len(have) > 0 || len(got.Notes) != 1 {
		t.Errorf("there is %v as well, and notes %q", have, got.Notes)
	}
	want(t, "tokenizer.json first", f.with("tokenizer.json", bytesDoc().text(t)), "llama", tekkenRows, map[string]any{"g.pre": "gpt-2"})
	want(t, "before SentencePiece", f.with("tokenizer.model", "x"), "llama", tekkenRows, map[string]any{"g.pre": "tekken"})
	want(t, "more rows, a template", f.with("chat_template.jinja", "y"), "mistral3", tekkenRows+1, map[string]any{"g.padding_token_id": uint32(11), "chat_template": "y"})

	library := startLibrary(t)
	var run struct {
		Texts  []string
		Tokens [][]int `json:"mistral_common_tokens"`
		Llama  struct{ Tokens, TokensSpecial [][]int }
	}
	tekkenFile(t, "mistral.run.json", &run)
	files, err := written(keys(meta(got)).get, "llama")
	if err != nil || len(run.Texts) < 11 {
		t.Fatal(len(run.Texts), err)
	}
	ids := library.encode(t, files["tokenizer.json"], run.Texts).IDs
	for i, text := range run.Texts {
		if !slices.Equal(run.Tokens[i], run.Llama.Tokens[i]) || !slices.Equal(ids[i], run.Llama.TokensSpecial[i]) {
			t.Errorf("%q is %v by mistral-common, %v by llama.cpp, and then %v and %v", text, run.Tokens[i], run.Llama.Tokens[i], run.Llama.TokensSpecial[i], ids[i])
		}
	}
}

// TestTekkenRules holds which other files of this form are read.
func TestTekkenRules(t *testing.T) {
	var golden object
	tekkenFile(t, "mistral/tekken.json", &golden)
	config := golden["config"].(map[string]any)
	change := func(key string, value any) files {
		d := maps.Clone(golden)
		if _, ok := config[key]; ok {
			d["config"] = maps.Clone(config)
			d["config"].(map[string]any)[key] = value
		} else if d[key] = value; value == nil {
			delete(d, key)
		}
		return files{"tekken.json": text(t, d)}
	}
	vocab := golden["vocab"].([]any)
	replaced := func(at int, o object) files {
		list := slices.Clone(vocab)
		list[at] = o
		return change("vocab", list)
	}
	special := func(o ...object) files { return change("special_tokens", o) }
	unlisted := maps.Clone(golden)
	delete(unlisted, "special_tokens")
	unlisted["config"] = maps.Clone(config)
	unlisted["config"].(map[string]any)["version"] = "v3"
	got := want(t, "tokens of old versions", files{"tekken.json": text(t, unlisted)}, "llama", tekkenRows, map[string]any{"g.padding_token_id": uint32(11)})
	if tokens := meta(got)["tokenizer.ggml.tokens"].([]string); tokens[19] != "[TOOL_CONTENT]" || tokens[20] != "<SPECIAL_20>" || tokens[32] != "Ā" {
		t.Errorf("%q", tokens[:33])
	}
	for reason, f := range map[string]files{
		"tekken.json: it is not JSON":                        {"tekken.json": "{"},
		"it is of a wrong JSON type":                         {"tekken.json": "[]"},
		"its config is of a wrong JSON type":                 change("config", 5),
		"default_vocab_size \"\\\"9\\\"\"":                   change("default_vocab_size", "9"),
		"default_vocab_size \"449\"":                         change("default_vocab_size", 449),
		"default_num_special_tokens \"-1\"":                  change("default_num_special_tokens", -1),
		"default_num_special_tokens \"449\"":                 change("default_num_special_tokens", 449),
		"24 special_tokens instead of the 23 in its config":  change("default_num_special_tokens", 23),
		"no name for how its pattern cuts":                   change("pattern", "."),
		"version \"v11\" and has no special_tokens":          change("special_tokens", nil),
		"its special_tokens is of a wrong":                   change("special_tokens", 5),
		"its special token 0":                                special(object{"rank": 1, "token_str": "x"}),
		"special token 1":                                    special(object{"rank": 0, "token_str": "<unk>"}, object{"rank": 1}),
		"it has no token <s>":                                special(object{"rank": 0, "token_str": "<unk>"}),
		"its vocab is of a wrong JSON type":                  change("vocab", 5),
		"it has 2 tokens instead of the 416 in its config":   change("vocab", vocab[:2]),
		"its token 300 has no bytes":                         replaced(300, object{"rank": 300, "token_bytes": "%"}),
		"its token 301 has no bytes":                         replaced(301, object{"rank": 301, "token_bytes": ""}),
		"its token 302 has no bytes":                         replaced(302, object{"rank": 5, "token_bytes": "YWI="}),
		"its token 7 has no bytes, or others":                replaced(7, object{"rank": 7, "token_bytes": "YWI="}),
		"its token 303 is not the union of two other tokens": replaced(303, object{"rank": 303, "token_bytes": "AAEC"}),
		"a token has one rank":                               replaced(304, object{"rank": 304, "token_bytes": "YQ=="}),
	} {
		refuse(t, reason, f, "llama", tekkenRows, reason)
	}
}
