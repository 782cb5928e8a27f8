package hf_test

import (
	"encoding/json"
	"maps"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/convert"
	"github.com/tensorfs/tensorfs/internal/convert/hf"
	"github.com/tensorfs/tensorfs/internal/testing/testmodel"
	"github.com/tensorfs/tensorfs/internal/testing/testwhole"
)

// TestScalesOfPlainAttention holds that the scales of a cache beside plain attention are in no view of numbers, under
// all names that programs write, and change nothing else.
func TestScalesOfPlainAttention(t *testing.T) {
	files := testwhole.Packed(t, "ct-real-fp8-channel", nil)
	packed := testwhole.OpenFiles(t, files)
	plain := testwhole.OpenFiles(t, testwhole.Unpacked(t, packed, files, tensorfs.BF16))
	var config map[string]any
	if err := json.Unmarshal(files["config.json"], &config); err != nil {
		t.Fatal(err)
	}
	var tensors []testmodel.SafeTensor
	for _, m := range []*tensorfs.Model{packed, plain} {
		for i := range m.Tensors {
			x := &m.Tensors[i]
			if strings.Contains(x.Source, "self_attn") == (m == plain) {
				tensors = append(tensors, testmodel.SafeTensor{Name: x.Source, DType: x.DType, Shape: x.Shape, Data: testwhole.Read(t, x.Data)})
			}
		}
	}
	opened := func(more ...testmodel.SafeTensor) *tensorfs.Model {
		f := maps.Clone(files)
		maps.Copy(f, testmodel.HF(config, append(tensors[:len(tensors):len(tensors)], more...), 1, [][2]string{{"format", "pt"}}))
		return testwhole.OpenFiles(t, f)
	}
	kinds := map[string]func(*tensorfs.Model) *convert.Files{
		"gguf": func(m *tensorfs.Model) *convert.Files { return convert.GGUF(m, convert.Options{}) },
		"hf":   func(m *tensorfs.Model) *convert.Files { return hf.HF(m, convert.Options{Dequantise: true}) },
		"mlx":  func(m *tensorfs.Model) *convert.Files { return hf.MLX(m, convert.Options{}) },
	}
	want := map[string]map[string][]byte{}
	for kind, files := range kinds {
		want[kind] = contents(t, files(opened()))
	}
	for _, name := range []string{"k_scale", "v_scale", "kv_scale", "q_scale", "prob_output_scale", "k_proj.k_scale", "v_proj.v_scale", "k_proj.output_scale"} {
		t.Run(name, func(t *testing.T) {
			var scales []testmodel.SafeTensor
			for _, layer := range []string{"0", "1"} {
				scales = append(scales, testmodel.SafeTensor{Name: "model.layers." + layer + ".self_attn." + name, DType: tensorfs.F32, Shape: []int64{1}, Data: []byte{0, 0, 0, 0x3f}})
			}
			m := opened(scales...)
			for kind, files := range kinds {
				f := files(m)
				got := contents(t, f)
				if len(got) == 0 || !maps.EqualFunc(got, want[kind], func(a, b []byte) bool { return string(a) == string(b) }) {
					t.Errorf("%s/ is not what it is without the scales: %v", kind, f.Notes)
				}
			}
		})
	}
}

// TestCompressionConfig holds that a directory whose config.json uses the older name of quantization_config has the same
// numbers in all views.
func TestCompressionConfig(t *testing.T) {
	for _, name := range []string{"ct-real-w3-dense", "ct-real-mxfp4", "ct-real-fp8-channel"} {
		files := testwhole.Packed(t, name, nil)
		m := testwhole.OpenFiles(t, files)
		older := maps.Clone(files)
		older["config.json"] = []byte(strings.Replace(string(files["config.json"]), `"quantization_config"`, `"compression_config"`, 1))
		o := testwhole.OpenFiles(t, older)
		if got := hf.MLX(o, convert.Options{}); !strings.Contains(strings.Join(got.Notes, ";"), "cannot load the stored packing") {
			t.Errorf("%s: mlx/: %q %v", name, got.Reason, got.Notes)
		}
		for kind, files := range map[string]func(*tensorfs.Model) *convert.Files{
			"hf":  func(m *tensorfs.Model) *convert.Files { return hf.HF(m, convert.Options{Dequantise: true}) },
			"mlx": func(m *tensorfs.Model) *convert.Files { return hf.MLX(m, convert.Options{Dequantise: true}) },
		} {
			got, want := contents(t, files(o)), contents(t, files(m))
			if len(want) == 0 || !maps.EqualFunc(got, want, func(a, b []byte) bool { return string(a) == string(b) }) {
				t.Errorf("%s: %s/ differs", name, kind)
			}
		}
		got, want := contents(t, convert.GGUF(o, convert.Options{})), contents(t, convert.GGUF(m, convert.Options{}))
		if len(want) == 0 || string(got["model.gguf"]) != string(want["model.gguf"]) {
			t.Errorf("%s: gguf/ differs", name)
		}
	}
}

// TestSettingsInTheirOwnFile holds that a directory with quantize_config.json has the numbers of one whose config.json has
// the settings, and that mlx/ does not pass on codes that mlx-lm takes for plain weights.
func TestSettingsInTheirOwnFile(t *testing.T) {
	files := testwhole.Packed(t, "gptq-4bit-plain-v1", nil)
	m := testwhole.OpenFiles(t, files)
	var config map[string]json.RawMessage
	if err := json.Unmarshal(files["config.json"], &config); err != nil {
		t.Fatal(err)
	}
	apart := maps.Clone(files)
	apart["quantize_config.json"] = config["quantization_config"]
	delete(config, "quantization_config")
	text, err := json.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	apart["config.json"] = text
	o := testwhole.OpenFiles(t, apart)
	got, want := contents(t, convert.GGUF(o, convert.Options{})), contents(t, convert.GGUF(m, convert.Options{}))
	if len(want) == 0 || string(got["model.gguf"]) != string(want["model.gguf"]) {
		t.Error("gguf/ differs")
	}
	mlx := hf.MLX(o, convert.Options{})
	if notes := strings.Join(mlx.Notes, ";"); !strings.Contains(notes, "cannot load the stored packing") {
		t.Errorf("mlx/: %q %s", mlx.Reason, notes)
	}
}
