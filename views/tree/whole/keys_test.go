package whole

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats"
	"github.com/tensorfs/tensorfs/formats/architectures"
)

const models = "../../../testdata"

// factsOf are those of an opened model.
func factsOf(m *tensorfs.Model) facts {
	f := facts{tokenizer: true, tensor: func(name string) []int64 {
		for i := range m.Tensors {
			if t := &m.Tensors[i]; t.Weight() == name {
				return t.Numbers()
			}
		}
		return nil
	}}
	if s := f.tensor("token_embedding.weight"); len(s) == 2 {
		f.rows = s[0]
	}
	return f
}

// describe opens a model and returns its keys.
func describe(t testing.TB, dir string, change func(*facts)) (string, []tensorfs.Meta, error) {
	t.Helper()
	m, err := formats.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	cfg, err := readSettings(m, "config.json")
	if err != nil {
		t.Fatal(err)
	}
	arch, err := architecture(m, cfg)
	if err != nil {
		return "", nil, err
	}
	f := factsOf(m)
	if change != nil {
		change(&f)
	}
	meta, err := keys(m, cfg, f)
	return arch, meta, err
}

// golden are the keys of a file that the converter made, as GGUF has them.
func golden(t testing.TB, file string) map[string]any {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var all map[string]struct {
		Type  string
		Value json.RawMessage
	}
	if err := json.Unmarshal(b, &all); err != nil {
		t.Fatal(err)
	}
	decode := func(raw json.RawMessage, to any) any {
		if err := json.Unmarshal(raw, to); err != nil {
			t.Fatal(err)
		}
		return reflect.ValueOf(to).Elem().Interface()
	}
	made := map[string]any{}
	for k, e := range all {
		if strings.HasPrefix(k, "tokenizer.") {
			continue
		}
		switch e.Type {
		case "UINT32":
			made[k] = decode(e.Value, new(uint32))
		case "INT32":
			made[k] = decode(e.Value, new(int32))
		case "FLOAT32":
			made[k] = decode(e.Value, new(float32))
		case "STRING":
			made[k] = decode(e.Value, new(string))
		case "BOOL":
			made[k] = decode(e.Value, new(bool))
		default:
			t.Fatalf("%s: the type %s", k, e.Type)
		}
	}
	return made
}

// unwritten are keys of the converter about what a model's name may mean.
var unwritten = []string{"general.basename", "general.finetune", "general.size_label"}

// TestKeys compares with the files that llama.cpp's converter makes: every key,
// its type and its value, and no others.
func TestKeys(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(models, "whole-gguf", "expected", "*.meta.json"))
	if err != nil || len(files) < 20 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".meta.json")
		t.Run(name, func(t *testing.T) {
			want := golden(t, file)
			arch, meta, err := describe(t, filepath.Join(models, "whole-gguf", name), func(f *facts) { f.fileType = want["general.file_type"].(uint32) })
			if err != nil {
				t.Fatal(err)
			}
			if len(meta) == 0 || meta[0] != (tensorfs.Meta{Key: "general.architecture", Value: arch}) {
				t.Error("general.architecture is not the first key")
			}
			for _, k := range unwritten {
				delete(want, k)
			}
			for _, k := range meta {
				w, ok := want[k.Key]
				if !ok || !same32(k.Value, w) {
					t.Errorf("%s: %T %v, want %T %v", k.Key, k.Value, k.Value, w, w)
				}
				delete(want, k.Key)
			}
			for k, w := range want {
				t.Errorf("%s is missing, which is %v", k, w)
			}
		})
	}
}

// TestKeysBare describes models without their tokenizers: the file has to say what
// the tokenizer would.
func TestKeysBare(t *testing.T) {
	for name, want := range map[string]map[string]any{
		"bert":   {"bert.vocab_size": uint32(231), "tokenizer.ggml.token_type_count": uint32(2)},
		"falcon": {"falcon.vocab_size": uint32(358)},
		"llama3": {"llama.vocab_size": uint32(371)},
	} {
		_, meta, err := describe(t, filepath.Join(models, "whole-gguf", name), func(f *facts) { f.tokenizer = false })
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for _, k := range meta {
			if want[k.Key] == k.Value {
				delete(want, k.Key)
			}
		}
		if len(want) > 0 {
			t.Errorf("%s: %v missing", name, want)
		}
	}
}

// same32 compares floats as bits.
func same32(a, b any) bool {
	x, ok := a.(float32)
	y, both := b.(float32)
	return a == b && (!ok || both && math.Float32bits(x) == math.Float32bits(y))
}

// TestKeysMLX makes keys of models that MLX quantised, without their tokenizers.
func TestKeysMLX(t *testing.T) {
	for name, more := range map[string]map[string]any{
		"gpt-oss-mxfp4": {"gpt-oss.vocab_size": uint32(320), "gpt-oss.attention.key_length": uint32(64)},
		"qwen3-mixed":   {"qwen3.vocab_size": uint32(320), "qwen3.attention.head_count_kv": uint32(2)},
	} {
		_, meta, err := describe(t, filepath.Join(models, "models-mlx", name), func(f *facts) { f.tokenizer = false })
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for _, k := range meta {
			if w, ok := more[k.Key]; ok && w == k.Value {
				delete(more, k.Key)
			}
		}
		if len(more) > 0 {
			t.Errorf("%s: missing %v in %s", name, more, fmt.Sprint(meta))
		}
	}
}

// TestNamedFunctions holds that what the descriptions of architectures call is there,
// and that all that is there is called.
func TestNamedFunctions(t *testing.T) {
	known := map[string]bool{}
	for _, names := range [][]string{slices.Collect(maps.Keys(derivations)), slices.Collect(maps.Keys(checks)), slices.Collect(maps.Keys(refusals))} {
		for _, name := range names {
			known[name] = true
		}
	}
	called := map[string]bool{}
	call := func(arch, name string) {
		if called[name] = true; !known[name] && architectures.FactOf(name) == nil {
			t.Errorf("%s calls %s, which nothing is called", arch, name)
		}
	}
	for _, a := range architectures.AllSettings() {
		for _, item := range a.Keys {
			if v := item.Value; v != nil && v.Name != "" {
				call(a.Name, v.Name)
				for _, arg := range v.Args {
					if strings.HasSuffix(v.Name, "_kv_heads") && arg.Name != "" { // a value, not a field of config.json
						call(a.Name, arg.Name)
					}
				}
			}
		}
		for _, v := range slices.Concat(a.Calls("check"), a.Calls("refuse")) {
			call(a.Name, v.Name)
		}
	}
	for name := range known {
		if !called[name] {
			t.Errorf("nothing calls %s", name)
		}
	}
}
