package main

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats"
	"github.com/tensorfs/tensorfs/formats/models"
	"github.com/tensorfs/tensorfs/internal/testing/testhub"
)

// gemma3Pair writes the two GGUF files of a Gemma 3 with a vision tower into a folder.
func gemma3Pair(t *testing.T) (folder, text, tower string) {
	t.Helper()
	folder = t.TempDir()
	source := filepath.Join("..", "..", "testdata", "architectures", "gemma3-vl")
	for from, to := range map[string]*string{"model.gguf": &text, "mmproj.gguf": &tower} {
		code, out, stderr := command("cat", source, "gguf/"+from)
		if code != 0 {
			t.Fatal(stderr)
		}
		*to = filepath.Join(folder, from)
		if err := os.WriteFile(*to, []byte(out), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return folder, text, tower
}

// TestMMProj holds which vision tower hf/ of a GGUF file has.
func TestMMProj(t *testing.T) {
	folder, text, tower := gemma3Pair(t)
	elsewhere := filepath.Join(t.TempDir(), "vision.gguf")
	if err := os.Rename(tower, elsewhere); err != nil {
		t.Fatal(err)
	}
	link := func(to string) func() {
		return func() {
			if err := os.Symlink(elsewhere, filepath.Join(folder, to)); err != nil {
				t.Fatal(err)
			}
		}
	}
	const class, language = `"Gemma3ForConditionalGeneration"`, `"Gemma3ForCausalLM"`
	for _, c := range []struct {
		before           func()
		flags            []string
		config, describe string // what config.json and tensorfs.json have
	}{
		{nil, nil, language, `"notes": []`},
		{nil, []string{"--mmproj", elsewhere}, class, "the vision tower comes from vision.gguf (--mmproj)"},
		{nil, []string{"--mmproj", text}, language, "it has no clip.projector_type, and is no vision tower"},
		{nil, []string{"--mmproj", filepath.Join(folder, "none.gguf")}, language, "none.gguf"},
		{link("mmproj-gemma-F16.gguf"), nil, class, "the vision tower comes from mmproj-gemma-F16.gguf, which is in the same folder"},
		{nil, []string{"--mmproj", "none"}, language, `"notes": []`},
		{link("mmproj-gemma-BF16.gguf"), nil, class, "the vision tower comes from mmproj-gemma-BF16.gguf"},
		{link("mmproj-other.gguf"), nil, language, "there are 3 vision towers: mmproj-gemma-BF16.gguf, mmproj-gemma-F16.gguf, mmproj-other.gguf; name one with --mmproj FILE"},
	} {
		if c.before != nil {
			c.before()
		}
		for file, want := range map[string]string{"hf/config.json": c.config, "hf/tensorfs.json": c.describe} {
			code, out, stderr := command(append([]string{"cat", text, file}, c.flags...)...)
			if code != 0 || !strings.Contains(out, want) {
				t.Errorf("%v: %s has no %s: %s%s", c.flags, file, want, out, stderr)
			}
		}
	}

	// A model that is not in GGUF's layout has its tower in its own files.
	const other = "../../testdata/architectures/gemma3-vl"
	if code, _, stderr := command("info", other, "--mmproj", "/none.gguf"); code != 2 || !strings.HasPrefix(stderr, "tensorfs: "+other+": --mmproj /none.gguf changes nothing: ") {
		t.Errorf("%d: %s", code, stderr)
	}
	if code, _, stderr := command("info", other, "--mmproj", "none"); code != 0 {
		t.Errorf("%d: %s", code, stderr)
	}

	// A process that may read more than the users whom it serves follows no link.
	if err := os.Remove(filepath.Join(folder, "mmproj-other.gguf")); err != nil {
		t.Fatal(err)
	}
	m, err := formats.Open(text)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if found, err := towerBeside(t, m, true); err == nil || !strings.Contains(err.Error(), "link") {
		t.Errorf("%v, %v", found, err)
	}
}

// towerBeside finds the vision tower in the folder of a model.
func towerBeside(t *testing.T, m *tensorfs.Model, keepInside bool) (*tensorfs.Model, error) {
	t.Helper()
	o := models.Options{Files: formats.Options{KeepInside: keepInside}}
	c, err := o.Check()
	must(t, err)
	return c.Tower(m)
}

// TestMMProjElsewhere holds that the vision tower of a GGUF model on a server is found among
// the files of the model's folder there, and that the flag counts there too.
func TestMMProjElsewhere(t *testing.T) {
	apart(t)
	folder, text, tower := gemma3Pair(t)
	read := func(file string) []byte {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	model, vision := read(text), read(tower)
	h := testhub.NewHub(t)
	t.Setenv("HF_ENDPOINT", h.URL)
	h.Commit("acme/one", map[string][]byte{"gemma-BF16.gguf": model, "mmproj-F16.gguf": vision, "mmproj-F32.gguf": vision})
	h.Commit("acme/below", map[string][]byte{"Q8/gemma-Q8_0.gguf": model, "Q8/mmproj.gguf": vision, "mmproj-other.gguf": vision, "BF16/gemma-BF16.gguf": model})
	h.Commit("acme/two", map[string][]byte{"gemma-BF16.gguf": model, "mmproj-a.gguf": vision, "mmproj-b.gguf": vision})
	r := testhub.NewRegistry(t)
	digest := func(b []byte) string { return fmt.Sprintf("sha256:%x", sha256.Sum256(b)) }
	const docker = "application/vnd.docker.ai."
	r.Push("lib/gemma/oci", []byte(fmt.Sprintf(`{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json",
		"config":{"mediaType":%q,"digest":%q,"size":2},"layers":[{"mediaType":%q,"digest":%q,"size":%d},{"mediaType":%q,"digest":%q,"size":%d}]}`,
		docker+"model.config.v0.1+json", digest([]byte("{}")), docker+"gguf.v3", digest(model), len(model), docker+"mmproj", digest(vision), len(vision))), model, vision, []byte("{}"))
	oci := "oci://" + r.Host() + "/lib/gemma:oci"

	const class, language = `"Gemma3ForConditionalGeneration"`, `"Gemma3ForCausalLM"`
	for _, c := range []struct {
		model            string
		flags            []string
		config, describe string
	}{
		{"hf:acme/one", nil, class, "the vision tower comes from mmproj-F32.gguf, which is in the same folder"},
		{"hf:acme/one", []string{"--mmproj", "none"}, language, `"notes": []`},
		{"hf:acme/below:Q8_0", nil, class, "the vision tower comes from mmproj.gguf, which is in the same folder"},
		{"hf:acme/below:BF16", nil, language, `"notes": []`},
		{"hf:acme/below:BF16", []string{"--mmproj", filepath.Join(folder, "mmproj.gguf")}, class, "the vision tower comes from mmproj.gguf (--mmproj)"},
		{"hf:acme/two", nil, language, "there are 2 vision towers: mmproj-a.gguf, mmproj-b.gguf; name one with --mmproj FILE"},
		{oci, nil, class, "the vision tower comes from model.mmproj, which is in the same folder"},
		{oci, []string{"--mmproj", "none"}, language, `"notes": []`},
	} {
		for file, want := range map[string]string{"hf/config.json": c.config, "hf/tensorfs.json": c.describe} {
			if out := succeeds(t, append([]string{"cat", c.model, file}, c.flags...)...); !strings.Contains(out, want) {
				t.Errorf("%s %v: %s has no %s: %s", c.model, c.flags, file, want, out)
			}
		}
	}
	// Its tensors are the same as beside a file of this machine.
	if succeeds(t, "cat", "hf:acme/one", "hf/model.safetensors") != succeeds(t, "cat", text, "hf/model.safetensors") {
		t.Error("the tensors differ from those of files of this machine")
	}
}

// TestMMProjSwapped: for other users, a vision tower is taken only from the directory that has
// the model's own file: another directory may have that path by then.
func TestMMProjSwapped(t *testing.T) {
	folder, text, tower := gemma3Pair(t)
	private := t.TempDir()
	if err := os.Rename(tower, filepath.Join(private, "mmproj.gguf")); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(text)
	if err == nil {
		err = os.WriteFile(filepath.Join(private, "model.gguf"), b, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, keepInside := range []bool{true, false} {
		m, err := formats.Options{KeepInside: keepInside}.Open(text)
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		if err := errors.Join(os.Rename(folder, folder+"-away"), os.Symlink(private, folder)); err != nil {
			t.Fatal(err)
		}
		found, err := towerBeside(t, m, keepInside)
		if err != nil || (found == nil) != keepInside {
			t.Errorf("keepInside %v: %v, %v", keepInside, found, err)
		}
		if found != nil {
			found.Close()
		}
		if err := errors.Join(os.Remove(folder), os.Rename(folder+"-away", folder)); err != nil {
			t.Fatal(err)
		}
	}
}
