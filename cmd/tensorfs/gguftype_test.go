package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/library"
	"github.com/tensorfs/tensorfs/formats/models"
	"github.com/tensorfs/tensorfs/internal/testing/testmodel"
)

// TestGGUFType holds what --gguf-type takes, and that it is refused where it would
// change nothing, before anything is written, made or mounted.
func TestGGUFType(t *testing.T) {
	f16, q4km, dir := ggufDir+"llama-xs.f16.gguf", ggufDir+"llama-xs.q4_k_m.gguf", testdata+"whole-gguf/llama3"
	convert := func(name, model string) (code int, stdout, stderr string) {
		return command("cat", "--gguf-type", name, model, "gguf/model.gguf")
	}
	for _, model := range []string{f16, dir} {
		for _, name := range []string{"q8_0", "q4_0"} {
			_, want, _ := convert(name, model)
			for _, spelled := range []string{strings.ToUpper(name), strings.ToUpper(name[:1]) + name[1:]} {
				if code, out, stderr := convert(spelled, model); code != 0 || stderr != "" || out != want || !strings.HasPrefix(out, "GGUF") {
					t.Errorf("%s of %s: exit code %d, %s", spelled, model, code, stderr)
				}
			}
		}
	}
	const advice = "; leave it out, name a model in F16, BF16 or F32, or add --requantise\n"
	for _, c := range []struct {
		name, model string
		code        int
		want        string
	}{
		{"q4_0", q8, 1, filepath.Base(q8) + ": --gguf-type q4_0 changes nothing: its weights are quantised already (Q8_0), and are not quantised again" + advice},
		{"F16", q4km, 1, filepath.Base(q4km) + ": --gguf-type f16 changes nothing: its weights are quantised already (Q5_0, Q8_0), and are not quantised again" + advice},
		{"Q8_0", splitTwo, 1, filepath.Base(splitTwo) + ": --gguf-type q8_0 changes nothing: its weights are Q8_0 already" + advice},
		{"f16", f16, 1, filepath.Base(f16) + ": --gguf-type f16 changes nothing: its weights are F16 already" + advice},
		{"q8_0", ggufDir + "kv.gguf", 1, "the model has no weights" + advice},
		{"q2_0", f16, 2, "--gguf-type: Q2_0 is not made here; llama-quantize makes it"},
		{"q4_k_n", f16, 2, `--gguf-type: llama-quantize has no preset "q4_k_n"; did you mean`},
		{"small", f16, 2, `--gguf-type: llama-quantize has no preset "small"; these are made here: IQ1_S, `},
	} {
		place := filepath.Join(t.TempDir(), "place")
		for _, args := range [][]string{
			{"cat", "--gguf-type", c.name, c.model, "gguf/model.gguf"},
			{"export", "--gguf-type", c.name, c.model, place, "gguf"},
			{"mount", "--gguf-type", c.name, c.model, place},
			{"mount", "-o", "gguf_type=" + c.name, c.model, place},
			{"info", "--gguf-type", c.name, c.model},
		} {
			code, out, stderr := command(args...)
			if code != c.code || out != "" || !strings.Contains(stderr, c.want) || strings.Count(stderr, "\n") != 1 {
				t.Errorf("%q: exit code %d, %q", args, code, stderr)
			}
			if _, err := os.Lstat(place); err == nil {
				t.Errorf("%q made %s", args, place)
			}
		}
	}
}

// TestGGUFTypeOfLibrary holds that models of a library that cannot be converted are
// given as they are stored, and say so.
func TestGGUFTypeOfLibrary(t *testing.T) {
	dir := t.TempDir()
	for name, from := range map[string]string{"a.gguf": q8, "b.gguf": ggufDir + "llama-xs.f16.gguf"} {
		b, err := os.ReadFile(from)
		must(t, err)
		must(t, testmodel.Write(dir, map[string][]byte{name: b}))
	}
	flags := &modelFlags{Options: models.Options{Convert: models.Convert{GGUFType: "Q4_0"}}}
	l, err := library.Open(dir, library.Options{})
	must(t, err)
	for i, want := range []string{"not converted to Q4_0: its weights are quantised already (Q8_0), and are not quantised again", "14 tensors are rounded to Q4_0"} {
		m := l.Now().Models[i]
		tree, err := flags.openListed(m)
		must(t, err)
		files := tree.Whole[0].Files()
		if len(files.Notes) == 0 || !strings.Contains(files.Notes[0], want) || !strings.Contains(string(files.Describe()), want) {
			t.Errorf("%s: %s", m.Call, files.Describe())
		}
		b := make([]byte, files.List[0].Data.Size())
		must(t, tensorfs.ReadFull(files.List[0].Data, b, 0))
		if stored, err := os.ReadFile(m.Path()); err != nil || (string(stored) == string(b)) != (i == 0) {
			t.Errorf("%s: %d bytes, %v", m.Call, len(b), err)
		}
		must(t, tree.Model.Close())
	}
}

// TestQuantiseFlags holds the flags beside --gguf-type.
func TestQuantiseFlags(t *testing.T) {
	t.Parallel()
	model, of := testdata+"quantise/models/dense256.gguf", testdata+"quantise/imatrix/dense256.imatrix.gguf"
	cat := func(flags ...string) (code int, stdout, stderr string) {
		return command(append(append([]string{"cat"}, flags...), model, "gguf/model.gguf")...)
	}
	made := map[string]string{} // by content
	for _, flags := range [][]string{
		{"--gguf-type", "q4_k_m"}, {"--gguf-type", "q4_k_m", "--pure"}, {"--gguf-type", "q4_k_m", "--tensor-type", "ffn_up=q8_0"},
		{"--gguf-type", "q4_k_m", "--imatrix", of}, {"--gguf-type", "q4_k_m", "--imatrix", of, "--tensor-type", "ATTN_q=q6_k", "--tensor-type", "ffn=q5_k"},
		{"--gguf-type", "iq2_xs", "--imatrix", of}, {"--gguf-type", "iq3_s", "--imatrix", of, "--tensor-type", "ffn_down=iq1_m"}, {"--gguf-type", "iq3_s"},
	} {
		code, out, stderr := cat(flags...)
		if code != 0 || stderr != "" || !strings.HasPrefix(out, "GGUF") || made[out] != "" {
			t.Errorf("%q: exit code %d, %s; the same as %s", flags, code, stderr, made[out])
		}
		if has := strings.Contains(out, "quantize.imatrix.file"); has != slices.Contains(flags, "--imatrix") {
			t.Errorf("%q: the keys name an importance matrix: %v", flags, has)
		}
		made[out] = strings.Join(flags, " ")
	}
	for _, c := range []struct {
		flags string
		code  int
		want  string
	}{
		{"--pure", 2, "give that flag too, such as --gguf-type q4_k_m"},
		{"--imatrix " + of, 2, "give that flag too"},
		{"--gguf-type q4_k --tensor-type ffn", 2, "--tensor-type ffn: want REGEX=TYPE"},
		{"--gguf-type q4_k --tensor-type ffn=q9", 2, `no type "q9" is made here`},
		{"--gguf-type q4_k --tensor-type ffn(=q8_0", 2, `"ffn(" is not a regular expression: missing closing )`},
		{"--gguf-type f16 --tensor-type ffn=q8_0", 2, "F16 has no other types"},
		{"--gguf-type IQ2_XS", 1, "--gguf-type iq2_xs: blk.0.attn_k.weight would be IQ2_XS, which llama-quantize makes only by an importance matrix, and there is no importance matrix; name one with --imatrix FILE, or another type with --tensor-type\n"},
		{"--gguf-type q4_k --tensor-type ffn_up=iq3_xxs", 1, "blk.0.ffn_up.weight would be IQ3_XXS"},
		{"--gguf-type q4_k --tensor-type token_embd=iq2_xs --imatrix " + of, 1, "IQ2_XS is made only by an importance matrix that has values of the tensor"},
		{"--gguf-type q4_k --imatrix none", 1, "none: no such file or directory"},
		{"--gguf-type q4_k --imatrix " + model, 1, "general.type does not say that it is an importance matrix"},
	} {
		if code, out, stderr := cat(strings.Fields(c.flags)...); code != c.code || out != "" || !strings.Contains(stderr, c.want) || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%s: exit code %d, %q, want %q", c.flags, code, stderr, c.want)
		}
	}
	// Of another model.
	code, _, stderr := command("cat", "--gguf-type", "q4_k_m", "--imatrix", of, ggufDir+"llama-xs.f16.gguf", "gguf/model.gguf")
	if code == 0 || !strings.Contains(stderr, "it is of another model") {
		t.Errorf("of another model: exit code %d, %s", code, stderr)
	}
}

// TestTensorTypesFrom holds that the types of another file make the file that --tensor-type of each would make, in any
// command that takes types, and what is refused.
func TestTensorTypesFrom(t *testing.T) {
	model := testdata + "quantise/models/dense256.gguf"
	other := fileIn(t, "x-UD-Q4_K_XL.gguf", "--gguf-type", "q4_k_m", "--tensor-type", "attn_q=q8_0", "--tensor-type", `blk\.0\.attn_v=f16`, model, "gguf/model.gguf")
	want, err := os.ReadFile(other)
	must(t, err)
	if got := succeeds(t, "cat", "--tensor-types-from", other, model, "gguf/model.gguf"); got != string(want) {
		t.Error("other bytes than the file whose types were asked for")
	}
	dir := t.TempDir()
	succeeds(t, "export", "--tensor-types-from", other, model, dir, "gguf")
	if got, err := os.ReadFile(filepath.Join(dir, "gguf/model.gguf")); err != nil || string(got) != string(want) {
		t.Errorf("export: %d bytes, %v", len(got), err)
	}
	// Another file at the same path has other types.
	must(t, os.WriteFile(other, []byte(succeeds(t, "cat", "--gguf-type", "q8_0", model, "gguf/model.gguf")), 0o600))
	failsWith(t, 1, []string{"export", "--tensor-types-from", other, model, dir, "gguf"}, "--tensor-types-from")
	notes, types := notesOf(t, "gguf", testdata+"architectures/gemma3-vl", "--tensor-types-from", other)
	if !strings.Contains(notes, "only x-UD-Q4_K_XL.gguf has output.weight, blk.6.attn_k.weight") || types["Q8_0"] == 0 {
		t.Errorf("%v: %s", types, notes)
	}
	if text := succeeds(t, "info", "--tensor-types-from", other, testdata+"architectures/gemma3-vl"); !strings.Contains(text, "43 of its 65 weights are here") {
		t.Error(text)
	}
	failsWith(t, 2, []string{"info", "--gguf-type", "all", "--tensor-types-from", other, model}, "leave --tensor-types-from out")
	t.Setenv("HF_HUB_CACHE", t.TempDir())
	failsWith(t, 1, []string{"cat", "--offline", "--tensor-types-from", "hf:acme/none", model, "gguf/model.gguf"}, "--tensor-types-from: hf:acme/none")
}
