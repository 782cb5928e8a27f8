package main

import (
	"errors"
	"io/fs"
	"testing"
)

// TestSkipUnmatched holds that only directories in which nothing can match are left out.
func TestSkipUnmatched(t *testing.T) {
	for _, c := range []struct {
		glob, dir string
		skip      bool
	}{
		{"*", "gguf", false},
		{"raw/*", "gguf", true},
		{"raw/*", "raw", false},
		{"r*", "raw", false},
		{"r*", "gguf", true},
		{"raw/layers.0*", "raw", false},
		{"gguf/model.gguf", "gguf", false},
		{"gguf/model.gguf", "g", true},
		{"source/tensors/*", "source", false},
		{"source/tensors/*", "source/tensors", false},
		{"source/tensors/*", "source/other", true},
		{"[gr]*", "gguf", false},
		{`\[x`, "gguf", false},
		{"?aw/*", "gguf", false},
		{"README", "gguf", true},
	} {
		if err := skipUnmatched(c.glob, c.dir); errors.Is(err, fs.SkipDir) != c.skip {
			t.Errorf("%s in %s: %v", c.glob, c.dir, err)
		}
	}
}
