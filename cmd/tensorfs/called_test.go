package main

import (
	"encoding/json"
	"strings"
	"testing"
)

// These are models of one kind in the layouts of GGUF, Hugging Face and MLX.
const (
	calledGGUF = "../../testdata/pairs/llama/gguf/llama.gguf"
	calledHF   = "../../testdata/pairs/llama/hf"
	calledMLX  = "../../testdata/whole-gguf/mlx-llama3-4bit"
)

// TestCalled: Hugging Face's and GGUF's names of tensors work on models of every kind, without a view, as globs and after a view.
func TestCalled(t *testing.T) {
	for _, model := range []string{calledGGUF, calledHF, calledMLX} {
		_, q, _ := command("cat", "--force", model, "f16/layers.0.ffn.up.weight")
		if len(q) == 0 {
			t.Fatal(model)
		}
		for _, name := range []string{"model.layers.0.mlp.up_proj.weight", "blk.0.ffn_up.weight"} {
			if code, got, problems := command("cat", "--force", model, "f16/"+name); code != 0 || got != q {
				t.Errorf("cat %s f16/%s: %d %s", model, name, code, problems)
			}
			if code, got, _ := command("cat", "--force", model, "npy/"+name+".npy"); code != 0 || !strings.HasSuffix(got, q) {
				t.Errorf("cat %s npy/%s.npy", model, name)
			}
			if code, got, problems := command("ls", model, name); code != 0 || !strings.Contains(got, "f16/layers.0.ffn.up.weight\n") || !strings.Contains(got, "npy/layers.0.ffn.up.weight.npy\n") {
				t.Errorf("ls %s %s: %d %s %s", model, name, code, got, problems)
			}
			if code, got, problems := command("stat", "--json", model, name); code != 0 || !strings.Contains(got, "histogram") {
				t.Errorf("stat %s %s: %d %s", model, name, code, problems)
			}
		}
		for glob, want := range map[string]int{"f16/blk.*.attn_k.weight": 2, "f16/model.layers.*.self_attn.k_proj.weight": 2, "raw/blk.0.*norm.weight": 2} {
			if code, got, problems := command("ls", model, glob); code != 0 || strings.Count(got, "\n") != want {
				t.Errorf("ls %s %s: %d\n%s%s", model, glob, code, got, problems)
			}
		}
		for _, glob := range []string{"blk.0.*", "model.layers.0.*", "model.layers.0.self_attn.k_proj.weight", "blk.1.ffn_?p.weight"} {
			code, got, problems := command("diff", "--json", model, model, glob)
			var report struct{ Tensors []struct{ Name string } }
			if err := json.Unmarshal([]byte(got), &report); err != nil || code != 0 || len(report.Tensors) == 0 || len(report.Tensors) > 20 {
				t.Errorf("diff %s %s: %d %s, %d tensors", model, glob, code, problems, len(report.Tensors))
			}
		}
		for _, command1 := range [][]string{{"cat", model, "f16/model.layers.99.mlp.up_proj.weight"}, {"ls", model, "blk.99.*"}, {"stat", model, "blk.0.no_such.weight"}, {"diff", model, model, "nothing.*"}} {
			if code, _, problems := command(command1...); code == 0 || strings.Count(problems, "\n") != 1 {
				t.Errorf("%q: %d %s", command1, code, problems)
			}
		}
	}
}

// TestSeveral describes several models; a broken one does not hide the rest.
func TestSeveral(t *testing.T) {
	code, text, problems := command("info", calledGGUF, "nosuch.gguf", calledHF)
	if code != 1 || strings.Count(text, "architecture  llama\n") != 2 || strings.Count(problems, "\n") != 1 || !strings.Contains(problems, "nosuch.gguf") || !strings.Contains(text, "\n\nname ") {
		t.Errorf("%d %s\n%s", code, problems, text)
	}
	code, text, problems = command("info", "--json", calledGGUF, calledHF)
	var infos []struct{ Format string }
	if err := json.Unmarshal([]byte(text), &infos); err != nil || code != 0 || len(infos) != 2 || infos[1].Format != "huggingface" {
		t.Errorf("%d %s %v %+v", code, problems, err, infos)
	}
	code, text, problems = command("stat", calledGGUF, calledHF, "output_norm.weight")
	if code != 0 || strings.Count(text, "==> ") != 2 || strings.Count(text, "tensor    output_norm.weight") != 2 {
		t.Errorf("%d %s\n%s", code, problems, text)
	}
	code, text, problems = command("stat", "--json", calledGGUF, calledHF, "nosuch.gguf", "blk.0.ffn_up.weight")
	if code != 2 || !strings.Contains(problems, "nosuch.gguf") {
		t.Errorf("%d %s\n%s", code, problems, text)
	}
	code, text, problems = command("stat", "--json", calledGGUF, calledHF)
	var stats []struct {
		Model   string
		Tensors []struct{ Name string }
	}
	if err := json.Unmarshal([]byte(text), &stats); err != nil || code != 0 || len(stats) != 2 || stats[1].Model != calledHF || len(stats[0].Tensors) < 10 {
		t.Errorf("%d %s %v", code, problems, err)
	}
}
