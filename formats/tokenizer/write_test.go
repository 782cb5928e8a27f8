package tokenizer_test

import (
	"bytes"
	"encoding/json"
	"iter"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs/formats/gguf"
	"github.com/tensorfs/tensorfs/internal/testing/memory"
	"github.com/tensorfs/tensorfs/internal/testing/testclient"
)

const wholeHF = "../../testdata/whole-hf"

// parse returns the metadata of a compressed GGUF file.
func parse(t testing.TB, file string) *gguf.File {
	t.Helper()
	m, err := memory.New(map[string][]byte{"m": testclient.Unpack(t, file)}).OpenFile("m")
	if err != nil {
		t.Fatal(err)
	}
	p, err := gguf.Parse(m)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// write writes the tokenizer of a compressed GGUF file.
func write(t testing.TB, file string) map[string][]byte {
	t.Helper()
	p := parse(t, file)
	files, err := written(p.Value, p.Architecture())
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// list is an array of metadata.
type list []any

func (l list) Len() int              { return len(l) }
func (l list) Values() iter.Seq[any] { return slices.Values(l) }

// listOf makes an array of metadata of a slice.
func listOf[T any](values ...T) list {
	l := make(list, len(values))
	for i, v := range values {
		l[i] = v
	}
	return l
}

// keys are metadata. Slices are arrays.
type keys map[string]any

func (k keys) get(key string) any {
	switch v := k[key].(type) {
	case []string:
		return listOf(v...)
	case []int32:
		return listOf(v...)
	case []float32:
		return listOf(v...)
	case []uint8:
		return listOf(v...)
	default:
		return v
	}
}

// with returns the keys with one of another value, or without it.
func (k keys) with(pairs ...any) keys {
	other := keys{}
	for key, v := range k {
		other[key] = v
	}
	for i := 0; i < len(pairs); i += 2 {
		if key := pairs[i].(string); pairs[i+1] == nil {
			delete(other, key)
		} else {
			other[key] = pairs[i+1]
		}
	}
	return other
}

// document parses one of the files written.
func document(t testing.TB, b []byte) map[string]any {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	var doc map[string]any
	if err := d.Decode(&doc); err != nil {
		t.Fatalf("%v: %.2000s", err, b)
	}
	return doc
}

// TestWriteGolden compares the small files.
func TestWriteGolden(t *testing.T) {
	for _, model := range []string{"bert.q8_0", "llama.q4_k_m", "deepseek2.q4_k_m", "qwen2.q4_0"} {
		file := filepath.Join(wholeHF, "vocab", model+".gguf.gz")
		files := write(t, file)
		for _, name := range []string{"tokenizer_config.json", "special_tokens_map.json"} {
			b, err := os.ReadFile(filepath.Join(wholeHF, "models", model+"."+name))
			if err != nil {
				t.Fatal(err)
			}
			want, got := document(t, b), document(t, files[name])
			for key, v := range want {
				if !reflect.DeepEqual(got[key], v) {
					t.Errorf("%s of %s: %s is %v, want %v", name, model, key, got[key], v)
				}
			}
			for key := range got {
				if _, ok := want[key]; !ok && !slices.Contains([]string{"added_tokens_decoder", "add_eos_token", "model_input_names"}, key) {
					t.Errorf("%s of %s: there is %s as well", name, model, key)
				}
			}
		}
		if want := map[bool]int{false: 3, true: 4}[model == "llama.q4_k_m"]; len(files) != want {
			t.Errorf("%s has %d files, want %d", model, len(files), want)
		}
	}
}

// TestBack holds that what is written of a model is read as what it was, scores and all.
// That SentencePiece's own library takes the tokenizer.model was seen outside of this test.
func TestBack(t *testing.T) {
	pieces := 0
	for _, c := range goldenCases(t) {
		if c.name == "spark25" { // the way that it splits texts is known only from its source files, so nothing is written
			continue
		}
		if c.name == "chatglm3" { // its GGUF files have no hf/
			continue
		}
		source := load(t, filepath.Join(c.dir, c.name))
		first, err := source.read(t, c.arch, c.rows)
		if err != nil {
			t.Fatal(err)
		}
		if hasNoJSON(first) {
			continue
		}
		back, err := written(keys(meta(first)).get, c.arch)
		if err != nil {
			t.Fatal(err)
		}
		f := files{"config.json": source["config.json"]}
		for name, text := range back {
			f[name] = string(text)
		}
		if f["tokenizer.model"] != "" {
			pieces++
		}
		again, err := f.read(t, c.arch, c.rows)
		if err != nil {
			t.Fatal(err)
		}
		was, is := meta(first), meta(again)
		if key := "tokenizer.ggml.unknown_token_id"; was[key] == nil && was["tokenizer.ggml.model"] == "llama" && is[key] == uint32(0) {
			delete(is, key) // as llama.cpp assumes
		}
		if key := "tokenizer.ggml.mask_token_id"; strings.HasPrefix(c.name, "xlm-roberta") { // a token that the converter calls unused
			delete(was, key)
		}
		for id, kind := range is["tokenizer.ggml.token_type"].([]int32) {
			types := was["tokenizer.ggml.token_type"].([]int32)
			switch { // no file marks a token as unused; unknown is a special token
			case types[id] == 5 && kind == 1:
				types[id] = 1
			case types[id] == 2 && kind == 3 && f["tokenizer.model"] != "":
				types[id] = 3
				was["tokenizer.ggml.scores"].([]float32)[id] = -1000
			}
		}
		for key := range is {
			if !same(was[key], is[key]) {
				t.Errorf("%s: %s was %.300v, and is %.300v", c.name, key, was[key], is[key])
			}
		}
		if len(was) != len(is) {
			t.Errorf("%s: there are %d keys, and were %d", c.name, len(is), len(was))
		}
	}
	if pieces < 10 {
		t.Errorf("%d models have a tokenizer.model", pieces)
	}
}

// TestSplitTable holds that the table equals the golden table for every name, and that every
// pre-tokenizer that Read names can be written, with the same treatment of merges.
func TestSplitTable(t *testing.T) {
	b, err := os.ReadFile(filepath.Join(wholeHF, "pre.json"))
	if err != nil {
		t.Fatal(err)
	}
	var rows []struct {
		Pre, Split   []string
		Normalizer   string
		IgnoreMerges bool `json:"ignore_merges"`
		AddBos       bool `json:"add_bos_default"`
		Sep          bool
	}
	if err := json.Unmarshal(b, &rows); err != nil || len(rows) != 30 {
		t.Fatal(len(rows), err)
	}
	for _, row := range rows {
		for _, pre := range row.Pre {
			k := byteKeys.with("tokenizer.ggml.pre", pre, "tokenizer.ggml.bos_token_id", uint32(4))
			files, err := written(k.get, "llama")
			if err != nil {
				t.Errorf("%s: %v", pre, err)
				continue
			}
			doc := document(t, files["tokenizer.json"])
			var split []string
			for _, step := range doc["pre_tokenizer"].(map[string]any)["pretokenizers"].([]any) {
				if pattern, ok := step.(map[string]any)["pattern"].(map[string]any); ok {
					split = append(split, pattern["Regex"].(string))
				}
			}
			normalizer := ""
			if n, ok := doc["normalizer"].(map[string]any); ok {
				normalizer = n["type"].(string)
			}
			ignore := doc["model"].(map[string]any)["ignore_merges"].(bool)
			bos := document(t, files["tokenizer_config.json"])["add_bos_token"].(bool)
			sep := strings.Contains(at(t, files["tokenizer.json"], "post_processor"), `"id":"B","type_id":0`)
			if !slices.Equal(split, row.Split) || normalizer != row.Normalizer || ignore != row.IgnoreMerges || bos != (row.AddBos || row.Sep) || sep != row.Sep {
				t.Errorf("%s: %q, normalizer %q, ignore_merges %v, bos %v, sep %v", pre, split, normalizer, ignore, bos, sep)
			}
		}
	}
	b, err = os.ReadFile(filepath.Join(golden, "pre.json"))
	if err != nil {
		t.Fatal(err)
	}
	var table struct {
		Rows []struct {
			Pre          string
			IgnoreMerges bool `json:"ignore_merges"`
		}
	}
	if err := json.Unmarshal(b, &table); err != nil || len(table.Rows) < 20 {
		t.Fatal(len(table.Rows), err)
	}
	for _, row := range table.Rows {
		files, err := written(byteKeys.with("tokenizer.ggml.pre", row.Pre).get, "llama")
		if row.Pre == "spark2_5" { // it is not in the golden table
			if err == nil {
				t.Errorf("%s is known by now", row.Pre)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", row.Pre, err)
			continue
		}
		model := document(t, files["tokenizer.json"])["model"].(map[string]any)
		if model["ignore_merges"] != row.IgnoreMerges {
			t.Errorf("%s: ignore_merges is %v in one table and %v in the other", row.Pre, row.IgnoreMerges, model["ignore_merges"])
		}
	}
}

// byteKeys are the least that a tokenizer of bytes has.
var byteKeys = keys{
	"tokenizer.ggml.model":  "gpt2",
	"tokenizer.ggml.pre":    "gpt-2",
	"tokenizer.ggml.tokens": []string{"a", "b", "ab", "Ġ", "<s>"},
	"tokenizer.ggml.merges": []string{"a b"},
}
