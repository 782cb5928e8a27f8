package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestMLXBits holds what --mlx-bits and the flags beside it make, and that they are refused where they would change
// nothing, before anything is written, made or mounted.
func TestMLXBits(t *testing.T) {
	dir, f16, q4km := testdata+"whole-gguf/llama3", ggufDir+"llama-xs.f16.gguf", ggufDir+"llama-xs.q4_k_m.gguf"
	for _, model := range []string{dir, f16} {
		seen := map[string]string{}
		for _, flags := range []string{"", "--mlx-bits 4 --mlx-group 32", "--mlx-bits 8 --mlx-group 32", "--mlx-mode mxfp4", "--mlx-recipe mixed_3_6 --mlx-group 32", "--mlx-bits 4 --mlx-group 32 --mlx-device cpu"} {
			code, out, stderr := command(append(append([]string{"cat"}, strings.Fields(flags)...), model, "mlx/model.safetensors")...)
			if code != 0 || stderr != "" || !strings.Contains(out, `"format":"mlx"`) && model == f16 {
				t.Fatalf("%s of %s: exit code %d, %s", flags, model, code, stderr)
			}
			if other, ok := seen[out]; ok {
				t.Errorf("%s: %q and %q give the same", model, flags, other)
			}
			seen[out] = flags
		}
	}
	for _, c := range []struct {
		flags, model string
		code         int
		want         string
	}{
		{"--mlx-bits 4", q4km, 1, "--mlx-bits 4 changes nothing: its weights are quantised already, and are not quantised again; leave it out, name a model in F16, BF16 or F32, or add --requantise"},
		{"--mlx-bits 7", f16, 2, "--mlx-bits 7: MLX's affine has 2, 3, 4, 5, 6 or 8"},
		{"--mlx-bits 0", f16, 2, `--mlx-bits "0": want a number, such as 4`},
		{"--mlx-device cpu", f16, 2, "give that flag too, such as --mlx-bits 4"},
		{"--requantise", f16, 2, "give that flag too"},
	} {
		place := filepath.Join(t.TempDir(), "place")
		for _, args := range [][]string{{"cat", c.model, "mlx/config.json"}, {"export", c.model, place, "mlx"}, {"mount", c.model, place}, {"info", c.model}} {
			code, out, stderr := command(append(append(args[:1:1], strings.Fields(c.flags)...), args[1:]...)...)
			if code != c.code || out != "" || !strings.Contains(stderr, c.want) || strings.Count(stderr, "\n") != 1 {
				t.Errorf("%s %q: exit code %d, %q", c.flags, args, code, stderr)
			}
			if _, err := os.Lstat(place); err == nil {
				t.Errorf("%s %q: %s was made", c.flags, args, place)
			}
		}
	}
	if code, out, stderr := command("cat", "--mlx-bits", "4", "--requantise", q4km, "mlx/config.json"); code != 0 || !strings.Contains(out, `"bits": 4`) {
		t.Errorf("quantised again: exit code %d, %s%s", code, out, stderr)
	}
	if _, out, _ := command("cat", "--mlx-bits", "4", testdata+"architectures/falcon-h1", "mlx/tensorfs.json"); !strings.Contains(out, "what mlx_lm.convert quantises of the model type") {
		t.Errorf("a class that is not known: %s", out)
	}
}

// TestInfoSizes: the table of sizes has each type, with the size that the file then has.
func TestInfoSizes(t *testing.T) {
	model := testdata + "whole-gguf/llama3"
	code, out, stderr := command("info", "--json", "--gguf-type", "ALL", model)
	var got struct {
		Model string
		Sizes []struct {
			Name          string
			Bytes         int
			BitsPerWeight float64 `json:"bits_per_weight"`
		}
	}
	if err := json.Unmarshal([]byte(out), &got); code != 0 || err != nil || len(got.Sizes) < 20 || got.Model == "" {
		t.Fatalf("exit code %d, %s, %v, %s", code, out, err, stderr)
	}
	_, table, _ := command("info", "--gguf-type", "all", model)
	for _, s := range got.Sizes {
		_, file, _ := command("cat", "--gguf-type", s.Name, model, "gguf/model.gguf")
		_, said, _ := command("info", "--json", "--gguf-type", s.Name, model)
		if len(file) != s.Bytes || !strings.Contains(said, fmt.Sprintf(`"bits_per_weight": %v`, s.BitsPerWeight)) || !strings.Contains(table, "\n"+s.Name+" ") {
			t.Errorf("%s: %d bytes, want %d", s.Name, s.Bytes, len(file))
		}
	}
	for _, c := range []struct{ flags, model, want string }{
		{"--gguf-type all", ggufDir + "llama-xs.q4_k_m.gguf", "its weights are quantised already"},
		{"--gguf-type all --mlx-bits 4", model, "leave the flags about mlx/ out"},
	} {
		if code, out, stderr := command(append(append([]string{"info"}, strings.Fields(c.flags)...), c.model)...); code == 0 || out != "" || !strings.Contains(stderr, c.want) {
			t.Errorf("%s of %s: exit code %d, %s%s", c.flags, c.model, code, out, stderr)
		}
	}
	if _, out, _ := command("info", "--mlx-bits", "4", "--mlx-group", "32", model); !strings.Contains(out, "bits per weight (") {
		t.Errorf("info does not say the bits per weight of mlx/: %s", out)
	}
}
