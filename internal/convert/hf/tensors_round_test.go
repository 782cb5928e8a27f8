package hf

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/convert"
	"github.com/tensorfs/tensorfs/internal/testing/testwhole"
	"github.com/tensorfs/tensorfs/views"
)

// TestRoundTrip makes a GGUF file of Hugging Face and MLX directories and the
// directory of that file: tensors have the names and the numbers that they had.
func TestRoundTrip(t *testing.T) {
	dirs, err := filepath.Glob(filepath.Join(tensorData, "whole-gguf", "*", "config.json"))
	if err != nil {
		t.Fatal(err)
	}
	tested := 0
	for _, config := range dirs {
		name := filepath.Base(filepath.Dir(config))
		t.Run(name, func(t *testing.T) {
			start := testwhole.Open(t, filepath.Dir(config))
			files := convert.GGUF(start, convert.Options{})
			if files.Reason != "" {
				t.Fatal(files.Reason)
			}
			path := filepath.Join(t.TempDir(), "model.gguf")
			if err := os.WriteFile(path, testwhole.Read(t, files.List[0].Data), 0o600); err != nil {
				t.Fatal(err)
			}
			back, err := hfTensors(testwhole.Open(t, path))
			if err != nil {
				t.Fatal(err)
			}
			tested++
			want := map[string]*tensorfs.Tensor{}
			for n, x := range released(t, start) {
				if !droppedNames.MatchString(n) || strings.HasPrefix(n, "model.layers.2.") && name != "deepseek3" {
					want[n] = x
				}
			}
			for _, s := range back.List {
				w := want[s.Name]
				if w == nil {
					if s.Name != "lm_head.weight" { // written twice where llama.cpp needs it
						t.Errorf("%s is new", s.Name)
					}
					continue
				}
				delete(want, s.Name)
				got := &tensorfs.Tensor{Name: s.Name, Source: s.Name, DType: s.DType, Shape: s.Shape, Data: s.Data}
				sameNumbers(t, got, w)
			}
			for n := range want {
				t.Errorf("%s is lost", n)
			}
		})
	}
	if tested < 15 {
		t.Errorf("only %d models went both ways", tested)
	}
}

// droppedNames are tensors that no GGUF file has; layer 2 is what predicts further tokens.
var droppedNames = regexp.MustCompile(`^cls\.|^pooler|position_ids$|^model\.layers\.2\..*|\.attn\.(masked_)?bias$|rotary_emb\.inv_freq$`)

// released returns the tensors of a directory by the names of the release.
func released(t testing.TB, m *tensorfs.Model) map[string]*tensorfs.Tensor {
	t.Helper()
	all := map[string]*tensorfs.Tensor{}
	if m.Format == "mlx" {
		r, err := hfTensors(m)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range r.List {
			all[s.Name] = &tensorfs.Tensor{Name: s.Name, Source: s.Name, DType: s.DType, Shape: s.Shape, Data: s.Data}
		}
		return all
	}
	for i := range m.Tensors {
		if x := &m.Tensors[i]; x.Quant == nil && x.Owner == "" {
			all[x.Source] = x
		} else if q := x.Quant; q != nil && q.Mode == "mxfp4" { // gpt-oss
			all[x.Source] = &tensorfs.Tensor{Name: x.Source, Source: x.Source, DType: x.DType, Shape: x.Shape, Data: x.Data}
			all[q.Scales.Source] = q.Scales
		}
	}
	return all
}

// sameNumbers compares bytes where the types are one, and numbers otherwise. Norms
// that a sum was rounded to may differ in the last digits.
func sameNumbers(t testing.TB, got, want *tensorfs.Tensor) {
	t.Helper()
	name := want.Source
	n, _ := tensorfs.Elements(got.Shape)
	if w, _ := tensorfs.Elements(want.Shape); n != w || len(got.Shape) != len(want.Shape) {
		t.Errorf("%s has the shape %v, want %v", name, got.Shape, want.Shape)
		return
	}
	if got.DType == want.DType {
		if !bytes.Equal(testwhole.Read(t, got.Data), testwhole.Read(t, want.Data)) {
			t.Errorf("the bytes of %s differ", name)
		}
		return
	}
	if want.DType == tensorfs.F16 { // rounded in one directory, and exact in the other
		d, err := views.Encode(got, tensorfs.F16)
		if err != nil {
			t.Error(name, err)
			return
		}
		got = &tensorfs.Tensor{DType: tensorfs.F16, Shape: got.Shape, Data: d}
	}
	x, err := views.Encode(got, tensorfs.F32)
	if err != nil {
		t.Error(name, err)
		return
	}
	y, err := views.Encode(want, tensorfs.F32)
	if err != nil {
		t.Error(name, err)
		return
	}
	a, b := testwhole.Read(t, x), testwhole.Read(t, y)
	differ := 0
	for i := range n {
		u, v := float32At(a, int(i)), float32At(b, int(i))
		if d := u - v; d != 0 && (d > 1e-6 || d < -1e-6 || !strings.Contains(name, "norm")) {
			t.Fatalf("%s of %s: number %d is %v, want %v", name, want.DType, i, u, v)
		} else if d != 0 {
			differ++
		}
	}
	if differ > int(n)/50 {
		t.Errorf("%d numbers of %s differ", differ, name)
	}
}
