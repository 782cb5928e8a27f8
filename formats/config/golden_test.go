package config

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/architectures"
)

var update = flag.Bool("update", false, "rewrite testdata/*.want.json")

// readGGUF reads metadata written as key, type and value a line.
func readGGUF(t *testing.T, path string) Lookup {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]any{}
	for line := range strings.Lines(string(b)) {
		w := strings.Fields(line)
		key, kind, text := w[0], w[1], w[2]
		switch kind {
		case "u32":
			n, err := strconv.ParseUint(text, 10, 32)
			if err != nil {
				t.Fatal(err)
			}
			values[key] = uint32(n)
		case "f32":
			x, err := strconv.ParseFloat(text, 32)
			if err != nil {
				t.Fatal(err)
			}
			values[key] = float32(x)
		case "bool":
			values[key] = text == "True"
		case "str":
			values[key] = text
		case "tokens":
			n, err := strconv.Atoi(text)
			if err != nil {
				t.Fatal(err)
			}
			values[key] = make([]string, n)
		default:
			t.Fatalf("%s: type %s", key, kind)
		}
	}
	return func(key string) (any, bool) { v, ok := values[key]; return v, ok }
}

func readJSON(t *testing.T, path string) Lookup {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return parseJSON(t, string(b))
}

func parseJSON(t *testing.T, text string) Lookup {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	var root map[string]any
	if err := d.Decode(&root); err != nil {
		t.Fatal(err)
	}
	return object(root)
}

// readShapes reads the shapes and the number of layers of a model from its list
// in testdata/names.
func readShapes(t *testing.T, list string) (Shapes, int) {
	t.Helper()
	b, err := os.ReadFile("../../testdata/names/" + list + ".txt")
	if err != nil {
		t.Fatal(err)
	}
	shapes := map[string][]int64{}
	layers := 0
	for line := range strings.Lines(string(b)) {
		w := strings.Fields(line)
		if len(w) != 4 || w[0] == "#" {
			continue
		}
		var shape []int64
		for d := range strings.SplitSeq(w[1], "x") {
			n, err := strconv.ParseInt(d, 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			shape = append(shape, n)
		}
		shapes[w[2]] = shape
		if s := strings.Split(w[2], "."); s[0] == "layers" {
			n, err := strconv.Atoi(s[1])
			if err != nil {
				t.Fatal(err)
			}
			layers = max(layers, n+1)
		}
	}
	return func(name string) ([]int64, bool) { s, ok := shapes[name]; return s, ok }, layers
}

// TestGolden compares the config of whole models with what was looked through
// once, key by key.
func TestGolden(t *testing.T) {
	paths, err := filepath.Glob("testdata/*")
	if err != nil {
		t.Fatal(err)
	}
	tested := 0
	for _, path := range paths {
		name := strings.TrimSuffix(filepath.Base(path), filepath.Ext(path))
		if strings.HasSuffix(name, ".want") {
			continue
		}
		tested++
		t.Run(name, func(t *testing.T) {
			list := name
			if name == "gguf-llama-pair" {
				list = "hf-llama-pair"
			}
			shapes, layers := readShapes(t, list)
			var fields []tensorfs.Field
			if filepath.Ext(path) == ".txt" {
				fields = FromGGUF(readGGUF(t, path), shapes, layers)
			} else {
				fields = FromHF(readJSON(t, path), shapes, layers)
			}
			got := AppendJSON(nil, fields)
			file := "testdata/" + name + ".want.json"
			if *update {
				if err := os.WriteFile(file, got, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if string(got) != string(want) {
				t.Errorf("got %s\nwant %s", got, want)
			}
		})
	}
	if tested < 14 {
		t.Errorf("only %d models", tested)
	}
}

// TestPair reads the same model from GGUF and from config.json.
func TestPair(t *testing.T) {
	shapes, layers := readShapes(t, "hf-llama-pair")
	a := FromGGUF(readGGUF(t, "testdata/gguf-llama-pair.txt"), shapes, layers)
	b := FromHF(readJSON(t, "testdata/hf-llama-pair.json"), shapes, layers)
	for _, fields := range [][]tensorfs.Field{a, b} {
		for i := range fields {
			fields[i].Assumed = false // one side has a default that the other omits
		}
	}
	if !reflect.DeepEqual(a, b) {
		t.Errorf("GGUF %v\nHF   %v", a, b)
	}
	if len(a) < 30 {
		t.Errorf("only %d fields", len(a))
	}
}

// TestTables checks that architectures meant by the schema exist.
func TestTables(t *testing.T) {
	for _, model := range []string{"gemma3", "gemma2", "cohere2", "mamba"} {
		if architectures.NameOf("", model) != model {
			t.Errorf("no architecture %s", model)
		}
	}
	seen := map[string]bool{}
	for _, f := range schema() {
		if seen[f.name] {
			t.Errorf("%s twice", f.name)
		}
		seen[f.name] = true
		if f.without == nil && f.gguf == nil && f.hf == nil {
			t.Errorf("%s comes from nowhere", f.name)
		}
	}
	if len(schema()) != 49 {
		t.Errorf("%d fields", len(schema()))
	}
}
