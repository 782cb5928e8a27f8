package tokenizer_test

import (
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs/formats/tokenizer"
)

// hasNoJSON reports whether tokenizer.json has no form for a tokenizer.
func hasNoJSON(k *keyed) bool {
	model := keys(meta(k)).get("tokenizer.ggml.model")
	return model == "rwkv" || model == "plamo2"
}

// TestWorld reads lines of RWKV's vocabulary, and refuses others.
func TestWorld(t *testing.T) {
	for text, want := range map[string]string{
		"1 '\\x00' 1\n2 'a\\'b' 3\n3 \"it's\" 4\n4 b'\\xe4\\xb8' 2\n5 '\\u00e9' 2\n6 '\\U0001f642' 4\n": `\x00|a'b|it's|\xe4\xb8|\xc3\xa9|\xf0\x9f\x99\x82`,
		"2 'a' 1\n":        "does not have the id 1",
		"1 'a'\n":          "does not have the id 1",
		"1 'a' 2\n":        "is not a text of Python",
		"1 'a 1\n":         "is not a text of Python",
		"1 'a'b' 3\n":      "is not a text of Python",
		"1 '\\xzz' 1\n":    "is not a text of Python",
		"1 b'\\u00e9' 2\n": "is not a text of Python",
		"1 '\\' 1\n":       "is not a text of Python",
		"1 'a' 1\n2 'b' 1\n3 'c' 1\n4 'd' 1\n5 'e' 1\n6 'f' 1\n7 'g' 1\n8 'h' 1\n": "more tokens than the embedding has rows",
	} {
		v, err := tokenizer.ReadFiles(tokenizer.Options{File: files{"rwkv_vocab_v20230424.txt": text}.open, Block: "rwkv7", Rows: 8})
		if err != nil {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%q: %v, want %s", text, err, want)
			}
			continue
		}
		if got := strings.Join(v.Tokens[1:7], "|"); got != want {
			t.Errorf("%q: %s", text, got)
		}
		if v.Model != "rwkv" || v.Tokens[0] != "<s>" || v.Special["eos"] != 0 {
			t.Errorf("%+v", v)
		}
	}
}

// TestJSONLines reads lines of PLaMo's vocabulary, and refuses others.
func TestJSONLines(t *testing.T) {
	config := `{"bos_token":"<|plamo:bos|>","add_bos_token":true,"chat_template":"{{ messages }}"}`
	for text, want := range map[string]string{
		`["<|plamo:unk|>",0.0,"UNKNOWN"]` + "\n" + `["<|plamo:bos|>",0,"NORMAL",1]` + "\n\n" + `["a",-1.5]` + "\n": "",
		`["a"]` + "\n":                    "its line 1 is not a list",
		`["a","b"]` + "\n":                "its line 1 is not a list",
		`{"a":1}` + "\n":                  "its line 1 is not a list",
		`["a",1` + "\n":                   "its line 1 is not a list",
		strings.Repeat(`["a",1]`+"\n", 6): "more tokens than the embedding has rows",
	} {
		v, err := tokenizer.ReadFiles(tokenizer.Options{File: files{"tokenizer.jsonl": text, "tokenizer_config.json": config}.open, Block: "plamo2", Rows: 5})
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
		if err == nil && (v.Tokens[3] != "[PAD1]" || v.Types[1] != 3 || v.Scores[2] != -1.5 || v.Scores[4] != -1000 || v.Special["bos"] != 1 ||
			v.Flags["add_bos_token"] || v.Templates != nil) { // the converter reads neither
			t.Errorf("%+v", v)
		}
	}
}

// TestJSONLinesOfNoText: a role without a token is not the token without a text.
func TestJSONLinesOfNoText(t *testing.T) {
	lines := `["",0,"NORMAL"]` + "\n" + `["a",1,"NORMAL"]` + "\n"
	v, err := tokenizer.ReadFiles(tokenizer.Options{File: files{"tokenizer.jsonl": lines, "tokenizer_config.json": `{"eos_token":"a"}`}.open, Block: "plamo2", Rows: 2})
	if err != nil || len(v.Special) != 1 || v.Special["eos"] != 1 {
		t.Errorf("%+v, %v", v, err)
	}
}
