package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs/internal/testing/testmodel"
	"github.com/tensorfs/tensorfs/internal/testing/testwhole"
)

// TestDequantise holds what --dequantise shows in a mount and gives commands, and that it is
// refused where it would change nothing, before anything is written, made or mounted.
func TestDequantise(t *testing.T) {
	dir := t.TempDir()
	if err := testmodel.Write(dir, testwhole.Packed(t, "gptq-4bit-act-order-v1", nil)); err != nil {
		t.Fatal(err)
	}
	read := func(path ...string) string {
		b, err := os.ReadFile(filepath.Join(path...))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	plain := func(where, config, weights string) {
		t.Helper()
		var c map[string]any
		if err := json.Unmarshal([]byte(config), &c); err != nil || c["quantization_config"] != nil || c["torch_dtype"] != "bfloat16" {
			t.Errorf("%s: config.json is %s, %v", where, config, err)
		}
		if !strings.Contains(weights, `self_attn.q_proj.weight"`) || strings.Contains(weights, "qweight") {
			t.Errorf("%s: not the tensors of a plain directory", where)
		}
	}
	_, weights, _ := command("cat", "--dequantise", dir, "hf/model.safetensors")
	for _, flag := range [][]string{{"--dequantise"}, {"-o", "dequantise"}} {
		mnt := mounted(t, dir, flag...)
		for _, kind := range []string{"hf", "mlx"} {
			plain(strings.Join(flag, " ")+" "+kind, read(mnt, kind, "config.json"), read(mnt, kind, "model.safetensors"))
			if note := read(mnt, kind, "tensorfs.json"); !strings.Contains(note, "are plain numbers") || !strings.Contains(note, "10 tensors are rounded to BF16") {
				t.Error(note)
			}
		}
		if got := read(mnt, "hf", "model.safetensors"); got != weights {
			t.Errorf("%s: cat prints other weights", flag)
		}
	}
	out := t.TempDir()
	if code, _, stderr := command("export", "--dequantise", dir, filepath.Join(out, "x"), "hf"); code != 0 || read(out, "x", "hf", "model.safetensors") != weights {
		t.Errorf("export: exit code %d, %s", code, stderr)
	}
	stored := mounted(t, dir)
	if !bytes.Equal([]byte(read(stored, "hf", "model.safetensors")), []byte(read(dir, "model.safetensors"))) {
		t.Error("without the flag hf/ is not as stored")
	}

	const nothing = ": --dequantise changes nothing: "
	for model, want := range map[string]string{
		testdata + "whole-gguf/llama3":      "llama3" + nothing + "its weights are not packed; leave it out",
		ggufDir + "llama-xs.f16.gguf":       "llama-xs.f16.gguf" + nothing + "it is for directories that another program packed, and hf/ of others has plain numbers in any case; leave it out",
		testdata + "models-mlx/qwen3-mixed": "qwen3-mixed" + nothing,
	} {
		place := filepath.Join(t.TempDir(), "place")
		for _, args := range [][]string{{"cat", model, "hf/config.json"}, {"export", model, place, "hf"}, {"mount", model, place}, {"info", model}} {
			code, out, stderr := command(append(append(args[:1:1], "--dequantise"), args[1:]...)...)
			if code != 1 || out != "" || !strings.Contains(stderr, want) || strings.Count(stderr, "\n") != 1 {
				t.Errorf("%q: exit code %d, %q", args, code, stderr)
			}
			if _, err := os.Lstat(place); err == nil {
				t.Errorf("%q: %s was made", args, place)
			}
		}
	}
}
