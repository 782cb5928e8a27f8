package convert_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs/internal/convert"
	"github.com/tensorfs/tensorfs/internal/convert/preset"
	"github.com/tensorfs/tensorfs/internal/testing/testwhole"
)

// TestSizes holds that sizes computed from a header equal the sizes of the files.
func TestSizes(t *testing.T) {
	for _, name := range []string{"whole-gguf/llama3", "whole-gguf/qwen3moe", "whole-gguf/deepseek3", "gguf/llama-xs.f16.gguf", "quantise/models/dense256.gguf", "quantise/models/odd.gguf"} {
		m := testwhole.Open(t, filepath.Join(testwhole.Data(t), name))
		for _, pure := range []bool{false, true} {
			asked := preset.Options{Preset: preset.All[0], Pure: pure}
			list, _, err := convert.Sizes(m, convert.Options{Quantise: &asked}, preset.All)
			if err != nil || len(list) < 20 {
				t.Fatalf("%s: %d sizes, %v", name, len(list), err)
			}
			by := map[string]convert.Sized{}
			for _, s := range list {
				by[s.Name] = s
			}
			for _, p := range preset.All {
				asked := asked
				asked.Preset = p
				opts := convert.Options{Quantise: &asked}
				if convert.Kept(m, opts) != "" {
					if _, ok := by[p.Name]; ok {
						t.Errorf("%s: %s changes nothing and has a size", name, p.Name)
					}
					continue
				}
				f := convert.GGUF(m, opts)
				if strings.Contains(f.Reason, "importance matrix") {
					if _, ok := by[p.Name]; ok {
						t.Errorf("%s: %s is not made and has a size", name, p.Name)
					}
					continue
				}
				if f.Reason != "" {
					t.Fatal(f.Reason)
				}
				if got, want := by[p.Name].Bytes, f.List[0].Data.Size(); got != want {
					t.Errorf("%s as %s is %d bytes, want %d", name, p.Name, got, want)
				}
			}
		}
	}
}
