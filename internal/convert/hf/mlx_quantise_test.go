package hf

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats"
	"github.com/tensorfs/tensorfs/formats/safetensors"
	"github.com/tensorfs/tensorfs/internal/convert"
	"github.com/tensorfs/tensorfs/internal/testing/testclient"
	"github.com/tensorfs/tensorfs/internal/testing/testwhole"
)

// unpackedGolden returns the content of a file of testdata/quantise/mlx-whole.
func unpackedGolden(t testing.TB, name string) []byte {
	t.Helper()
	return testclient.Unpack(t, filepath.Join(testwhole.Data(t), "quantise/mlx-whole", name))
}

// goldenMLX opens one of the models that mlx_lm.convert converted.
func goldenMLX(t testing.TB, name string) *tensorfs.Model {
	t.Helper()
	dir := filepath.Join(t.TempDir(), name)
	if err := os.CopyFS(dir, os.DirFS(filepath.Join(testwhole.Data(t), "quantise/mlx-whole", name))); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "model.safetensors"), unpackedGolden(t, name+"/model.safetensors.gz"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, "model.safetensors.gz")); err != nil {
		t.Fatal(err)
	}
	return testwhole.Open(t, dir)
}

// goldenCases are the ways in which the golden models were converted.
var goldenCases = map[string]convert.MLXAsked{
	"q4": {Bits: 4}, "q8": {Bits: 8}, "q4-g32": {Bits: 4, Group: 32}, "q3-g128": {Bits: 3, Group: 128},
	"mxfp4": {Mode: "mxfp4"}, "mxfp8": {Mode: "mxfp8"}, "nvfp4": {Mode: "nvfp4"},
	"mixed_2_6": {Recipe: "mixed_2_6"}, "mixed_3_4": {Recipe: "mixed_3_4"}, "mixed_3_6": {Recipe: "mixed_3_6"}, "mixed_4_6": {Recipe: "mixed_4_6"},
}

// TestGoldenConverted holds that mlx/ equals what mlx_lm.convert wrote of three models in eleven ways: every tensor,
// config.json, and the index, by the rounding of the GPU and of the CPU.
func TestGoldenConverted(t *testing.T) {
	type golden struct {
		Config map[string]any
		Index  map[string]any
	}
	var configs map[string]golden
	if err := json.Unmarshal(unpackedGolden(t, "configs.json.gz"), &configs); err != nil {
		t.Fatal(err)
	}
	want := map[string]map[string]string{}
	for lines := bufio.NewScanner(bytes.NewReader(unpackedGolden(t, "tensors.tsv.gz"))); lines.Scan(); {
		f := strings.Split(lines.Text(), "\t")
		if f[0] == "model" {
			continue
		}
		if f[6] == "=" {
			f[6] = f[5]
		}
		for device, sum := range map[string]string{"cpu": f[5], "gpu": f[6]} {
			key := f[0] + "." + f[1] + "." + device
			if want[key] == nil {
				want[key] = map[string]string{}
			}
			want[key][f[2]] = f[3] + " " + f[4] + " " + sum
		}
	}
	for _, name := range []string{"deepseek3", "llama9", "qwen3moe"} {
		m := goldenMLX(t, name)
		for way, asked := range goldenCases {
			for _, device := range []string{"gpu", "cpu"} {
				if testing.Short() && (way == "q8" || way == "mixed_2_6" || way == "mixed_3_4" || way == "nvfp4") {
					continue
				}
				t.Run(name+"."+way+"."+device, func(t *testing.T) {
					asked.Device = device
					o, err := asked.Options()
					if err != nil {
						t.Fatal(err)
					}
					if why := KeptMLX(m, convert.Options{MLX: o}); why != "" {
						if name != "qwen3moe" || way != "q3-g128" { // whose rows are shorter than the groups
							t.Error(why)
						}
						return
					}
					f := MLX(m, convert.Options{MLX: o})
					if f.Reason != "" {
						t.Fatal(f.Reason)
					}
					made := fileOf(t, f, weightsName)
					left := want[name+"."+way+"."+device]
					file, err := safetensors.Parse(tensorfs.Bytes(made))
					if err != nil {
						t.Fatal(err)
					}
					for _, s := range file.Tensors {
						shape := strings.Trim(strings.ReplaceAll(fmt.Sprint(s.Shape), " ", "x"), "[]")
						sum := sha256.Sum256(testwhole.Read(t, s.Data))
						if got := fmt.Sprintf("%s %s %s", s.DType, shape, hex.EncodeToString(sum[:8])); got != left[s.Name] {
							t.Errorf("%s is %s, want %s", s.Name, got, left[s.Name])
						}
						delete(left, s.Name)
					}
					if len(left) > 0 {
						t.Errorf("missing: %v", left)
					}
					g := configs[name+"."+way]
					config := fileOf(t, f, configName)
					var got map[string]any
					if err := json.Unmarshal(config, &got); err != nil || !reflect.DeepEqual(got, g.Config) {
						t.Errorf("config.json is %s, want %v: %v", config, g.Config, err)
					}
					var index struct{ Metadata map[string]any }
					if err := json.Unmarshal(fileOf(t, f, weightsName+".index.json"), &index); err != nil || !reflect.DeepEqual(index.Metadata, g.Index) {
						t.Errorf("the index says %v, want %v: %v", index.Metadata, g.Index, err)
					}
				})
			}
		}
	}
}

func fileOf(t testing.TB, f *convert.Files, name string) []byte {
	t.Helper()
	for _, x := range f.List {
		if x.Path == name {
			return testwhole.Read(t, x.Data)
		}
	}
	t.Fatalf("there is no %s", name)
	return nil
}

// TestMLXAsked: what a mode or a recipe cannot give is refused with the flag and what would do.
func TestMLXAsked(t *testing.T) {
	for _, c := range []struct {
		asked convert.MLXAsked
		want  string
	}{
		{convert.MLXAsked{Bits: 7}, "--mlx-bits 7: MLX's affine has 2, 3, 4, 5, 6 or 8"},
		{convert.MLXAsked{Bits: 4, Group: 16}, "--mlx-group 16: MLX's affine has 32, 64 or 128"},
		{convert.MLXAsked{Mode: "mxfp4", Bits: 8}, "--mlx-bits 8: MLX's mxfp4 has 4"},
		{convert.MLXAsked{Mode: "nvfp4", Group: 32}, "--mlx-group 32: MLX's nvfp4 has 16"},
		{convert.MLXAsked{Mode: "fp4"}, `--mlx-mode "fp4": want affine, mxfp4, mxfp8 or nvfp4`},
		{convert.MLXAsked{Recipe: "mixed"}, `--mlx-recipe "mixed": want mixed_2_6, mixed_3_4, mixed_3_6 or mixed_4_6`},
		{convert.MLXAsked{Recipe: "mixed_4_6", Bits: 4}, "leave --mlx-bits out"},
		{convert.MLXAsked{Recipe: "mixed_4_6", Mode: "mxfp4"}, "leave one of them out"},
		{convert.MLXAsked{Bits: 4, Device: "metal"}, `--mlx-device "metal": want gpu or cpu`},
		{convert.MLXAsked{Device: "cpu"}, "give that flag too"},
		{convert.MLXAsked{Group: 64}, "give that flag too"},
	} {
		if o, err := c.asked.Options(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, %v, want %q", c.asked, o, err, c.want)
		}
	}
	if o, err := (convert.MLXAsked{}).Options(); o != nil || err != nil {
		t.Errorf("nothing is %v, %v", o, err)
	}
}

// TestMLXMoved: what classes of mlx-lm store otherwise than releases, or leave out, is so in
// what is quantised, as mlx_lm.convert has it (scripts/programs/check_convert.py).
func TestMLXMoved(t *testing.T) {
	asked, err := convert.MLXAsked{Bits: 4, Group: 32}.Options()
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ has, not string }{
		"granitehybrid-dense": {"model.layers.0.mlp.gate_proj.scales", ".shared_mlp."},
		"granitehybrid":       {"model.layers.0.shared_mlp.input_linear.scales", ".mlp."},
		"nemotron_h-moe":      {"backbone.layers.1.mixer.switch_mlp.fc1.scales", ".experts."},
		"glm-dsa-mtp":         {"model.layers.1.self_attn.embed_q.weight", "model.layers.2."},
	} {
		m, err := formats.Open(testdata + "architectures/" + name)
		if err != nil {
			t.Fatal(err)
		}
		made := MLX(m, convert.Options{MLX: asked})
		if made.Reason != "" {
			t.Errorf("%s: %s", name, made.Reason)
		} else if header := string(fileOf(t, made, "model.safetensors")[8:20000]); !strings.Contains(header, `"`+c.has+`"`) || strings.Contains(header, c.not) {
			t.Errorf("%s: it lacks %s, or has %s: %.600s", name, c.has, c.not, header)
		}
		m.Close()
	}
}
