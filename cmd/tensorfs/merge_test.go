package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats"
	"github.com/tensorfs/tensorfs/internal/describe"
	"github.com/tensorfs/tensorfs/internal/testing/testmodel"
)

// What a merge is exported from is told apart: its recipe, and each of its models.
func TestMergeFacts(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"a", "b"} {
		must(t, os.CopyFS(filepath.Join(dir, name), os.DirFS("../../testdata/lora/plain-bf16-f32/base")))
	}
	recipe := filepath.Join(dir, "recipe.yml")
	write := func(weight string) {
		t.Helper()
		must(t, os.WriteFile(recipe, []byte("merge_method: linear\nmodels: [{model: ./a, parameters: {weight: 1}}, {model: ./b, parameters: {weight: "+weight+"}}]\n"), 0o666))
	}
	facts := func() string {
		t.Helper()
		f := &modelFlags{}
		tree, err := f.open(recipe)
		must(t, err)
		defer tree.Model.Close()
		list, never, err := f.facts(tree)
		must(t, err)
		if len(never) < 2 {
			t.Errorf("an export may replace the models: %d files are kept from it", len(never))
		}
		return fmt.Sprint(list)
	}
	write("0.3")
	first := facts()
	if again := facts(); again != first {
		t.Errorf("%s\nand then\n%s", first, again)
	}
	write("0.4")
	second := facts()
	b := filepath.Join(dir, "b/model.safetensors")
	data, err := os.ReadFile(b)
	must(t, err)
	data[len(data)-2] ^= 1
	must(t, os.Remove(b))
	must(t, os.WriteFile(b, data, 0o666))
	if third := facts(); second == first || third == second {
		t.Errorf("%s\n%s\n%s", first, second, third)
	}

	var info struct{ Merge *describe.MergeInfo }
	must(t, json.Unmarshal([]byte(succeeds(t, "info", "--json", recipe)), &info))
	if m := info.Merge; m == nil || m.Method != "linear" || strings.Join(m.Models, " ") != "./a ./b" {
		t.Errorf("%+v", m)
	}
	if text := succeeds(t, "info", recipe); !strings.Contains(text, "merge         linear of ./a, ./b\n") {
		t.Error(text)
	}
}

// A merge that mergekit wrote is equal to its recipe, and one of another number is not.
func TestMergeVerified(t *testing.T) {
	const name = "model.layers.0.mlp.up_proj.weight"
	files, err := filepath.Glob(testdata + "merge/*.safetensors")
	must(t, err)
	seen := map[string]int{}
	for _, file := range files {
		m, err := formats.Open(file)
		must(t, err)
		var params struct {
			Method    string
			Weight    []float64
			T, Lambda float64
			Normalize bool
		}
		must(t, json.Unmarshal([]byte(m.Meta("safetensors.params").(string)), &params))
		if seen[params.Method]++; strings.HasPrefix(params.Method, "ties") { // which keeps others of equal differences
			m.Close()
			continue
		}
		dir := t.TempDir()
		write := func(to string, x *tensorfs.Tensor, edit func(b []byte)) {
			t.Helper()
			b := make([]byte, x.Data.Size())
			must(t, tensorfs.ReadFull(x.Data, b, 0))
			edit(b)
			must(t, os.MkdirAll(filepath.Join(dir, to), 0o777))
			must(t, os.WriteFile(filepath.Join(dir, to, "config.json"), []byte(`{"architectures":["LlamaForCausalLM"],"model_type":"llama","hidden_size":64,"intermediate_size":24,"num_hidden_layers":1,"num_attention_heads":4}`), 0o666))
			weights := testmodel.Safetensors([]testmodel.SafeTensor{{Name: name, DType: x.DType, Shape: x.Shape, Data: b}}, nil)
			must(t, os.WriteFile(filepath.Join(dir, to, "model.safetensors"), weights, 0o666))
		}
		text := "merge_method: " + params.Method + "\nmodels:\n"
		if params.Method != "linear" {
			text = "base_model: ./in0\n" + text
			if params.Method == "task_arithmetic" {
				params.Weight = slices.Insert(params.Weight, 0, 0)
			}
		}
		for i := 0; ; i++ {
			in := fmt.Sprintf("in%d", i)
			x := m.TensorBySource(in)
			if x == nil {
				break
			}
			write(in, x, func([]byte) {})
			text += "- model: ./" + in + "\n"
			if params.Weight != nil {
				text += fmt.Sprintf("  parameters: {weight: %v}\n", params.Weight[i])
			}
		}
		switch params.Method {
		case "slerp":
			text += fmt.Sprintf("parameters: {t: %v}\n", params.T)
		case "task_arithmetic":
			text += fmt.Sprintf("parameters: {normalize: %v, lambda: %v}\n", params.Normalize, params.Lambda)
		default:
			text += fmt.Sprintf("parameters: {normalize: %v}\n", params.Normalize)
		}
		recipe := filepath.Join(dir, "recipe.yml")
		must(t, os.WriteFile(recipe, []byte(text), 0o666))
		out := m.TensorBySource("out")
		write("published", out, func([]byte) {})
		if code, said, stderr := command("diff", recipe, filepath.Join(dir, "published")); code != 0 || !strings.Contains(said, "1 tensor: 1 equal") {
			t.Errorf("%s: exit code %d, %s%s, of\n%s", filepath.Base(file), code, said, stderr, text)
		}
		write("published", out, func(b []byte) { b[len(b)-1] ^= 0x40 })
		if code, said, _ := command("diff", recipe, filepath.Join(dir, "published")); code != 1 || !strings.Contains(said, "layers.0.ffn.up.weight") {
			t.Errorf("%s with another number: exit code %d, %s", filepath.Base(file), code, said)
		}
		m.Close()
	}
	if len(seen) < 4 {
		t.Errorf("methods: %v", seen)
	}
}

// Tensors of a merge are completed like any model's.
func TestMergeCompleted(t *testing.T) {
	dir := copied(t, loraCase)
	recipe := filepath.Join(dir, "recipe.yml")
	must(t, os.WriteFile(recipe, []byte("merge_method: passthrough\nmodels: [{model: ./base}]\n"), 0o666))
	if names, _ := completeTensor(nil, []string{recipe}, "layers.0.attention.q"); len(names) != 1 || names[0] != loraTensor {
		t.Errorf("completed: %q", names)
	}
	if !isModel(recipe) {
		t.Error("a recipe is no model")
	}
}
