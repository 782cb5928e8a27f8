package merged_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats"
	"github.com/tensorfs/tensorfs/formats/models/merged"
	"github.com/tensorfs/tensorfs/internal/convert"
	"github.com/tensorfs/tensorfs/internal/convert/hf"
	"github.com/tensorfs/tensorfs/internal/convert/preset"
	"github.com/tensorfs/tensorfs/internal/testing/testmodel"
	"github.com/tensorfs/tensorfs/internal/testing/testwhole"
	"github.com/tensorfs/tensorfs/views"
	"github.com/tensorfs/tensorfs/views/lora"
)

// models writes n models that differ a little into a directory: "0", "1" and so on, and the
// GGUF files of them, "0.gguf".
func models(t *testing.T, golden string, n int) string {
	t.Helper()
	dir := t.TempDir()
	from := filepath.Join(testwhole.Data(t), "whole-gguf", golden)
	m := testwhole.Open(t, from)
	for i := range n {
		at := filepath.Join(dir, fmt.Sprint(i))
		must(t, os.CopyFS(at, os.DirFS(from)))
		var list []testmodel.SafeTensor
		for k := range m.Tensors {
			x := &m.Tensors[k]
			data := testwhole.Read(t, x.Data)
			for b := 0; b < len(data); b += 2 * (i + 1) {
				data[b] ^= byte(7 * i) // low bits of a fraction
			}
			list = append(list, testmodel.SafeTensor{Name: x.Source, DType: x.DType, Shape: x.Shape, Data: data})
		}
		must(t, os.WriteFile(filepath.Join(at, "model.safetensors"), testmodel.Safetensors(list, nil), 0o666))
		f := convert.GGUF(testwhole.Open(t, at), convert.Options{})
		if f.Reason != "" {
			t.Fatal(f.Reason)
		}
		must(t, os.WriteFile(at+".gguf", testwhole.Read(t, f.List[0].Data), 0o666))
	}
	return dir
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// open opens a recipe next to the models.
func open(t *testing.T, dir, text string) (*tensorfs.Model, error) {
	t.Helper()
	path := filepath.Join(dir, "recipe.yml")
	must(t, os.WriteFile(path, []byte(text), 0o666))
	m, err := merged.OpenPath(formats.Options{}, path)
	if err == nil {
		t.Cleanup(func() { m.Close() })
	}
	return m, err
}

const recipes = `
merge_method: linear
models: [{model: "./0", parameters: {weight: 0.4}}, {model: "./1", parameters: {weight: 0.7}}]
dtype: bfloat16
---
merge_method: slerp
base_model: ./1
models: [{model: "./0"}, {model: "./1"}]
parameters: {t: [0.1, 0.9]}
dtype: float16
---
merge_method: ties
base_model: ./0
models: [{model: "./1", parameters: {weight: 0.4, density: 0.5}}]
dtype: bfloat16
---
merge_method: passthrough
slices: [{sources: [{model: "./0", layer_range: [0, 2]}]}, {sources: [{model: "./1", layer_range: [1, 2]}]}]
dtype: float32
`

// TestOfGGUF merges GGUF files: the result equals the merge of their directories, whose rows of q
// and k have another order.
func TestOfGGUF(t *testing.T) {
	dir := models(t, "llama3", 2)
	for text := range strings.SplitSeq(recipes, "---") {
		a, err := open(t, dir, text)
		must(t, err)
		b, err := open(t, dir, strings.NewReplacer("./0", "./0.gguf", "./1", "./1.gguf").Replace(text))
		must(t, err)
		if len(a.Tensors) != len(b.Tensors) || len(a.Tensors) < 10 {
			t.Fatalf("%d tensors and %d", len(a.Tensors), len(b.Tensors))
		}
		for i := range a.Tensors {
			x, y := &a.Tensors[i], &b.Tensors[i]
			if x.Name != y.Name || x.DType != y.DType || !bytes.Equal(testwhole.Read(t, x.Data), testwhole.Read(t, y.Data)) {
				t.Errorf("%s differs of GGUF files:%s", x.Name, text)
			}
		}
		for _, m := range []*tensorfs.Model{a, b} {
			if f := convert.GGUF(m, convert.Options{}); f.Reason != "" {
				t.Errorf("there is no gguf/: %s", f.Reason)
			}
			f := hf.HF(m, convert.Options{})
			if !slices.ContainsFunc(f.List, func(f convert.File) bool { return f.Path == "tokenizer.json" }) {
				t.Errorf("hf/ has no tokenizer: %s", f.Describe())
			}
			file, err := m.File("model.safetensors") // hf/ has the very tensors
			must(t, err)
			c, err := formats.OpenFS(os.DirFS(written(t, testwhole.Read(t, file))), "m.safetensors")
			must(t, err)
			for i := range c.Tensors {
				if x := m.TensorBySource(c.Tensors[i].Source); !bytes.Equal(testwhole.Read(t, c.Tensors[i].Data), testwhole.Read(t, x.Data)) {
					t.Errorf("%s differs in hf/", x.Name)
				}
			}
			c.Close()
		}
	}
}

func written(t *testing.T, b []byte) string {
	t.Helper()
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "m.safetensors"), b, 0o666))
	return dir
}

// TestConfig: config.json is the base's, with as many layers, and lists of layers with their items.
func TestConfig(t *testing.T) {
	dir := models(t, "llama3", 2)
	for i := range 2 {
		path := filepath.Join(dir, fmt.Sprint(i), "config.json")
		text, err := os.ReadFile(path)
		must(t, err)
		var c map[string]any
		must(t, json.Unmarshal(text, &c))
		c["layer_types"] = []string{fmt.Sprintf("a%d", i), fmt.Sprintf("b%d", i)}
		text, err = json.Marshal(c)
		must(t, err)
		must(t, os.WriteFile(path, text, 0o666))
	}
	m, err := open(t, dir, `
merge_method: passthrough
slices:
  - sources: [{model: ./0, layer_range: [0, 2]}]
  - sources: [{model: ./1, layer_range: [0, 2]}]
  - sources: [{model: ./0, layer_range: [1, 2]}]
dtype: float16
`)
	must(t, err)
	f, err := m.File("config.json")
	must(t, err)
	var c struct {
		Layers int      `json:"num_hidden_layers"`
		Type   string   `json:"torch_dtype"`
		Types  []string `json:"layer_types"`
		Hidden int      `json:"hidden_size"`
	}
	must(t, json.Unmarshal(testwhole.Read(t, f), &c))
	if c.Layers != 5 || c.Type != "float16" || !slices.Equal(c.Types, []string{"a0", "b0", "a1", "b1", "b0"}) || c.Hidden == 0 {
		t.Errorf("%+v", c)
	}
	recipe, err := m.File("mergekit_config.yml")
	must(t, err)
	if text := testwhole.Read(t, recipe); !bytes.Contains(text, []byte("passthrough")) {
		t.Errorf("the recipe is %q", text)
	}
	if m.Path != filepath.Join(dir, "recipe.yml") || m.Format != "huggingface" {
		t.Errorf("%s %s", m.Format, m.Path)
	}
}

// TestRefused: what is wrong with a model of a recipe is said in a line that names it.
func TestRefused(t *testing.T) {
	dir := models(t, "llama3", 2)
	must(t, os.CopyFS(filepath.Join(dir, "qwen2"), os.DirFS(filepath.Join(testwhole.Data(t), "whole-gguf/qwen2"))))
	must(t, os.CopyFS(filepath.Join(dir, "other"), os.DirFS(filepath.Join(dir, "1"))))
	text, err := os.ReadFile(filepath.Join(dir, "other/tokenizer.json"))
	must(t, err)
	must(t, os.WriteFile(filepath.Join(dir, "other/tokenizer.json"), bytes.Replace(text, []byte(`"!"`), []byte(`"!!?"`), 1), 0o666))
	two := func(a, b, more string) string {
		return fmt.Sprintf("merge_method: linear\nmodels: [{model: %q, parameters: {weight: 1}}, {model: %q, parameters: {weight: 1}}]\n%s", a, b, more)
	}
	for _, c := range []struct{ text, want string }{
		{two("./0", "./nothing", ""), "nothing: no such file"},
		{two("./0", "./0/model.safetensors", "model: 1"), "did you mean models?"},
		{two("./0", "./qwen2", ""), "has shape [371 64] in one model and [395 64] in another; change the recipe"},
		{two("./0", "./1+adapter", ""), "adapter: no such file"},
		{two("./0", "./recipe.yml", ""), "recipe.yml: it is a recipe of mergekit"},
		{two("./0", "./1+recipe.yml", ""), "recipe.yml: it is a recipe of mergekit"},
		{two("./0", "./other", "tokenizer_source: ./0"), "other tokens"},
		{two("./0", "./1", "parameters: {normalize: [1"), "line"},
		{"merge_method: linear\nmodels: [{model: ./0, parameters: {weight: 1}}, {model: ./1, parameters: {weight: -1}}]", "add up to 0"},
		{"merge_method: passthrough\nslices: [{sources: [{model: ./0, layer_range: [0, 7]}]}]", "layers"},
	} {
		_, err := open(t, dir, c.text)
		if err == nil {
			t.Errorf("opened:\n%s", c.text)
			continue
		}
		if msg := err.Error(); !strings.Contains(msg, c.want) || strings.Contains(msg, "\n") {
			t.Errorf("%q, want %q", msg, c.want)
		}
	}
	if _, err := open(t, dir, two("./0", "./1", "tokenizer_source: ./1")); err != nil {
		t.Error(err)
	}
}

// TestAdapter: MODEL+ADAPTER is what hf/ of the model with the adapter has.
func TestAdapter(t *testing.T) {
	dir := t.TempDir()
	must(t, os.CopyFS(dir, os.DirFS(filepath.Join(testwhole.Data(t), "lora/plain-bf16-f32"))))
	m, err := open(t, dir, "merge_method: passthrough\nmodels: [{model: ./base+./adapter0}]")
	must(t, err)
	base := testwhole.Open(t, filepath.Join(dir, "base"))
	must(t, lora.Open(base, views.Options{}, []string{filepath.Join(dir, "adapter0")}, formats.Options{}.OpenAdapter))
	f := hf.HF(base, convert.Options{})
	if f.Reason != "" {
		t.Fatal(f.Reason)
	}
	at := t.TempDir()
	for _, x := range f.List {
		must(t, os.WriteFile(filepath.Join(at, x.Path), testwhole.Read(t, x.Data), 0o666))
	}
	want, changed := testwhole.Open(t, at), 0
	plain := testwhole.Open(t, filepath.Join(dir, "base"))
	for i := range m.Tensors {
		x := &m.Tensors[i]
		b := testwhole.Read(t, x.Data)
		if !bytes.Equal(b, testwhole.Read(t, want.Tensor(x.Name).Data)) {
			t.Errorf("%s is not what hf/ has", x.Name)
		}
		if !bytes.Equal(b, testwhole.Read(t, plain.Tensor(x.Name).Data)) {
			changed++
		}
	}
	if len(m.Tensors) != len(want.Tensors) || changed == 0 {
		t.Errorf("%d tensors, want %d; %d changed", len(m.Tensors), len(want.Tensors), changed)
	}
}

// TestInside: for other users, a recipe opens nothing outside of its directory, by whatever
// path or name.
func TestInside(t *testing.T) {
	dir := models(t, "llama3", 2)
	at := func(name string) string { return filepath.Join(dir, name) }
	theirs := at("theirs")
	must(t, os.CopyFS(filepath.Join(theirs, "m"), os.DirFS(at("1"))))
	must(t, os.CopyFS(filepath.Join(theirs, "a+b"), os.DirFS(at("1"))))
	must(t, os.CopyFS(filepath.Join(theirs, "weights"), os.DirFS(at("1"))))
	must(t, os.CopyFS(filepath.Join(theirs, "text"), os.DirFS(at("1"))))
	lora := filepath.Join(testwhole.Data(t), "lora/plain-bf16-f32")
	must(t, os.CopyFS(filepath.Join(theirs, "base"), os.DirFS(filepath.Join(lora, "base"))))
	must(t, os.CopyFS(filepath.Join(theirs, "ad"), os.DirFS(filepath.Join(lora, "adapter0"))))
	must(t, os.CopyFS(at("ad"), os.DirFS(filepath.Join(lora, "adapter0"))))
	must(t, os.MkdirAll(filepath.Join(theirs, "sub"), 0o777))
	for link, to := range map[string]string{"in": "m", "inabs": filepath.Join(theirs, "m"), "out": "../0", "outabs": at("0"), "sub/l": "../..", "sub/in": "..", "ad2": "../ad", "ad:0.5": "../ad"} {
		must(t, os.Symlink(to, filepath.Join(theirs, link)))
	}
	for _, name := range []string{"weights/model.safetensors", "text/tokenizer.json"} {
		must(t, os.Remove(filepath.Join(theirs, name)))
		must(t, os.Symlink(at("0/"+filepath.Base(name)), filepath.Join(theirs, name)))
	}
	// The user's own stores have what the recipe names.
	cache := at("cache")
	must(t, os.CopyFS(filepath.Join(cache, "models--org--private/snapshots/0123456789012345678901234567890123456789"), os.DirFS(at("0"))))
	must(t, os.MkdirAll(filepath.Join(cache, "models--org--private/refs"), 0o777))
	must(t, os.WriteFile(filepath.Join(cache, "models--org--private/refs/main"), []byte("0123456789012345678901234567890123456789"), 0o666))
	t.Setenv("HF_HUB_CACHE", cache)
	const outside, leaves, store = "outside of the recipe's directory", "it is a symbolic link that leaves", "it is the name of a model in a store or at a server"
	for _, x := range []struct{ name, refused string }{
		{"m", ""}, {"./m", ""}, {filepath.Join(theirs, "m"), ""}, {"sub/../m", ""}, {"m/model.safetensors", ""}, {"a+b", ""}, {"text", ""}, {"in", ""}, {"inabs", ""}, {"sub/in/m", ""}, {"base+ad", ""}, {"base+./ad:0.25", ""}, {"base+in", "adapter"},
		{"../0", outside}, {at("0"), outside}, {"sub/../../0", outside}, {"base+../ad", outside}, {"base+" + at("ad") + ":0.5", outside},
		{"out", leaves}, {"outabs", leaves}, {filepath.Join(theirs, "out"), leaves}, {"sub/l/0", leaves}, {"weights", leaves}, {"base+ad2", leaves}, {"base+ad:0.5", leaves}, {"base+ad2:0.5", leaves}, {"out/model.safetensors", leaves},
		{"org/private", store}, {"hf:org/private", store}, {"hf:org/private@main", store}, {"ollama:private", store}, {"lmstudio:org/private", store}, {"https://huggingface.co/org/private", store}, {"oci://r.test/a:b", store}, {"s3://b/k", store}, {"file:///" + at("0"), store},
		{"base+org/private", store}, {"base+hf:org/private", store}, {"base+ollama:private:0.5", store}, {"base+hf:org/private::0.5", store},
		{"nothing", "no such file"},
	} {
		path := filepath.Join(theirs, "recipe.yml")
		must(t, os.WriteFile(path, []byte("merge_method: passthrough\nmodels: [{model: '"+x.name+"'}]"), 0o666))
		m, err := merged.OpenPath(formats.Options{KeepInside: true}, path)
		if err == nil {
			if _, err := m.File("tokenizer.json"); err == nil && x.name == "text" { // it is left out
				t.Error("a tokenizer outside is a part of the merge")
			}
			m.Close()
		}
		if (err == nil) != (x.refused == "") || err != nil && !strings.Contains(err.Error(), x.refused) {
			t.Errorf("%s: want %q, error %v", x.name, x.refused, err)
		}
		if x.refused == "" || x.refused == outside || x.name == "org/private" || x.name == "hf:org/private" {
			if m, err = merged.OpenPath(formats.Options{}, path); err == nil {
				m.Close()
			} else {
				t.Errorf("%s: for the user himself: %v", x.name, err)
			}
		}
	}
	// Names are opened if only the process's own user reads them.
	path := filepath.Join(theirs, "recipe.yml")
	must(t, os.WriteFile(path, []byte("merge_method: passthrough\nmodels: [{model: 'hf:org/private'}]"), 0o666))
	if m, err := merged.OpenPath(formats.Options{KeepInside: true, OwnNames: true}, path); err != nil {
		t.Error(err)
	} else {
		m.Close()
	}
	// The other keys that name a model.
	for _, keys := range []string{"base_model: out", "base_model: org/private", "tokenizer_source: hf:org/private", "slices: [{sources: [{model: outabs, layer_range: [0, 1]}]}]"} {
		path := filepath.Join(theirs, "recipe.yml")
		text := "merge_method: linear\nparameters: {weight: 1}\n" + keys
		if !strings.HasPrefix(keys, "slices") {
			text += "\nmodels: [{model: m}]"
		}
		must(t, os.WriteFile(path, []byte(text), 0o666))
		if m, err := merged.OpenPath(formats.Options{KeepInside: true}, path); err == nil {
			m.Close()
			t.Errorf("%s: opened", keys)
		}
	}
}

// TestChanged: after a change of one model, only tensors that are computed from it fail.
func TestChanged(t *testing.T) {
	dir := models(t, "llama3", 2)
	m, err := open(t, dir, `
merge_method: passthrough
slices: [{sources: [{model: ./0, layer_range: [0, 1]}]}, {sources: [{model: ./1, layer_range: [1, 2]}]}]
`)
	must(t, err)
	must(t, os.Truncate(filepath.Join(dir, "1/model.safetensors"), 1000))
	for name, fails := range map[string]bool{"layers.0.attention.q.weight": false, "layers.1.attention.q.weight": true} {
		if err := tensorfs.Check(m.Tensor(name).Data); (err != nil) != fails {
			t.Errorf("%s: %v", name, err)
		}
	}
	if testwhole.Read(t, m.Tensor("layers.0.attention.q.weight").Data) == nil {
		t.Error("nothing is read")
	}
}

// TestExact: whole models say whether a merge is mergekit's bit for bit, and why not.
func TestExact(t *testing.T) {
	dir := models(t, "llama3", 2)
	at := filepath.Join(testwhole.Data(t), "lora/plain-bf16-f32")
	must(t, os.CopyFS(filepath.Join(dir, "base"), os.DirFS(filepath.Join(at, "base"))))
	must(t, os.CopyFS(filepath.Join(dir, "adapter"), os.DirFS(filepath.Join(at, "adapter0"))))
	m := testwhole.Open(t, filepath.Join(dir, "0"))
	p, err := preset.Named("q8_0")
	must(t, err)
	f := convert.GGUF(m, convert.Options{Quantise: &preset.Options{Preset: p}})
	must(t, os.WriteFile(filepath.Join(dir, "q8.gguf"), testwhole.Read(t, f.List[0].Data), 0o666))
	two := "models: [{model: ./0, parameters: {weight: 0.4}}, {model: ./1, parameters: {weight: 0.7}}]\n"
	for _, c := range []struct{ text, why string }{
		{"merge_method: linear\n" + two, ""},
		{"merge_method: task_arithmetic\nbase_model: ./0\n" + two, ""},
		{"merge_method: slerp\nbase_model: ./0\nparameters: {t: 0.3}\nmodels: [{model: ./0}, {model: ./1}]", "norms"},
		{"merge_method: ties\nbase_model: ./0\n" + two, "equal at the cut"},
		{"merge_method: passthrough\nmodels: [{model: ./1.gguf}]", ""},
		{"merge_method: passthrough\nmodels: [{model: ./q8.gguf}]", "rounded"},
		{"merge_method: passthrough\nmodels: [{model: ./base+./adapter}]", "PEFT"},
	} {
		m, err := open(t, dir, c.text)
		must(t, err)
		for name, f := range map[string]*convert.Files{"gguf": convert.GGUF(m, convert.Options{}), "hf": hf.HF(m, convert.Options{}), "mlx": hf.MLX(m, convert.Options{})} {
			if f.Reason != "" {
				t.Errorf("%s/ is absent: %s", name, f.Reason)
				continue
			}
			if notes := strings.Join(f.Notes, "\n"); f.Exact != (c.why == "") || !strings.Contains(notes, c.why) {
				t.Errorf("%s/ of %q: exact is %v, notes %q, want %q", name, c.text, f.Exact, notes, c.why)
			}
		}
	}
}
