package compare

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/convert"
	"github.com/tensorfs/tensorfs/internal/convert/hf"
	"github.com/tensorfs/tensorfs/internal/testing/testclient"
	"github.com/tensorfs/tensorfs/internal/testing/testwhole"
)

const testdata = "../../testdata"

// write writes the files of a whole model, and opens them as a model of their own.
func write(t testing.TB, f *convert.Files) *tensorfs.Model {
	t.Helper()
	if f.Reason != "" {
		t.Fatal(f.Reason)
	}
	dir := t.TempDir()
	for _, x := range f.List {
		if err := os.WriteFile(filepath.Join(dir, filepath.Base(x.Path)), testwhole.Read(t, x.Data), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if len(f.List) == 1 {
		dir = filepath.Join(dir, filepath.Base(f.List[0].Path))
	}
	return testwhole.Open(t, dir)
}

// statuses compares two models, and counts what it comes to.
func statuses(t testing.TB, a, b *tensorfs.Model) (count map[Status]int, results []Result, notes []string) {
	t.Helper()
	models := Of(a, b)
	results, err := Compare(t.Context(), models.Pairs, Options{})
	if err != nil {
		t.Fatal(err)
	}
	count = map[Status]int{}
	for _, r := range results {
		count[r.Status]++
	}
	return count, results, models.Notes
}

// same fails unless both models have the same tensors, equal or, where allowed,
// close; from both sides.
func same(t *testing.T, a, b *tensorfs.Model, allowed ...Status) {
	t.Helper()
	for _, p := range [][2]*tensorfs.Model{{a, b}, {b, a}} {
		count, results, notes := statuses(t, p[0], p[1])
		good := count[Equal]
		for _, s := range allowed {
			good += count[s]
		}
		if good != len(results) || good < 8 {
			t.Errorf("%v, notes %q", count, notes)
			for _, r := range results {
				if r.Status != Equal {
					t.Logf("%s %s %+v %s", r.Name, r.Status, r.Difference, r.Reason)
				}
			}
		}
	}
}

// TestPair compares the two sides of a golden pair, which Ollama's converter made.
func TestPair(t *testing.T) {
	dir := filepath.Join(testdata, "pairs", "llama")
	hf, gguf := testwhole.Open(t, filepath.Join(dir, "hf")), testwhole.Open(t, filepath.Join(dir, "gguf", "llama.gguf"))
	same(t, hf, gguf)
	// Without the layout, q and k differ.
	gguf.Layout = "hf"
	if count, _, _ := statuses(t, hf, gguf); count[Different] != 4 || count[Equal] != 17 {
		t.Errorf("as stored: %v", count)
	}
}

// TestGGUFOfHuggingFace compares models with GGUF files made from them, which other tests compare
// with llama.cpp's converter. Only tensors that are rounded to F16 may be merely close.
func TestGGUFOfHuggingFace(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(testdata, "whole-gguf", "*", "config.json"))
	if err != nil || len(files) < 15 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		t.Run(filepath.Base(filepath.Dir(file)), func(t *testing.T) {
			m := testwhole.Open(t, filepath.Dir(file))
			f := convert.GGUF(m, convert.Options{})
			if f.Exact {
				same(t, m, write(t, f))
			} else {
				same(t, m, write(t, f), Close)
			}
		})
	}
}

// TestHuggingFaceOfGGUF is the other way round, over the tables of internal/convert/hf.
func TestHuggingFaceOfGGUF(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(testdata, "whole-hf", "models", "*.gguf.gz"))
	if err != nil || len(files) < 8 {
		t.Fatal(files, err)
	}
	compared := 0
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".gguf.gz")
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "model.gguf")
			if err := os.WriteFile(path, testclient.Unpack(t, file), 0o644); err != nil {
				t.Fatal(err)
			}
			m := testwhole.Open(t, path)
			f := hf.HF(m, convert.Options{})
			if want := name == "bitnet.tq2_0" || name == "whisper.q5_0"; (f.Reason != "") != want {
				t.Errorf("there is no hf/: %q", f.Reason)
			}
			if f.Reason == "" {
				same(t, m, write(t, f), Close)
				compared++
			}
		})
	}
	if compared < 5 {
		t.Errorf("only %d models were compared", compared)
	}
}
