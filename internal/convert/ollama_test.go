package convert_test

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats"
	"github.com/tensorfs/tensorfs/formats/gguf"
	"github.com/tensorfs/tensorfs/internal/convert"
	"github.com/tensorfs/tensorfs/internal/testing/testwhole"
	"github.com/tensorfs/tensorfs/views"
)

// ollamaTowers are golden models whose towers testdata/ollama-towers has, with what Ollama's
// converter wrote otherwise of the language model, so that its file is known, and with the
// means and deviations of colours that it did not write, because the family has no others.
var ollamaTowers = map[string]struct {
	change      []func(*tensorfs.Model)
	means, devs []float32
}{
	"gemma3-vl":    {},
	"mistral3":     {means: clipMeans, devs: clipDevs},
	"qwen2.5-vl":   {[]func(*tensorfs.Model){renameKeys("qwen2vl.", "qwen25vl."), set("general.architecture", "qwen25vl")}, clipMeans, clipDevs},
	"qwen3-vl":     {change: []func(*tensorfs.Model){drop("qwen3vl.rope.dimension_sections")}},
	"qwen3.5":      {},
	"llama4":       {},
	"gemma4":       {change: []func(*tensorfs.Model){set("tokenizer.ggml.model", "llama")}},
	"lfm2-vl":      {},
	"deepseek-ocr": {change: []func(*tensorfs.Model){renameKeys("deepseek2-ocr.", "deepseekocr."), set("general.architecture", "deepseekocr")}},
	"glm-ocr": {change: []func(*tensorfs.Model){
		renameKeys("glm4.", "glmocr."), set("general.architecture", "glmocr"), renameKeys("glmocr.rope.dimension_sections", "glmocr.rope.mrope_section"),
	}},
}

// clipMeans and clipDevs are the means and deviations of OpenAI's CLIP.
var clipMeans, clipDevs = []float32{0.48145466, 0.4578275, 0.40821073}, []float32{0.26862954, 0.26130258, 0.27577711}

// withOllamaTower returns the file of a golden model as Ollama's converter wrote it.
func withOllamaTower(t *testing.T, golden string) *tensorfs.Model {
	t.Helper()
	m, err := formats.Open(testdata + "architectures/" + golden)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	d := *testwhole.OpenGGUF(t, testwhole.Read(t, convert.GGUF(m, convert.Options{}).List[0].Data))
	for _, f := range ollamaTowers[golden].change {
		f(&d)
	}
	meta, tensors := testwhole.OllamaTower(t, golden)
	var list []gguf.Stored
	for _, x := range append(tensors, d.Tensors...) {
		list = append(list, gguf.Stored{Name: x.Source, DType: x.DType, Shape: x.Shape, Data: x.Data})
	}
	file, err := gguf.Compose(slices.Concat(d.Metadata, meta), list)
	if err != nil {
		t.Fatal(err)
	}
	return testwhole.OpenGGUF(t, testwhole.Read(t, file))
}

// TestOllamaTowers holds gguf/mmproj.gguf of files that Ollama's own converter wrote to the
// tensors and keys that llama.cpp's converter writes of the same model.
func TestOllamaTowers(t *testing.T) {
	for golden, c := range ollamaTowers {
		t.Run(golden, func(t *testing.T) {
			f := convert.GGUF(withOllamaTower(t, golden), convert.Options{})
			if f.Reason != "" || !f.Exact || len(f.List) != 2 || f.List[1].Path != "mmproj.gguf" || len(f.Left) > 0 {
				t.Fatalf("%s", f.Describe())
			}
			text := testwhole.OpenGGUF(t, testwhole.Read(t, f.List[0].Data))
			if i := slices.IndexFunc(text.Tensors, func(x tensorfs.Tensor) bool { return gguf.IsTower(x.Source) }); i >= 0 {
				t.Errorf("the language model has %s", text.Tensors[i].Source)
			}
			tower := testwhole.OpenGGUF(t, testwhole.Read(t, f.List[1].Data))
			got, want := map[string]string{}, map[string]string{}
			for _, x := range tower.Tensors {
				ne := slices.Clone(x.Shape)
				slices.Reverse(ne)
				got[x.Source] = strings.Join(append([]string{x.DType.String(), strings.ReplaceAll(strings.Trim(fmt.Sprint(ne), "[]"), " ", "x")}, testwhole.Sum(t, x.Data)), " ")
			}
			expected := filepath.Join(testdata, "architectures", "expected", golden)
			if own := testdata + "ollama-towers/" + golden; len(glob(t, own+".mmproj.meta.json")) > 0 {
				expected = own
			}
			for _, r := range append(testwhole.Table(t, testdata+"ollama-towers/"+golden+".mmproj.tsv"), ofRows(t, expected)...) {
				want[r[0]] = r[1] + " " + r[2] + " " + r[4]
			}
			testwhole.Same(t, got, want)
			if keys := keysOf(tower, nil); c.means != nil && (keys["clip.vision.image_mean"] != fmt.Sprint(c.means) || keys["clip.vision.image_std"] != fmt.Sprint(c.devs)) {
				t.Errorf("colours %s, %s", keys["clip.vision.image_mean"], keys["clip.vision.image_std"])
			}
			var but []string
			if c.means != nil {
				but = []string{"clip.vision.image_mean", "clip.vision.image_std"}
			}
			sameTowerKeys(t, tower, expected+".mmproj.meta.json", but)
		})
	}
}

func glob(t *testing.T, pattern string) []string {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// ofRows are the rows of an older converter's table that the converter of testdata/ollama-towers
// no longer writes, though llama.cpp reads them.
func ofRows(t *testing.T, expected string) (rows [][]string) {
	t.Helper()
	for _, r := range testwhole.Table(t, expected+".mmproj.tsv") {
		if r[0] == "v.token_embd.img_break" {
			rows = append(rows, r)
		}
	}
	return rows
}

// sameTowerKeys compares the keys of a tower's file with the keys that the converter wrote.
func sameTowerKeys(t *testing.T, tower *tensorfs.Model, file string, but []string) {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var all map[string]struct {
		Type  string
		Value any
	}
	if err := json.Unmarshal(b, &all); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{}
	for key, x := range all {
		if strings.HasPrefix(key, "clip.") || key == "general.architecture" || key == "general.type" {
			want[key] = x.Type + " " + fmt.Sprint(x.Value)
		}
	}
	got := map[string]string{}
	for _, x := range tower.Metadata {
		kind, v := "array:", any(nil)
		if a, ok := x.Value.(tensorfs.Array); ok {
			var list []any
			for v := range a.Values() {
				list = append(list, widened(v))
				kind = "array:" + valueTypes[fmt.Sprintf("%T", v)]
			}
			v = list
		} else {
			kind, v = valueTypes[fmt.Sprintf("%T", x.Value)], widened(x.Value)
		}
		if !strings.HasPrefix(x.Key, "general.") || want[x.Key] != "" {
			got[x.Key] = kind + " " + fmt.Sprint(v)
		}
	}
	for _, key := range but {
		delete(got, key)
		delete(want, key)
	}
	testwhole.Same(t, got, want)
}

// valueTypes are the names of types of values.
var valueTypes = map[string]string{"uint32": "UINT32", "float32": "FLOAT32", "bool": "BOOL", "string": "STRING"}

// widened is a value with a float as a double of the same number.
func widened(v any) any {
	if x, ok := v.(float32); ok {
		return float64(x)
	}
	return v
}

// TestOllamaTowersUnknown holds that a tower which is not known in every part is left out,
// with the reason.
func TestOllamaTowersUnknown(t *testing.T) {
	for _, c := range []struct {
		golden string
		change func(*tensorfs.Model)
		want   string
	}{
		{"gemma3-vl", drop("gemma3.vision.block_count"), "clip.vision.block_count"},
		{"gemma3-vl", func(m *tensorfs.Model) { renameTensors("v.blk.0.attn_k.bias", "v.blk.0.other.bias")(m) }, "v.blk.0.other.bias"},
		{"mistral3", set("mistral3.vision.rope.freq_base", float32(5)), "mistral3.vision.rope.freq_base is 5, and llama.cpp computes only with 10000.0"},
		{"mistral3", set("mistral3.mm.projector_hidden_act", "relu"), "mistral3.mm.projector_hidden_act is relu"},
		{"mistral3", set("mistral3.embedding_length", uint32(7)), "has 64 for out: projection_dim, and the metadata has 7"},
		{"qwen3-vl", set("qwen3vl.vision.deepstack_visual_indexes", counts{uint32(1), uint32(0)}), "deepstack_visual_indexes has 0, which is not a later layer than the number before it"},
		{"qwen3-vl", set("qwen3vl.vision.deepstack_visual_indexes", counts{}), "deepstack_merger"},
		{"qwen3-vl", set("qwen3vl.vision.block_count", uint32(1<<30)), "qwen3vl.vision.block_count is 1073741824"},
		{"qwen3-vl", renameTensors("v.blk.1.attn_v.weight", "v.blk.1.attn_w.weight"), "v.blk.1.attn_v.weight"},
		{"qwen2.5-vl", set("qwen25vl.vision.fullatt_block_indexes", counts{uint32(0), uint32(2)}), "fullatt_block_indexes is not every so many layers"},
		{"qwen2.5-vl", set("qwen25vl.vision.fullatt_block_indexes", counts{uint32(0)}), "does not go to the last layer"},
		{"qwen2.5-vl", set("qwen25vl.vision.patch_size", uint32(7)), "shape"},
		{"llama4", set("llama4.vision.pixel_shuffle_ratio", float32(0.3)), "llama4.vision.pixel_shuffle_ratio is not one divided by a whole number"},
		{"deepseek-ocr", renameTensors("s.net_2.weight", "s.net_4.weight"), `the tensor "s.net_2.weight" of the tower of deepseekocr is missing`},
		{"deepseek-ocr", addTensors("s.blk.7.norm1.weight"), `the tower of deepseekocr does not have the tensor "s.blk.7.norm1.weight"`},
		{"deepseek-ocr", set("deepseekocr.sam.block_count", uint32(1<<20)), "deepseekocr.sam.block_count is 1048576"},
		{"deepseek-ocr", set("deepseekocr.sam.block_count", uint32(5)), `"s.blk.4.norm1.weight"`},
		{"deepseek-ocr", set("deepseekocr.vision.image_size", uint32(448)), "deepseekocr.vision.image_size is 448"},
		{"llama4", set("llama4.vision.num_channels", uint32(1)), "num_channels is 1"},
	} {
		m := *withOllamaTower(t, c.golden)
		m.Metadata, m.Tensors = slices.Clone(m.Metadata), slices.Clone(m.Tensors)
		c.change(&m)
		f := convert.GGUF(&m, convert.Options{})
		if len(f.List) != 1 || !strings.Contains(f.Left[convert.Vision], c.want) {
			t.Errorf("%s: %s, want %s", c.golden, f.Describe(), c.want)
		}
	}
}

// TestOllamaTowersRead reads the file of a tower in pieces of every small length.
func TestOllamaTowersRead(t *testing.T) {
	for _, golden := range []string{"qwen3-vl", "mistral3"} {
		d := convert.GGUF(withOllamaTower(t, golden), convert.Options{}).List[1].Data
		want := testwhole.Read(t, d)
		for _, n := range []int{1, 2, 3, 7, 31, 255, 4097} {
			step := n
			if n < 7 {
				step = 97 // a sample of positions
			}
			p := make([]byte, n)
			for at := 0; at+n <= len(want); at += step {
				if err := tensorfs.ReadFull(d, p, int64(at)); err != nil || string(p) != string(want[at:at+n]) {
					t.Fatalf("%s: %d bytes at %d: %v", golden, n, at, err)
				}
			}
		}
	}
}

// inStore writes a model of two layers into a store of Ollama's, and opens it.
func inStore(t *testing.T, text, projector []byte) *tensorfs.Model {
	t.Helper()
	dir := t.TempDir()
	manifest := filepath.Join(dir, "manifests", "registry.ollama.ai", "library", "llava", "latest")
	for _, d := range []string{filepath.Join(dir, "blobs"), filepath.Dir(manifest)} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	blob := func(kind string, b []byte) string {
		sum := sha256.Sum256(b)
		if err := os.WriteFile(filepath.Join(dir, "blobs", fmt.Sprintf("sha256-%x", sum)), b, 0o600); err != nil {
			t.Fatal(err)
		}
		return fmt.Sprintf(`{"mediaType":%q,"digest":"sha256:%x","size":%d}`, kind, sum, len(b))
	}
	b := fmt.Sprintf(`{"schemaVersion":2,"mediaType":"application/vnd.docker.distribution.manifest.v2+json","config":%s,"layers":[%s,%s]}`,
		blob("application/vnd.docker.container.image.v1+json", []byte(`{"model_format":"gguf"}`)),
		blob("application/vnd.ollama.image.model", text), blob("application/vnd.ollama.image.projector", projector))
	if err := os.WriteFile(manifest, []byte(b), 0o600); err != nil {
		t.Fatal(err)
	}
	m, err := formats.Open(manifest)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m
}

// TestUnnamedProjector holds that the projectors of LLaVA and BakLLaVA, which are older than
// clip.projector_type, are named in gguf/, as llama.cpp needs it, and that no other file is
// changed so.
func TestUnnamedProjector(t *testing.T) {
	m, err := formats.Open(testdata + "whole-gguf/llama3")
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	text := testwhole.Read(t, convert.GGUF(m, convert.Options{}).List[0].Data)
	numbers := func(n int64) tensorfs.Data { return tensorfs.Bytes(make([]byte, 4*n)) }
	list := []gguf.Stored{{Name: "mm.0.weight", DType: tensorfs.F32, Shape: []int64{4, 8}, Data: numbers(32)}, {Name: "v.class_embd", DType: tensorfs.F32, Shape: []int64{8}, Data: numbers(8)}}
	for _, c := range []struct {
		keys []tensorfs.Meta
		want string
	}{
		{[]tensorfs.Meta{{Key: "clip.has_vision_encoder", Value: true}}, "mlp"},
		{[]tensorfs.Meta{{Key: "clip.has_vision_encoder", Value: true}, {Key: "clip.projector_type", Value: "ldp"}}, ""},
		{[]tensorfs.Meta{{Key: "clip.has_vision_encoder", Value: true}, {Key: "clip.vision.projector_type", Value: "gemma4v"}}, ""},
		{[]tensorfs.Meta{{Key: "clip.has_audio_encoder", Value: true}}, ""},
	} {
		meta := append([]tensorfs.Meta{{Key: "general.architecture", Value: "clip"}, {Key: "clip.vision.image_size", Value: uint32(336)}}, c.keys...)
		d, err := gguf.Compose(meta, list)
		if err != nil {
			t.Fatal(err)
		}
		stored := testwhole.Read(t, d)
		alone := convert.GGUF(testwhole.OpenGGUF(t, stored), convert.Options{})
		if c.want == "" {
			if b := testwhole.Read(t, alone.List[0].Data); string(b) != string(stored) {
				t.Errorf("%v: the file is another one", c.keys)
			}
			continue
		}
		f := convert.GGUF(inStore(t, text, stored), convert.Options{})
		if len(f.List) != 2 || f.List[1].Path != "mmproj.gguf" || len(f.Left) > 0 || !strings.Contains(strings.Join(f.Notes, " "), "LLaVA") {
			t.Fatalf("%s", f.Describe())
		}
		for _, b := range []tensorfs.Data{alone.List[0].Data, f.List[1].Data} {
			x := testwhole.OpenGGUF(t, testwhole.Read(t, b))
			usual := testwhole.OpenGGUF(t, stored)
			want := keysOf(usual, nil)
			want["clip.projector_type"] = c.want
			testwhole.Same(t, keysOf(x, nil), want)
			testwhole.Same(t, tensorsOf(t, x), tensorsOf(t, usual))
		}
	}
}

// TestOllamaTowersOther holds that what llama.cpp hears with is left out of the file of what it
// sees with, and that a family without a table is named.
func TestOllamaTowersOther(t *testing.T) {
	m := *withOllamaTower(t, "gemma4")
	m.Tensors = slices.Clone(m.Tensors)
	addTensors("a.blk.0.ln1.weight", "mm.a.input_projection.weight")(&m)
	f := convert.GGUF(&m, convert.Options{})
	if len(f.List) != 2 || f.Left[convert.Vision] != "" || !strings.Contains(f.Left[convert.Audio], "left out (tensors: 2)") {
		t.Errorf("%s", f.Describe())
	}
	source, err := formats.Open(testdata + "architectures/nemotron_h")
	if err != nil {
		t.Fatal(err)
	}
	defer source.Close()
	m = *testwhole.OpenGGUF(t, testwhole.Read(t, convert.GGUF(source, convert.Options{}).List[0].Data))
	for _, change := range []func(*tensorfs.Model){renameKeys("nemotron_h.", "nemotron_h_omni."), set("general.architecture", "nemotron_h_omni"), addTensors("v.cls_embd")} {
		change(&m)
	}
	f = convert.GGUF(&m, convert.Options{})
	if len(f.List) != 1 || !strings.Contains(f.Left[convert.Vision], `no projector for the tower of "nemotron_h_omni" is known`) {
		t.Errorf("%s", f.Describe())
	}
}

// TestOllamaTowersMixed joins rows of tensors of different types, as files of Ollama's library have
// them: the numbers do not change.
func TestOllamaTowersMixed(t *testing.T) {
	m := *withOllamaTower(t, "qwen3-vl")
	m.Tensors = slices.Clone(m.Tensors)
	var rows [][]float32
	for _, name := range []string{"v.blk.0.attn_q.weight", "v.blk.0.attn_k.weight", "v.blk.0.attn_v.weight"} {
		x := &m.Tensors[slices.IndexFunc(m.Tensors, func(x tensorfs.Tensor) bool { return x.Source == name })]
		if strings.HasSuffix(name, "attn_v.weight") {
			d, err := views.Encode(x, tensorfs.Q8_0)
			if err != nil {
				t.Fatal(err)
			}
			x.DType, x.Data = tensorfs.Q8_0, tensorfs.Bytes(testwhole.Read(t, d))
		}
		numbers, err := views.Floats(x)
		if err != nil {
			t.Fatal(err)
		}
		rows = append(rows, numbers)
	}
	f := convert.GGUF(&m, convert.Options{})
	if len(f.List) != 2 || !f.Exact {
		t.Fatalf("%s", f.Describe())
	}
	tower := testwhole.OpenGGUF(t, testwhole.Read(t, f.List[1].Data))
	x := &tower.Tensors[slices.IndexFunc(tower.Tensors, func(x tensorfs.Tensor) bool { return x.Source == "v.blk.0.attn_qkv.weight" })]
	got, err := views.Floats(x)
	if err != nil || !slices.Equal(got, slices.Concat(rows...)) {
		t.Errorf("%s of shape %v has other numbers, %v", x.DType, x.Shape, err)
	}
}
