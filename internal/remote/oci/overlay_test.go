package oci

import (
	"strings"
	"testing"
)

// A name of two million folders is refused before anything is done for each of them, which takes
// time by the square of their number: this test does not end without the check.
func TestDeepNames(t *testing.T) {
	deep := strings.Repeat("a/", 2_000_000)
	for _, list := range [][]file{
		{{Name: deep + "m.gguf"}},
		{{Name: "m.gguf"}, {Name: deep + "README.md", Beside: true}},
		{{Name: "m.gguf"}, {Name: deep + "x", Kind: symlink, Link: "m.gguf"}},
	} {
		if _, err := flatten(list, false); err == nil || !strings.Contains(err.Error(), "is longer than 4096 bytes") {
			t.Errorf("flatten: %v, want an error about the length", err)
		}
	}
}
