package formats_test

import (
	"io/fs"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/tensorfs/tensorfs/formats"
)

// reason is what every reason for having no numbers looks like: one clause about
// the tensor, and where its bytes are.
var reason = regexp.MustCompile(`^(its|it|config\.json|[A-Z][A-Z0-9_]+)[ ,][^;\n\x1b]*[^;,:. ]; see raw/$`)

// TestReasons reads the reasons that the models of the test data have.
func TestReasons(t *testing.T) {
	found := make(map[string]bool)
	models := 0
	err := filepath.WalkDir("../testdata", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		manifest, _ := filepath.Match("../testdata/*/models/manifests/*/*/*/*", path)
		if !d.IsDir() && !manifest && filepath.Ext(path) != ".gguf" && filepath.Ext(path) != ".safetensors" {
			return nil
		}
		m, err := formats.Open(path)
		if err != nil {
			return nil
		}
		models++
		for i := range m.Tensors {
			s := m.Tensors[i].Opaque
			if s == "" {
				continue
			}
			found[s] = true
			if !reason.MatchString(s) {
				t.Errorf("%s: %s: %q", path, m.Tensors[i].Name, s)
			}
		}
		return m.Close()
	})
	if err != nil {
		t.Fatal(err)
	}
	if models < 100 || len(found) < 12 {
		t.Errorf("%d models with %d reasons", models, len(found))
	}
	t.Logf("%d models with %d reasons", models, len(found))
}
