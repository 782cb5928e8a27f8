package convert

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats"
	"github.com/tensorfs/tensorfs/formats/gguf"
	"github.com/tensorfs/tensorfs/formats/names"
	"github.com/tensorfs/tensorfs/formats/tokenizer"
	"github.com/tensorfs/tensorfs/internal/convert/internal/settings"
	"github.com/tensorfs/tensorfs/internal/testing/testwhole"
)

// projection is what a model's towers are converted to.
type projection struct {
	*projectors
	m     *tensorfs.Model
	about *settings.Projector // of the first tower
}

// projected makes the tensors and the keys of the projector's file of a model.
func projected(t *testing.T, m *tensorfs.Model, opts Options) (projection, error) {
	t.Helper()
	cfg, err := settings.Read(m, "config.json")
	if err != nil {
		t.Fatal(err)
	}
	var tokens []string
	if rows := embeddingRows(m); rows > 0 {
		v, err := tokenizer.ReadFiles(tokenizer.Options{File: m.File, Block: "llama", Config: cfg.Top(), Rows: rows})
		if err != nil {
			t.Fatal(err)
		}
		tokens = v.Tokens
	}
	left := Towers{}
	for i := range m.Tensors {
		left.Add(&m.Tensors[i])
	}
	if left[Vision] == 0 && left[Audio] == 0 {
		left[Vision] = 1
	}
	x, err := projectorsOf(m, cfg, opts, tokens, left)
	for _, why := range x.whyNot {
		err = why
	}
	if err != nil {
		return projection{}, err
	}
	return projection{x, m, x.towers[0].about}, nil
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

// eachProjector runs fn for the towers of each golden model that has some, in a test of
// its own. file lists the tensors that llama.cpp's converter makes from them.
func eachProjector(t *testing.T, fn func(t *testing.T, file string, x projection)) {
	files, err := filepath.Glob(filepath.Join(testdata, "architectures", "expected", "*.mmproj.tsv"))
	if err != nil || len(files) != 19 { // of testdata/vision and testdata/audio: see towerTables
		t.Fatal(files, err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".mmproj.tsv")
		t.Run(name, func(t *testing.T) {
			x, err := projected(t, opened(t, name), Options{})
			if err != nil {
				t.Fatal(err)
			}
			fn(t, file, x)
		})
	}
}

// TestProjectors compares every tensor and every key with the files that llama.cpp's converter
// makes from vision towers.
func TestProjectors(t *testing.T) {
	eachProjector(t, func(t *testing.T, file string, x projection) {
		want := map[string]string{}
		for _, r := range testwhole.Table(t, file) {
			want[r[0]] = strings.Join(r[1:5], " ")
		}
		got, _ := lines(t, x.list)
		testwhole.Same(t, got, want)
		sameKeys(t, x.keys(), strings.TrimSuffix(file, "tsv")+"meta.json")
	})
}

// sameKeys compares keys with the keys of a file that the converter made.
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
	types := map[string]string{"uint32": "UINT32", "float32": "FLOAT32", "string": "STRING", "bool": "BOOL", "[]float32": "array:FLOAT32", "[]bool": "array:BOOL", "[]int32": "array:INT32"}
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

		"../vision/paddleocr-vl": {"visual.": "model.visual.", "mlp_AR.": "model.projector."},
	}
	for _, name := range []string{"exaone4.5", "gemma3-vl", "gemma4", "gemma4-unified", "glm-ocr", "glm4v", "glm4v-moe", "hunyuan-vl", "lfm2-vl", "llama4", "minicpmv4.6", "mistral3", "qwen2-vl", "qwen2.5-vl", "qwen3-vl", "qwen3.5", "qwen3.5-moe", "smolvlm", "../vision/janus", "../vision/paddleocr-vl"} {
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
		if a, b := fmt.Sprint(got.keys()[4:]), fmt.Sprint(want.keys()[4:]); a != b {
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
	const stages = "model.vision_tower.timm_model.blocks."
	config := func(path string, value any) map[string]any { return map[string]any{path: value} }
	for _, c := range []struct {
		model   string
		config  map[string]any
		tensors map[string]string
		drop    string
		want    string
	}{
		{"llava", nil, nil, "", `model_type is "clip_vision_model", and only "pixtral" can be said`},
		{"smollm3", nil, nil, "", `no projector of the class "SmolLM3ForCausalLM" is known`},
		{"../vision/sarashina2-vision", nil, nil, "", `"Sarashina2VisionForCausalLM" is known: a norm behind its tower changes what the language model sees`},
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
		{"minicpmv4.6", config("config.json:vision_config.window_kernel_size", []int{4, 1}), nil, "", "window_kernel_size is not 2 by 2"},
		{"minicpmv4.6", config("preprocessor_config.json:downsample_mode", "4x"), nil, "", `downsample_mode is "4x"`},
		{"exaone4.5", config("preprocessor_config.json:min_pixels", nil), nil, "", "min_pixels"},
		{"exaone4.5", config("config.json:vision_config.num_key_value_heads", 2), nil, "", "for qkv"},
		{"hunyuan-vl", config("config.json:vision_config.interpolate_mode", "bicubic"), nil, "", `interpolate_mode is "bicubic"`},
		{"gemma4-unified", config("config.json:vision_config.pooling_kernel_size", 2), nil, "", "pooling_kernel_size is 2"},
		{"gemma4-unified", config("config.json:vision_config.mm_embed_dim", 64), nil, "", "for width"},
		{"../vision/phi4-v", config("config.json:vision_config.num_hidden_layers", 1), nil, "", "block_count would be 0"},
		{"../vision/phi4-v", config("config.json:vision_config.num_hidden_layers", 2), nil, "", "encoder.layers.2."},
		{"../vision/phi4-v", config("preprocessor_config.json:max_num_patches", 1<<62), nil, "", "max_pixels"},
		{"../vision/kimi-k25", config("config.json:vision_config.num_attention_heads", 3), nil, "", "does not divide into heads"},
		{"../vision/kimi-k25", config("config.json:vision_config.merge_type", "sd1"), nil, "", `merge_type is "sd1"`},
		{"../vision/lighton-ocr", nil, map[string]string{"model.vision_projection.norm.weight": ""}, "", "mm.input_norm.weight"},
		{"../vision/glm5-next", config("preprocessor_config.json:max_image_tokens", 1<<40), nil, "", "max_pixels"},
		{"../vision/muse-glimmer", config("config.json:vision_config.patch_temporal", 3), nil, "", "patch_temporal is 3"},
		{"../vision/muse-glimmer", config("config.json:vision_config.pos_emb_width", 8), nil, "", "pos_emb_width is 8"},
		{"../vision/muse-glimmer", config("config.json:vision_config.patch_size", 5), nil, "", "does not fit frames of 5 by 5"},
		{"../vision/muse-glimmer", config("config.json:vision_config.layer_types", slices.Repeat([]string{"full_attention"}, 5)), nil, "", "layer_types"},
		{"../vision/gemma3n", config("config.json:vision_config.architecture", "resnet50"), nil, "", `architecture is "resnet50"`},
		{"../vision/gemma3n", nil, map[string]string{stages + "0.1.bn1.weight": ""}, "", "the tensor layers.0.1.edge.expand_norm.weight is missing, which is v.blk.0.1.bn1.weight"},
		{"../vision/gemma3n", nil, map[string]string{stages + "0.1.bn1.weight": stages + "0.00.bn1.weight"}, "", "does not have"},
		{"../vision/gemma3n", nil, map[string]string{stages + "0.1.bn1.weight": stages + "0.70000.bn1.weight"}, "", "does not have"},
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

// TestProjectorBeside holds that the projector's file is next to the language model's file, and
// holds the notes of both.
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
	if a, b := fmt.Sprint(got.keys()[4:]), fmt.Sprint(want.keys()[4:]); a != b {
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

// TestProjectorNames holds that the tensors of towers have canonical names in a directory and in its file, without two that
// are alike.
func TestProjectorNames(t *testing.T) {
	eachProjector(t, func(t *testing.T, _ string, x projection) {
		sides := map[names.Layout][]names.Source{}
		for i := range x.m.Tensors {
			if s := &x.m.Tensors[i]; slices.Contains([]string{Vision, Audio, projectorTower}, towerOf(s)) {
				sides[names.HF] = append(sides[names.HF], names.Source{Name: s.Source, Shape: s.Shape})
			}
		}
		for _, s := range x.list {
			sides[names.GGUF] = append(sides[names.GGUF], names.Source{Name: s.Name, Shape: s.Shape})
		}
		for side, list := range sides {
			seen := map[string]bool{}
			for i, r := range names.Map(side, map[names.Layout]string{names.GGUF: "clip"}[side], list) {
				if !r.Mapped {
					t.Errorf("%s has no canonical name: %s", list[i].Name, r.Reason)
				}
				if seen[r.Name] {
					t.Errorf("%s has the name of another tensor: %s", list[i].Name, r.Name)
				}
				seen[r.Name] = true
			}
		}
	})
}

// TestProjectorOfQwen2VLModel holds that a directory of the class without a head has the same tower. The converter makes
// the same file of it.
func TestProjectorOfQwen2VLModel(t *testing.T) {
	want, err := projected(t, opened(t, "qwen2-vl"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	got, err := projected(t, copied(t, "qwen2-vl", map[string]any{"config.json:architectures": []string{"Qwen2VLModel"}}, nil), Options{})
	if err != nil {
		t.Fatal(err)
	}
	a, _ := lines(t, got.list)
	b, _ := lines(t, want.list)
	testwhole.Same(t, a, b)
	if a, b := fmt.Sprint(got.keys()[4:]), fmt.Sprint(want.keys()[4:]); a != b {
		t.Errorf("the keys are %s, not %s", a, b)
	}
}
