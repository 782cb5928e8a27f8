package tokenizer_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs"
	descriptions "github.com/tensorfs/tensorfs/formats/architectures"
	"github.com/tensorfs/tensorfs/formats/tokenizer"
	"github.com/tensorfs/tensorfs/internal/jsonobj"
)

// golden and architectures are directories of published models, with the output of llama.cpp's
// converter.
const (
	golden        = "../../testdata/whole-gguf"
	architectures = "../../testdata/architectures"
)

// files are the files of a model by name.
type files map[string]string

func (f files) open(name string) (tensorfs.Data, error) {
	text, ok := f[name]
	if !ok {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return tensorfs.Bytes(text), nil
}

// with returns the files with one of another text, or without it.
func (f files) with(name, text string) files {
	g := files{}
	for k, v := range f {
		g[k] = v
	}
	if g[name] = text; text == "" {
		delete(g, name)
	}
	return g
}

// read reads the tokenizer of a model.
func (f files) read(t testing.TB, arch string, rows int) (*keyed, error) {
	t.Helper()
	config := jsonobj.Object{}
	if text, ok := f["config.json"]; ok {
		var err error
		if config, err = jsonobj.Parse([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	return read(tokenizer.Options{File: f.open, Block: blockOf(arch, config), Config: config, Rows: rows})
}

// blockOf returns the block of an architecture's models of a class or a type.
func blockOf(arch string, config jsonobj.Object) string {
	class := ""
	for r := range config.Raw("architectures").Elements() {
		class = r.Text()
	}
	is := func(c descriptions.Class) bool {
		return c.Name != "" && c.Name == class || c.ModelType != "" && c.ModelType == config.Raw("model_type").Text()
	}
	for _, s := range descriptions.OfGGUF(arch) {
		if slices.ContainsFunc(s.Classes, is) {
			return s.Name
		}
	}
	return arch
}

// load returns the files of a golden model but its weights.
func load(t testing.TB, dir string) files {
	t.Helper()
	f := files{}
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list {
		if e.IsDir() || strings.HasSuffix(e.Name(), ".safetensors") {
			continue
		}
		b, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		f[e.Name()] = string(b)
	}
	return f
}

// goldenCase is a model, its architecture and the rows of its embedding.
type goldenCase struct {
	dir, name, arch string
	rows            int
	want            map[string]typed
}

// expects returns one of the files that say what becomes of a case.
func (c goldenCase) expects(t testing.TB, what string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(c.dir, "expected", c.name+what))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

type typed struct {
	Type  string
	Value any
}

func goldenCases(t testing.TB) (cases []goldenCase) {
	t.Helper()
	for _, dir := range []string{golden, architectures} {
		list, err := filepath.Glob(filepath.Join(dir, "expected", "*.meta.json"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range list {
			c := goldenCase{dir: dir, name: strings.TrimSuffix(filepath.Base(file), ".meta.json")}
			if strings.HasSuffix(c.name, ".mmproj") { // a vision tower, which has no tokenizer
				continue
			}
			c.expects(t, ".run.json")                                                              // which TestRoundTrip reads only where Hugging Face's library is
			b := bytes.ReplaceAll(c.expects(t, ".meta.json"), []byte("-Infinity"), []byte("null")) // in a key outside the tokenizer's
			if err := json.Unmarshal(b, &c.want); err != nil {
				t.Fatal(err)
			}
			c.arch = c.want["general.architecture"].Value.(string)
			if c.rows = tableRows(t, c); c.name == "gemma3" {
				c.rows = headerRows(t, c)
			}
			cases = append(cases, c)
		}
	}
	if len(cases) < 20+57 {
		t.Fatalf("%d golden cases", len(cases))
	}
	return cases
}

// tableRows returns the rows of the embedding that the whole file has.
func tableRows(t testing.TB, c goldenCase) int {
	for line := range strings.Lines(string(c.expects(t, ".tensors.tsv"))) {
		if f := strings.Split(line, "\t"); f[0] == "token_embd.weight" {
			_, rows, _ := strings.Cut(f[2], "x")
			n, err := strconv.Atoi(rows)
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	t.Fatalf("%s has no embedding", c.name)
	return 0
}

// headerRows returns the rows of the embedding that the source has.
func headerRows(t testing.TB, c goldenCase) int {
	b, err := os.ReadFile(filepath.Join(c.dir, c.name, "model.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	var header map[string]struct{ Shape []int }
	if err := json.Unmarshal(b[8:8+binary.LittleEndian.Uint64(b)], &header); err != nil {
		t.Fatal(err)
	}
	for tensor, h := range header {
		if strings.HasSuffix(tensor, "embed_tokens.weight") {
			return h.Shape[0]
		}
	}
	t.Fatalf("%s has no embedding", c.name)
	return 0
}

// expected returns a golden value as Go's type for it.
func expected(t testing.TB, v typed) any {
	list, _ := v.Value.([]any)
	switch v.Type {
	case "STRING", "BOOL":
		return v.Value
	case "UINT32":
		return uint32(v.Value.(float64))
	case "array:STRING":
		return each(list, func(v any) string { return v.(string) })
	case "array:INT32":
		return each(list, func(v any) int32 { return int32(v.(float64)) })
	case "array:UINT8":
		return each(list, func(v any) uint8 { return uint8(v.(float64)) })
	case "array:FLOAT32":
		return each(list, func(v any) float32 { return float32(v.(float64)) })
	}
	t.Fatalf("type %s", v.Type)
	return nil
}

func each[T any](list []any, as func(any) T) []T {
	out := make([]T, len(list))
	for i, v := range list {
		out[i] = as(v)
	}
	return out
}

// same compares values, floats as bits.
func same(a, b any) bool {
	x, ok := a.([]float32)
	y, ok2 := b.([]float32)
	if ok && ok2 {
		return slices.EqualFunc(x, y, func(x, y float32) bool { return math.Float32bits(x) == math.Float32bits(y) })
	}
	return reflect.DeepEqual(a, b)
}

// assumed are keys that may be present in addition to the golden keys, with the value that
// llama.cpp assumes without them. The keys of bos depend on the model.
var assumed = map[string]func(model string, value any) bool{
	"tokenizer.ggml.add_bos_token":    func(model string, v any) bool { return v == (model == "llama" || model == "bert") },
	"tokenizer.ggml.add_eos_token":    func(model string, v any) bool { return v == (model == "bert") },
	"tokenizer.ggml.add_sep_token":    func(model string, v any) bool { return v == (model == "bert") },
	"tokenizer.ggml.add_space_prefix": func(model string, v any) bool { return v == (model == "llama") },
}

// TestGolden compares with what llama.cpp's converter wrote.
func TestGolden(t *testing.T) {
	for _, c := range goldenCases(t) {
		t.Run(c.name, func(t *testing.T) {
			f := load(t, filepath.Join(c.dir, c.name))
			got, err := f.read(t, c.arch, c.rows)
			if err != nil {
				t.Fatal(err)
			}
			if got.Count != c.rows {
				t.Errorf("%d tokens for %d rows", got.Count, c.rows)
			}
			have := map[string]any{}
			for _, m := range got.Meta {
				if _, ok := have[m.Key]; ok {
					t.Errorf("%s is there twice", m.Key)
				}
				have[m.Key] = m.Value
			}
			model, _ := have["tokenizer.ggml.model"].(string)
			for key, v := range c.want {
				if !strings.HasPrefix(key, "tokenizer.") || key == "tokenizer.chat_template.rerank" || key == "tokenizer.ggml.suppress_tokens" || c.name == "llada-moe" && key == "tokenizer.ggml.mask_token_id" { // which the architecture sets
					continue
				}
				if key == "tokenizer.chat_templates" && c.want["tokenizer.chat_template.rerank"].Type != "" {
					continue // how a reranker is asked is no part of its tokenizer
				}
				want := expected(t, v)
				switch {
				case key == "tokenizer.ggml.pre" && model == "bert":
					want = "default" // any will do
				case key == "tokenizer.ggml.scores" && c.name == "llama-spm-json":
					want = ranks(t, f["tokenizer.json"], c.rows)
				}
				if !same(have[key], want) {
					t.Errorf("%s is %T %.400v\nwant %T %.400v", key, have[key], have[key], want, want)
				}
				delete(have, key)
			}
			for key, v := range have {
				if ok := assumed[key]; ok == nil || !ok(model, v) {
					t.Errorf("%s is %v, which the golden file does not have", key, v)
				}
			}
		})
	}
}

// ranks returns the scores that make llama.cpp merge as the source does, by the
// plainest way: for each token the first merge that gives it.
func ranks(t testing.TB, text string, rows int) []float32 {
	var doc struct {
		Model struct {
			Vocab  map[string]int
			Merges []string
		}
	}
	if err := json.Unmarshal([]byte(text), &doc); err != nil {
		t.Fatal(err)
	}
	scores := make([]float32, rows)
	for i := range scores {
		scores[i] = -1000000
	}
	for rank := len(doc.Model.Merges) - 1; rank >= 0; rank-- {
		scores[doc.Model.Vocab[strings.ReplaceAll(doc.Model.Merges[rank], " ", "")]] = 0 - float32(rank)
	}
	return scores
}
