package hf_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/safetensors"
	"github.com/tensorfs/tensorfs/internal/convert"
	"github.com/tensorfs/tensorfs/internal/convert/hf"
	"github.com/tensorfs/tensorfs/internal/testing/memory"
	"github.com/tensorfs/tensorfs/internal/testing/testwhole"
)

// TestLeftovers holds that a directory whose tensor names all begin with a prefix that training
// left is converted without the prefix, and that a directory where only some have it stays as it
// is.
func TestLeftovers(t *testing.T) {
	const from = "../../../testdata/whole-gguf/llama3"
	base := testwhole.Open(t, from)
	for _, c := range []struct {
		before string
		only   string // which tensors; "" for all
		note   string
		inner  [2]string // what is replaced in the middle of names
	}{
		{"_orig_mod.", "", `without the "_orig_mod." that training left`, [2]string{}},
		{"module.", "", `without the "module." that training left`, [2]string{}},
		{"module._orig_mod.", "", `without the "module._orig_mod." that training left`, [2]string{}},
		{"_orig_mod.module.", "", `without the "_orig_mod.module." that training left`, [2]string{}},
		{"base_model.model.", "", `without the "base_model.model." that training left`, [2]string{}},
		{"_orig_mod.", "lm_head.weight", "", [2]string{}},
		{"", "", "", [2]string{}},
		{"", "", `without the "_orig_mod." that training left in them`, [2]string{"layers.1.", "layers.1._orig_mod."}},
		{"", "", `without the "base_layer." that training left in them`, [2]string{"q_proj.", "q_proj.base_layer."}},
		{"base_model.model.", "", `without the "base_model.model." that training left before their names and the "base_layer." that training left in them`, [2]string{"down_proj.", "down_proj.base_layer."}},
	} {
		dir := t.TempDir()
		if err := os.CopyFS(dir, os.DirFS(from)); err != nil {
			t.Fatal(err)
		}
		var list []safetensors.Stored
		for _, x := range base.Tensors {
			name := strings.Replace(x.Source, c.inner[0], c.inner[1], 1)
			if c.only == "" || name == c.only {
				name = c.before + name
			}
			list = append(list, safetensors.Stored{Name: name, DType: x.DType, Shape: x.Shape, Data: x.Data})
		}
		d, err := safetensors.Compose([][2]string{{"format", "pt"}}, list)
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(dir, "model.safetensors")
		os.Remove(file)
		if err := os.WriteFile(file, testwhole.Read(t, d), 0o600); err != nil {
			t.Fatal(err)
		}
		m := testwhole.Open(t, dir)
		want := map[string]bool{}
		for _, x := range base.Tensors {
			want[x.Source] = true
		}
		for kind, made := range map[string]*convert.Files{"hf": hf.HF(m, convert.Options{}), "mlx": hf.MLX(m, convert.Options{})} {
			if c.only != "" && kind == "mlx" { // which refuses names that its class does not have
				continue
			}
			notes := strings.Join(made.Notes, "\n")
			if made.Reason != "" || !strings.Contains(notes, c.note) || c.note == "" && notes != "" {
				t.Errorf("%q %s: %s %q, want %q", c.before, kind, made.Reason, notes, c.note)
				continue
			}
			if c.note == "" {
				continue
			}
			for _, f := range made.List {
				if f.Path != "model.safetensors" {
					continue
				}
				p, err := safetensors.Parse(f.Data)
				if err != nil {
					t.Fatal(err)
				}
				for _, x := range p.Tensors {
					if !want[x.Name] || !bytes.Equal(testwhole.Read(t, x.Data), testwhole.Read(t, base.Tensors[tensorAt(base, x.Name)].Data)) {
						t.Errorf("%q %s: %s is not the model's", c.before, kind, x.Name)
					}
				}
				if len(p.Tensors) != len(want) {
					t.Errorf("%q %s: %d tensors", c.before, kind, len(p.Tensors))
				}
			}
		}
		if f := convert.GGUF(m, convert.Options{}); c.only == "" && (f.Reason != "" || len(f.Notes) > 0) {
			t.Errorf("%q: gguf/ %s %q", c.before, f.Reason, f.Notes)
		}
	}
}

// TestAdapterBesideBase holds that a directory saved from PEFT's model without merging is refused, as every
// library refuses it.
func TestAdapterBesideBase(t *testing.T) {
	const module, note = "model.layers.0.self_attn.q_proj.", "neither them nor the weights that they change"
	files := onDisk(t, data+"whole-gguf/llama3")
	base := testwhole.Open(t, data+"whole-gguf/llama3")
	list := []safetensors.Stored{
		{Name: module + "lora_A.default.weight", DType: tensorfs.F32, Shape: []int64{2, 2}, Data: make(tensorfs.Bytes, 16)},
		{Name: module + "lora_B.default.weight", DType: tensorfs.F32, Shape: []int64{2, 2}, Data: make(tensorfs.Bytes, 16)},
	}
	for _, x := range base.Tensors {
		list = append(list, safetensors.Stored{Name: strings.Replace(x.Source, module, module+"base_layer.", 1), DType: x.DType, Shape: x.Shape, Data: x.Data})
	}
	d, err := safetensors.Compose([][2]string{{"format", "pt"}}, list)
	if err != nil {
		t.Fatal(err)
	}
	files["model.safetensors"] = testwhole.Read(t, d)
	config := fields(t, files["config.json"])
	for _, own := range []bool{false, true} {
		if own {
			config["auto_map"] = map[string]any{"AutoModelForCausalLM": "own.Model"}
		}
		files["config.json"], _ = json.Marshal(config)
		m, err := openDirectory(memory.New(files))
		if err != nil {
			t.Fatal(err)
		}
		if f := hf.HF(m, convert.Options{}); f.Reason != "" || tells(f, note) == own {
			t.Errorf("hf/, code of its own %v: %q %q", own, f.Reason, f.Notes)
		}
		if f := hf.MLX(m, convert.Options{}); f.Reason == "" && !tells(f, note) {
			t.Errorf("mlx/, code of its own %v: %q", own, f.Notes)
		}
		m.Close()
	}
}

func tensorAt(m *tensorfs.Model, source string) int {
	for i := range m.Tensors {
		if m.Tensors[i].Source == source {
			return i
		}
	}
	return 0
}
