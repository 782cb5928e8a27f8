package hf_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats"
	hfmodel "github.com/tensorfs/tensorfs/formats/hf"
	"github.com/tensorfs/tensorfs/internal/convert"
	"github.com/tensorfs/tensorfs/internal/convert/hf"
	"github.com/tensorfs/tensorfs/internal/testing/memory"
	"github.com/tensorfs/tensorfs/internal/testing/testmodel"
	"github.com/tensorfs/tensorfs/internal/testing/testwhole"
)

const data = "../../../testdata/"

// contents returns the files of a directory by name.
func contents(t *testing.T, f *convert.Files) map[string][]byte {
	t.Helper()
	if f.Reason != "" {
		t.Fatal(f.Reason)
	}
	out := map[string][]byte{}
	for _, x := range f.List {
		out[x.Path] = testwhole.Read(t, x.Data)
	}
	return out
}

func names(files map[string][]byte) string {
	var list []string
	for n := range files {
		list = append(list, n)
	}
	slices.Sort(list)
	return strings.Join(list, " ")
}

// onDisk returns the files of a directory and of those below it.
func onDisk(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	out := map[string][]byte{}
	err := filepath.WalkDir(dir, func(p string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(dir, p)
		if err != nil {
			return err
		}
		out[filepath.ToSlash(rel)], err = os.ReadFile(p)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func same(t *testing.T, what string, got, want map[string][]byte) {
	t.Helper()
	if names(got) != names(want) {
		t.Errorf("%s has %s, want %s", what, names(got), names(want))
	}
	for n := range want {
		if !bytes.Equal(got[n], want[n]) {
			t.Errorf("%s: %s differs", what, n)
		}
	}
}

// TestAsStored holds that a directory that is one already is passed on byte for
// byte, shards, index and folders included.
func TestAsStored(t *testing.T) {
	for _, name := range []string{"whole-gguf/qwen3moe", "whole-gguf/bert", "pairs/llama/hf"} {
		m := testwhole.Open(t, data+name)
		same(t, name, contents(t, hf.HF(m, convert.Options{})), onDisk(t, data+name))
	}
	same(t, "mlx/", contents(t, hf.MLX(testwhole.Open(t, data+"models-mlx/qwen3-mixed"), convert.Options{})), onDisk(t, data+"models-mlx/qwen3-mixed"))
	same(t, "mlx/", contents(t, hf.MLX(testwhole.Open(t, data+"whole-gguf/llama3"), convert.Options{})), onDisk(t, data+"whole-gguf/llama3"))
	same(t, "mlx/", contents(t, hf.MLX(testwhole.Open(t, data+"whole-gguf/gpt-oss"), convert.Options{})), onDisk(t, data+"whole-gguf/gpt-oss"))
	for name, why := range map[string]string{"whole-gguf/bert": "model type"} {
		if f := hf.MLX(testwhole.Open(t, data+name), convert.Options{}); !strings.Contains(f.Reason, why) {
			t.Errorf("mlx/ of %s: %s", name, f.Describe())
		}
	}
}

// TestEmbeddingFiles holds that a directory's files about pooling are passed on, also in
// subdirectories: hf/ links to them, and mlx/ has them beside the converted files.
func TestEmbeddingFiles(t *testing.T) {
	for _, dir := range []string{"whole-gguf/qwen3", "models-mlx/qwen3-mixed"} {
		files := onDisk(t, data+dir)
		added := []string{"modules.json", "config_sentence_transformers.json", "sentence_bert_config.json", "1_Pooling/config.json", "2_Normalize/config.json"}
		for _, name := range added {
			files[name] = []byte(`{"of": "` + name + `"}`)
		}
		m, err := hfmodel.OpenFS(memory.New(files), ".")
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		for _, make := range []func(*tensorfs.Model, convert.Options) *convert.Files{hf.HF, hf.MLX} {
			got := contents(t, make(m, convert.Options{}))
			for _, name := range added {
				if !bytes.Equal(got[name], files[name]) {
					t.Errorf("%s: %s is %q", dir, name, got[name])
				}
			}
		}
	}
}

// TestMLXConfigFile holds that mlx/ of a directory that transformers 5 wrote has a config.json that
// mlx-lm reads, and every other file as stored; that hf/ has config.json as stored; and the same
// for an MLX directory that states its quantisation in only one of the two ways.
func TestMLXConfigFile(t *testing.T) {
	for _, c := range []struct{ dir, old, new, want string }{
		{"whole-gguf/llama3", `"rope_scaling": {`, `"rope_parameters": {"rope_theta": 700000.0,`, "\n    \"rope_theta\": 700000.0"},
		{"models-mlx/qwen3-mixed", `"quantization": {`, `"other": {`, `"quantization": {`},
	} {
		files := onDisk(t, data+c.dir)
		stored := strings.Replace(string(files["config.json"]), c.old, c.new, 1)
		if stored == string(files["config.json"]) {
			t.Fatalf("%s has no %s: %s", c.dir, c.old, stored)
		}
		files["config.json"] = []byte(stored)
		m, err := hfmodel.OpenFS(memory.New(files), ".")
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		if m.Format == "huggingface" {
			same(t, "hf/ of "+c.dir, contents(t, hf.HF(m, convert.Options{})), files)
		}
		got := contents(t, hf.MLX(m, convert.Options{}))
		mended := got["config.json"]
		if !strings.Contains(string(mended), c.want) || !json.Valid(mended) {
			t.Errorf("%s: %s", c.dir, mended)
		}
		got["config.json"] = files["config.json"]
		same(t, "mlx/ of "+c.dir, got, files)
	}
}

// TestAdaptedFiles holds that hf/ of an MLX directory keeps the files that say
// nothing of how tensors are stored.
func TestAdaptedFiles(t *testing.T) {
	dir := data + "whole-gguf/mlx-llama3-4bit"
	got, stored := contents(t, hf.HF(testwhole.Open(t, dir), convert.Options{})), onDisk(t, dir)
	delete(got, "model.safetensors.index.json")
	if names(got) != names(stored) {
		t.Errorf("%s, want %s", names(got), names(stored))
	}
	for n := range stored {
		if equal := bytes.Equal(got[n], stored[n]); equal != (n != "config.json" && n != "model.safetensors") {
			t.Errorf("%s is as stored: %v", n, equal)
		}
	}
	if bytes.Contains(got["config.json"], []byte("quantization")) || !bytes.Contains(stored["config.json"], []byte("quantization")) {
		t.Errorf("%s", got["config.json"])
	}
}

// TestAdaptedOlder holds that transformers 4 reads hf/ of an MLX directory that
// transformers 5 wrote, and that mlx/ has the tokenizer as it is stored.
func TestAdaptedOlder(t *testing.T) {
	files := onDisk(t, data+"whole-gguf/mlx-llama3-4bit")
	files["config.json"] = bytes.Replace(files["config.json"], []byte(`"rope_scaling"`), []byte(`"rope_parameters"`), 1)
	for name, change := range map[string][2]string{
		"config.json":           {`"rope_theta": 500000.0,`, ""},
		"config.json ":          {`"rope_parameters": {`, `"rope_parameters": {"rope_theta": 500000.0, `},
		"tokenizer_config.json": {`"PreTrainedTokenizerFast"`, `"TokenizersBackend"`},
	} {
		name = strings.TrimSpace(name)
		text := strings.Replace(string(files[name]), change[0], change[1], 1)
		if text == string(files[name]) {
			t.Fatalf("%s has no %s: %s", name, change[0], text)
		}
		files[name] = []byte(text)
	}
	m, err := hfmodel.OpenFS(memory.New(files), ".")
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	got := contents(t, hf.HF(m, convert.Options{}))
	if text := string(got["config.json"]); !strings.Contains(text, "\n    \"rope_theta\": 500000.0") || !strings.Contains(text, "rope_parameters") {
		t.Error(text)
	}
	if text := string(got["tokenizer_config.json"]); !strings.Contains(text, `"PreTrainedTokenizerFast"`) {
		t.Error(text)
	}
	if text := contents(t, hf.MLX(m, convert.Options{}))["tokenizer_config.json"]; !bytes.Equal(text, files["tokenizer_config.json"]) {
		t.Errorf("mlx/ has %s", text)
	}
}

// TestGenerated holds which files a GGUF model has, and that a program which reads
// the directory finds the same tensors in it.
func TestGenerated(t *testing.T) {
	m := testwhole.Open(t, data+"gguf/llama-xs.q4_k_m.gguf")
	for kind, files := range map[string]*convert.Files{"hf": hf.HF(m, convert.Options{}), "mlx": hf.MLX(m, convert.Options{})} {
		got := contents(t, files)
		index, indexed := got["model.safetensors.index.json"]
		delete(got, "model.safetensors.index.json")
		if want := "config.json generation_config.json model.safetensors special_tokens_map.json tokenizer.json tokenizer.model tokenizer_config.json"; names(got) != want || indexed != (kind == "hf") {
			t.Errorf("%s/ has %s", kind, names(got))
		}
		if indexed {
			checkIndex(t, index, got["model.safetensors"])
			got["model.safetensors.index.json"] = index
		}
		again, err := hfmodel.OpenFS(memory.New(got), ".")
		if err != nil {
			t.Fatal(err)
		}
		defer again.Close()
		for i := range m.Tensors {
			a := &m.Tensors[i]
			if b := again.Tensor(a.Name); b == nil || !slices.Equal(a.Numbers(), b.Numbers()) {
				t.Errorf("%s/ has no %s of shape %v", kind, a.Name, a.Numbers())
			}
		}
		if again.Architecture != "llama" || kind == "mlx" && again.Format != "mlx" {
			t.Errorf("%s/ is %s of %s", kind, again.Format, again.Architecture)
		}
	}
}

// checkIndex holds that an index has each tensor of a file, and how long they are together.
func checkIndex(t *testing.T, text, weights []byte) {
	t.Helper()
	var index struct {
		Metadata  map[string]int64  `json:"metadata"`
		WeightMap map[string]string `json:"weight_map"`
	}
	if err := json.Unmarshal(text, &index); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	header := binary.LittleEndian.Uint64(weights)
	var tensors map[string]json.RawMessage
	if err := json.Unmarshal(weights[8:8+header], &tensors); err != nil {
		t.Fatal(err)
	}
	delete(tensors, "__metadata__")
	for name := range tensors {
		if index.WeightMap[name] != "model.safetensors" {
			t.Errorf("the index has %s in %q", name, index.WeightMap[name])
		}
	}
	if total := int64(len(weights)-8) - int64(header); len(index.WeightMap) != len(tensors) || index.Metadata["total_size"] != total {
		t.Errorf("the index has %d of %d tensors, %d of %d bytes", len(index.WeightMap), len(tensors), index.Metadata["total_size"], total)
	}
}

// TestWithoutTokenizer holds that a tokenizer which cannot be given is left out with
// the reason, and the weights are not.
func TestWithoutTokenizer(t *testing.T) {
	g := testmodel.NewLogical("llama", 1).AsGGUF(tensorfs.F16, false)
	g.Meta = slices.DeleteFunc(g.Meta, func(m tensorfs.Meta) bool { return strings.HasPrefix(m.Key, "tokenizer.") })
	g.Meta = append(g.Meta, tensorfs.Meta{Key: "tokenizer.ggml.model", Value: "rwkv"}, tensorfs.Meta{Key: "tokenizer.ggml.tokens", Value: []string{"a"}})
	m, err := formats.OpenFS(memory.New(map[string][]byte{"m.gguf": g.Bytes()}), "m.gguf")
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	f := hf.HF(m, convert.Options{})
	if got := contents(t, f); names(got) != "config.json model.safetensors model.safetensors.index.json" {
		t.Errorf("%s", names(got))
	}
	var d struct {
		Left map[string]string `json:"left_out"`
	}
	if err := json.Unmarshal(f.Describe(), &d); err != nil || !strings.Contains(d.Left["tokenizer.json"], "rwkv") || len(d.Left) != 4 {
		t.Errorf("%s, %v", f.Describe(), err)
	}
}

// TestBothWays holds that HF -> gguf/ -> hf/ -> gguf/ gives the same GGUF file except for its name.
func TestBothWays(t *testing.T) {
	for _, name := range []string{"llama3", "qwen2", "qwen3", "qwen2moe", "mixtral"} {
		first := contents(t, convert.GGUF(testwhole.Open(t, data+"whole-gguf/"+name), convert.Options{}))["model.gguf"]
		m, err := formats.OpenFS(memory.New(map[string][]byte{"m.gguf": first}), "m.gguf")
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		back, err := hfmodel.OpenFS(memory.New(contents(t, hf.HF(m, convert.Options{}))), ".")
		if err != nil {
			t.Fatal(err)
		}
		defer back.Close()
		again := contents(t, convert.GGUF(back, convert.Options{}))["model.gguf"]
		a, b := testwhole.Parse(t, first), testwhole.Parse(t, again)
		if len(a.Tensors) != len(b.Tensors) {
			t.Errorf("%s: %d tensors, then %d", name, len(a.Tensors), len(b.Tensors))
			continue
		}
		for i, x := range a.Tensors {
			y := b.Tensors[i]
			if x.Source != y.Source || x.DType != y.DType || !slices.Equal(x.Shape, y.Shape) || !bytes.Equal(all(t, x.Data), all(t, y.Data)) {
				t.Errorf("%s: %s is another tensor", name, x.Source)
			}
		}
		for _, key := range []string{"tokenizer.ggml.model", "tokenizer.ggml.pre", "tokenizer.ggml.add_bos_token", "general.architecture"} {
			if a.Value(key) != b.Value(key) {
				t.Errorf("%s: %s is %v, then %v", name, key, a.Value(key), b.Value(key))
			}
		}
		for _, key := range []string{"tokenizer.ggml.tokens", "tokenizer.ggml.token_type", "tokenizer.ggml.merges"} {
			x, y := elements(a.Value(key)), elements(b.Value(key))
			for i := range x {
				if x[i] == any(int32(5)) { // an unused token is one as any other in tokenizer.json
					x[i] = int32(1)
				}
			}
			if !slices.Equal(x, y) || len(x) == 0 && a.Value(key) != nil {
				t.Errorf("%s: %s differs: %d and %d elements", name, key, len(x), len(y))
			}
		}
	}
}

func all(t *testing.T, d tensorfs.Data) []byte {
	t.Helper()
	b := make([]byte, d.Size())
	if err := tensorfs.ReadFull(d, b, 0); err != nil {
		t.Fatal(err)
	}
	return b
}

func elements(v any) (list []any) {
	if a, ok := v.(tensorfs.Array); ok {
		list = slices.Collect(a.Values())
	}
	return list
}

// TestDenseModule holds that the matrix after the pooling, which ColBERT models of LFM2 store in a
// subdirectory, is in the GGUF file, as the converter writes it.
func TestDenseModule(t *testing.T) {
	for name, text := range map[string]string{
		"1_Dense/config.json": `{"in_features":32,"out_features":8,"bias":false}`,
		"modules.json":        `[{"idx":0,"name":"0","path":"","type":"a.Transformer"},{"idx":1,"name":"1","path":"1_Dense","type":"pylate.models.Dense.Dense"}]`,
	} {
		files := onDisk(t, data+"architectures/lfm2-embedding")
		files[name] = []byte(text)
		m, err := openDirectory(memory.New(files))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { m.Close() })
		if f := convert.GGUF(m, convert.Options{}); !strings.Contains(f.Reason, "(1_Dense)") {
			t.Errorf("%s: the reason is %q", name, f.Reason)
		}
	}
}

// TestSuppressed: tokens that are never chosen are the model's, and come back to
// generation_config.json. A list of others is noted, and left out.
func TestSuppressed(t *testing.T) {
	files := onDisk(t, data+"architectures/gemma4-unified")
	for list, want := range map[string]string{`[402,421]`: "a list of 2", `[1.5]`: "a list of 1", `[-1]`: "a list of 1", `"x"`: `"x"`, `[]`: "", `null`: "", `[1]`: ""} {
		files["generation_config.json"] = []byte(`{"suppress_tokens":` + list + `}`)
		m, err := openDirectory(memory.New(files))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { m.Close() })
		if f := convert.GGUF(m, convert.Options{}); f.Reason != "" || tells(f, "suppress_tokens "+want) != (want != "") {
			t.Errorf("%s: %q %q", list, f.Reason, f.Notes)
		}
	}
	files = onDisk(t, data+"architectures/gemma4-unified")
	var wrong problems
	made := wrong.of(t, convert.GGUF, openDirectory, files)
	back := wrong.of(t, hf.HF, openGGUF, map[string][]byte{"m.gguf": made["model.gguf"]})
	var got struct {
		Tokens []int `json:"suppress_tokens"`
	}
	if err := json.Unmarshal(back["generation_config.json"], &got); err != nil || !slices.Equal(got.Tokens, []int{402, 407}) {
		t.Errorf("%s, %v, %v", back["generation_config.json"], err, wrong)
	}
}
