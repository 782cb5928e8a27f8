package hf_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs"
	hfmodel "github.com/tensorfs/tensorfs/formats/hf"
	"github.com/tensorfs/tensorfs/internal/convert"
	"github.com/tensorfs/tensorfs/internal/convert/hf"
	"github.com/tensorfs/tensorfs/internal/testing/memory"
)

// TestModules holds that hf/ and mlx/ have the files of each module that modules.json lists,
// weights too, and no other folder's.
func TestModules(t *testing.T) {
	for _, dir := range []string{"whole-gguf/qwen3", "models-mlx/qwen3-mixed"} {
		files := onDisk(t, data+dir)
		files["modules.json"] = []byte(`[{"path":""},{"path":"1_Pooling"},{"path":"2_Dense"},{"path":"heads/./norm/"},{"path":"../secret"},{"path":"/etc"},{"path":7}]`)
		modules := []string{"1_Pooling/config.json", "2_Dense/config.json", "2_Dense/model.safetensors", "heads/norm/config.json", "heads/norm/pytorch_model.bin"}
		foreign := []string{"secret/config.json", "heads/config.json", "other/model.safetensors"}
		for _, name := range append(foreign, modules...) {
			files[name] = []byte(name)
		}
		m, err := hfmodel.OpenFS(memory.New(files), ".")
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		if said := strings.Join(m.Warnings, "; "); !strings.Contains(said, `"../secret" is left out`) || !strings.Contains(said, `"/etc" is left out`) {
			t.Errorf("warnings: %s", said)
		}
		for _, make := range []func(*tensorfs.Model, convert.Options) *convert.Files{hf.HF, hf.MLX} {
			got := contents(t, make(m, convert.Options{}))
			for _, name := range modules {
				if !bytes.Equal(got[name], files[name]) {
					t.Errorf("%s: %s is %q", dir, name, got[name])
				}
			}
			for _, name := range foreign {
				if got[name] != nil {
					t.Errorf("%s: %s is there", dir, name)
				}
			}
		}
	}
}
