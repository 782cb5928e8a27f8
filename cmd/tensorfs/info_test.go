package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/cli"
	"github.com/tensorfs/tensorfs/internal/describe"
	"github.com/tensorfs/tensorfs/internal/testing/testmodel"
)

var update = flag.Bool("update", false, "rewrite testdata/info")

const testdata = "../../testdata/"

// zeroGGUF writes a GGUF file of F16 tensors of zeros and returns its path.
func zeroGGUF(t *testing.T, name string, meta []tensorfs.Meta, shapes map[string][]int64) string {
	t.Helper()
	g := testmodel.GGUF{Meta: meta}
	for tensor, shape := range shapes {
		n, _ := tensorfs.Elements(shape)
		g.Tensors = append(g.Tensors, testmodel.GGUFTensor{Name: tensor, Shape: shape, Type: uint32(tensorfs.F16.GGML()), Data: make([]byte, 2*n)})
	}
	return written(t, map[string][]byte{name: g.Bytes()}, name)
}

// written writes files and returns the path of one of them.
func written(t *testing.T, files map[string][]byte, name string) string {
	t.Helper()
	dir := t.TempDir()
	if err := testmodel.Write(dir, files); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, name)
}

// zeros is a tensor of a safetensors file, without its name.
func zeros(d tensorfs.DType, shape ...int64) testmodel.SafeTensor {
	size, _ := d.Size(shape)
	return testmodel.SafeTensor{DType: d, Shape: shape, Data: make([]byte, size)}
}

// infoModels are the models whose screens are in testdata/info.
var infoModels = []struct {
	name  string
	model func(t *testing.T) string
}{
	{"gguf", func(*testing.T) string { return testdata + "pairs/llama/gguf/llama.gguf" }},
	{"gguf-experts", func(*testing.T) string { return ggufDir + "qwen3moe.q4_0.gguf" }},
	{"gguf-fallback", func(*testing.T) string { return ggufDir + "llama-xs.q4_k_m.gguf" }},
	{"gguf-many-types", func(*testing.T) string { return testdata + "ggml/types.gguf" }},
	{"gguf-split", func(*testing.T) string { return splitTwo }},
	{"bitnet", func(*testing.T) string { return testdata + "bitnet/i2s-128.gguf" }},
	{"hf", func(*testing.T) string { return testdata + "pairs/llama/hf" }},
	{"hf-bert", func(*testing.T) string { return testdata + "whole-gguf/bert" }},
	{"hf-gemma3", func(*testing.T) string { return testdata + "whole-gguf/gemma3" }},
	{"hf-gpt-oss", func(*testing.T) string { return testdata + "whole-gguf/gpt-oss" }},
	{"hf-deepseek3", func(*testing.T) string { return testdata + "whole-gguf/deepseek3" }},
	{"mlx-mixed", func(*testing.T) string { return testdata + "models-mlx/qwen3-mixed" }},
	{"mlx-4bit", func(*testing.T) string { return testdata + "whole-gguf/mlx-llama3-4bit" }},
	{"safetensors", func(*testing.T) string { return testdata + "mlx/quant-cases.safetensors" }},
	{"ollama", func(t *testing.T) string {
		t.Setenv("OLLAMA_MODELS", testdata+"ollama/models")
		return "ollama:tiny:int4"
	}},
	{"ollama-gguf", func(t *testing.T) string {
		t.Setenv("OLLAMA_MODELS", testdata+"ollama/models")
		return "ollama:tinyllama"
	}},
	{"hf-cache", func(t *testing.T) string {
		repo := t.TempDir() + "/models--acme--tiny/"
		snapshot := repo + "snapshots/0123456789abcdef0123456789abcdef01234567"
		if err := os.CopyFS(snapshot, os.DirFS(testdata+"pairs/llama/hf")); err != nil {
			t.Fatal(err)
		}
		if err := testmodel.Write(repo, map[string][]byte{"refs/main": []byte(filepath.Base(snapshot))}); err != nil {
			t.Fatal(err)
		}
		t.Setenv("HF_HUB_CACHE", filepath.Dir(filepath.Clean(repo)))
		return "hf:acme/tiny"
	}},
	{"gptq", func(t *testing.T) string {
		var list []testmodel.SafeTensor
		for name, x := range map[string]testmodel.SafeTensor{
			"q_proj.qweight": zeros(tensorfs.I32, 8, 64), "q_proj.qzeros": zeros(tensorfs.I32, 1, 8), "q_proj.scales": zeros(tensorfs.F16, 1, 64),
		} {
			x.Name = "model.layers.0.self_attn." + name
			list = append(list, x)
		}
		slices.SortFunc(list, func(a, b testmodel.SafeTensor) int { return strings.Compare(a.Name, b.Name) })
		return written(t, testmodel.HF(map[string]any{"architectures": []string{"LlamaForCausalLM"}, "_name_or_path": "acme/Tiny-GPTQ", "hidden_size": 64,
			"quantization_config": map[string]any{"quant_method": "gptq", "bits": 4, "group_size": 64}}, list, 1, nil), ".")
	}},
	{"lora", func(t *testing.T) string {
		return zeroGGUF(t, "adapter.gguf", []tensorfs.Meta{{Key: "general.architecture", Value: "llama"}, {Key: "general.type", Value: "adapter"}, {Key: "adapter.type", Value: "lora"}, {Key: "general.name", Value: "Tiny Adapter"}},
			map[string][]int64{"blk.0.attn_q.weight.lora_a": {8, 64}, "blk.0.attn_q.weight.lora_b": {64, 8}})
	}},
	{"mmproj", func(t *testing.T) string {
		return zeroGGUF(t, "mmproj.gguf", []tensorfs.Meta{{Key: "general.architecture", Value: "clip"}, {Key: "clip.vision.block_count", Value: uint32(1)}, {Key: "clip.projector_type", Value: "mlp"}},
			map[string][]int64{"v.blk.0.attn_q.weight": {64, 64}, "v.blk.0.attn_k.weight": {64, 64}, "v.blk.0.attn_v.weight": {64, 64}, "v.blk.0.ffn_up.weight": {128, 64}, "mm.0.weight": {64, 64}})
	}},
	{"vocabulary", func(t *testing.T) string {
		return zeroGGUF(t, "vocab.gguf", []tensorfs.Meta{{Key: "general.architecture", Value: "llama"}, {Key: "tokenizer.ggml.model", Value: "llama"}, {Key: "tokenizer.ggml.tokens", Value: []string{"a", "b"}}}, nil)
	}},
	{"empty", func(t *testing.T) string { return zeroGGUF(t, "empty.gguf", nil, nil) }},
	{"tables", func(t *testing.T) string { // rotary frequencies are no parameters
		return zeroGGUF(t, "tables.gguf", []tensorfs.Meta{{Key: "general.architecture", Value: "llama"}, {Key: "general.file_type", Value: uint32(1)}},
			map[string][]int64{"rope_freqs.weight": {32}, "token_embd.weight": {1000, 1000}, "output.weight": {1000, 1000}})
	}},
	{"hostile", func(t *testing.T) string {
		return zeroGGUF(t, "hostile.gguf", []tensorfs.Meta{{Key: "general.architecture", Value: hostileName}, {Key: "general.name", Value: strings.Repeat(hostileName+" ", 1000)}}, nil)
	}},
}

// TestInfoScreens holds what info prints to the letter, and that it fits a screen.
// The path, which is another one on every machine, is left out.
func TestInfoScreens(t *testing.T) {
	t.Setenv("LC_ALL", "C.UTF-8")
	for _, m := range infoModels {
		t.Run(m.name, func(t *testing.T) {
			code, out, stderr := command("info", m.model(t))
			if code != 0 || stderr != "" {
				t.Fatalf("exit code %d, %s", code, stderr)
			}
			fitsAScreen(t, out)
			lines := strings.SplitAfter(out, "\n")
			if n := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, "path ") }); n < 0 {
				t.Error("no path")
			} else {
				lines[n] = "path          PATH\n"
			}
			out = strings.Join(lines, "")
			file := testdata + "info/" + m.name + ".txt"
			if *update {
				if err := os.WriteFile(file, []byte(out), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if out != string(want) {
				t.Errorf("got\n%s\nwant\n%s", out, want)
			}
		})
	}
}

// fitsAScreen fails a test where text is longer than 60 lines or wider than 80 columns.
func fitsAScreen(t *testing.T, out string) {
	t.Helper()
	lines := strings.Split(strings.TrimSuffix(out, "\n"), "\n")
	if len(lines) > 60 {
		t.Errorf("%d lines", len(lines))
	}
	for _, l := range lines {
		if n := utf8.RuneCountInString(l); n > 80 || strings.TrimRight(l, " ") != l {
			t.Errorf("%d columns: %q", n, l)
		}
	}
	shown(t, "info", out)
}

// TestInfoFitsAScreen asks info of every model of testdata.
func TestInfoFitsAScreen(t *testing.T) {
	t.Parallel()
	var all []string
	err := filepath.WalkDir(testdata, func(path string, d fs.DirEntry, err error) error {
		switch {
		case d.IsDir() && strings.HasPrefix(d.Name(), "hostile"):
			return filepath.SkipDir
		case strings.HasSuffix(path, ".gguf"), strings.HasSuffix(path, ".safetensors"), strings.Contains(path, "/manifests/") && !d.IsDir():
			all = append(all, path)
		case d.Name() == "config.json":
			all = append(all, filepath.Dir(path))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, m := range all {
		code, out, stderr := command("info", m)
		if code != 0 {
			continue // a part of a model, or what tests compare with
		}
		n++
		if stderr != "" {
			t.Errorf("info %s: %s", m, stderr)
		}
		fitsAScreen(t, out)
	}
	if n < 80 {
		t.Errorf("info showed %d of %d models", n, len(all))
	}
	for _, m := range allModels(t) {
		_, out, _ := command("info", m)
		for _, want := range []string{"architecture", "tensors", "raw/", "f16/", "fused/", "gguf/"} {
			if !strings.Contains(out, want) {
				t.Errorf("info %s does not tell %s", m, want)
			}
		}
		var info struct {
			Format string
			Whole  []struct {
				Name      string
				Available bool
				Reason    string
			}
		}
		if _, out, _ := command("info", "--json", m); json.Unmarshal([]byte(out), &info) != nil || info.Format == "" ||
			len(info.Whole) == 0 || info.Whole[0].Available != (info.Whole[0].Reason == "") {
			t.Errorf("info --json %s prints %s", m, out)
		}
	}
}

// TestInfoOfMuch holds that a screen is enough for more types, warnings and text
// than one has room for.
func TestInfoOfMuch(t *testing.T) {
	t.Setenv("LC_ALL", "C")
	info := &describe.Info{Name: strings.Repeat("n", 500), Path: strings.Repeat("/path", 100), Architecture: strings.Repeat("a", 100), Tensors: 28, Bytes: 4000, Quant: strings.Repeat("q w", 100), Quantised: true}
	want := "\ntypes         tensors       bytes    share\n"
	for i := range int64(14) {
		info.Types = append(info.Types, describe.TypeShare{Type: fmt.Sprintf("T%02d", i), Tensors: 2, Bytes: 1000})
		info.Warnings = append(info.Warnings, fmt.Sprintf("warning %d", i)+strings.Repeat(" of many words", 7))
		if i < 10 {
			want += fmt.Sprintf("T%02d                 2      1000 B   25.0 %%  ####\n", i)
		}
	}
	want += "and 4 more; --json has all\n\nviews         raw/: 3 files, 1 left out (see index.json)\n              f16/: none, 1 left out\n"
	info.Views = []describe.ViewCount{{Name: "raw", Files: 3, Absent: 1, LeftOut: 1}, {Name: "f16", Files: 0, Absent: 4, LeftOut: 1}}
	var out bytes.Buffer
	if err := (&infoScreen{info: info, width: 80}).print(&out); err != nil {
		t.Fatal(err)
	}
	text := out.String()
	fitsAScreen(t, text)
	if !strings.Contains(text, want) || !strings.HasSuffix(text, "\n  and 10 more; --json has all\n") {
		t.Errorf("%s\nwant\n%s", text, want)
	}
	out.Reset()
	if err := (&infoScreen{info: &describe.Info{Types: []describe.TypeShare{{Type: "F32"}}}, width: 80}).print(&out); err != nil || !strings.Contains(out.String(), "F32                 0         0 B    0.0 %\n") {
		t.Errorf("a model without bytes: %v\n%s", err, &out)
	}
}

// TestInfoJSON holds the keys that programs know, and what they say.
func TestInfoJSON(t *testing.T) {
	_, out, _ := command("info", "--json", testdata+"pairs/llama/gguf/llama.gguf")
	var info map[string]any
	if err := json.Unmarshal([]byte(out), &info); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"path", "format", "architecture", "layout", "tensors", "elements", "bytes", "files", "metadata_keys", "types", "views", "whole", "config", "warnings",
		"name", "model", "parameters", "quant", "bits_per_weight", "memory", "assumed"} {
		if info[key] == nil {
			t.Errorf("no %s in %s", key, out)
		}
	}
	config, _ := info["config"].(map[string]any)
	assumed, _ := info["assumed"].([]any)
	for _, field := range assumed {
		if _, ok := config[field.(string)]; !ok {
			t.Errorf("%s is assumed, and not in config", field)
		}
	}
	if !slices.Contains(assumed, any("rope_scaling_type")) || slices.Contains(assumed, any("n_layers")) {
		t.Errorf("assumed %v", assumed)
	}
}

// TestCount prints numbers at the limits of the units.
func TestCount(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0", 999: "999", 1000: "1,000", 999_999: "999,999", 1_000_000: "1.00 M (1,000,000)",
		8_030_261_248: "8.03 B (8,030,261,248)", 999_996_000: "1.00 B (999,996,000)", 1_000_000_000_000_000: "1000.00 T (1,000,000,000,000,000)",
	} {
		if got := cli.Count(n); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
}

// TestStoredType names what a tensor is stored as.
func TestStoredType(t *testing.T) {
	for want, x := range map[string]*tensorfs.Tensor{
		"F16":                        {DType: tensorfs.F16},
		"BF16 (scales)":              {DType: tensorfs.BF16, Owner: "w"},
		"affine 4-bit, groups of 64": {DType: tensorfs.U32, Quant: &tensorfs.Quant{Mode: "affine", Bits: 4, GroupSize: 64}},
		"F8_E4M3 with scales":        {DType: tensorfs.F8_E4M3, Quant: &tensorfs.Quant{Mode: "fp8", Bits: 8}},
		"affine 8-bit, groups of 1":  {DType: tensorfs.U32, Quant: &tensorfs.Quant{Mode: "affine", Bits: 8, GroupSize: 1}},
	} {
		if got := describe.StoredType(x); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// TestSize prints bytes at the limits of the units.
func TestSize(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 1536: "1.5 KiB", 1 << 20: "1.0 MiB",
		1 << 30: "1.0 GiB", 5 << 40: "5.0 TiB", 1 << 50: "1024.0 TiB",
	} {
		if got := cli.Size(n); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
}

// TestInfoNoTokenizer holds that info reports a model without a tokenizer.
func TestInfoNoTokenizer(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"config.json", "model.safetensors", "tokenizer.json"} {
		b, err := os.ReadFile(testdata + "whole-gguf/llama3/" + name)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	const said = "there is no tokenizer: llama.cpp"
	if _, out, _ := command("info", "--json", dir); strings.Contains(out, said) {
		t.Errorf("with a tokenizer: %s", out)
	}
	if err := os.Remove(filepath.Join(dir, "tokenizer.json")); err != nil {
		t.Fatal(err)
	}
	if _, out, _ := command("info", dir); !strings.Contains(out, "warnings\n  gguf/: "+said) {
		t.Errorf("without a tokenizer: %s", out)
	}
}
