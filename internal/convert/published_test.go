package convert

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs/formats"
	"github.com/tensorfs/tensorfs/internal/testing/memory"
)

// release is the config.json of a release, as a public copy has it.
type release struct {
	Model, Source string
	Like          string // the golden model whose sizes and tensors the toy has; "" for the one of the same class, "keys" for none
	Refused       string // why no GGUF file is made, as transformers and llama.cpp have it
	Config        map[string]any
}

// toyOf returns a config.json with the fields and values of a release, and the sizes of a
// golden model: whole numbers that both have, and lists, are the golden model's. Fields of
// sizes that only the golden model has are taken too. A token beyond the golden model's
// vocabulary becomes one in it.
func toyOf(said, golden map[string]any) map[string]any {
	toy := maps.Clone(said)
	for name, want := range golden {
		switch have := said[name].(type) {
		case nil:
			if _, has := said[name]; !has && isSize(want) {
				toy[name] = want
			}
		case map[string]any:
			if inner, ok := want.(map[string]any); ok {
				toy[name] = toyOf(have, inner)
			}
		case []any:
			if name != "architectures" {
				toy[name] = want
			}
		case json.Number:
			if isWhole(want) && isWhole(have) {
				toy[name] = want
			}
		}
	}
	for _, name := range []string{"hybrid_override_pattern", "tie_word_embeddings", "use_qkv_bias"} { // which tensors there are
		if want, ok := golden[name]; ok {
			toy[name] = want
		}
	}
	if want, ok := golden["hybrid_override_pattern"].(string); ok && toy["layers_block_type"] != nil { // the same in words
		var words []any
		for _, letter := range want {
			words = append(words, map[rune]string{'M': "mamba", 'E': "moe", '*': "attention", '-': "mlp"}[letter])
		}
		toy["layers_block_type"] = words
		delete(toy, "hybrid_override_pattern")
	}
	if nope, ok := whole(toy["qk_nope_head_dim"]); ok && toy["qk_head_dim"] != nil {
		rotated, _ := whole(toy["qk_rope_head_dim"])
		toy["qk_head_dim"] = nope + rotated
	}
	if toy["attention_head_dim"] != nil {
		toy["attention_head_dim"] = golden["head_dim"]
	}
	width, _ := whole(golden["hidden_size"])
	if heads, _ := whole(golden["num_attention_heads"]); heads > 0 && golden["head_dim"] == nil && toy["head_dim"] != nil && toy["qk_rope_head_dim"] == nil {
		toy["head_dim"] = width / heads
	}
	experts := []string{"n_routed_experts", "num_local_experts", "num_experts"}
	for _, a := range experts {
		for _, b := range experts {
			if toy[a] != nil && golden[a] == nil && golden[b] != nil {
				toy[a] = golden[b]
			}
		}
	}
	layers, _ := whole(golden["num_hidden_layers"])
	if dense, ok := whole(golden["first_k_dense_replace"]); ok && toy["mlp_layer_types"] != nil {
		kinds := slices.Repeat([]any{"sparse"}, int(layers))
		copy(kinds, slices.Repeat([]any{"dense"}, int(dense)))
		toy["mlp_layer_types"] = kinds
	}
	for name, v := range toy { // what each layer is
		if list, ok := v.([]any); ok && golden[name] == nil && len(list) > 0 {
			if _, number := list[0].(json.Number); number && strings.Contains(name, "layer_freq") { // the golden model's tensors say it
				delete(toy, name)
			}
			if _, words := list[0].(string); words && name != "layers_block_type" && strings.Contains(name, "layer") {
				if layers > 0 {
					for len(list) < int(layers) {
						list = append(list, list...)
					}
					toy[name] = list[:layers]
				}
			}
		}
	}
	if size, _ := whole(golden["vocab_size"]); size > 0 {
		for name, v := range toy {
			if id, ok := whole(v); ok && id >= size && strings.HasSuffix(name, "_token_id") {
				toy[name] = id % size
			}
		}
	}
	return toy
}

// whole returns a number of config.json that is a whole one.
func whole(v any) (int64, bool) {
	n, _ := v.(json.Number)
	x, err := n.Float64()
	return int64(x), err == nil && x == math.Trunc(x)
}

func isWhole(v any) bool {
	_, ok := whole(v)
	return ok
}

func isSize(v any) bool {
	_, list := v.([]any)
	return list || isWhole(v)
}

// decode reads JSON with its numbers as they are spelt: transformers tells 30 from 30.0.
func decode(text []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	return d.Decode(into)
}

func releases(t *testing.T) (list []release) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(testdata, "published", "configs.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var p release
		if err := decode(lines.Bytes(), &p); err != nil {
			t.Fatal(err)
		}
		list = append(list, p)
	}
	return list
}

// classAndTypes returns by what a golden model is found.
func classAndTypes(config map[string]any) string {
	text, _ := config["text_config"].(map[string]any)
	inner, _ := text["model_type"].(string)
	return fmt.Sprint(config["architectures"], " ", inner)
}

// goldenDirs are the directories of golden models by name, and by class: the one with the
// shortest name, which others are variants of.
func goldenDirs(t *testing.T) map[string]string {
	t.Helper()
	golden := map[string]string{}
	for _, root := range []string{"architectures", "whole-gguf", "published"} {
		files, _ := filepath.Glob(filepath.Join(testdata, root, "*", "config.json"))
		for _, file := range files {
			dir := filepath.Dir(file)
			golden[filepath.Base(dir)] = dir
			if root == "published" || strings.HasPrefix(filepath.Base(dir), "mlx-") { // by name only
				continue
			}
			var config map[string]any
			if text, err := os.ReadFile(file); err != nil || json.Unmarshal(text, &config) != nil {
				t.Fatal(file, err)
			}
			if key := classAndTypes(config); golden[key] == "" || len(filepath.Base(dir)) < len(filepath.Base(golden[key])) {
				golden[key] = dir
			}
		}
	}
	return golden
}

// toysDir is where TestPublished writes the toys. scripts/programs has real programs read them.
var toysDir = flag.String("toys", "", "directory to which TestPublished writes the models that it makes")

// toyLike returns the files of a toy with the tensors of the golden model in dir.
func (p release) toyLike(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{}
	for _, e := range list {
		if files[e.Name()], err = os.ReadFile(filepath.Join(dir, e.Name())); err != nil {
			t.Fatal(err)
		}
	}
	delete(files, "config.v5.json")
	delete(files, "README.md") // by which rerankers are told
	golden := map[string]any{}
	if err := decode(files["config.json"], &golden); err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(toyOf(p.Config, golden))
	if err != nil {
		t.Fatal(err)
	}
	files["config.json"] = bytes.ReplaceAll(text, []byte(`"Infinity"`), []byte("Infinity")) // as Python writes it
	return files
}

// madeLike makes the GGUF file of a toy, and returns its notes or the reason for its absence.
func (p release) madeLike(t *testing.T, dir string) (notes []string, reason string) {
	t.Helper()
	files := p.toyLike(t, dir)
	if *toysDir != "" && p.Refused == "" {
		for name, b := range files {
			file := filepath.Join(*toysDir, strings.NewReplacer("/", "--", " ", "-", ",", "").Replace(p.Model), name)
			if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, b, 0o644)); err != nil {
				t.Fatal(err)
			}
		}
	}
	m, err := formats.OpenFS(memory.New(files), ".")
	if err != nil {
		t.Fatal(p.Model, err)
	}
	defer m.Close()
	f := GGUF(m, Options{})
	return f.Notes, f.Reason
}

// TestPublished makes a toy of every config.json that is published: gguf/ takes it, or
// refuses it for the reason that the list has.
func TestPublished(t *testing.T) {
	golden := goldenDirs(t)
	all := releases(t)
	taken, noted, refused := 0, 0, map[string][]string{}
	for _, p := range all {
		key := p.Like
		if key == "" {
			key = classAndTypes(p.Config)
		}
		var notes []string
		var reason string
		if key == "keys" {
			text, err := json.Marshal(p.Config)
			if err != nil {
				t.Fatal(err)
			}
			if _, notes, err = keysAndNotes(t, string(text)); err != nil {
				reason = err.Error()
			}
		} else {
			dir := golden[key]
			if dir == "" {
				dir = golden["llama3"] // its class is refused before anything else
			}
			notes, reason = p.madeLike(t, dir)
		}
		if reason == "" {
			taken++
		} else {
			refused[reason] = append(refused[reason], p.Model)
		}
		for _, note := range notes {
			if strings.HasPrefix(note, "config.json:") {
				noted++
				t.Logf("%s: %s", p.Model, note)
			}
		}
		if (reason == "") != (p.Refused == "") || !strings.Contains(reason, p.Refused) {
			t.Errorf("%s: %q, want %q", p.Model, reason, p.Refused)
		}
	}
	t.Logf("%d of %d are taken, %d with a note about config.json", taken, len(all), noted)
	for _, reason := range slices.Sorted(maps.Keys(refused)) {
		t.Logf("refused: %s: %s", strings.Join(refused[reason], ", "), reason)
	}
	if len(all) < 120 {
		t.Errorf("%d models", len(all))
	}
}
