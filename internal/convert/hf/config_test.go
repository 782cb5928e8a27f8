package hf

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/architectures"
	"github.com/tensorfs/tensorfs/internal/convert/internal/settings"
	"github.com/tensorfs/tensorfs/internal/testing/testwhole"
)

const (
	testdata  = "../../../testdata/"
	goldenDir = testdata + "whole-hf/models/"
)

// givenOf is what the tensors of an opened model say, as a config.json of it has that.
func givenOf(m *tensorfs.Model, want map[string]any) settings.Given {
	given := tensorFacts(m, result{})
	given.Torch, _ = want["torch_dtype"].(string)
	if q, ok := want["quantization"]; ok {
		given.Quantization, _ = json.Marshal(map[string]any{"quantization": q, "quantization_config": want["quantization_config"]})
	} else if q, ok := want["quantization_config"].(map[string]any); ok {
		given.Experts = q["quant_method"] == "mxfp4"
	}
	return given
}

// config returns config.json of a model.
func config(m *tensorfs.Model, given settings.Given, mlx bool) ([]byte, error) {
	given.MLX = mlx
	about, err := settings.FromGGUF(m, given)
	if err != nil {
		return nil, err
	}
	return about.Config()
}

func readJSON(t testing.TB, text []byte) map[string]any {
	t.Helper()
	var v map[string]any
	if err := json.Unmarshal(text, &v); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return v
}

// wantedByEngines returns the fields that change no number and without which the classes
// of candle and mistral.rs do not load, of a config.json that has all others.
func wantedByEngines(config map[string]any) map[string]any {
	window, layers := config["max_position_embeddings"], config["num_hidden_layers"]
	return map[string]map[string]any{
		"qwen2":       {"sliding_window": window, "max_window_layers": layers, "use_sliding_window": false},
		"qwen2_moe":   {"sliding_window": window, "max_window_layers": layers, "use_sliding_window": false},
		"qwen3":       {"max_window_layers": layers, "use_sliding_window": false, "attention_bias": false},
		"qwen3_moe":   {"max_window_layers": layers, "use_sliding_window": false, "attention_bias": false},
		"gemma2":      {"attention_bias": false},
		"gemma3_text": {"attention_bias": false},
		"mixtral":     {"sliding_window": window},
		"falcon":      {"initializer_range": 0.02, "use_cache": true, "hidden_dropout": 0.0, "attention_dropout": 0.0},
		"bert":        {"initializer_range": 0.02, "hidden_dropout_prob": 0.1, "position_embedding_type": "absolute"},
	}[config["model_type"].(string)]
}

// sameConfig compares what a config.json must have with one: null may also be a
// missing field.
func sameConfig(t testing.TB, got, want map[string]any) {
	t.Helper()
	for k, w := range want {
		if !reflect.DeepEqual(got[k], w) {
			t.Errorf("%s is %v, want %v", k, got[k], w)
		}
	}
	for k, v := range got {
		if _, ok := want[k]; !ok && v != nil {
			t.Errorf("%s is %v, and is not wanted", k, v)
		}
	}
}

// TestConfigGolden holds every config.json of a GGUF file to the expected one.
func TestConfigGolden(t *testing.T) {
	files, err := filepath.Glob(goldenDir + "*.config.json")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	n := 0
	for _, file := range files {
		name, kind, ok := splitGolden(file, ".config.json")
		if !ok {
			continue
		}
		n++
		t.Run(name+"."+kind, func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			want := readJSON(t, text)
			m := testwhole.Golden(t, name)
			defer m.Close()
			if want["eos_token_id"] == 271.0 { // the expected files have only eos, but this vocabulary also has <|endoftext|>
				want["eos_token_id"] = ends(271, 269)
			}
			maps.Copy(want, wantedByEngines(want))
			if want["model_type"] == "bloom" { // the field that the context is read from
				want["seq_length"] = 2048.0
			}
			if want["model_type"] == "deepseek_v3" { // the expected files lack this, without which the class has one
				want["num_nextn_predict_layers"] = 0.0
			}
			got, err := config(m, givenOf(m, want), kind == "mlx")
			if err != nil {
				t.Fatal(err)
			}
			sameConfig(t, readJSON(t, got), want)
		})
	}
	if n < 40 {
		t.Errorf("only %d models", n)
	}
}

// splitGolden returns the name of a model and the directory that a file is about.
func splitGolden(file, suffix string) (name, kind string, ok bool) {
	base := strings.TrimSuffix(filepath.Base(file), suffix)
	i := strings.LastIndexByte(base, '.')
	if i < 0 || strings.HasPrefix(base, "mlx-") {
		return "", "", false
	}
	kind = base[i+1:]
	return base[:i], kind, kind == "hf" || kind == "mlx"
}

// TestConfigAbsent holds that models without a form of Hugging Face have no
// config.json.
func TestConfigAbsent(t *testing.T) {
	files, err := filepath.Glob(goldenDir + "*.absent")
	if err != nil || len(files) < 5 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		name, kind, ok := splitGolden(file, ".absent")
		if !ok {
			continue
		}
		m := testwhole.Golden(t, name)
		text, err := config(m, givenOf(m, map[string]any{"torch_dtype": "float16"}), kind == "mlx")
		if err == nil {
			t.Errorf("%s: %s", file, text)
		} else if s := err.Error(); !strings.Contains(s, "no Hugging Face form known for architecture "+m.Architecture) && !strings.Contains(s, "mlx-lm has no such model") {
			t.Errorf("%s: %v", file, err)
		}
		m.Close()
	}
}

// TestAdaptedGolden holds the config.json of MLX directories to the expected one.
func TestAdaptedGolden(t *testing.T) {
	files, err := filepath.Glob(goldenDir + "mlx-*.hf.config.json")
	if err != nil || len(files) < 6 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".hf.config.json")
		stored, err := os.ReadFile(goldenDir + name + "/config.json")
		if err != nil {
			stored, err = os.ReadFile(testdata + "models-mlx/" + strings.TrimPrefix(name, "mlx-") + "/config.json")
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		want := readJSON(t, text)
		got, err := adapted(stored, givenOf(&tensorfs.Model{}, want), false)
		if err != nil {
			t.Fatal(err)
		}
		sameConfig(t, readJSON(t, got), want)
	}
}

// TestNamedFunctions holds that every function that the descriptions of mlx-lm's classes name
// exists, and that every function is named.
func TestNamedFunctions(t *testing.T) {
	called, reasons := map[string]bool{}, architectures.MLXReasons()
	hold := func(arch, name string, known bool) {
		if called[name] = true; !known {
			t.Errorf("%s calls %s, which nothing is called", arch, name)
		}
	}
	fields := map[string]bool{"expand": true, "head_dim": true, "position_embedding_type": true, "mlp_layer_types": true, "text_config.vocab_size": true}
	for _, c := range architectures.MLXClasses() {
		for _, name := range c.Needs {
			fields[name] = true
		}
	}
	for model, c := range architectures.MLXClasses() {
		for _, f := range c.Fields {
			names, functions := f.Value.Uses()
			for _, name := range functions {
				hold(model, name, mlxFunctions[name] != nil || architectures.HasFunction(name))
			}
			for _, name := range names {
				hold(model, name, mlxValues[name] != nil || fields[name])
			}
		}
		for _, name := range c.Names("refuses") {
			hold(model, name, reasons[name] != nil || name == "turned_experts")
		}
		for _, name := range c.Names("notes") {
			hold(model, name, reasons[name] != nil)
		}
	}
	for _, r := range reasons {
		if r.When != nil {
			names, functions := r.When.Uses()
			for _, of := range append(names, functions...) {
				called[of] = true
			}
		}
	}
	for _, names := range [][]string{slices.Collect(maps.Keys(mlxValues)), slices.Collect(maps.Keys(mlxFunctions)), slices.Collect(maps.Keys(reasons))} {
		for _, name := range names {
			if !called[name] {
				t.Errorf("nothing calls %s", name)
			}
		}
	}
}
