package main

import (
	"bufio"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs/internal/testing/testclient"
)

// TestTokenizersEncode holds that Hugging Face's own library, given the
// tokenizer.json of a mounted GGUF model, encodes texts to the tokens of the
// original tokenizer.
func TestTokenizersEncode(t *testing.T) {
	needFUSE(t)
	library := startScript(t, "tokenizers", "encode.mjs", "tokenizers")
	files, err := filepath.Glob(wholeHF + "*.tok.jsonl.gz")
	if err != nil || len(files) < 4 {
		t.Fatalf("%d files of texts, %v", len(files), err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".tok.jsonl.gz")
		var texts []string
		var want [][]int
		for lines := bufio.NewScanner(strings.NewReader(string(testclient.Unpack(t, file)))); lines.Scan(); {
			var l struct {
				Text string
				IDs  []int
			}
			if err := json.Unmarshal(lines.Bytes(), &l); err != nil {
				t.Fatal(err)
			}
			texts, want = append(texts, l.Text), append(want, l.IDs)
		}
		dir := mounted(t, unpackedModel(t, name))
		var got struct {
			OK    bool
			Error string
			IDs   [][]int
		}
		library.Do(t, map[string]any{"tokenizer": dir + "/hf/tokenizer.json", "texts": texts}, &got)
		if !got.OK || len(got.IDs) != len(want) || len(want) < 20 {
			t.Fatalf("%s: %s, %d texts of %d", name, got.Error, len(got.IDs), len(want))
		}
		for i := range want {
			if !slices.Equal(got.IDs[i], want[i]) {
				t.Errorf("%s: %q is %v, want %v", name, texts[i], got.IDs[i], want[i])
			}
		}
	}
}

// readSafetensors reads a safetensors file with only NumPy: through its header, by mappings. It
// prints a line for each tensor, in the form of the golden tables.
const readSafetensors = `
import hashlib, json, sys, numpy as np
path = sys.argv[1]
types = {"F32": "<f4", "F16": "<f2", "BF16": "<u2", "U32": "<u4", "U8": "<u1"}
with open(path, "rb") as f:
    n = int.from_bytes(f.read(8), "little")
    header = json.loads(f.read(n))
for name, t in sorted(header.items()):
    if name != "__metadata__":
        a = np.memmap(path, dtype=types[t["dtype"]], mode="r", offset=8 + n + t["data_offsets"][0], shape=tuple(t["shape"]))
        print(name, t["dtype"], "x".join(map(str, t["shape"])), hashlib.sha256(a.tobytes()).hexdigest(), sep="\t")
`

// TestNumPyReadsSafetensors holds that a program which maps the tensors of a
// mounted model.safetensors gets the golden ones.
func TestNumPyReadsSafetensors(t *testing.T) {
	needFUSE(t)
	python := numPy(t)
	for _, name := range []string{"types", "syn-llama31", "qwen2.q4_0", "deepseek2.q4_k_m"} {
		dir := mounted(t, unpackedModel(t, name))
		for _, kind := range []string{"hf", "mlx"} {
			table, err := os.ReadFile(wholeHF + name + "." + kind + ".tsv")
			if err != nil {
				t.Fatal(err)
			}
			_, want, _ := strings.Cut(strings.ReplaceAll(string(table), " ", ""), "\n")
			out, err := exec.Command(python, "-c", readSafetensors, dir+"/"+kind+"/model.safetensors").CombinedOutput()
			if err != nil || strings.TrimSpace(string(out)) != strings.TrimSpace(want) {
				t.Errorf("%s/ of %s: %v\n%s\nwant\n%s", kind, name, err, out, want)
			}
		}
	}
}
