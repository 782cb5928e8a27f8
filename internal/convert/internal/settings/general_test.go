package settings

import (
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/architectures"
)

func TestModelName(t *testing.T) {
	for _, c := range []struct{ path, from, arch, want string }{
		{"/m/tiny-llama", "", "llama", "Tiny Llama"},
		{"/m/Phi-3-mini-4k-instruct", "", "phi3", "Phi 3 Mini 4k Instruct"},
		{"/m/phi3", "", "phi3", "Phi3"},
		{"/m/my-phi3-phi-3-llama", "", "llama", "My Phi 3 Phi 3 Llama"},
		{"/m/qwen2moe-v0.3-7b", "", "qwen2moe", "Qwen2Moe v0.3 7b"},
		{"/m/x", "org/Some-Model-v2", "llama", "Some Model v2"},
		{"/m/some-model", "/home/somebody/checkpoint", "llama", "Some Model"},
		{"/m/some-model", "./", "llama", "Some Model"},
		{"/m/some-model", "a\ab", "llama", "Some Model"},
		{"/m/some-model/model.safetensors", "", "llama", "Some Model"},
		{"/c/models--org--nice-model/snapshots/abc", "", "llama", "Nice Model"},
		{"/c/models--org--nice-model", "", "llama", "Nice Model"},
		{"/m/a\ab", "", "llama", ""},
		{"/m/" + strings.Repeat("x", 300), strings.Repeat("y", 300), "llama", ""},
		{"/", "", "llama", ""},
		{"", "", "llama", ""},
	} {
		cfg := parsed(t, `{"_name_or_path":`+string(tensorfs.AppendJSONString(nil, c.from))+`}`)
		if got := modelName(&tensorfs.Model{Path: c.path}, cfg, c.arch); got != c.want {
			t.Errorf("%q, %q: %q, want %q", c.path, c.from, got, c.want)
		}
	}
}

const testdata = "../../../../testdata"

// bytesFile is a file in memory, compared by its address.
type bytesFile struct {
	tensorfs.Bytes
	io.Closer
}

// TestBeyond: what comes after the pooling is told of, because the file has none.
func TestBeyond(t *testing.T) {
	for modules, want := range map[string]string{
		`[{"type":"a.Pooling","path":"1_Pooling"},{"type":"a.Dense","path":"2_Dense"},{"type":"a.Dense","path":"3_Dense"},{"type":"a.Normalize","path":"4"}]`: "without 2_Dense and 3_Dense of modules.json",
		`[{"type":"a.Pooling","path":"1_Pooling"}]`: "",
		`[{"type":"Dense","path":"a\nb"}]`:          `without "a\nb" of`,
		`[{"type":"a.LayerNorm","path":"5"},{}]`:    "without 5 and ",
		`[{"type":"Dense"`:                          "",
		`5`:                                         "",
	} {
		if got := Beyond(modelOf(t, map[string]string{"modules.json": modules})); !strings.HasPrefix(got, want) || (got == "") != (want == "") {
			t.Errorf("%s: %q, want %q", modules, got, want)
		}
	}
	if got := Beyond(modelOf(t, nil)); got != "" {
		t.Errorf("without a list: %q", got)
	}
}

// modelOf returns a model without tensors that has these files.
func modelOf(t testing.TB, files map[string]string) *tensorfs.Model {
	t.Helper()
	m := tensorfs.Model{Path: "/models/some-model"}
	for name, text := range files {
		m.Sources = append(m.Sources, tensorfs.Source{Name: name, Open: func() (tensorfs.File, error) {
			return &bytesFile{tensorfs.Bytes(text), io.NopCloser(nil)}, nil
		}})
	}
	made, err := tensorfs.NewModel(m)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { made.Close() })
	return made
}

func TestSampling(t *testing.T) {
	for text, want := range map[string]map[string]any{
		`{"temperature":0.5,"top_k":40,"min_p":0.05}`:                     {"temp": float32(0.5), "top_k": int32(40), "min_p": float32(0.05)},
		`{"temperature":"hot","top_k":1.5,"top_p":1e300,"min_p":null}`:    {},
		`{"temperature":NaN,"top_k":3000000000,"repetition_penalty":1.1}`: {"penalty_repeat": float32(1.1)},
		`[]`: {}, ``: {}, `{"temperature":`: {},
	} {
		meta := newModel(modelOf(t, map[string]string{"generation_config.json": text}), architectures.ToGGUF).samplingKeys()
		if len(meta) != len(want) {
			t.Errorf("%s: %v", text, meta)
		}
		for _, k := range meta {
			if want[strings.TrimPrefix(k.Key, "general.sampling.")] != k.Value {
				t.Errorf("%s: %s is %v", text, k.Key, k.Value)
			}
		}
	}
}

func TestPooling(t *testing.T) {
	const modules = `[{"type":"a.Transformer","path":""},{"type":"a.Pooling","path":"1_Pooling"}]`
	bert, err := os.ReadFile(filepath.Join(testdata, "whole-gguf", "bert", "config.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		modules, config string
		want            any
		err             string
	}{
		{modules, `{"pooling_mode_mean_tokens":true,"pooling_mode_cls_token":false}`, uint32(1), ""},
		{modules, `{"pooling_mode_cls_token":true}`, uint32(2), ""},
		{modules, `{"pooling_mode_lasttoken":true}`, uint32(3), ""},
		{modules, `{"pooling_mode":"mean"}`, uint32(1), ""},
		{modules, `{"pooling_mode":"max"}`, nil, "does not pool by one of"},
		{modules, `{"pooling_mode_weightedmean_tokens":true}`, nil, "1_Pooling/config.json: it does not pool by one of"},
		{modules, `{"pooling_mode_cls_token":true,"pooling_mode_mean_tokens":true}`, nil, "does not pool by one of"},
		{modules, `{"pooling_mode_cls_token":1}`, nil, "neither true nor false"},
		{modules, `{`, nil, "1_Pooling/config.json"},
		{modules, "", nil, "does not pool by one of"},
		{"", "", nil, ""},
		{"[]", "", nil, ""},
		{`[{"type":"x"},5]`, "", nil, ""},
		{`[{"type":"Pooling","path":"../../secret"}]`, "", nil, "not a plain name"},
		{`[{"type":"Pooling"}]`, "", nil, "not a plain name"},
		{`[`, "", nil, "modules.json: it is not a list"},
	} {
		files := map[string]string{}
		for name, text := range map[string]string{"modules.json": c.modules, "1_Pooling/config.json": c.config} {
			if text != "" {
				files[name] = text
			}
		}
		var meta []tensorfs.Meta
		about, err := ToGGUF(modelOf(t, files), parsed(t, string(bert)))
		if err == nil {
			meta, err = about.Keys(Given{Rows: 231, Tokenizer: true})
		}
		if (err != nil) != (c.err != "") || err != nil && !strings.Contains(err.Error(), c.err) || err != nil && strings.Contains(err.Error(), "\n") {
			t.Errorf("%s, %s: error %v, want %q", c.modules, c.config, err, c.err)
		}
		var got any
		for _, k := range meta {
			if k.Key == "bert.pooling_type" {
				got = k.Value
			}
		}
		if got != c.want {
			t.Errorf("%s, %s: pooling type %v, want %v", c.modules, c.config, got, c.want)
		}
	}
}

// TestReranker has models that only their README.md or their name identifies as rerankers.
func TestReranker(t *testing.T) {
	for _, c := range []struct {
		readme, more string
		want         []string
	}{
		{"---\na: b\n---\n# Qwen3-Reranker-0.6B\n", "", []string{"yes", "no"}},
		{"", `,"_name_or_path":"Qwen/Qwen3-Reranker-4B"`, []string{"yes", "no"}},
		{"# Qwen3\nUnlike Qwen3-Reranker.", "", nil},
	} {
		text := `{"architectures":["Qwen3ForCausalLM"]` + c.more + `}`
		about, err := ToGGUF(modelOf(t, map[string]string{"README.md": c.readme}), parsed(t, text))
		if err != nil || about.Architecture() != "qwen3" || !slices.Equal(about.Answers(), c.want) {
			t.Errorf("%q: %v", c.readme, err)
		}
	}
}
