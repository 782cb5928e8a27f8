package convert

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats"
	"github.com/tensorfs/tensorfs/internal/convert/internal/settings"
	"github.com/tensorfs/tensorfs/internal/convert/layout"
)

const models = "../../testdata"

// describe opens a model and returns its keys.
func describe(t testing.TB, dir string, change func(*settings.Given)) (string, []tensorfs.Meta, error) {
	t.Helper()
	m, err := formats.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	_, about, err := configOf(m)
	if err != nil {
		return "", nil, err
	}
	given := settings.Given{Tokenizer: true, Tensor: layout.TensorsOf(m).Find, Rows: int64(embeddingRows(m))}
	if change != nil {
		change(&given)
	}
	meta, err := about.Keys(given)
	return about.Architecture(), meta, err
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
			arch, meta, err := describe(t, filepath.Join(models, "whole-gguf", name), func(f *settings.Given) { f.FileType = want["general.file_type"].(uint32) })
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
		_, meta, err := describe(t, filepath.Join(models, "whole-gguf", name), func(f *settings.Given) { f.Tokenizer = false })
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
		_, meta, err := describe(t, filepath.Join(models, "models-mlx", name), func(f *settings.Given) { f.Tokenizer = false })
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
