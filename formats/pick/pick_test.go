package pick_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs/formats/pick"
	"github.com/tensorfs/tensorfs/internal/testing/testlimit"
)

// shown is a selection as the table writes it: ":WORD" or "/PATH".
func shown(s pick.Select) string {
	switch {
	case s.Word != "":
		return ":" + s.Word
	case s.Path != "":
		return "/" + s.Path
	}
	return ""
}

// TestModel has listings as they are found, and what they have.
func TestModel(t *testing.T) {
	quants := []string{"README.md", "Tiny-Q4_K_M.gguf", "Tiny-Q4_K_S.gguf", "Tiny-Q8_0.gguf", "Tiny-UD-Q8_0.gguf", "mmproj-F16.gguf", "Tiny-F16.gguf"}
	shards := []string{"BF16/Big-BF16-00001-of-00002.gguf", "BF16/Big-BF16-00002-of-00002.gguf", "Q8_0/Big-Q8_0-00002-of-00002.gguf"}
	dots := []string{"llama-2-7b.Q4_0.gguf", "llama-2-7b.Q5_K_M.gguf", "config.json"}
	pipeline := []string{"model_index.json", "unet/config.json", "unet/diffusion_pytorch_model.safetensors", "vae/config.json"}
	for _, x := range []struct {
		name, sel string // sel: ":SELECT", or "/PATH"
		files     []string
		want      string // the path, or how the refusal begins
		example   string
	}{
		{"nothing", "", nil, "it has no GGUF file and no safetensors", ""},
		{"text", "", []string{"README.md", "tokenizer.json"}, "it has no GGUF file and no safetensors", ""},
		{"directory", "", []string{"config.json", "model.safetensors"}, ".", ""},
		{"directory of shards", "", []string{"config.json", "model.safetensors.index.json"}, ".", ""},
		{"directory before GGUF", "", []string{"config.json", "x.safetensors", "a.gguf", "b.gguf"}, ".", ""},
		{"config alone", "", []string{"config.json"}, ".", ""},
		{"safetensors alone", "", []string{"model.safetensors"}, ".", ""},
		{"safetensors of parts", "", []string{"unet/model.safetensors", "a.gguf"}, "a.gguf", ""},
		{"GGUF with a config", "", []string{"config.json", "a.gguf"}, "a.gguf", ""},
		{"both", "", []string{"model.safetensors", "a.gguf"}, "it has safetensors without config.json, and GGUF models: a", ":a"},
		{"one GGUF", "", []string{"a.gguf", "README.md"}, "a.gguf", ""},
		{"below", "", []string{"x/a.gguf"}, "x/a.gguf", ""},
		{"with a projector", "", []string{"mmproj-a.gguf", "a.gguf", "imatrix.gguf"}, "a.gguf", ""},
		{"with a projector called after it", "", []string{"a-MMPROJ-f16.gguf", "a-f16.gguf", "Imatrix_x.gguf"}, "a-f16.gguf", ""},
		{"only a projector", "", []string{"mmproj-a.gguf"}, "mmproj-a.gguf", ""},
		{"only what belongs to models", "", []string{"mmproj-a.gguf", "imatrix.gguf"}, "it has 2 GGUF models: imatrix, mmproj-a", ":imatrix"},
		{"made with a matrix", "", []string{"a-imatrix-Q4.gguf", "a-Q4.gguf"}, "it has 2 GGUF models: a-Q4, imatrix-Q4", ":a-Q4"},
		{"one set", "", shards[:2], shards[0], ""},
		{"half a set", "", shards[1:2], shards[1], ""},
		{"two sets", "", shards, "it has 2 GGUF models: BF16, Q8_0", ":BF16"},
		{"sets of two counts", "", []string{"m-00001-of-00002.gguf", "m-00002-of-00003.gguf"}, "it has 2 GGUF models: m-00001-of-00002.gguf, m-00002-of-00003.gguf", "/m-00001-of-00002.gguf"},
		{"several", "", quants, "it has 5 GGUF models: F16, Q4_K_M, Q4_K_S, Tiny-Q8_0, UD-Q8_0", ":F16"},
		{"several with a config", "", dots, "it has 2 GGUF models: Q4_0, Q5_K_M", ":Q4_0"},
		{"a word", ":Q4_K_M", quants, "Tiny-Q4_K_M.gguf", ""},
		{"in lower case", ":q4_k_m", quants, "Tiny-Q4_K_M.gguf", ""},
		{"after a dot", ":q5_k_m", dots, "llama-2-7b.Q5_K_M.gguf", ""},
		{"two words", ":ud-q8_0", quants, "Tiny-UD-Q8_0.gguf", ""},
		{"of two", ":Q8_0", quants, `"Q8_0" is part of the names of 2 GGUF models: Tiny-Q8_0, UD-Q8_0`, ":Tiny-Q8_0"},
		{"part of two", ":Q4_K", quants, `"Q4_K" is part of the names of 2 GGUF models: Q4_K_M, Q4_K_S`, ":Q4_K_M"},
		{"part of one", ":Q5_K", dots, "llama-2-7b.Q5_K_M.gguf", ""},
		{"a whole name", ":a-Q8", []string{"a-Q8.gguf", "x-a-Q8.gguf"}, "a-Q8.gguf", ""},
		{"a word before its part", ":Q4_K", []string{"m-Q4_K.gguf", "m-Q4_K_M.gguf"}, "m-Q4_K.gguf", ""},
		{"no part", ":Q4_", quants, `it has no GGUF model "Q4_", only F16, Q4_K_M`, ":F16"},
		{"no word", ":K_M4", quants, `it has no GGUF model "K_M4", only F16, Q4_K_M, Q4_K_S, Tiny-Q8_0, UD-Q8_0, mmproj-F16`, ":F16"},
		{"of a model before its projector", ":F16", quants, "Tiny-F16.gguf", ""},
		{"of the projector", ":mmproj", quants, "mmproj-F16.gguf", ""},
		{"a word of a set", ":bf16", shards, shards[0], ""},
		{"a word beside safetensors", ":Q4_0", append([]string{"model.safetensors"}, dots...), "llama-2-7b.Q4_0.gguf", ""},
		{"pipeline", "", pipeline, "it is a diffusers pipeline with the parts unet", "/unet"},
		{"parts", "", pipeline[1:], "it has no model itself, but directories with models: unet", "/unet"},
		{"parts without weights", "", []string{"a/b/x.safetensors", "a/config.json", "model_index.json"}, "it has no GGUF file and no safetensors", ""},
		{"a word without GGUF", ":Q4_0", pipeline, "it has no GGUF file", ""},
		{"a letter of Unicode", ":Q4", []string{"ä-Q4.gguf", "Q4ä.gguf"}, "ä-Q4.gguf", ""},
		{"a file", ":Tiny-Q8_0.gguf", quants, "Tiny-Q8_0.gguf", ""},
		{"a file as path", "/Tiny-Q8_0.gguf", quants, "Tiny-Q8_0.gguf", ""},
		{"any file", "/README.md", quants, "README.md", ""},
		{"a shard", "/" + shards[1], shards, shards[1], ""},
		{"a part", "/unet", pipeline, "unet", ""},
		{"a part with slash", ":unet/", pipeline, "unet", ""},
		{"half a part", "/un", pipeline, "it has no file un", ""},
		{"no file", "/vea/x.safetensors", pipeline, "it has no file vea/x.safetensors", ""},
	} {
		t.Run(x.name, func(t *testing.T) {
			sel := pick.Select{}
			if path, ok := strings.CutPrefix(x.sel, "/"); ok {
				sel.Path = path
			} else if word, ok := strings.CutPrefix(x.sel, ":"); ok {
				sel = pick.ParseSelect(word)
			}
			back := slices.Clone(x.files)
			slices.Reverse(back)
			for _, files := range [][]string{x.files, back} {
				got, refusal := pick.Model(files, sel)
				if refusal == nil {
					if got != x.want {
						t.Errorf("%q, want %q", got, x.want)
					}
					continue
				}
				if got != "" || !strings.HasPrefix(refusal.Problem(true), x.want) || shown(refusal.Example(true)) != x.example {
					t.Errorf("%q: %s, such as %q; want %s, %q", got, refusal.Problem(true), shown(refusal.Example(true)), x.want, x.example)
				}
				if x.example == "" {
					continue
				}
				// What it advises is understood.
				first := strings.TrimPrefix(x.example, "/")
				if len(refusal.Choices) > 0 {
					first = refusal.Choices[0].Path
				}
				if path, refusal := pick.Model(files, refusal.Example(true)); refusal != nil || path != first {
					t.Errorf("%s gives %q, %v", x.example, path, refusal)
				}
			}
		})
	}
}

// TestRefusal tests refusals outside the table: many models, the names of a directory, and near
// paths.
func TestRefusal(t *testing.T) {
	var files []string
	for i := range 12 {
		files = append(files, fmt.Sprintf("m-Q%02d.gguf", i))
	}
	_, r := pick.Model(files, pick.Select{})
	if got := r.Problem(true); got != "it has 12 GGUF models: Q00, Q01, Q02, Q03, Q04, Q05, Q06, Q07 and 4 more" {
		t.Error(got)
	}
	if got := r.Problem(false) + shown(r.Example(false)); got != "it has 12 GGUF models: m-Q00.gguf, m-Q01.gguf, m-Q02.gguf, m-Q03.gguf, m-Q04.gguf, m-Q05.gguf, m-Q06.gguf, m-Q07.gguf and 4 more/m-Q00.gguf" {
		t.Error(got)
	}
	_, r = pick.Model([]string{"unet/a.safetensors", "vae/a.safetensors", "vae/config.json"}, pick.Select{Path: "vea"})
	if got := r.Near(); !slices.Equal(got, []string{"vae"}) {
		t.Errorf("near %q", got)
	}
	if _, r = pick.Model([]string{"a\x1b.gguf", "b\n.gguf"}, pick.Select{}); strings.ContainsAny(r.Problem(true), "\x1b\n") {
		t.Errorf("%q", r.Problem(true))
	}
}

// TestManyFiles has as many files as a listing may have, with the longest names.
func TestManyFiles(t *testing.T) {
	files := make([]string, 100_000)
	for i := range files {
		files[i] = fmt.Sprintf("%s%05d.gguf", strings.Repeat("x", 240), i)
	}
	for _, sel := range []pick.Select{{}, {Word: "x"}, {Word: strings.Repeat("x", 200)}, {Path: files[7][1:]}} {
		testlimit.Work(t, 500, func() {
			_, r := pick.Model(files, sel)
			if s := r.Problem(true) + shown(r.Example(true)) + strings.Join(r.Near(), ""); len(s) > 3000 {
				t.Errorf("%d bytes", len(s))
			}
		})
	}
}

func FuzzModel(f *testing.F) {
	f.Add("config.json\nmodel.safetensors", "")
	f.Add("Tiny-Q4_K_M.gguf\nTiny-Q8_0.gguf\nmmproj.gguf", "q8_0")
	f.Add("a/m-00001-of-00002.gguf\na/m-00002-of-00002.gguf", "a/")
	f.Fuzz(func(t *testing.T, list, sel string) {
		files := strings.FieldsFunc(list, func(c rune) bool { return c == '\n' })
		for i := range files {
			files[i] = "x" + files[i] // no path is absolute
		}
		path, r := pick.Model(files, pick.ParseSelect(sel))
		if (r == nil) == (path == "") {
			t.Fatalf("%q and %v", path, r)
		}
		if r == nil {
			return
		}
		for _, words := range []bool{true, false} {
			if s := r.Problem(words); s == "" || strings.ContainsAny(s, "\n\x1b") {
				t.Fatalf("problem %q", s)
			}
			if e := r.Example(words); e != (pick.Select{}) {
				if got, r2 := pick.Model(files, e); r2 != nil || e.Word != "" && got != r.Choices[0].Path || e.Path != "" && got != e.Path {
					t.Fatalf("%+v gives %q, %v", e, got, r2)
				}
			}
		}
		r.Near()
	})
}
