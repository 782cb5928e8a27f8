package tokenizer

import (
	"strings"
	"testing"
)

// TestClasses holds how classes are found, and that a mistake in their table is an error with its line.
func TestClasses(t *testing.T) {
	for name, want := range map[string]class{
		"": {begins: true}, "LlamaTokenizerFast": {begins: true}, "GemmaTokenizer": {begins: true}, "MyLlamaTokenizer": {},
		"GPT2TokenizerFast": {pre: "gpt-2"}, "GPT2Tokenizer": {pre: "gpt-2", bytes: true}, "GPT2TokenizerX": {}, "Qwen2Tokenizer": {pre: "qwen2", nfc: true},
	} {
		got := *classOf(name)
		if got.first = nil; got.pre != want.pre || got.bytes != want.bytes || got.begins != want.begins || got.nfc != want.nfc {
			t.Errorf("%s is %+v", name, got)
		}
	}
	for class, want := range map[string]string{
		"TikTokenTokenizer": "<|reserved_token_100|> <|reserved_token_101|>", "HYTokenizer": "<|endoftext|> <|startoftext|>",
	} {
		if got := strings.Join(classOf(class).special(100)[:2], " "); got != want {
			t.Errorf("%s has %s", class, got)
		}
	}
	for text, want := range map[string]string{
		"A pre=b\nA": "x:2: A is there twice", "\n# A\nA pre": "x:3: there is no word pre", "A nfc=1": "x:1: there is no word nfc=1",
		"A reserved=0": "x:1: there is no word reserved=0", "A zzz=b": "x:1: there is no word zzz=b",
	} {
		if _, err := readClasses("x", text); err == nil || err.Error() != want {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}
