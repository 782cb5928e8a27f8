package names

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

var layouts = map[string]Layout{"gguf": GGUF, "hf": HF, "ollama": Ollama}

// TestGolden maps the tensor lists of whole models in testdata/names.
func TestGolden(t *testing.T) {
	paths, err := filepath.Glob("../../testdata/names/*.txt")
	if err != nil || len(paths) < 40 {
		t.Fatalf("%d lists, %v", len(paths), err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txt"), func(t *testing.T) {
			layout, arch, src, want := readGolden(t, path)
			for i, got := range Map(layout, arch, src) {
				w := want[i]
				if w.Name == "" {
					w = Result{Name: Escape(src[i].Name)}
				} else {
					w.Mapped = true
					switch {
					case w.Role != "":
						w.Stem = strings.TrimSuffix(w.Name, "."+w.Role)
					case !strings.HasSuffix(w.Name, ".bias"):
						w.Stem = strings.TrimSuffix(w.Name, ".weight")
					}
				}
				if got != w {
					t.Errorf("%s: got %+v, want %+v", src[i].Name, got, w)
				}
			}
		})
	}
}

// readGolden reads a list: source, shape, canonical name and role a line.
func readGolden(t *testing.T, path string) (layout Layout, arch string, src []Source, want []Result) {
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	nothing := func(s string) string { return strings.TrimPrefix(s, "-") }
	for line := range strings.Lines(string(b)) {
		w := strings.Fields(line)
		switch {
		case len(w) == 5 && w[1] == "layout" && w[3] == "arch":
			layout, arch = layouts[w[2]], nothing(w[4])
		case len(w) == 4 && w[0] != "#":
			s := Source{Name: w[0]}
			if w[1] != "-" {
				for d := range strings.SplitSeq(w[1], "x") {
					n, err := strconv.ParseInt(d, 10, 64)
					if err != nil {
						t.Fatal(err)
					}
					s.Shape = append(s.Shape, n)
				}
			}
			src = append(src, s)
			want = append(want, Result{Name: nothing(w[2]), Role: nothing(w[3])})
		}
	}
	if len(src) == 0 {
		t.Fatalf("%s: no tensors", path)
	}
	return layout, arch, src, want
}

// TestSameModel compares models that different files spell differently.
func TestSameModel(t *testing.T) {
	for _, group := range [][]string{
		{"gguf-whisper", "hf-whisper", "hf-whisper-openai", "hf-whisper-mlx"},
		{"hf-gemma3-old", "hf-gemma3-new"},
		{"hf-llama-pair", "mlx-llama-bf16"},
	} {
		var first map[string]bool
		for _, name := range group {
			layout, arch, src, _ := readGolden(t, "../../testdata/names/"+name+".txt")
			set := map[string]bool{}
			for _, r := range Map(layout, arch, src) {
				set[r.Name] = true
			}
			if first == nil {
				first = set
			}
			for n := range first {
				if !set[n] {
					t.Errorf("%s lacks %s of %s", name, n, group[0])
				}
			}
			for n := range set {
				if !first[n] {
					t.Errorf("%s has %s, %s has not", name, n, group[0])
				}
			}
		}
	}
}
