package main

import (
	"encoding/json"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs/views"
	"golang.org/x/sys/unix"
)

// directoriesOf returns the views among the directories of a mount, sorted.
func directoriesOf(t *testing.T, dir string) (names []string) {
	t.Helper()
	for _, v := range views.All {
		if st, err := os.Stat(filepath.Join(dir, v.Name)); err == nil && st.IsDir() {
			names = append(names, v.Name)
		}
	}
	return names
}

// indexViews returns the views that index.json of a mount speaks of.
func indexViews(t *testing.T, dir string) (names []string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "index.json"))
	if err != nil {
		t.Fatal(err)
	}
	var index struct{ Views, Absent map[string]json.RawMessage }
	if err := json.Unmarshal(text, &index); err != nil {
		t.Fatal(err)
	}
	for name := range index.Absent {
		if index.Views[name] == nil {
			t.Errorf("absent has %s, which is not shown", name)
		}
	}
	for _, v := range views.All {
		if index.Views[v.Name] != nil {
			names = append(names, v.Name)
		}
	}
	return names
}

// TestChosenViews mounts with views in every spelling: other views are neither in the tree nor in
// index.json.
func TestChosenViews(t *testing.T) {
	for _, test := range []struct{ flags, want string }{
		{"", "raw packed f16 bf16 f32 fused fused-f16 npy"},
		{"--views=npy,f16", "f16 npy"},
		{"-o views=f32:npy-f32,ro", "f32 npy-f32"},
		{"-o views=default:npy-f32", "raw packed f16 bf16 f32 fused fused-f16 npy npy-f32"},
	} {
		t.Run(test.flags, func(t *testing.T) {
			dir := mounted(t, q8, strings.Fields(test.flags)...)
			want := strings.Fields(test.want)
			if got := directoriesOf(t, dir); !slices.Equal(got, want) {
				t.Errorf("the tree has %v", got)
			}
			if got := indexViews(t, dir); !slices.Equal(got, want) {
				t.Errorf("index.json has %v", got)
			}
			readme, err := os.ReadFile(filepath.Join(dir, "README"))
			if err != nil || strings.Contains(string(readme), "  ls -l f16") != slices.Contains(want, "f16") {
				t.Errorf("%v\n%s", err, readme)
			}
			err = filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error { return err })
			if err != nil {
				t.Error(err)
			}
		})
	}
}

// TestExportOfOtherViews holds that an index.json of other views replaces none.
func TestExportOfOtherViews(t *testing.T) {
	dir := t.TempDir()
	if code, _, stderr := command("export", "--views", "f16", q8, dir, "f16"); code != 0 {
		t.Fatal(stderr)
	}
	if code, _, stderr := command("export", q8, dir, "f16"); code != 1 || !strings.Contains(stderr, "--views") || strings.Count(stderr, "\n") != 1 {
		t.Errorf("exit code %d, %q", code, stderr)
	}
	if code, _, stderr := command("export", "--views", "f16,f16", q8, dir, "f16/output_norm.weight"); code != 0 {
		t.Error(stderr)
	}
}

// TestWideAttributes holds what the files of f32/ and bf16/ say of themselves.
func TestWideAttributes(t *testing.T) {
	dir := mounted(t, ggufDir+"llama-xs.bf16.gguf")
	at := `[{"file":"llama-xs.bf16.gguf","offset":`
	for path, want := range map[string]map[string]string{
		"f32/output_norm.weight":                {"dtype": "F32", "shape": "[64]", "source_name": "output_norm.weight", "view": "f32", "extents": at, "may_overflow": ""},
		"bf16/output_norm.weight":               {"dtype": "BF16", "view": "bf16", "extents": ""},
		"f32/layers.0.attention.q.weight":       {"dtype": "F32", "shape": "[64,64]", "source_name": "blk.0.attn_q.weight", "extents": ""},
		"bf16/layers.0.attention.q.weight":      {"dtype": "BF16", "engine_dtype": "30", "extents": at},
		"f16/layers.0.attention.q.weight":       {"may_overflow": "true"},
		"npy/layers.0.attention.q.weight.npy":   {"may_overflow": "true"},
		"fused-f16/layers.0.ffn.gate_up.weight": {"may_overflow": "true"},
	} {
		for name, value := range want {
			var b [512]byte
			n, err := unix.Getxattr(filepath.Join(dir, path), "user.tensorfs."+name, b[:])
			if got := string(b[:max(n, 0)]); !strings.HasPrefix(got, value) || (value == "") != (err != nil) {
				t.Errorf("%s of %s is %q, %v; want %q", name, path, got, err, value)
			}
		}
	}
}

// numpyReads compares NumPy's numbers with the views of one mount.
const numpyReads = `
import glob, json, os, sys, numpy as np
d = sys.argv[1]
views = json.load(open(d + "/index.json"))["views"]
n = 0
for name, e in views["f32"].items():
    wide = np.fromfile(d + "/f32/" + name, "<f4").reshape(e["shape"])
    assert wide.nbytes == e["bytes"] == os.path.getsize(d + "/f32/" + name), name
    if wide.size:
        mapped = np.memmap(d + "/f32/" + name, "<f4", "r").reshape(e["shape"])
        assert mapped.tobytes() == wide.tobytes(), name
    file = np.load(d + "/npy-f32/" + name + ".npy", mmap_mode="r")
    assert file.dtype == np.dtype("<f4") and file.shape == wide.shape and file.tobytes() == wide.tobytes(), name
    with np.errstate(over="ignore"):
        half = wide.astype("<f2")
    stored = np.load(d + "/npy/" + name + ".npy")
    assert np.array_equal(half, stored, equal_nan=True), name
    up = np.fromfile(d + "/bf16/" + name, "<u2").astype("<u4").reshape(e["shape"])
    bits = wide.view("<u4") if wide.ndim else wide.reshape(1).view("<u4").reshape(())
    rounded = (bits + (0x7FFF + (bits >> 16 & 1))) >> 16
    assert np.array_equal(np.where(np.isnan(wide), up, rounded), up), name
    n += 1
print(n)
`

// numPy returns a Python that has NumPy, or skips.
func numPy(t *testing.T) string {
	t.Helper()
	const python = "/usr/bin/python3"
	if testing.Short() {
		t.Skip("not in the short form: NumPy")
	}
	if err := exec.Command(python, "-c", "import numpy").Run(); err != nil {
		t.Skip("NOT TESTED: no NumPy")
	}
	return python
}

// TestNumPyReadsWide reads f32/, bf16/ and npy-f32/ of mounts with NumPy, which does its own
// rounding.
func TestNumPyReadsWide(t *testing.T) {
	python := numPy(t)
	for _, model := range append(allModels(t), ggufDir+"kv.gguf", "../../testdata/ggml/types.gguf", "../../testdata/ggml/big_endian.gguf") {
		dir := mounted(t, model, "--views", "default,npy-f32")
		out, err := exec.Command(python, "-c", numpyReads, dir).CombinedOutput()
		if err != nil || strings.TrimSpace(string(out)) == "0" {
			t.Errorf("%s: %v\n%s", model, err, out)
		}
	}
}
