package main

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/testing/testmodel"
	"github.com/tensorfs/tensorfs/internal/verify"
)

// TestVerifyReservedFile has a file as a download leaves it that reserves the space
// and ends early.
func TestVerifyReservedFile(t *testing.T) {
	b, err := os.ReadFile(q8)
	must(t, err)
	path := filepath.Join(t.TempDir(), "m.gguf")
	must(t, os.WriteFile(path, b[:len(b)/2], 0o666))
	must(t, os.Truncate(path, int64(len(b))))
	code, out, stderr := command("verify", path)
	if code != 1 || !strings.Contains(out, " values are 0\n") || !strings.Contains(out, "note: "+verify.NothingCompared+"\n") {
		t.Errorf("exit code %d, %s", code, out)
	}
	if strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, "a download that has ended early: fetch it again") {
		t.Errorf("it says %q", stderr)
	}
	r := reportOf(t, 1, path)
	for _, f := range r.Findings {
		if f.Kind != verify.KindZeros || f.Tensor == "" {
			t.Errorf("%+v", f)
		}
	}
	if len(r.Findings) == 0 || !slices.Equal(r.Notes, []string{verify.NothingCompared}) {
		t.Errorf("%+v", r)
	}
	for name, size := range map[string]int64{"empty.gguf": 200_000, "empty.safetensors": 3 << 20, "empty": 1 << 20} {
		path := filepath.Join(filepath.Dir(path), name)
		must(t, os.WriteFile(path, nil, 0o666))
		must(t, os.Truncate(path, size))
		for _, cmd := range []string{"verify", "info", "ls"} {
			code, out, stderr := command(cmd, path)
			if code != 1 || out != "" || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, "the file is empty space: the download did not run") || !strings.Contains(stderr, "fetch the file again") {
				t.Errorf("%s of %s: exit code %d, %q, %q", cmd, name, code, out, stderr)
			}
		}
	}
}

// holedModel is a safetensors file with a hole in one of its two tensors, which has
// other numbers too.
func holedModel(t *testing.T, path string) (content []byte) {
	t.Helper()
	const n = 4 << 20 // halves
	ones := []byte(strings.Repeat("\x00\x3c", n))
	copy(ones[2<<20:], make([]byte, 3<<20))
	content = testmodel.Safetensors([]testmodel.SafeTensor{
		{Name: "model.layers.0.mlp.up_proj.weight", DType: tensorfs.F16, Shape: []int64{n / 1024, 1024}, Data: ones},
		{Name: "model.norm.weight", DType: tensorfs.F16, Shape: []int64{1024}, Data: []byte(strings.Repeat("\x00\x3c", 1024))},
	}, nil)
	f, err := os.Create(path)
	must(t, err)
	defer f.Close()
	must(t, f.Truncate(int64(len(content))))
	const step = 4096
	for at := 0; at < len(content); at += step {
		if part := content[at:min(at+step, len(content))]; strings.Trim(string(part), "\x00") != "" {
			_, err := f.WriteAt(part, int64(at))
			must(t, err)
		}
	}
	return content
}

// TestVerifyHole has a file with a hole under a tensor. Where its digest is known,
// that decides.
func TestVerifyHole(t *testing.T) {
	dir := t.TempDir()
	plain := filepath.Join(dir, "m.safetensors")
	content := holedModel(t, plain)
	const what = "3.0 MiB of layers.0.ffn.up.weight were never written: the file has holes there"
	r := reportOf(t, 1, plain)
	if len(r.Findings) == 0 {
		t.Skip("NOT TESTED: the file system of temporary files has no holes")
	}
	if len(r.Findings) != 1 || r.Findings[0].Kind != verify.KindHole || r.Findings[0].File != "m.safetensors" || !strings.HasSuffix(r.Findings[0].Problem, strings.TrimPrefix(what, "3.0 MiB")) || !slices.Contains(r.Notes, verify.NothingCompared) {
		t.Errorf("%+v", r)
	}
	if code, _, stderr := command("verify", plain); code != 1 || !strings.Contains(stderr, "reserved and not filled") {
		t.Errorf("exit code %d, %q", code, stderr)
	}
	must(t, os.WriteFile(plain, content, 0o666)) // the same bytes, written
	if r := reportOf(t, 0, plain); len(r.Findings) != 0 {
		t.Errorf("without a hole: %+v", r)
	}
	// As the Hugging Face cache has it: named by its digest.
	blob := fmt.Sprintf("%x", sha256.Sum256(content))
	repo := filepath.Join(dir, "models--o--n")
	must(t, testmodel.Write(repo, map[string][]byte{"blobs/x": nil, "snapshots/c/config.json": []byte(`{"model_type":"llama"}`)}))
	holedModel(t, filepath.Join(repo, "blobs", blob))
	must(t, os.Symlink("../../blobs/"+blob, filepath.Join(repo, "snapshots/c/model.safetensors")))
	r = reportOf(t, 0, filepath.Join(repo, "snapshots/c"))
	if len(r.Findings) != 0 || r.Files == 0 || len(r.Notes) != 1 || !strings.Contains(r.Notes[0], " of layers.0.ffn.up.weight were never written: the file has holes there; it is compared with a digest") {
		t.Errorf("with a digest: %+v", r)
	}
}

// TestVerifyZeros has tensors of zeros in a model without and with a known digest.
func TestVerifyZeros(t *testing.T) {
	half := func(name string, shape ...int64) testmodel.SafeTensor {
		n, _ := tensorfs.Elements(shape)
		return testmodel.SafeTensor{Name: name, DType: tensorfs.F16, Shape: shape, Data: make([]byte, 2*n)}
	}
	ts := []testmodel.SafeTensor{
		half("model.layers.0.mlp.up_proj.weight", 64, 64), half("model.layers.0.input_layernorm.weight", 64),
		half("model.layers.0.self_attn.q_proj.bias", 64), half("model.layers.0.self_attn.q_proj.lora_B.weight", 64, 8),
	}
	found := []string{"layers.0.attention_norm.weight", "layers.0.ffn.up.weight"}
	content := testmodel.Safetensors(ts, nil)
	dir := t.TempDir()
	plain := filepath.Join(dir, "m.safetensors")
	must(t, os.WriteFile(plain, content, 0o666))
	r := reportOf(t, 1, plain)
	var got []string
	for _, f := range r.Findings {
		got = append(got, f.Tensor)
	}
	slices.Sort(got)
	isLoRA := func(n string) bool {
		return strings.Contains(n, "lora_b") && strings.Contains(n, "all its 512 values are 0")
	}
	if !slices.Equal(got, found) || len(r.Notes) != 2 || !slices.ContainsFunc(r.Notes, isLoRA) {
		t.Errorf("%q, want %q; %q", got, found, r.Notes)
	}
	blob := fmt.Sprintf("%x", sha256.Sum256(content))
	repo := filepath.Join(dir, "models--o--n")
	must(t, testmodel.Write(repo, map[string][]byte{"blobs/" + blob: content, "snapshots/c/config.json": []byte(`{"model_type":"llama"}`)}))
	must(t, os.Symlink("../../blobs/"+blob, filepath.Join(repo, "snapshots/c/model.safetensors")))
	r = reportOf(t, 0, filepath.Join(repo, "snapshots/c"))
	if len(r.Notes) != 3 || strings.Count(strings.Join(r.Notes, "\n"), "its file is compared with a digest") != 2 {
		t.Errorf("with a digest: %q", r.Notes)
	}
}
