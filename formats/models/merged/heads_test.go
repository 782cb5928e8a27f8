package merged_test

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/convert"
	"github.com/tensorfs/tensorfs/internal/convert/hf"
	"github.com/tensorfs/tensorfs/internal/testing/testmodel"
	"github.com/tensorfs/tensorfs/internal/testing/testwhole"
)

// tie takes the head out of a directory and has its config say so.
func tie(t *testing.T, at string) {
	t.Helper()
	m := testwhole.Open(t, at)
	var list []testmodel.SafeTensor
	for i := range m.Tensors {
		if x := &m.Tensors[i]; x.Name != "output.weight" {
			list = append(list, testmodel.SafeTensor{Name: x.Source, DType: x.DType, Shape: x.Shape, Data: testwhole.Read(t, x.Data)})
		}
	}
	saveAgain(t, at, list, "tie_word_embeddings", true)
}

// saveAgain replaces the tensors of a directory, and a field of its config.json.
func saveAgain(t *testing.T, at string, list []testmodel.SafeTensor, field string, value any) {
	t.Helper()
	must(t, os.WriteFile(filepath.Join(at, "model.safetensors"), testmodel.Safetensors(list, nil), 0o666))
	path := filepath.Join(at, "config.json")
	text, err := os.ReadFile(path)
	must(t, err)
	var c map[string]any
	must(t, json.Unmarshal(text, &c))
	c[field] = value
	text, err = json.Marshal(c)
	must(t, err)
	must(t, os.WriteFile(path, text, 0o666))
}

// bf16 reads numbers of BF16.
func bf16(t *testing.T, x *tensorfs.Tensor) (list []float32) {
	t.Helper()
	b := testwhole.Read(t, x.Data)
	for i := 0; i < len(b); i += 2 {
		list = append(list, math.Float32frombits(uint32(b[i])<<16|uint32(b[i+1])<<24))
	}
	return list
}

// TestTiedAndUntied: a merge has a head if one of its models has one, and a model without a
// head takes part with its embedding, in whatever order the recipe names them.
func TestTiedAndUntied(t *testing.T) {
	dir := models(t, "llama3", 2)
	tie(t, filepath.Join(dir, "0"))
	tied, untied := testwhole.Open(t, filepath.Join(dir, "0")), testwhole.Open(t, filepath.Join(dir, "1"))
	embedding, head := bf16(t, tied.Tensor("token_embedding.weight")), bf16(t, untied.Tensor("output.weight"))
	half := func(a, b float32) float32 { // as BF16, rounded to even
		bits := math.Float32bits(a/2 + b/2)
		return math.Float32frombits((bits + 0x7fff + bits>>16&1) &^ 0xffff)
	}
	const weights = ", parameters: {weight: 0.5}}"
	for _, text := range []string{
		"merge_method: linear\nmodels: [{model: ./0" + weights + ", {model: ./1" + weights + "]",
		"merge_method: linear\nmodels: [{model: ./1" + weights + ", {model: ./0" + weights + "]",
	} {
		m, err := open(t, dir, text)
		must(t, err)
		x := m.Tensor("output.weight")
		if x == nil {
			t.Fatalf("no head: %s", text)
		}
		for i, got := range bf16(t, x) {
			if want := half(embedding[i], head[i]); got != want {
				t.Fatalf("number %d of the head is %v, want %v", i, got, want)
			}
		}
	}
	for _, c := range []struct {
		text, tied, note string
		head             bool
	}{
		{"merge_method: linear\nmodels: [{model: ./0" + weights + ", {model: ./1" + weights + "]", "false", "./0 has no lm_head.weight, so its model.embed_tokens.weight is merged instead", true},
		{"merge_method: task_arithmetic\nbase_model: ./0\nmodels: [{model: ./1" + weights + "]", "false", "./0 has no lm_head.weight", true},
		{"merge_method: linear\nmodels: [{model: ./0" + weights + ", {model: ./0.gguf" + weights + "]\ndtype: bfloat16", "true", "", false},
		{"merge_method: passthrough\nslices: [{sources: [{model: ./1, layer_range: [0, 1]}]}, {sources: [{model: ./0, layer_range: [1, 2]}]}]", "true", "the last slice has no lm_head.weight", false},
		{"merge_method: passthrough\nslices: [{sources: [{model: ./0, layer_range: [0, 1]}]}, {sources: [{model: ./1, layer_range: [1, 2]}]}]", "false", "", true},
	} {
		if strings.Contains(c.text, "0.gguf") {
			f := convert.GGUF(tied, convert.Options{})
			must(t, os.WriteFile(filepath.Join(dir, "0.gguf"), testwhole.Read(t, f.List[0].Data), 0o666))
		}
		m, err := open(t, dir, c.text)
		must(t, err)
		f := hf.HF(m, convert.Options{})
		if f.Reason != "" || !strings.Contains(strings.Join(f.Notes, "\n"), c.note) || c.note == "" && len(f.Notes) > 0 {
			t.Errorf("%s: %s, notes %q, want %q", c.text, f.Reason, f.Notes, c.note)
		}
		var config struct {
			Tied json.RawMessage `json:"tie_word_embeddings"`
		}
		d, err := m.File("config.json")
		must(t, err)
		must(t, json.Unmarshal(testwhole.Read(t, d), &config))
		if string(config.Tied) != c.tied || m.Tensor("output.weight") != nil != c.head || !f.Exact {
			t.Errorf("%s: tie_word_embeddings is %s, want %s; exact is %v; the head is %v", c.text, config.Tied, c.tied, f.Exact, m.Tensor("output.weight"))
		}
		if g := convert.GGUF(m, convert.Options{}); g.Reason != "" || !strings.Contains(strings.Join(g.Notes, "\n"), c.note) {
			t.Errorf("%s: gguf/: %s, notes %q", c.text, g.Reason, g.Notes)
		}
	}
}

// TestIgnoredKeys: what a recipe has beside what its method reads is a note of the whole
// models, and these are exact.
func TestIgnoredKeys(t *testing.T) {
	dir := models(t, "llama3", 2)
	m, err := open(t, dir, `{"name": "mine", "merge_method": "linear", "parameters": {"int8_mask": true},
	"models": [{"model": {"model": {"path": "./0"}}, "parameters": {"weight": 0.6}}, {"model": "./1", "parameters": {"weight": 0.4}}]}`)
	must(t, err)
	const want = "a merge by linear does not use these keys of the recipe: name, parameters.int8_mask"
	for name, f := range map[string]*convert.Files{"gguf": convert.GGUF(m, convert.Options{}), "hf": hf.HF(m, convert.Options{})} {
		if f.Reason != "" || !f.Exact || !slices.Contains(f.Notes, want) {
			t.Errorf("%s/: %s, exact %v, notes %q", name, f.Reason, f.Exact, f.Notes)
		}
	}
	if !slices.Contains(m.Warnings, want) {
		t.Errorf("warnings %q", m.Warnings)
	}
	if _, err := open(t, dir, "models: [{model: ./0}]"); err == nil || !strings.Contains(err.Error(), "merge_method is not there; want one of linear, passthrough") {
		t.Error(err)
	}
}
