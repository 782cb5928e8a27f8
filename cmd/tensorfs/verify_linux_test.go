package main

import (
	"bytes"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/testing/testmodel"
	"github.com/tensorfs/tensorfs/internal/verify"
)

// damagedNorm is a copy of a model whose norm has NaN and infinities.
func damagedNorm(t *testing.T) string {
	t.Helper()
	tensor := func() string {
		_, out, _ := command("ls", "--json", q8, "raw/output_norm.weight")
		return out
	}()
	if !strings.Contains(tensor, `"F32"`) {
		t.Fatalf("the model has no F32 norm to damage: %s", tensor)
	}
	model, err := os.ReadFile(q8)
	must(t, err)
	_, norm, _ := command("cat", q8, "raw/output_norm.weight")
	at := bytes.Index(model, []byte(norm))
	copy(model[at:], "\x00\x00\xc0\x7f\x00\x00\x80\xff\x00\x00\x80\x7f") // NaN, -Inf, +Inf
	path := filepath.Join(t.TempDir(), "damaged.gguf")
	must(t, os.WriteFile(path, model, 0o600))
	return path
}

// reportOf runs verify --json.
func reportOf(t *testing.T, want int, args ...string) (r verify.Report) {
	t.Helper()
	code, out, stderr := command(append([]string{"verify", "--json"}, args...)...)
	if err := json.Unmarshal([]byte(out), &r); err != nil || code != want || (code == 0) != (stderr == "") {
		t.Errorf("verify --json %q: exit code %d, %q, %v: %s", args, code, stderr, err, out)
	}
	if r.Findings == nil || r.Overflows == nil || r.Notes == nil {
		t.Errorf("verify --json %q has null for a list: %s", args, out)
	}
	return r
}

func TestVerifyFindings(t *testing.T) {
	path := damagedNorm(t)
	code, out, stderr := command("verify", path)
	if code != 1 || !strings.Contains(out, "output_norm.weight: 1 value is NaN, 2 values are infinite\n") || strings.Count(stderr, "\n") != 1 {
		t.Errorf("verify: exit code %d, %q, %q", code, out, stderr)
	}
	// Without a digest of the file, no message prefers another copy.
	if strings.Contains(stderr, "again") || !strings.Contains(stderr, "publisher") {
		t.Errorf("verify advises %q", stderr)
	}
	report := reportOf(t, 1, path)
	if len(report.Findings) != 1 || report.Findings[0].Tensor != "output_norm.weight" || report.Findings[0].Kind != verify.KindValues || report.Tensors != 20 || !report.Complete {
		t.Errorf("verify --json: %+v", report)
	}
	stored := int64(0)
	tree, err := (&modelFlags{}).open(q8)
	must(t, err)
	defer tree.Model.Close()
	for _, x := range tree.Model.Tensors {
		stored += x.Data.Size()
	}
	if report := reportOf(t, 0, q8); len(report.Findings) != 0 || report.Tensors != 20 || report.Bytes != stored {
		t.Errorf("verify --json: %+v", report)
	}
}

// le32 returns floats as F32.
func le32(v ...float32) (b []byte) {
	for _, x := range v {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(x))
	}
	return b
}

// An overflow is no finding: it is printed apart and fails nothing.
func TestVerifyOverflow(t *testing.T) {
	f64 := binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, math.Float64bits(1)), math.Float64bits(-1e300))
	ts := []testmodel.SafeTensor{
		{Name: "a", DType: tensorfs.F32, Shape: []int64{4}, Data: le32(1e6, -1e6, 1e5, 1)},
		{Name: "b", DType: tensorfs.F32, Shape: []int64{1}, Data: le32(3.4e38)},
		{Name: "c", DType: tensorfs.F64, Shape: []int64{2}, Data: f64},
		{Name: "d", DType: tensorfs.F32, Shape: []int64{2}, Data: le32(65519, -65504)},
	}
	path := filepath.Join(t.TempDir(), "large.safetensors")
	must(t, os.WriteFile(path, testmodel.Safetensors(ts, nil), 0o600))
	code, out, stderr := command("verify", path)
	lines := strings.Split(strings.TrimSuffix(out, "\n"), "\n")
	slices.Sort(lines)
	want := []string{
		"4 tensors and 0 digests read, 44 B, 0 findings, 3 overflows in f16/",
		"note: " + verify.NothingCompared,
		"overflow: a: 3 of 4 values are beyond 65504 (up to 1e+06) and become infinite in f16/; read f32/ or bf16/",
		"overflow: b: its only value is beyond 65504 (3.4e+38) and becomes infinite in f16/; read f32/",
		"overflow: c: 1 of 2 values is beyond 65504 (1e+300) and becomes infinite in f16/; read raw/",
	}
	if code != 0 || stderr != "" || !slices.Equal(lines, want) {
		t.Errorf("verify: exit code %d, %q, %q\n%s\nwant\n%s", code, out, stderr, out, strings.Join(want, "\n"))
	}
	report := reportOf(t, 0, path)
	if want := []verify.Overflow{{Tensor: "a", Values: 3, Of: 4, Largest: 1e6}, {Tensor: "b", Values: 1, Of: 1, Largest: float64(float32(3.4e38))}, {Tensor: "c", Values: 1, Of: 2, Largest: 1e300}}; !slices.Equal(report.Overflows, want) {
		t.Errorf("verify --json: %+v, want %+v", report.Overflows, want)
	}
}

// gitID is how git names a file.
func gitID(b []byte) string {
	return fmt.Sprintf("%x", sha1.Sum(append(fmt.Appendf(nil, "blob %d\x00", len(b)), b...)))
}

// hubModel is a model with a NaN, and its config, as files of a repository.
func hubModel() (weights, config []byte) {
	ts := []testmodel.SafeTensor{{Name: "model.norm.weight", DType: tensorfs.F32, Shape: []int64{4}, Data: le32(float32(math.NaN()), 1, 2, 3)}}
	return testmodel.Safetensors(ts, nil), []byte(`{"model_type":"llama"}`)
}

// The Hugging Face cache names large files by their SHA-256 and small ones by git's
// id.
func TestVerifyHuggingFaceCache(t *testing.T) {
	weights, config := hubModel()
	dir := t.TempDir()
	large, small := fmt.Sprintf("%x", sha256.Sum256(weights)), gitID(config)
	const snapshot = "models--o--n/snapshots/c/"
	must(t, testmodel.Write(dir, map[string][]byte{"models--o--n/blobs/" + large: weights, "models--o--n/blobs/" + small: config, snapshot + "x": nil}))
	must(t, os.Symlink("../../blobs/"+large, filepath.Join(dir, snapshot, "model.safetensors")))
	must(t, os.Symlink("../../blobs/"+small, filepath.Join(dir, snapshot, "config.json")))
	model := filepath.Join(dir, snapshot)

	// The digests are right: the NaN is the publisher's.
	code, out, stderr := command("verify", model)
	if code != 1 || !strings.Contains(out, "1 value is NaN\n") || !strings.Contains(out, "1 tensor and 2 digests read") || !strings.Contains(stderr, "ask its publisher") {
		t.Errorf("sound files: exit code %d, %q, %q", code, out, stderr)
	}
	for name, c := range map[string]struct {
		blob string
		to   []byte
	}{"config.json": {small, []byte(`{"model_type":"Llama"}`)}, "model.safetensors": {large, append(weights[:len(weights)-1:len(weights)-1], 0x7f)}} {
		before, err := os.ReadFile(filepath.Join(dir, "models--o--n/blobs", c.blob))
		must(t, err)
		must(t, os.WriteFile(filepath.Join(dir, "models--o--n/blobs", c.blob), c.to, 0o600))
		code, out, stderr := command("verify", model)
		if code != 1 || !strings.Contains(out, name+": its digest is ") || !strings.Contains(out, "its name has ") || !strings.Contains(out, c.blob) || !strings.Contains(stderr, "fetch the files with wrong digests again") {
			t.Errorf("%s damaged: exit code %d, %q, %q", name, code, out, stderr)
		}
		must(t, os.WriteFile(filepath.Join(dir, "models--o--n/blobs", c.blob), before, 0o600))
	}
}

// hf download --local-dir keeps a record of the digests beside the files.
func TestVerifyRecordOfDownload(t *testing.T) {
	weights, config := hubModel()
	weights[len(weights)-16+2] = 0 // where the NaN is
	dir := t.TempDir()
	const records = ".cache/huggingface/download/"
	now := time.Now()
	record := func(digest string, at time.Time) []byte {
		return fmt.Appendf(nil, "%040d\n%s\n%f\n", 1, digest, float64(at.UnixNano())/1e9)
	}
	must(t, testmodel.Write(dir, map[string][]byte{
		"model.safetensors": weights, "config.json": config,
		records + "model.safetensors.metadata": record(fmt.Sprintf("%x", sha256.Sum256(weights)), now.Add(time.Hour)),
		records + "config.json.metadata":       record(gitID(config), now.Add(time.Hour)),
	}))
	if r := reportOf(t, 0, dir); r.Files != 2 {
		t.Errorf("%d digests compared, want 2: %+v", r.Files, r)
	}
	must(t, os.WriteFile(filepath.Join(dir, "config.json"), []byte(`{"model_type":"gemma"}`), 0o600))
	r := reportOf(t, 1, dir)
	if len(r.Findings) != 1 || r.Findings[0].File != "config.json" || r.Findings[0].Kind != verify.KindDigest || !strings.Contains(r.Findings[0].Problem, "the record of its download has git:") {
		t.Errorf("a damaged config: %+v", r)
	}
	// Written to after the download, on purpose: the record holds no longer.
	must(t, os.Chtimes(filepath.Join(dir, "config.json"), now.Add(2*time.Hour), now.Add(2*time.Hour)))
	if r := reportOf(t, 0, dir); r.Files != 1 {
		t.Errorf("%d digests compared, want 1: %+v", r.Files, r)
	}
	for name, b := range map[string][]byte{"empty": {}, "junk": bytes.Repeat([]byte("x "), 1<<16), "no time": []byte("a\n" + gitID(config) + "\nnever\n"), "no digest": record("W/\"abc\"", now.Add(3*time.Hour))} {
		must(t, os.WriteFile(filepath.Join(dir, records, "config.json.metadata"), b, 0o600))
		if r := reportOf(t, 0, dir); r.Files != 1 {
			t.Errorf("a record that is %s: %d digests compared, want 1: %+v", name, r.Files, r)
		}
	}
}

// sha256sum in a mount does what --manifest and --check did, and the messages about these flags name it.
func TestVerifyArguments(t *testing.T) {
	for _, args := range []string{"--manifest list MODEL", "--manifest=- MODEL", "--manifest", "--check list MODEL", "--in raw MODEL"} {
		failsWith(t, 2, append([]string{"verify"}, strings.Fields(strings.ReplaceAll(args, "MODEL", q8))...), "sha256sum -c LIST")
	}
	failsWith(t, 2, []string{"verify"}, "too few arguments")
}
