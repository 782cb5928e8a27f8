package main

import (
	"encoding/json"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats"
	"github.com/tensorfs/tensorfs/internal/testing/testmodel"
	"github.com/tensorfs/tensorfs/internal/testing/testweb"
)

// loraCase is a base with an adapter in both of its formats.
const loraCase = testdata + "lora/plain-bf16-f32/"

// loraTensor is one that the adapter changes.
const loraTensor = "layers.0.attention.q.weight"

// copied copies a directory of files.
func copied(t *testing.T, dir string) string {
	t.Helper()
	to := t.TempDir()
	must(t, os.CopyFS(to, os.DirFS(dir)))
	return to
}

// fileIn writes what cat prints to a file.
func fileIn(t *testing.T, name string, args ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	must(t, os.WriteFile(path, []byte(succeeds(t, append([]string{"cat"}, args...)...)), 0o600))
	return path
}

// notesOf are the notes of a directory of whole models, and how many tensors have which type.
func notesOf(t *testing.T, dir string, args ...string) (notes string, types map[string]int) {
	t.Helper()
	var of struct {
		Available bool
		Notes     []string
		Types     map[string]int
	}
	text := succeeds(t, append([]string{"cat", args[0], dir + "/tensorfs.json"}, args[1:]...)...)
	must(t, json.Unmarshal([]byte(text), &of))
	if !of.Available {
		t.Errorf("%v: %s/ is absent: %s", args, dir, text)
	}
	return strings.Join(of.Notes, "; "), of.Types
}

// TestLoRAOrder holds that an adapter adds the same numbers to a model's directory and to its GGUF file, whether
// GGUF has the rows of q and k in another order (arcee, mistral3) or as they are (afmoe, cohere2, cohere2-moe).
func TestLoRAOrder(t *testing.T) {
	for _, model := range []string{"afmoe", "arcee", "mistral3", "cohere2", "cohere2-moe"} {
		base := testdata + "architectures/" + model
		file := fileIn(t, "model.gguf", "--gguf-type", "f32", base, "gguf/model.gguf")
		m, err := formats.Open(base)
		must(t, err)
		r := rand.New(rand.NewPCG(1, 2))
		var list []testmodel.SafeTensor
		var changed []string
		for i := range m.Tensors {
			x := &m.Tensors[i]
			module, ok := strings.CutSuffix(x.Source, "_proj.weight")
			if !ok || len(x.Shape) != 2 || !strings.Contains(module, ".0.self_attn.") {
				continue
			}
			changed = append(changed, x.Name)
			for _, of := range []struct {
				name  string
				shape []int64
			}{{"A", []int64{4, x.Shape[1]}}, {"B", []int64{x.Shape[0], 4}}} {
				numbers := make([]float32, of.shape[0]*of.shape[1])
				for i := range numbers {
					numbers[i] = float32(r.NormFloat64())
				}
				name := "base_model.model." + module + "_proj.lora_" + of.name + ".weight"
				list = append(list, testmodel.SafeTensor{Name: name, DType: tensorfs.F32, Shape: of.shape, Data: testmodel.Encode(tensorfs.F32, numbers, 0)})
			}
		}
		must(t, m.Close())
		if len(changed) < 4 {
			t.Errorf("%s: only %q", model, changed)
		}
		adapter := t.TempDir()
		must(t, os.WriteFile(filepath.Join(adapter, "adapter_config.json"), []byte(`{"peft_type":"LORA","r":4,"lora_alpha":8}`), 0o600))
		must(t, os.WriteFile(filepath.Join(adapter, "adapter_model.safetensors"), testmodel.Safetensors(list, nil), 0o600))
		converted := fileIn(t, "adapted.gguf", "--gguf-type", "f32", "--lora", adapter, base, "gguf/model.gguf")
		for _, name := range changed {
			plain, a := succeeds(t, "cat", file, "f32/"+name), succeeds(t, "cat", converted, "f32/"+name)
			if b := succeeds(t, "cat", "--lora", adapter, file, "f32/"+name); a != b || a == plain {
				t.Errorf("%s: %s: the adapter changes it: %v; converted after it and before it, the numbers are the same: %v", model, name, a != plain, a == b)
			}
		}
	}
}

// One adapter in two formats, on a base in two layouts, gives the same numbers, and with the scale
// 0 every file of gguf/ and hf/ equals the base's.
func TestLoRALayouts(t *testing.T) {
	base := loraCase + "base"
	file := fileIn(t, "model.gguf", base, "gguf/model.gguf")
	for _, path := range []string{"gguf/model.gguf", "hf/model.safetensors", "f32/" + loraTensor, "f16/layers.1.attention.k.weight", "raw/layers.0.ffn.down.weight"} {
		for _, of := range []string{base, file} {
			alone := succeeds(t, "cat", of, path)
			var with string
			for _, adapter := range []string{"adapter0", "adapter0.gguf"} {
				if got := succeeds(t, "cat", of, path, "--lora", loraCase+adapter+":0"); got != alone {
					t.Errorf("%s of %s: the scale 0 of %s changes it", path, of, adapter)
				}
				got := succeeds(t, "cat", of, path, "--lora="+loraCase+adapter)
				if got == alone || len(got) < len(alone) || with != "" && got != with {
					t.Errorf("%s of %s: %s makes other bytes than it should", path, of, adapter)
				}
				with = got
			}
		}
	}
	// What a GGUF base becomes is what the base of Hugging Face becomes.
	if x, y := succeeds(t, "cat", base, "gguf/model.gguf", "--lora", loraCase+"adapter0"), succeeds(t, "cat", file, "gguf/model.gguf", "--lora", loraCase+"adapter0"); x != y {
		t.Error("gguf/ of the two bases differs")
	}
	if out := succeeds(t, "info", base, "--lora", loraCase+"adapter0:-2"); !strings.Contains(out, "adapter0:-2: 14 tensors changed") {
		t.Errorf("info: %s", out)
	}
	if code, out, _ := command("diff", "--json", base, base, "--lora", loraCase+"adapter0"); code != 1 || strings.Count(out, `"status": "different"`) != 14 {
		t.Errorf("diff: exit code %d, %s", code, out)
	}
}

// A quantised base keeps its types if these can be made, and the numbers are the base's plus the
// change.
func TestLoRAQuantised(t *testing.T) {
	const lora = "--lora=" + loraCase + "adapter0"
	base := loraCase + "base"
	for _, c := range []struct{ kind, note, other, asked string }{
		{"q8_0", "14 tensors were requantised: Q8_0", "", "14 tensors were requantised: Q8_0 -> Q4_0"},
		{"q4_0", "14 tensors were requantised: Q4_0", "", "14 tensors were requantised: Q4_0"},
		{"q5_1", "14 tensors were requantised: Q5_1", "", "14 tensors were requantised: Q5_1 -> Q4_0"},
	} {
		file := fileIn(t, "model.gguf", base, "gguf/model.gguf", "--gguf-type", c.kind)
		before, types := notesOf(t, "gguf", file)
		notes, now := notesOf(t, "gguf", file, lora)
		if strings.Contains(before, "requantised") || !strings.Contains(notes, c.note) || now[strings.ToUpper(c.kind)] != types[strings.ToUpper(c.kind)] {
			t.Errorf("%s: %s, %v, want %s and %v", c.kind, notes, now, c.note, types)
		}
		if notes, _ := notesOf(t, "gguf", file, lora, "--gguf-type", "q4_0"); !strings.Contains(notes, c.asked) {
			t.Errorf("%s asked for Q4_0: %s", c.kind, notes)
		}
		failsWith(t, 1, []string{"cat", file, "raw/" + loraTensor, lora}, "changed by an adapter", "see f16/ or gguf/")
		// Exactly the numbers of the base, and what the adapter adds to a base of zeros.
		plain, with := succeeds(t, "cat", file, "f32/"+loraTensor), succeeds(t, "cat", file, "f32/"+loraTensor, lora)
		back := succeeds(t, "cat", file, "f32/"+loraTensor, lora, lora+":-1")
		if plain == with || len(plain) != len(with) || len(back) != len(plain) {
			t.Errorf("%s: f32/ does not have the change", c.kind)
		}
		notesOf(t, "hf", file, lora)
		notesOf(t, "mlx", file, lora)
	}
	mlx := filepath.Join(t.TempDir(), "tree")
	succeeds(t, "export", base, mlx, "mlx/*", "--mlx-bits", "4", "--mlx-group", "32")
	must(t, os.Remove(mlx+"/mlx/tensorfs.json"))
	if notes, types := notesOf(t, "gguf", mlx+"/mlx", lora); !strings.Contains(notes, "14 tensors were requantised: affine -> Q8_0") || types["Q8_0"] != 14 {
		t.Errorf("MLX: %s, %v", notes, types)
	}
	// Of mlx/ what changes is plain, and the rest stays as it is.
	out := filepath.Join(t.TempDir(), "tree")
	succeeds(t, "export", mlx+"/mlx", out, "mlx/*", "hf/*", lora)
	for name, want := range map[string]string{"output.weight": mlx + "/mlx", loraTensor: out + "/hf"} {
		got, of := succeeds(t, "cat", out+"/mlx", "f16/"+name), succeeds(t, "cat", want, "f16/"+name)
		if got != of {
			t.Errorf("%s of mlx/ has other numbers", name)
		}
	}
}

// An export that was begun with one scale does not go on with another.
func TestLoRAExport(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "out")
	succeeds(t, "export", loraCase+"base", dir, "f16/*", "--lora", loraCase+"adapter0")
	failsWith(t, 1, []string{"export", loraCase + "base", dir, "f16/*", "--lora", loraCase + "adapter0:0.5"}, "--lora")
	failsWith(t, 1, []string{"export", loraCase + "base", dir, "f16/*"}, "--lora")
	succeeds(t, "export", loraCase+"base", dir, "f16/*", "--lora", loraCase+"adapter0")
	index, err := os.ReadFile(dir + "/index.json")
	must(t, err)
	var of struct {
		Model struct{ LoRA []struct{ Scale float64 } }
		Views map[string]map[string]struct {
			Extents []any
			LoRA    []struct{ Source string }
		}
	}
	must(t, json.Unmarshal(index, &of))
	if x := of.Views["raw"][loraTensor]; len(x.Extents) != 0 || len(x.LoRA) != 1 || !strings.HasSuffix(x.LoRA[0].Source, "adapter0") || len(of.Model.LoRA) != 1 {
		t.Errorf("index.json: %+v of %+v", x, of.Model)
	}
	if x := of.Views["raw"]["output.weight"]; len(x.Extents) != 1 || len(x.LoRA) != 0 {
		t.Errorf("index.json of a tensor that stays: %+v", x)
	}
}

// An adapter of mlx-lm gives a model's directory and its GGUF file the same numbers, and info describes it.
func TestLoRAMLX(t *testing.T) {
	const base, adapter = loraCase + "base", testdata + "lora/mlx/lora/adapter"
	gguf, merged := fileIn(t, "base.gguf", base, "gguf/model.gguf"), fileIn(t, "merged.gguf", base, "gguf/model.gguf", "--lora", adapter)
	for _, tensor := range []string{"layers.1.attention.q.weight", "layers.1.ffn.down.weight", "token_embedding.weight", "output.weight"} {
		want := succeeds(t, "cat", merged, "bf16/"+tensor)
		if got := succeeds(t, "cat", gguf, "bf16/"+tensor, "--lora", adapter); got != want {
			t.Errorf("%s of the GGUF file has other numbers", tensor)
		}
		if want == succeeds(t, "cat", gguf, "bf16/"+tensor) {
			t.Errorf("%s is not changed", tensor)
		}
	}
	text := succeeds(t, "info", adapter)
	if !strings.Contains(text, "lora of rank 4, alpha 10") || !strings.Contains(text, "self_attn.q_proj, mlp.down_proj, model.embed_tokens, lm_head") {
		t.Error(text)
	}
}

// What is no adapter, or cannot be read as one, is one clear line.
func TestLoRARefusals(t *testing.T) {
	base := loraCase + "base"
	mlx, pickle := t.TempDir(), t.TempDir()
	for path, text := range map[string]string{mlx + "/adapter_config.json": `{"A":1}`, mlx + "/adapters.npz": "PK", pickle + "/adapter_config.json": "{}", pickle + "/adapter_model.bin": "PK"} {
		must(t, os.WriteFile(path, []byte(text), 0o600))
	}
	for _, c := range []struct{ adapter, want string }{
		{base, "no adapter"},
		{loraCase + "none", "no such file"},
		{mlx, "adapters.npz"},
		{pickle, "adapter_model.bin is a pickle; save it as safetensors"},
		{loraCase + "adapter0:1e999", "no such file"},
		{"", "name an adapter"},
	} {
		code := 1
		if c.adapter == "" {
			code = 2
		}
		failsWith(t, code, []string{"info", base, "--lora", c.adapter}, c.want)
	}
	failsWith(t, 2, []string{"mount", "-f", testdata + "lora", t.TempDir(), "--lora", loraCase + "adapter0"}, "--lora is for one model")
	failsWith(t, 2, []string{"export", "--to-hf-cache", "org/name", "hf:org/name", "--lora", loraCase + "adapter0"}, "choose another name")
	for _, dir := range []string{"gguf", "hf", "mlx"} {
		if text := succeeds(t, "cat", loraCase+"adapter0", dir+"/tensorfs.json"); !strings.Contains(text, "an adapter: give it with --lora to its base") {
			t.Errorf("%s/ of an adapter: %s", dir, text)
		}
	}
}

// An adapter on a server is read from there, and afterwards without it.
func TestLoRARemote(t *testing.T) {
	apart(t)
	s := testweb.New(t)
	f, err := os.ReadFile(loraCase + "adapter0.gguf")
	must(t, err)
	s.Put("/adapter.gguf", strings.NewReader(string(f)))
	args := []string{"cat", loraCase + "base", "f16/" + loraTensor, "--lora"}
	want := succeeds(t, append(args, loraCase+"adapter0.gguf:0.5")...)
	if got := succeeds(t, append(args, s.URL+"/adapter.gguf:0.5")...); got != want {
		t.Error("other bytes of a remote adapter")
	}
	s.Reset()
	if got := succeeds(t, append(args, s.URL+"/adapter.gguf:0.5", "--offline")...); got != want || len(s.Requests()) > 0 {
		t.Errorf("offline: other bytes, or %d requests", len(s.Requests()))
	}
}

// An adapter that changes under a mount fails what needs it, and nothing else; status names it.
func TestLoRAChanges(t *testing.T) {
	dir := copied(t, loraCase)
	at := mounted(t, dir+"/base", "--lora", dir+"/adapter0:0.5")
	_, err := os.ReadFile(at + "/f16/" + loraTensor)
	must(t, err)
	f, err := os.OpenFile(dir+"/adapter0/adapter_model.safetensors", os.O_WRONLY, 0)
	must(t, err)
	_, err = f.WriteAt([]byte("x"), 30000)
	must(t, errors.Join(err, f.Close()))
	for path, want := range map[string]error{"f32/" + loraTensor: syscall.EIO, "bf16/layers.1.ffn.up.weight": syscall.EIO, "f16/output.weight": nil, "README": nil} {
		if _, err := os.ReadFile(at + "/" + path); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", path, err, want)
		}
	}
	st := statusOf(t, at)
	if st == nil || !strings.Contains(strings.Join(st.Changed, " "), "adapter0") || !strings.HasSuffix(st.Model, "/adapter0:0.5") {
		t.Errorf("status: %+v", st)
	}
}

// gguf/ of a base and adapters has what gguf/ of the merged directory has, which hf/ is.
func TestLoRAWhole(t *testing.T) {
	t.Parallel()
	for _, c := range []string{"plain-bf16-f32", "plain-f16-f16", "dora", "embed-save", "moe-nested", "stacked"} {
		dir := testdata + "lora/" + c
		args := []string{"--lora", dir + "/adapter0"}
		if c == "stacked" {
			args = append(args, "--lora", dir+"/adapter1:0.5", "--lora", dir+"/adapter2:-1")
		}
		out := filepath.Join(t.TempDir(), "out")
		succeeds(t, append([]string{"export", dir + "/base", out, "hf/*", "gguf/*", "mlx/*"}, args...)...)
		must(t, os.Remove(out+"/hf/tensorfs.json"))
		alone := fileIn(t, "model.gguf", out+"/hf", "gguf/model.gguf")
		for _, merged := range []string{out + "/gguf/model.gguf", out + "/mlx"} {
			if code, text, stderr := command("diff", merged, alone); code != 0 || strings.Contains(text, "close (") {
				t.Errorf("%s: %s differs from what is made of hf/: %s%s", c, filepath.Base(merged), text, stderr)
			}
		}
		if code, text, _ := command("diff", alone, dir+"/base"); code != 1 {
			t.Errorf("%s: nothing is changed: %s", c, text)
		}
	}
}

// What is rounded after the change is not exact, and the notes name the type; as F32 all is.
func TestLoRAExact(t *testing.T) {
	for _, c := range []struct {
		of, dir string
		more    []string
		note    string // "" for exact
	}{
		{"plain-bf16-f32", "hf", nil, "BF16"}, {"plain-bf16-f32", "mlx", nil, "BF16"}, {"plain-bf16-f32", "gguf", nil, "BF16"},
		{"plain-f16-f16", "hf", nil, "F16"}, {"plain-f16-f16", "gguf", nil, "F16"}, {"plain-bf16-f32", "gguf", []string{"--gguf-type", "f32"}, ""},
	} {
		for _, adapter := range []string{"adapter0", "adapter0:0"} {
			var said struct {
				Exact bool
				Notes []string
			}
			dir := testdata + "lora/" + c.of
			args := append([]string{"cat", dir + "/base", c.dir + "/tensorfs.json", "--lora", dir + "/" + adapter}, c.more...)
			must(t, json.Unmarshal([]byte(succeeds(t, args...)), &said))
			exact := c.note == "" || adapter != "adapter0"
			notes := strings.Join(said.Notes, "; ")
			if said.Exact != exact || !exact && !strings.Contains(notes, c.note) {
				t.Errorf("%v: exact is %v, notes %q", args, said.Exact, notes)
			}
		}
	}
}
