package ollama

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs/internal/testing/testmodel"
)

// listed writes a store whose manifest is a list of the made one with these runners, and
// returns the path of the list.
func listed(t *testing.T, dir string, runners ...string) string {
	t.Helper()
	files, name := store(t, part{"model", "", goldenModel(t)})
	child := files[name]
	sum := hexSum(child)
	files["blobs/sha256-"+sum] = child
	var items []string
	for _, r := range runners {
		items = append(items, fmt.Sprintf(`{"digest":"sha256:%s","size":%d,"runner":%q}`, sum, len(child), r))
	}
	files[name] = []byte(`{"schemaVersion":2,"manifests":[` + strings.Join(items, ",") + `]}`)
	if err := testmodel.Write(dir, files); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, name)
}

// goldenModel is a small GGUF file.
func goldenModel(t *testing.T) string {
	t.Helper()
	g := testmodel.GGUF{Tensors: []testmodel.GGUFTensor{{Name: "output_norm.weight", Shape: []int64{4}, Data: make([]byte, 16)}}}
	return string(g.Bytes())
}

// TestListOfManifests opens the manifest for llama.cpp of a list.
func TestListOfManifests(t *testing.T) {
	for _, c := range []struct {
		runners []string
		want    string // part of the error; "" for a model
	}{
		{[]string{"llamacpp"}, ""},
		{[]string{"mlx", "llamacpp"}, ""},
		{[]string{""}, ""},
		{[]string{"mlx"}, ""},
		{[]string{"mlx", "other"}, "for the runners mlx, other, and none is for llama.cpp"},
		{[]string{"", ""}, "none of its 2 items"},
		{nil, "it is empty"},
	} {
		m, err := Open(listed(t, t.TempDir(), c.runners...))
		if c.want != "" {
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "fetch the model again") {
				t.Errorf("%q: %v", c.runners, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%q: %v", c.runners, err)
			continue
		}
		if notes := strings.Join(m.Warnings, "\n"); !strings.Contains(notes, "list of manifests") {
			t.Errorf("%q: notes %q", c.runners, notes)
		}
		m.Close()
	}
}

// TestListedBytes refuses a manifest that is not the one of its list.
func TestListedBytes(t *testing.T) {
	dir := t.TempDir()
	path := listed(t, dir, "llamacpp")
	files, name := store(t, part{"model", "", goldenModel(t)})
	child := filepath.Join(dir, "blobs", "sha256-"+hexSum(files[name]))
	if err := os.WriteFile(child, []byte(strings.Replace(string(files[name]), "layers", "Layers", 1)), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(path); err == nil || !strings.Contains(err.Error(), "does not match its digest in the list") {
		t.Error(err)
	}
}

// TestOlderBlobNames opens a store whose blobs are named sha256:HEX.
func TestOlderBlobNames(t *testing.T) {
	dir := t.TempDir()
	path := listed(t, dir, "llamacpp")
	blobs, err := filepath.Glob(filepath.Join(dir, "blobs", "sha256-*"))
	for _, b := range blobs {
		err = errors.Join(err, os.Rename(b, filepath.Join(filepath.Dir(b), strings.Replace(filepath.Base(b), "-", ":", 1))))
	}
	if err != nil {
		t.Fatal(err)
	}
	m, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if notes := strings.Join(m.Warnings, "\n"); !strings.Contains(notes, "sha256:HEX") {
		t.Errorf("notes %q", notes)
	}
	for _, s := range m.Sources {
		if s.Path != "" {
			if _, err := os.Stat(s.Path); err != nil {
				t.Error(err)
			}
		}
	}
}
