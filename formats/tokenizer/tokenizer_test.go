package tokenizer_test

import "github.com/tensorfs/tensorfs/formats/tokenizer"

// meta returns the keys of a tokenizer.
func meta(t *tokenizer.Tokenizer) map[string]any {
	m := map[string]any{}
	for _, e := range t.Meta {
		m[e.Key] = e.Value
	}
	return m
}
