package convert_test

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/imatrix"
	"github.com/tensorfs/tensorfs/internal/convert"
	"github.com/tensorfs/tensorfs/internal/convert/preset"
	"github.com/tensorfs/tensorfs/internal/testing/testwhole"
)

// TestPresets compares presets with the tensors that llama-quantize writes of the same models. Tensors that it
// refuses to quantise again stay as they are here, with a note.
func TestPresets(t *testing.T) { testPresets(t, "quantised.tsv", 250, "") }

// TestImportance holds both forms of an importance matrix to the tensors that llama-quantize writes with it.
func TestImportance(t *testing.T) {
	for _, form := range []string{"gguf", "dat"} {
		t.Run(form, func(t *testing.T) { testPresets(t, "quantised-imatrix.tsv", 12, form) })
	}
}

func testPresets(t *testing.T, golden string, cases int, form string) {
	want := goldenPresets(t, golden)
	if len(want) < cases {
		t.Fatalf("%d cases", len(want))
	}
	if form == "dat" { // the other form has the same values, and these take the longest
		maps.DeleteFunc(want, func(c [2]string, _ map[string]string) bool { return c[1] < "IQ4" && c[1] > "IQ" })
	}
	if testing.Short() {
		t.Run("all presets", func(t *testing.T) { t.Skip("not in the short form: it quantises for seconds") })
		maps.DeleteFunc(want, func(c [2]string, _ map[string]string) bool { return c[1] != "Q4_K_M" && c[1] != "IQ4_XS" })
	}
	for c, want := range want {
		t.Run(c[0]+" "+c[1], func(t *testing.T) {
			t.Parallel()
			path := testdata + "whole-gguf/" + c[0]
			if _, err := os.Stat(path); err != nil {
				path = filepath.Join(testdata, "quantise", "models", c[0]+".gguf")
			}
			p, err := preset.Named(c[1])
			if err != nil {
				t.Fatal(err)
			}
			opts := convert.Options{Quantise: &preset.Options{Preset: p}}
			if form != "" {
				if opts.Importance, err = imatrix.Open(tensorfs.Bytes(read(t, "quantise/imatrix/"+c[0]+".imatrix."+form))); err != nil {
					t.Fatal(err)
				}
			}
			f := convert.GGUF(testwhole.Open(t, path), opts)
			if strings.HasSuffix(want["-"], "requires an imatrix!") {
				if !strings.HasPrefix(f.Reason, "blk.0.attn_k.weight would be ") || !strings.Contains(f.Reason, "--imatrix FILE") {
					t.Errorf("it is made: %s", f.Describe())
				}
				return
			}
			if strings.HasPrefix(want["-"], "error") {
				if f.Types[p.Type.String()] == 0 && !strings.Contains(strings.Join(f.Notes, "\n"), "quantised already") {
					t.Errorf("nothing says what stays as it is: %s", f.Describe())
				}
				return
			}
			file := testwhole.Parse(t, one(t, f))
			if v := file.Value("general.file_type"); v != p.FileType {
				t.Errorf("general.file_type is %v, not %d", v, p.FileType)
			}
			comparePreset(t, file.Tensors, want)
		})
	}
}

// goldenPresets returns the tensors that llama-quantize wrote: type, bytes and SHA-256 by their names, of models
// and presets.
func goldenPresets(t *testing.T, golden string) map[[2]string]map[string]string {
	t.Helper()
	want := map[[2]string]map[string]string{}
	for i, line := range strings.Split(strings.TrimSpace(string(read(t, "quantise/presets/"+golden))), "\n") {
		f := strings.Split(line, "\t") // model, preset, tensor, type, bytes, SHA-256
		if i == 0 {
			continue
		}
		c := [2]string{f[0], f[1]}
		if want[c] == nil {
			want[c] = map[string]string{}
		}
		want[c][f[2]] = strings.Join(f[3:], " ")
	}
	return want
}

func comparePreset(t *testing.T, tensors []tensorfs.Tensor, want map[string]string) {
	t.Helper()
	for _, x := range tensors {
		b := testwhole.Read(t, x.Data)
		got := fmt.Sprintf("%s %d %x", x.DType, len(b), sha256.Sum256(b))
		if want[x.Source] == "" && x.DType.String() == "F32" {
			continue
		}
		if !strings.EqualFold(got, want[x.Source]) {
			t.Errorf("%s %v is %s, want %s", x.Source, x.Shape, got, want[x.Source])
		}
		delete(want, x.Source)
	}
	if len(want) > 0 {
		t.Errorf("not made: %v", want)
	}
}

// TestMixOfGolden gives a model the types of a file of llama-quantize, which has the bytes of that file then, whatever
// the preset for other weights is.
func TestMixOfGolden(t *testing.T) {
	matrix, err := imatrix.Open(tensorfs.Bytes(read(t, "quantise/imatrix/dense256.imatrix.gguf")))
	if err != nil {
		t.Fatal(err)
	}
	m := testwhole.Open(t, filepath.Join(testdata, "quantise/models/dense256.gguf"))
	q2, err := preset.Named("q2_k")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		golden, preset string
		importance     *imatrix.Matrix
	}{{"quantised.tsv", "Q4_K_M", nil}, {"quantised-imatrix.tsv", "IQ1_S", matrix}} {
		want := goldenPresets(t, c.golden)[[2]string{"dense256", c.preset}]
		other := *m
		other.Tensors = nil
		for _, x := range m.Tensors {
			if name, _, ok := strings.Cut(want[x.Source], " "); ok {
				for _, p := range preset.All {
					if strings.EqualFold(p.Type.String(), name) {
						x.DType = p.Type
					}
				}
			}
			other.Tensors = append(other.Tensors, x)
		}
		mix, err := convert.Mix(&other, c.preset+".gguf")
		if err != nil || len(mix.Types) != len(want) {
			t.Fatalf("%d types of %d, %v", len(mix.Types), len(want), err)
		}
		opts := convert.Options{Quantise: &preset.Options{Preset: q2, From: mix}, Importance: c.importance}
		comparePreset(t, testwhole.Parse(t, one(t, convert.GGUF(m, opts))).Tensors, want)
		if opts.Importance = nil; c.importance != nil {
			if f := convert.GGUF(m, opts); !strings.HasPrefix(f.Reason, "blk.0.attn_k.weight would be IQ1_S, ") {
				t.Errorf("without an importance matrix: %s", f.Describe())
			}
		}
	}
}
