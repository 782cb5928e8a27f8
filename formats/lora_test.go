package formats

import (
	"os"
	"path/filepath"
	"testing"
)

// A path that exists as it is written has no scale, and names of stores keep what belongs to
// them.
func TestCutScale(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"a", "a:2", "b:x"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
	for _, c := range []struct {
		named, name string
		scale       float64
	}{
		{"a", "a", 1},
		{"a:0.5", "a", 0.5},
		{"a:2", "a:2", 1},
		{"a:2:3", "a:2", 3},
		{"a:-1e-3", "a", -0.001},
		{"a:0", "a", 0},
		{"b:x", "b:x", 1},
		{"a:nan", "a:nan", 1},
		{"a:0x10", "a:0x10", 1},
		{"a:1e999", "a:1e999", 1},
		{"a:", "a:", 1},
		{":1", ":1", 1},
		{"hf:o/n", "hf:o/n", 1},
		{"hf:o/n:0.5", "hf:o/n:0.5", 1}, // which selects a file
		{"hf:o/n::0.5", "hf:o/n", 0.5},
		{"hf:o/n@main::-2", "hf:o/n@main", -2},
		{"hf:o/n:Q4_0:0.5", "hf:o/n:Q4_0", 0.5},
		{"hf:o/n/dir/a.gguf:0.5", "hf:o/n/dir/a.gguf", 0.5},
		{"https://host:8080", "https://host:8080", 1},
		{"https://host:8080/a.gguf", "https://host:8080/a.gguf", 1},
		{"https://host/a.gguf:2", "https://host/a.gguf", 2},
		{"s3://bucket/a.gguf:2", "s3://bucket/a.gguf", 2},
		{"oci://host/a:2", "oci://host/a:2", 1},
		{"oci://host/a:tag:2", "oci://host/a:tag", 2},
		{"oci://host/a::2", "oci://host/a", 2},
	} {
		if name, scale := CutScale(c.named); name != c.name || scale != c.scale {
			t.Errorf("%s: %q and %v, want %q and %v", c.named, name, scale, c.name, c.scale)
		}
	}
}
