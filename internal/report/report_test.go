package report

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/testing/testclient"
	"github.com/tensorfs/tensorfs/views/measure"
)

func floats(values []float32) tensorfs.Data {
	b := make([]byte, 0, 4*len(values))
	for _, v := range values {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
	}
	return tensorfs.Bytes(b)
}

// planted makes two models of 16 layers, with faults where faults is set: a column that stands out
// in ffn.down of layers 1, 2 and 14, a small attention.output in layer 11, zeros, a NaN, and in the
// second model a change of rank 4 in q and v of layers 4 to 10 and of full rank in ffn.gate of 13, a number for
// the zeros, and a NaN in ffn_norm of layer 5.
func planted(t *testing.T, faults bool) (list []Tensor) {
	t.Helper()
	const layers, width, wide = 16, 64, 160
	random := rand.New(rand.NewPCG(5, 6))
	add := func(name string, shape []int64, a, b []float32) {
		x := Tensor{Name: name, Type: "BF16", Shape: shape, Data: floats(a), Other: floats(b), Compared: true}
		d, err := measure.Compare(context.Background(), []measure.Pair{{A: x.Data, B: x.Other}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		x.Changed = &d[0]
		list = append(list, x)
	}
	for l := range layers {
		for _, k := range []struct {
			kind string
			o, i int
		}{{"attention.q", width, width}, {"attention.v", width, width}, {"attention.output", width, width}, {"ffn.gate", wide, width}, {"ffn.down", width, wide}, {"ffn_norm", 1, width}} {
			a := make([]float32, k.o*k.i)
			for i := range a {
				a[i] = float32(random.NormFloat64() * 0.02)
				if k.o == 1 {
					a[i] = 1 + a[i]
				}
			}
			if faults {
				switch {
				case k.kind == "ffn.down" && slices.Contains([]int{1, 2, 14}, l):
					for r := range k.o {
						a[r*k.i+37] *= 18
					}
				case k.kind == "attention.output" && l == 11:
					for i := range a {
						a[i] *= 0.02
					}
				case k.kind == "attention.output" && l == 12:
					clear(a)
				case k.kind == "ffn_norm" && l == 3:
					a[5] = float32(math.NaN())
				}
			}
			b := slices.Clone(a)
			switch {
			case !faults:
			case (k.kind == "attention.q" || k.kind == "attention.v") && l >= 4 && l <= 10:
				for range 4 {
					u, v := make([]float64, k.o), make([]float64, k.i)
					for i := range u {
						u[i] = random.NormFloat64()
					}
					for i := range v {
						v[i] = random.NormFloat64() * 0.004
					}
					for i := range b {
						b[i] += float32(u[i/k.i] * v[i%k.i])
					}
				}
			case k.kind == "attention.output" && l == 12:
				b[7] = 1
			case k.kind == "ffn_norm" && l == 5:
				b[7] = float32(math.NaN())
			case k.kind == "ffn.gate" && l == 13:
				for i := range b {
					b[i] += float32(random.NormFloat64() * 0.01)
				}
			}
			shape := []int64{int64(k.o), int64(k.i)}
			if k.o == 1 {
				shape = shape[1:]
			}
			add(fmt.Sprintf("layers.%d.%s.weight", l, k.kind), shape, a, b)
		}
	}
	emb := make([]float32, 200*width)
	for i := range emb {
		emb[i] = float32(random.NormFloat64() * 0.02)
	}
	add("token_embedding.weight", []int64{200, width}, emb, emb)
	return list
}

func made(t *testing.T, list []Tensor) *Report {
	t.Helper()
	r, err := Make(context.Background(), list, nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestFindings finds all that was planted, and nothing in models of Gaussian numbers.
func TestFindings(t *testing.T) {
	r := made(t, planted(t, true))
	var all []string
	for _, f := range r.Findings {
		all = append(all, f.Text)
		if !slices.ContainsFunc(r.Cells, func(c Cell) bool { return c.Name == f.Cell }) {
			t.Errorf("%q links to %q", f.Text, f.Cell)
		}
	}
	text := strings.Join(all, "\n")
	for _, want := range []string{
		"ffn_norm of layer 3 has 1 number that is NaN or infinite", "ffn_norm of layer 5 has 1 number that is NaN or infinite in the other model", "attention.output of layer 12 is zero throughout", "attention.output of layer 11 is 5", "ffn.down of layers 1, 2, 14: outlier column 37",
		"attention.q, attention.v of layers 4-10 differ by up to", "by rank 4 (effective 3.", "): as a merged LoRA does", "ffn.gate of layer 13 differs by", "by full rank", "attention.output of layer 12 differs, by rank 1",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not found:\n%s", want, text)
		}
	}
	if len(r.Findings) > mostFindings {
		t.Errorf("%d findings", len(r.Findings))
	}
	plain := planted(t, false)
	for i := range plain {
		plain[i].Compared = false
	}
	if r := made(t, plain); len(r.Findings) != 0 {
		t.Errorf("in a Gaussian model: %+v", r.Findings)
	}
}

// TestRankFindings: only singular values that a gap sets apart, and that are few for the shape, look like
// a merged LoRA.
func TestRankFindings(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for _, c := range []struct {
		rows, cols, rank int64 // rank 0: in full
		want             string
	}{
		{96, 64, 3, "by rank 3 (effective 2."},
		{96, 64, 0, "by full rank"},
		{32, 64, 0, "by an effective rank of 1"},
		{8, 64, 0, "by an effective rank of "},
		{8, 64, 2, "by rank 2 (effective 1."},
	} {
		a := make([]float32, c.rows*c.cols)
		for i := range a {
			a[i] = float32(random.NormFloat64() * 0.02)
		}
		b := slices.Clone(a)
		if c.rank == 0 {
			for i := range b {
				b[i] += float32(random.NormFloat64() * 0.001)
			}
		}
		for range c.rank {
			u := make([]float64, c.rows)
			for i := range u {
				u[i] = random.NormFloat64()
			}
			for j := range c.cols {
				v := random.NormFloat64() * 0.001
				for i := range c.rows {
					b[i*c.cols+j] += float32(u[i] * v)
				}
			}
		}
		x := Tensor{Name: "layers.0.attention.q.weight", Type: "F32", Shape: []int64{c.rows, c.cols}, Data: floats(a), Other: floats(b), Compared: true}
		d, err := measure.Compare(context.Background(), []measure.Pair{{A: x.Data, B: x.Other}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		x.Changed = &d[0]
		got := made(t, []Tensor{x}).Findings[1].Text
		if !strings.Contains(got, c.want) || strings.Contains(got, "LoRA") != (c.rank > 0) {
			t.Errorf("%d x %d, rank %d: %q, want %q", c.rows, c.cols, c.rank, got, c.want)
		}
	}
}

// TestPlaces: kinds and layers of canonical names.
func TestPlaces(t *testing.T) {
	for name, want := range map[string]Place{
		"layers.10.attention.q.weight": {"attention.q", 10}, "layers.0.ffn_norm.bias": {"ffn_norm.bias", 0}, "token_embedding.weight": {"token_embedding", -1},
		"vision.layers.3.ffn.up.weight": {"vision.ffn.up", 3}, "layers.2.experts.gate.weight": {"experts.gate", 2}, "x": {"x", -1}, "layers.99999999.a": {"layers.99999999.a", -1},
	} {
		if got := PlaceOf(name); got != want {
			t.Errorf("%s: %+v, want %+v", name, got, want)
		}
	}
	if s := Span([]int{4, 5, 6, 13, 1, 2}); s != "1, 2, 4-6, 13" {
		t.Error(s)
	}
}

// page writes the page of tensors.
func page(t *testing.T, list []Tensor, other string) (file string, r *Report) {
	t.Helper()
	r = made(t, list)
	r.Model, r.Other, r.Facts = "model's \"path\"", other, []string{"</script><b>facts</b>"}
	var b bytes.Buffer
	if err := r.WritePage(&b, "Weights of </title><script>window.planted = 1000</script>"); err != nil {
		t.Fatal(err)
	}
	file = filepath.Join(t.TempDir(), "page.html")
	if err := os.WriteFile(file, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return file, r
}

// hostile are names that try to be more than text.
var hostile = []string{"</script><script>window.planted = 1000</script>", `"><img src=x onerror="window.planted=1000">`, "\u202egpj.weight", "layers.1.</span>'\"&amp;.weight", "a\u2028b", strings.Repeat("long", 60)}

// TestPageText: whatever a model's names are, the page has one script of its own, and data that are
// JSON.
func TestPageText(t *testing.T) {
	var list []Tensor
	for i, name := range hostile {
		list = append(list, Tensor{Name: name, Type: "F32", Shape: []int64{2}, Data: floats([]float32{float32(i), 1})})
	}
	list = append(list, Tensor{Name: "layers.0.ids", Type: "I64", Shape: []int64{3}, Why: "integers </script>"})
	file, _ := page(t, list, "")
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count(b, []byte("<script")); n != 2 {
		t.Errorf("%d scripts", n)
	}
	_, rest, _ := strings.Cut(string(b), `id="data">`)
	text, _, _ := strings.Cut(rest, "</script>")
	var data struct{ Kinds []string }
	if err := json.Unmarshal([]byte(text), &data); err != nil || len(data.Kinds) != len(list) {
		t.Errorf("%v: %d kinds", err, len(data.Kinds))
	}
	for _, remote := range []string{"http:", "https:", "src=", "@import", "url("} {
		if i := bytes.Index(b[:bytes.Index(b, []byte(`id="data"`))], []byte(remote)); i >= 0 {
			t.Errorf("the page has %q", remote)
		}
	}
}

// TestPageSize: a page of 50,000 tensors is below 4 MB.
func TestPageSize(t *testing.T) {
	file, _ := page(t, many(), "")
	if st, err := os.Stat(file); err != nil || st.Size() > 4<<20 {
		t.Errorf("%d bytes, %v", st.Size(), err)
	}
}

func many() (list []Tensor) {
	one := floats([]float32{1, -2, 3, 4})
	for l := range 50 {
		for k := range 1000 {
			list = append(list, Tensor{Name: fmt.Sprintf("layers.%d.experts.%d.up.weight", l, k), Type: "BF16", Shape: []int64{2, 2}, Data: one})
		}
	}
	return list
}

// seen is Chromium's description of a page: see scripts/browser.
type seen struct {
	Requests, Problems, Findings, Tabs, Marked []string
	Title, Clicked, Right, Down, Background    string
	Cells, Made                                int
	Wide                                       bool
	Drawn                                      float64
}

// TestPageInBrowser looks at pages in Chromium: no request, no error, every tensor a cell, a card
// that follows clicks and arrows, both colour schemes, on a screen and on a phone.
func TestPageInBrowser(t *testing.T) {
	chromium := os.Getenv("CHROMIUM")
	if chromium == "" {
		chromium = "/usr/bin/chromium"
	}
	if _, err := exec.LookPath(chromium); err != nil {
		t.Skip("NOT TESTED: there is no Chromium here: scripts/setup installs it")
	}
	s := testclient.Start(t, "../../scripts/browser", "run.mjs", "playwright-core")
	look := func(file string, width int, scheme string) (x seen) {
		s.Do(t, map[string]any{"page": "file://" + file, "width": width, "height": 900, "scheme": scheme, "screenshot": os.Getenv("SCREENSHOT")}, &x)
		if len(x.Problems) > 0 {
			t.Errorf("%d %s: %q", width, scheme, x.Problems)
		}
		if len(x.Requests) != 1 || x.Requests[0] != "file://"+file {
			t.Errorf("requests %q", x.Requests)
		}
		if x.Wide {
			t.Errorf("%d %s: the page is wider than the window", width, scheme)
		}
		if x.Made != 0 {
			t.Errorf("%d elements came of names", x.Made)
		}
		return x
	}
	file, r := page(t, planted(t, true), "other")
	backgrounds := map[string]bool{}
	for _, width := range []int{1200, 390} {
		for _, scheme := range []string{"light", "dark"} {
			x := look(file, width, scheme)
			backgrounds[x.Background] = true
			if x.Cells != len(r.Cells) || len(x.Findings) != len(r.Findings) || len(x.Tabs) != 4 {
				t.Errorf("%d cells of %d, findings %q, tabs %q", x.Cells, len(r.Cells), x.Findings, x.Tabs)
			}
			if x.Clicked != "layers.0.attention.q.weight" || x.Right != "layers.1.attention.q.weight" || x.Down != "layers.1.attention.v.weight" {
				t.Errorf("a click shows %s, arrows %s and %s", x.Clicked, x.Right, x.Down)
			}
			if want := []string{"layers.5.ffn_norm.weight: NaN or infinite in the other model", "layers.12.attention.output.weight: zeros"}; slices.Compare(slices.Sorted(slices.Values(x.Marked)), slices.Sorted(slices.Values(want))) != 0 {
				t.Errorf("the map of differences marks %q", x.Marked)
			}
			if !strings.HasPrefix(x.Title, "Weights of </title><script>") {
				t.Errorf("title %q", x.Title)
			}
		}
	}
	if len(backgrounds) != 2 {
		t.Errorf("both schemes have %v", backgrounds)
	}
	var names []Tensor
	for i, name := range hostile {
		names = append(names, Tensor{Name: name, Type: "F32", Shape: []int64{2}, Data: floats([]float32{float32(i), 1})})
	}
	file, _ = page(t, names, "")
	if x := look(file, 390, "light"); x.Cells != len(names) {
		t.Errorf("%d cells of %d", x.Cells, len(names))
	}
	file, _ = page(t, many(), "")
	if x := look(file, 1200, "light"); x.Cells != 50_000 {
		t.Errorf("%d cells", x.Cells)
	}
}
