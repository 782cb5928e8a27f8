package convert

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/gguf"
	"github.com/tensorfs/tensorfs/internal/convert/internal/settings"
	"github.com/tensorfs/tensorfs/internal/convert/preset"
	"github.com/tensorfs/tensorfs/internal/testing/testwhole"
)

const testdata = "../../testdata"

// open opens a model and reads its settings.
func open(t testing.TB, path string) (*tensorfs.Model, settings.Fields) {
	t.Helper()
	m := testwhole.Open(t, path)
	cfg, err := settings.Read(m, "config.json")
	if err != nil {
		t.Fatal(err)
	}
	return m, cfg
}

// line is a tensor as the golden tables have it: type, ne, bytes and hash.
func line(t testing.TB, s gguf.Stored) string {
	t.Helper()
	ne := make([]string, 0, len(s.Shape))
	for _, n := range slices.Backward(s.Shape) {
		ne = append(ne, fmt.Sprint(n))
	}
	return strings.Join([]string{s.DType.String(), strings.Join(ne, "x"), fmt.Sprint(s.Data.Size()), testwhole.Sum(t, s.Data)}, " ")
}

// lines returns the lines of all tensors, by name, and the names in order.
func lines(t testing.TB, list []gguf.Stored) (map[string]string, []string) {
	t.Helper()
	got, names := map[string]string{}, []string(nil)
	for _, s := range list {
		got[s.Name] = line(t, s)
		names = append(names, s.Name)
	}
	if len(got) != len(list) {
		t.Errorf("%d tensors have %d names", len(list), len(got))
	}
	return got, names
}

// TestTensors compares with the tensors that llama.cpp's converter writes.
func TestTensors(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(testdata, "whole-gguf", "expected", "*.tensors.tsv"))
	if err != nil || len(files) < 20 {
		t.Fatal(files, err)
	}
	tested := 0
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".tensors.tsv")
		dir := filepath.Join(testdata, "whole-gguf", name)
		if mlx, ok := strings.CutPrefix(name, "models-mlx."); ok {
			dir = testwhole.MLX(t, mlx)
		}
		tested++
		t.Run(name, func(t *testing.T) {
			m, cfg := open(t, dir)
			want, exact := map[string]string{}, true
			for _, r := range testwhole.Table(t, file) {
				want[r[0]] = strings.Join(r[1:5], " ")
				exact = exact && !strings.Contains(strings.Join(r, " "), "rounded")
			}
			list, notes, err := tensors(m, cfg, Options{}, 0, preset.Model{Architecture: m.Architecture})
			if err != nil {
				t.Fatal(err)
			}
			got, names := lines(t, list)
			testwhole.Same(t, got, want)
			if notes.Exact != exact || exact != (len(notes.Notes) == 0) {
				t.Errorf("exact is %v, want %v: %q", notes.Exact, exact, notes.Notes)
			}
			total := 0
			for n := range maps.Values(notes.Types) {
				total += n
			}
			if total != len(list) {
				t.Errorf("%v are not %d tensors", notes.Types, len(list))
			}
			if names[0] != "token_embd.weight" || !inOrder(names) {
				t.Errorf("layers are not in order: %q", names)
			}
			if want, ok := fileType(t, name); ok && notes.FileType != want {
				t.Errorf("the file is of type %d, want %d", notes.FileType, want)
			}
			if rows := fmt.Sprint(embeddingRows(m)); !strings.HasSuffix(strings.Fields(want["token_embd.weight"])[1], "x"+rows) {
				t.Errorf("the embedding has %s rows", rows)
			}
		})
	}
	if tested < 26 {
		t.Errorf("only %d of the models are there", tested)
	}
}

// fileType returns the general.file_type that a model must have.
func fileType(t testing.TB, name string) (uint32, bool) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(testdata, "whole-gguf", "expected", name+".meta.json"))
	if err != nil {
		return 0, false // models-mlx have none
	}
	var meta map[string]struct{ Value any }
	if err := json.Unmarshal(b, &meta); err != nil {
		t.Fatal(err)
	}
	n, ok := meta["general.file_type"].Value.(float64)
	if !ok {
		t.Errorf("%s has no general.file_type", name)
	}
	return uint32(n), ok
}

// inOrder reports whether no layer comes after a later one.
func inOrder(names []string) bool {
	last := -1
	for _, name := range names {
		n := -1
		if _, err := fmt.Sscanf(name, "blk.%d.", &n); err != nil {
			if last >= 0 {
				last = 1 << 20
			}
			continue
		}
		if n < last {
			return false
		}
		last = n
	}
	return true
}

// TestQuantised compares tensors with the output of llama-quantize --pure.
func TestQuantised(t *testing.T) {
	types := map[string]tensorfs.DType{"q8_0": tensorfs.Q8_0, "q4_0": tensorfs.Q4_0}
	want := map[[2]string]map[string]string{}
	for _, r := range testwhole.Table(t, filepath.Join(testdata, "whole-gguf", "quantised.tsv")) {
		c := [2]string{r[0], r[1]}
		if want[c] == nil {
			want[c] = map[string]string{}
		}
		want[c][r[2]] = strings.Join(r[3:6], " ")
	}
	if len(want) < 20 {
		t.Fatal(len(want), "cases")
	}
	for c, want := range want {
		t.Run(c[0]+" "+c[1], func(t *testing.T) {
			m, cfg := open(t, filepath.Join(testdata, "whole-gguf", c[0]))
			list, notes, err := tensors(m, cfg, Options{Quantise: pure(types[c[1]])}, 0, preset.Model{Architecture: m.Architecture})
			if err != nil {
				t.Fatal(err)
			}
			got, _ := lines(t, list)
			for name, l := range got {
				f := strings.Fields(l)
				got[name] = f[0] + " " + f[2] + " " + f[3]
			}
			testwhole.Same(t, got, want)
			if notes.Exact || len(notes.Notes) == 0 {
				t.Error("nothing says that numbers are rounded")
			}
		})
	}
}
