package formats

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs/formats/adapter"
	"github.com/tensorfs/tensorfs/internal/source"
)

// TestAdapterBeside: an adapter is found in its folder beside any other files, and a model reports
// an adapter beside it.
func TestAdapterBeside(t *testing.T) {
	const golden = "../testdata/lora/plain-bf16-f32/"
	dir := t.TempDir()
	copied := func(name string, from ...string) string {
		at := filepath.Join(dir, name)
		for _, f := range from {
			if err := os.CopyFS(at, os.DirFS(golden+f)); err != nil {
				t.Fatal(err)
			}
		}
		return at
	}
	both, broken, stray := copied("both", "base", "adapter0"), copied("broken", "base", "adapter0"), copied("stray", "adapter0")
	for path, text := range map[string]string{broken + "/model.safetensors": "{", stray + "/other.gguf": "GGUF", stray + "/training_args.bin": "x"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, named := range []string{both, broken, stray, both + ":0.5", filepath.Join(both, adapter.WeightsName)} {
		m, by, err := Options{}.OpenAdapter(named)
		if err != nil {
			t.Errorf("%s: %v", named, err)
			continue
		}
		if !adapter.Is(m) || len(m.Tensors) == 0 || by.Source == "" || (by.Scale == 0.5) != strings.HasSuffix(named, ":0.5") {
			t.Errorf("%s: %s, %d tensors, %+v", named, m.Format, len(m.Tensors), by)
		}
		m.Close()
	}
	mlx := copied("mlx", "base", "../mlx/lora/adapter")
	step := filepath.Join(mlx, "0000100_adapters.safetensors")
	if err := os.Link(filepath.Join(mlx, adapter.MLXWeightsName), step); err != nil {
		t.Fatal(err)
	}
	for _, named := range []string{mlx, step + ":0.5", golden + "../mlx/dora/adapter"} {
		m, by, err := Options{}.OpenAdapter(named)
		if err != nil {
			t.Errorf("%s: %v", named, err)
			continue
		}
		if a, err := adapter.Of(m); err != nil || !a.MLX || (by.Scale == 0.5) != strings.HasSuffix(named, ":0.5") {
			t.Errorf("%s: %+v, %v", named, a, err)
		}
		m.Close()
	}
	for path, want := range map[string]bool{both: true, filepath.Join(both, "model.safetensors"): true, copied("alone", "base"): false} {
		m, err := Open(path)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(strings.Join(m.Warnings, "\n"), "is an adapter, which is not applied"); got != want || adapter.Is(m) {
			t.Errorf("%s: warnings %q", path, m.Warnings)
		}
		m.Close()
	}
	if _, _, err := (Options{}).OpenAdapter(filepath.Join(dir, "alone")); err == nil || !strings.Contains(err.Error(), "it is a model, and no adapter") {
		t.Error(err)
	}
}

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
		{"ms:org/name/a.gguf:2", "ms:org/name/a.gguf", 2}, {"ms:org/name:2", "ms:org/name:2", 1}, {"ms:org/name::2", "ms:org/name", 2},
		{"oci://host/a:2", "oci://host/a:2", 1},
		{"oci://host/a:tag:2", "oci://host/a:tag", 2},
		{"oci://host/a::2", "oci://host/a", 2},
	} {
		if name, scale := CutScale(c.named, source.Exists); name != c.name || scale != c.scale {
			t.Errorf("%s: %q and %v, want %q and %v", c.named, name, scale, c.name, c.scale)
		}
	}
}
