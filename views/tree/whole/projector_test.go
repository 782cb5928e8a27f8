package whole

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats"
	"github.com/tensorfs/tensorfs/formats/gguf"
	"github.com/tensorfs/tensorfs/formats/tokenizer"
	"github.com/tensorfs/tensorfs/internal/testing/testmodel"
	"github.com/tensorfs/tensorfs/internal/testing/testwhole"
	"github.com/tensorfs/tensorfs/views/tree/whole/internal/settings"
	"github.com/tensorfs/tensorfs/views/tree/whole/layout"
)

// projection is what is made of a model's vision tower.
type projection struct {
	m     *tensorfs.Model
	about *settings.Projector
	list  []gguf.Stored
	notes tensorNotes
}

// projected makes the tensors and the keys of the projector's file of a model.
func projected(t *testing.T, m *tensorfs.Model, opts Options) (projection, error) {
	t.Helper()
	cfg, err := settings.Read(m, "config.json")
	if err != nil {
		t.Fatal(err)
	}
	v, err := tokenizer.ReadFiles(tokenizer.Options{File: m.File, Architecture: "llama", Config: cfg.Top(), Rows: embeddingRows(m)})
	if err != nil {
		t.Fatal(err)
	}
	about, err := settings.ToProjector(m, cfg)
	if err != nil {
		return projection{}, err
	}
	list, notes, err := projectorTensors(m, about, opts, v.Tokens)
	return projection{m, about, list, notes}, err
}

// bytesOf reads all of a file.
func bytesOf(t *testing.T, d tensorfs.Data) []byte {
	t.Helper()
	b := make([]byte, d.Size())
	if err := tensorfs.ReadFull(d, b, 0); err != nil {
		t.Fatal(err)
	}
	return b
}

// opened opens a model of testdata/architectures.
func opened(t *testing.T, name string) *tensorfs.Model {
	t.Helper()
	m, err := formats.Open(filepath.Join(testdata, "architectures", name))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m
}

// TestProjectors compares with the files that llama.cpp's converter makes of vision
// towers: every tensor, and every key.
func TestProjectors(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(testdata, "architectures", "expected", "*.mmproj.tsv"))
	if err != nil || len(files) != 12 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".mmproj.tsv")
		t.Run(name, func(t *testing.T) {
			x, err := projected(t, opened(t, name), Options{})
			if err != nil {
				t.Fatal(err)
			}
			want := map[string]string{}
			for _, r := range testwhole.Table(t, filepath.Join(testdata, "whole-gguf", "..", "architectures", "expected", filepath.Base(file))) {
				want[r[0]] = strings.Join(r[1:5], " ")
			}
			got, _ := lines(t, x.list)
			testwhole.Same(t, got, want)
			sameKeys(t, x.about.Keys(x.notes.FileType), strings.TrimSuffix(file, "tsv")+"meta.json")
		})
	}
}

// TestProjectorsBack makes the tensors of a directory again of those of its projector's
// file: the names, the shapes and the numbers that were there.
func TestProjectorsBack(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(testdata, "architectures", "expected", "*.mmproj.tsv"))
	if err != nil || len(files) != 12 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".mmproj.tsv")
		t.Run(name, func(t *testing.T) {
			x, err := projected(t, opened(t, name), Options{})
			if err != nil {
				t.Fatal(err)
			}
			var tensors []tensorfs.Tensor
			for _, s := range x.list {
				tensors = append(tensors, tensorfs.Tensor{Source: s.Name, DType: s.DType, Shape: s.Shape, Data: s.Data})
			}
			tower, err := layout.TowerOf(x.about.Projector, x.about.Fact)
			if err != nil {
				t.Fatal(err)
			}
			own, err := tower.Model(tensors, layout.GGUF)
			if err != nil {
				t.Fatal(err)
			}
			var made layout.List
			w := tower.Walk(own, layout.HF, x.about.Fact)
			w.Sink = &made
			if err := w.Run(); err != nil {
				t.Fatal(err)
			}
			got, want := map[string]string{}, map[string]string{}
			for i := range made.Tensors {
				got[made.Names[i].Name] = numbersOf(t, &made.Tensors[i])
			}
			for i := range x.m.Tensors {
				if source := &x.m.Tensors[i]; towerOf(source) != "" {
					want[source.Source] = numbersOf(t, source)
				}
			}
			testwhole.Same(t, got, want)
		})
	}
}

// sections are an array of metadata.
type sections []any

func (s sections) Len() int              { return len(s) }
func (s sections) Values() iter.Seq[any] { return slices.Values(s) }

// TestProjectorConfigs makes the fields about the tower of config.json again of its file.
func TestProjectorConfigs(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(testdata, "architectures", "expected", "*.vl.hf.config.json"))
	if err != nil || len(files) != 11 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".vl.hf.config.json")
		x, err := projected(t, opened(t, name), Options{})
		if err != nil {
			t.Fatal(err)
		}
		d, err := gguf.Compose(x.about.Keys(0), x.list)
		if err != nil {
			t.Fatal(err)
		}
		tower, err := formats.OpenFS(fstest.MapFS{"m.gguf": {Data: bytesOf(t, d)}}, "m.gguf")
		if err != nil {
			t.Fatal(err)
		}
		defer tower.Close()
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var want map[string]any
		if err := json.Unmarshal(b, &want); err != nil {
			t.Fatal(err)
		}
		works := false
		for language, class := range x.about.Beside { // several language models may have the tower
			if !strings.HasPrefix(class, want["architectures"].([]any)[0].(string)+":") {
				continue
			}
			text := &tensorfs.Model{Metadata: []tensorfs.Meta{{Key: "general.architecture", Value: language}, {Key: language + ".embedding_length", Value: x.about.Fact("projection_dim")},
				{Key: language + ".rope.dimension_sections", Value: sections{int32(2), int32(3), int32(3), int32(0)}}}}
			about, err := settings.FromProjector(text, tower)
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			of, err := layout.TowerOf(about.Projector, about.Fact)
			if err != nil {
				t.Fatal(err)
			}
			own, err := of.Model(tower.Tensors, layout.GGUF)
			if err != nil {
				t.Fatal(err)
			}
			made, _, err := about.Config([]byte(`{"rope_scaling":1}`), layout.TensorsOf(own).Find, nil)
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			var got map[string]any
			if err := json.Unmarshal(made, &got); err != nil {
				t.Fatal(err)
			}
			works = true
			delete(got, "text_config")
			for field, v := range got {
				if !reflect.DeepEqual(v, want[field]) {
					t.Errorf("%s: %s is %v, want %v", name, field, v, want[field])
				}
			}
		}
		if !works {
			t.Errorf("%s: no directory has the tower", name)
		}
	}
}

// numbersOf is the shape of a tensor and the hash of its numbers.
func numbersOf(t *testing.T, x *tensorfs.Tensor) string {
	t.Helper()
	f, err := layout.Encoded(x, tensorfs.F32)
	if err != nil {
		t.Fatal(err)
	}
	return line(t, gguf.Stored{Name: x.Source, DType: f.DType, Shape: f.Shape, Data: f.Data})
}

// sameKeys compares keys with those of a file that the converter made.
func sameKeys(t *testing.T, meta []tensorfs.Meta, file string) {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var want map[string]struct {
		Type  string
		Value any
	}
	if err := json.Unmarshal(b, &want); err != nil {
		t.Fatal(err)
	}
	types := map[string]string{"uint32": "UINT32", "float32": "FLOAT32", "string": "STRING", "bool": "BOOL", "[]float32": "array:FLOAT32", "[]bool": "array:BOOL"}
	for _, k := range meta {
		w, ok := want[k.Key]
		delete(want, k.Key)
		if got := types[reflect.TypeOf(k.Value).String()]; !ok || got != w.Type {
			t.Errorf("%s is %s %v, want %s %v", k.Key, got, k.Value, w.Type, w.Value)
			continue
		}
		var got any
		text, _ := json.Marshal(widened(k.Value))
		if json.Unmarshal(text, &got); fmt.Sprint(got) != fmt.Sprint(w.Value) {
			t.Errorf("%s is %v, want %v", k.Key, got, w.Value)
		}
	}
	for k := range want {
		if !strings.HasPrefix(k, "general.") {
			t.Errorf("%s is missing", k)
		}
	}
}

// widened is a value with floats as doubles of the same number.
func widened(v any) any {
	switch v := v.(type) {
	case float32:
		return float64(v)
	case []float32:
		var list []float64
		for _, x := range v {
			list = append(list, float64(x))
		}
		return list
	}
	return v
}

// TestProjectorSpellings makes the same file of the names and of the config.json that
// transformers 5 writes.
func TestProjectorSpellings(t *testing.T) {
	names := map[string]map[string]string{ // what the names of tensors begin with, and in its place
		"lfm2-vl":    {"model.vision_tower.vision_model.": "model.vision_tower."},
		"gemma3-vl":  {"vision_tower.vision_model.": "model.vision_tower.", "multi_modal_projector.": "model.multi_modal_projector."},
		"qwen2-vl":   {"visual.": "model.visual."},
		"qwen2.5-vl": {"visual.": "model.visual."},
		"mistral3":   {"vision_tower.": "model.vision_tower.", "multi_modal_projector.": "model.multi_modal_projector."},
	}
	for _, name := range []string{"gemma3-vl", "gemma4", "glm4v", "lfm2-vl", "llama4", "mistral3", "qwen2-vl", "qwen2.5-vl", "qwen3-vl", "qwen3.5", "smolvlm"} {
		want, err := projected(t, opened(t, name), Options{})
		if err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(filepath.Join(testdata, "architectures", name, "config.v5.json"))
		if err != nil {
			t.Fatal(err)
		}
		var v5 map[string]any
		if err := json.Unmarshal(b, &v5); err != nil {
			t.Fatal(err)
		}
		fields := map[string]any{}
		for field, value := range v5 {
			fields["config.json:"+field] = value
		}
		got, err := projected(t, copied(t, name, fields, names[name]), Options{})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		a, _ := lines(t, got.list)
		b2, _ := lines(t, want.list)
		testwhole.Same(t, a, b2)
		if a, b := fmt.Sprint(got.about.Keys(0)[3:]), fmt.Sprint(want.about.Keys(0)[3:]); a != b {
			t.Errorf("%s: the keys are %s, not %s", name, a, b)
		}
	}
}

// TestProjectorTypes holds the types that tensors have in files of other types.
func TestProjectorTypes(t *testing.T) {
	for _, c := range []struct {
		model  string
		to     tensorfs.DType
		tensor string
		want   tensorfs.DType
	}{
		{"qwen3-vl", tensorfs.F16, "v.patch_embd.weight.1", tensorfs.F16},
		{"qwen3-vl", tensorfs.Q8_0, "v.patch_embd.weight", tensorfs.F32},
		{"qwen3-vl", tensorfs.Q8_0, "mm.0.weight", tensorfs.Q8_0},
		{"gemma3-vl", tensorfs.F16, "v.patch_embd.weight", tensorfs.F32},
		{"gemma3-vl", tensorfs.Q8_0, "mm.input_projection.weight", tensorfs.F16},
		{"mistral3", tensorfs.F16, "mm.patch_merger.weight", tensorfs.F16},
		{"mistral3", tensorfs.F16, "v.token_embd.img_break", tensorfs.F32},
		{"mistral3", tensorfs.Q4_0, "v.blk.0.attn_q.weight", tensorfs.Q4_0},
	} {
		x, err := projected(t, opened(t, c.model), Options{Quantise: pure(c.to)})
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(x.list, func(s gguf.Stored) bool { return s.Name == c.tensor })
		if got := x.list[i].DType; got != c.want {
			t.Errorf("%s as %s: %s is %s, not %s", c.model, c.to, c.tensor, got, c.want)
		}
	}
}

// TestProjectorRefusals holds why there is no file of a vision tower.
func TestProjectorRefusals(t *testing.T) {
	config := func(path string, value any) map[string]any { return map[string]any{path: value} }
	for _, c := range []struct {
		model   string
		config  map[string]any
		tensors map[string]string
		drop    string
		want    string
	}{
		{"llava", nil, nil, "", `no projector of the class "LlavaForConditionalGeneration" is known`},
		{"smollm3", nil, nil, "", `no projector of the class "SmolLM3ForCausalLM" is known`},
		{"gemma3-vl", config("config.json:vision_config", nil), nil, "", "config.json: it has no vision_config"},
		{"gemma3-vl", config("config.json:vision_config.hidden_act", "relu"), nil, "", `hidden_act is "relu", and only "gelu_pytorch_tanh" can be said`},
		{"gemma3-vl", config("config.json:vision_config.image_size", nil), nil, "", "it has no image_size"},
		{"gemma3-vl", config("config.json:vision_config.num_hidden_layers", 1000000), nil, "", "num_hidden_layers would be 1000000"},
		{"gemma3-vl", config("config.json:vision_config.intermediate_size", 64), nil, "", "has 48 for ff"},
		{"gemma3-vl", config("config.json:vision_config.num_hidden_layers", 3), nil, "", "the tensor layers.2.attention_norm.weight is missing, which is v.blk.2.ln1.weight"},
		{"gemma3-vl", config("config.json:mm_tokens_per_image", 16), nil, "", "mm_tokens_per_image is 16, and the preprocessor has 4 tokens"},
		{"gemma3-vl", nil, nil, "preprocessor_config.json", "preprocessor_config.json has no image_mean, which llama.cpp needs"},
		{"gemma3-vl", config("preprocessor_config.json:image_std", []float64{1}), nil, "", "image_std has 1 numbers, and a picture has 3 colours"},
		{"gemma3-vl", config("preprocessor_config.json:image_std", []float64{1, 1, 1e300}), nil, "", "image_std"},
		{"gemma3-vl", nil, map[string]string{"vision_tower.vision_model.post_layernorm.bias": "vision_tower.other"}, "", `that the projector gemma3 does not have: "vision_tower.other"`},
		{"gemma3-vl", nil, map[string]string{"multi_modal_projector.mm_soft_emb_norm": ""}, "", "the tensor mm.soft_norm.weight is missing, which is mm.soft_emb_norm.weight"},
		{"mistral3", config("config.json:vision_config.model_type", "clip_vision_model"), nil, "", `model_type is "clip_vision_model", and only "pixtral"`},
		{"mistral3", config("config.json:vision_feature_layer", -2), nil, "", "vision_feature_layer is -2"},
		{"qwen3-vl", config("config.json:vision_config.deepstack_visual_indexes", []int{0, 9}), nil, "", "deepstack_visual_indexes has 9"},
		{"qwen3-vl", config("config.json:vision_config.deepstack_visual_indexes", []int{1, 0}), nil, "", "deepstack_visual_indexes has 0"},
		{"qwen3-vl", config("config.json:vision_config.deepstack_visual_indexes", []int{}), nil, "", "does not have"},
		{"qwen3-vl", config("config.json:vision_config.temporal_patch_size", 3), nil, "", "temporal_patch_size is 3"},
		{"qwen2.5-vl", config("config.json:vision_config.fullatt_block_indexes", []int{0, 2}), nil, "", "fullatt_block_indexes"},
		{"qwen2.5-vl", config("config.json:vision_config.fullatt_block_indexes", []int{0}), nil, "", "fullatt_block_indexes"},
		{"llama4", config("config.json:vision_config.pixel_shuffle_ratio", 0.3), nil, "", "pixel_shuffle_ratio has to be one divided by a whole number"},
		{"lfm2-vl", config("config.json:vision_config.patch_size", 15), nil, "", "patches of 15 by 15"},
	} {
		m := opened(t, c.model)
		if c.config != nil || c.tensors != nil || c.drop != "" {
			m = copied(t, c.model, c.config, c.tensors, strings.Fields(c.drop)...)
		}
		if _, err := projected(t, m, Options{}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s with %v: %v, want %s", c.model, c.config, err, c.want)
		}
	}
}

// TestProjectorBeside holds that the file stands beside that of the language model, with
// what is said of both.
func TestProjectorBeside(t *testing.T) {
	f := GGUF(opened(t, "gemma3-vl"), Options{})
	if len(f.List) != 2 || f.List[1].Path != "mmproj.gguf" || f.Left[Vision] != "" || f.Tensors != 80+39 || f.Exact {
		t.Fatalf("%s", f.Describe())
	}
	m, err := formats.OpenFS(fstest.MapFS{"mmproj.gguf": {Data: bytesOf(t, f.List[1].Data)}}, "mmproj.gguf")
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if len(m.Tensors) != 39 || m.Architecture != "clip" {
		t.Errorf("%d tensors of %s", len(m.Tensors), m.Architecture)
	}
	f = GGUF(copied(t, "gemma3-vl", nil, nil, "preprocessor_config.json"), Options{})
	if len(f.List) != 1 || !strings.Contains(f.Left[Vision], "39") || !strings.Contains(f.Left[Vision], "preprocessor_config.json has no image_mean") {
		t.Errorf("%s", f.Describe())
	}
}

// copied copies a model of testdata/architectures, changes its files and opens it.
// Tensors of no name are taken away.
func copied(t *testing.T, name string, config map[string]any, tensors map[string]string, drop ...string) *tensorfs.Model {
	t.Helper()
	from, to := filepath.Join(testdata, "architectures", name), t.TempDir()
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	for path, value := range config {
		file, path, _ := strings.Cut(path, ":")
		b, err := os.ReadFile(filepath.Join(to, file))
		if err != nil {
			t.Fatal(err)
		}
		var all map[string]any
		if err := json.Unmarshal(b, &all); err != nil {
			t.Fatal(err)
		}
		object, fields := all, strings.Split(path, ".")
		for _, f := range fields[:len(fields)-1] {
			object = object[f].(map[string]any)
		}
		if object[fields[len(fields)-1]] = value; value == nil {
			delete(object, fields[len(fields)-1])
		}
		if b, err = json.Marshal(all); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(to, file), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, file := range drop {
		if err := os.Remove(filepath.Join(to, file)); err != nil {
			t.Fatal(err)
		}
	}
	if tensors != nil {
		renamed(t, filepath.Join(to, "model.safetensors"), tensors)
	}
	m, err := formats.Open(to)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m
}

// renamed changes the names of tensors in a file: the beginnings of names that are in the
// table, "" takes them away. A name after "+" is that of one more, of as many numbers.
func renamed(t *testing.T, file string, names map[string]string) {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	n := binary.LittleEndian.Uint64(b)
	var header map[string]struct {
		DType string   `json:"dtype"`
		Shape []int64  `json:"shape"`
		At    [2]int64 `json:"data_offsets"`
	}
	var raw map[string]json.RawMessage
	if err := json.Unmarshal(b[8:8+n], &raw); err != nil {
		t.Fatal(err)
	}
	delete(raw, "__metadata__")
	text, _ := json.Marshal(raw)
	if err := json.Unmarshal(text, &header); err != nil {
		t.Fatal(err)
	}
	var list []testmodel.SafeTensor
	for name, h := range header {
		for old, begin := range names {
			if rest, ok := strings.CutPrefix(name, old); ok && begin == "" {
				name = ""
			} else if ok {
				name = begin + rest
			}
		}
		if name != "" {
			list = append(list, testmodel.SafeTensor{Name: name, DType: tensorfs.BF16, Shape: h.Shape, Data: b[8+n:][h.At[0]:h.At[1]]})
		}
	}
	for name, length := range names {
		if name, ok := strings.CutPrefix(name, "+"); ok {
			n, err := strconv.ParseInt(length, 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			list = append(list, testmodel.SafeTensor{Name: name, DType: tensorfs.BF16, Shape: []int64{n}})
		}
	}
	slices.SortFunc(list, func(a, b testmodel.SafeTensor) int { return strings.Compare(a.Name, b.Name) })
	if err := os.WriteFile(file, testmodel.Safetensors(list, nil), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestProcessorConfig reads what transformers 5 writes into processor_config.json.
func TestProcessorConfig(t *testing.T) {
	to := t.TempDir()
	if err := os.CopyFS(to, os.DirFS(filepath.Join(testdata, "architectures", "gemma3-vl"))); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(to, "preprocessor_config.json")); err != nil {
		t.Fatal(err)
	}
	const text = `{"image_processor": {"image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5]}, "image_seq_length": 4}`
	if err := os.WriteFile(filepath.Join(to, "processor_config.json"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	m, err := formats.Open(to)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	got, err := projected(t, m, Options{})
	if err != nil {
		t.Fatal(err)
	}
	want, err := projected(t, opened(t, "gemma3-vl"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if a, b := fmt.Sprint(got.about.Keys(0)[3:]), fmt.Sprint(want.about.Keys(0)[3:]); a != b {
		t.Errorf("the keys are %s, not %s", a, b)
	}
}

// TestProjectorNorm has the norm before the projector that some LFM2-VL have.
func TestProjectorNorm(t *testing.T) {
	norm := map[string]string{"+model.multi_modal_projector.layer_norm.weight": "128", "+model.multi_modal_projector.layer_norm.bias": "128"}
	x, err := projected(t, copied(t, "lfm2-vl", nil, norm), Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"mm.input_norm.weight", "mm.input_norm.bias"} {
		if !slices.ContainsFunc(x.list, func(s gguf.Stored) bool { return s.Name == name && s.DType == tensorfs.F32 && s.Shape[0] == 128 }) {
			t.Errorf("there is no %s", name)
		}
	}
	norm["+model.multi_modal_projector.layer_norm.bias"] = "64"
	if _, err := projected(t, copied(t, "lfm2-vl", nil, norm), Options{}); err == nil || !strings.Contains(err.Error(), "layer_norm.bias") {
		t.Error(err)
	}
}
