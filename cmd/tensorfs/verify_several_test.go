package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/testing/testmodel"
	"github.com/tensorfs/tensorfs/internal/verify"
)

// TestVerifySeveral verifies models side by side: one that is broken, or cannot be opened, does not end it.
func TestVerifySeveral(t *testing.T) {
	dir := t.TempDir()
	b, err := os.ReadFile(q8)
	must(t, err)
	path := func(name string) string { return filepath.Join(dir, name) }
	must(t, testmodel.Write(dir, map[string][]byte{"a.gguf": b, "cut.gguf": b[:500], "half.gguf": append(slices.Clone(b[:len(b)/2]), make([]byte, len(b)-len(b)/2)...), "z.gguf": b}))
	code, out, stderr := command("verify", path("cut.gguf"), path("half.gguf"), path("a.gguf"), path("none.gguf"))
	lines := strings.Split(out, "\n")
	if code != 1 || stderr != "" || !strings.HasPrefix(lines[0], path("cut.gguf")+": not verified: ") || !strings.Contains(lines[1], " findings; the file may have been reserved") ||
		!strings.Contains(out, "\n"+path("a.gguf")+": ok, 20 tensors and 0 digests read, ") || !strings.Contains(out, "\n"+path("none.gguf")+": not verified: no such file") ||
		!strings.HasSuffix(out, "\n4 models: 1 ok, 1 with findings, 2 not verified\n") {
		t.Errorf("exit status %d, %s%s", code, out, stderr)
	}
	if n := strings.Count(out, "\n  "); n != verify.MostLines+1 {
		t.Errorf("%d findings of one model are listed", n)
	}
	if out := succeeds(t, "verify", path("a.gguf"), path("z.gguf")); !strings.HasSuffix(out, "\n2 models: 2 ok, 0 with findings, 0 not verified\n") {
		t.Error(out)
	}
	code, out, _ = command("verify", dir) // a folder of models
	if code != 1 || !strings.HasSuffix(out, "\n4 models: 2 ok, 1 with findings, 1 not verified\n") {
		t.Errorf("a folder: exit status %d, %s", code, out)
	}
	var list []struct {
		Model, Error string
		Tensors      int
		Findings     []verify.Finding
	}
	code, out, _ = command("verify", "--json", dir)
	must(t, json.Unmarshal([]byte(out), &list))
	if code != 1 || len(list) != 4 || list[0].Tensors != 20 || list[0].Findings == nil || list[1].Error == "" || len(list[2].Findings) == 0 {
		t.Errorf("exit status %d, %+v", code, list)
	}
	t.Setenv("OLLAMA_MODELS", "../../testdata/ollama/models")
	if _, out, stderr := command("verify", "ollama:"); !strings.Contains(out, "ollama:tinyllama:latest: ok") || !strings.Contains(out, " models: ") || stderr != "" {
		t.Errorf("%s%s", out, stderr)
	}
	t.Setenv("HF_HUB_CACHE", path("nowhere"))
	failsWith(t, 1, []string{"verify", "hf:"}, "there is no Hugging Face cache")
}

// TestVerifyZerosInside holds that zeros before other numbers are not taken for space that a download left.
func TestVerifyZerosInside(t *testing.T) {
	half := func(name, of string) testmodel.SafeTensor {
		return testmodel.SafeTensor{Name: name, DType: tensorfs.F16, Shape: []int64{64, 64}, Data: []byte(strings.Repeat(of, 64*64))}
	}
	const zeros, ones = "\x00\x00", "\x00\x3c"
	for _, c := range []struct{ first, last, want string }{{zeros, ones, "it was not left unfilled"}, {ones, zeros, "reserved and not filled"}} {
		path := filepath.Join(t.TempDir(), "m.safetensors")
		must(t, os.WriteFile(path, testmodel.Safetensors([]testmodel.SafeTensor{half("model.layers.0.mlp.up_proj.weight", c.first), half("model.layers.1.mlp.up_proj.weight", c.last)}, nil), 0o666))
		failsWith(t, 1, []string{"verify", path}, c.want)
	}
}
