package formats_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats"
	"github.com/tensorfs/tensorfs/internal/testing/testmodel"
	"github.com/tensorfs/tensorfs/views"
	"github.com/x448/float16"
)

// form is a way to store a model.
type form struct {
	name   string
	format string // that Open reports
	layout string
	// files returns what to write, by path, and the path to open.
	files func(l *testmodel.Logical) (map[string][]byte, string)
	// step is the distance of two codes of matrices in terms of the largest
	// value of a group; 0 where matrices are stored as floats.
	step float64
	// nameless marks forms without anything but tensors: no architecture, no
	// numbers of heads.
	nameless bool
}

var forms = func() (fs []form) {
	one := func(name string, b []byte) (map[string][]byte, string) { return map[string][]byte{name: b}, name }
	for _, q := range []struct {
		d    tensorfs.DType
		step float64
	}{{tensorfs.F32, 0}, {tensorfs.F16, 0}, {tensorfs.BF16, 0}, {tensorfs.Q8_0, 1. / 127}, {tensorfs.Q4_0, 1. / 7}} {
		for _, big := range []bool{false, true} {
			name := "GGUF " + q.d.String()
			if big {
				name += " big-endian"
			}
			fs = append(fs, form{name, "gguf", "gguf", func(l *testmodel.Logical) (map[string][]byte, string) {
				return one("model.gguf", l.AsGGUF(q.d, big).Bytes())
			}, q.step, false})
		}
	}
	fs = append(fs,
		form{"GGUF version 1", "gguf", "gguf", func(l *testmodel.Logical) (map[string][]byte, string) {
			g := l.AsGGUF(tensorfs.F16, false)
			g.Version = 1
			return one("v1.gguf", g.Bytes())
		}, 0, false},
		form{"GGUF version 2, aligned to pages", "gguf", "gguf", func(l *testmodel.Logical) (map[string][]byte, string) {
			g := l.AsGGUF(tensorfs.Q8_0, false)
			g.Version, g.Alignment = 2, 4096
			return one("v2.gguf", g.Bytes())
		}, 1. / 127, false},
		form{"GGUF in 3 shards", "gguf", "gguf", func(l *testmodel.Logical) (map[string][]byte, string) {
			return l.AsGGUF(tensorfs.Q8_0, false).Shards("model", 3), "model-00001-of-00003.gguf"
		}, 1. / 127, false},
		form{"GGUF by its second shard", "gguf", "gguf", func(l *testmodel.Logical) (map[string][]byte, string) {
			return l.AsGGUF(tensorfs.BF16, false).Shards("model", 2), "model-00002-of-00002.gguf"
		}, 0, false},
	)
	for _, d := range []tensorfs.DType{tensorfs.F32, tensorfs.F16, tensorfs.BF16} {
		fs = append(fs,
			form{"safetensors " + d.String(), "safetensors", "hf", func(l *testmodel.Logical) (map[string][]byte, string) {
				return one("weights.safetensors", testmodel.Safetensors(l.AsSafetensors(d), nil))
			}, 0, true},
			form{"Hugging Face " + d.String(), "huggingface", "hf", func(l *testmodel.Logical) (map[string][]byte, string) {
				return testmodel.HF(l.Config(), l.AsSafetensors(d), 1, [][2]string{{"format", "pt"}}), "."
			}, 0, false},
			form{"MLX plain " + d.String(), "mlx", "hf", func(l *testmodel.Logical) (map[string][]byte, string) {
				return testmodel.HF(l.Config(), l.AsSafetensors(d), 1, [][2]string{{"format", "mlx"}}), "."
			}, 0, false},
			form{"Ollama tensors " + d.String(), "ollama", "hf", func(l *testmodel.Logical) (map[string][]byte, string) {
				return ollama(l, l.AsSafetensors(d), "", 0)
			}, 0, false},
		)
	}
	fs = append(fs,
		form{"Hugging Face in 4 shards", "huggingface", "hf", func(l *testmodel.Logical) (map[string][]byte, string) {
			return testmodel.HF(l.Config(), l.AsSafetensors(tensorfs.BF16), 4, nil), "."
		}, 0, false},
		form{"Ollama with a GGUF layer", "ollama", "gguf", func(l *testmodel.Logical) (map[string][]byte, string) {
			return testmodel.Ollama("tiny", []testmodel.OllamaLayer{{Kind: "model", Content: l.AsGGUF(tensorfs.Q8_0, false).Bytes()}})
		}, 1. / 127, false},
	)
	for _, q := range []struct {
		bits, group, shards int
		scales              tensorfs.DType
	}{{4, 64, 1, tensorfs.F16}, {4, 32, 2, tensorfs.BF16}, {8, 64, 1, tensorfs.BF16}, {8, 32, 3, tensorfs.F32}, {5, 32, 1, tensorfs.F16}, {6, 64, 1, tensorfs.F32}} {
		step := 2 / (math.Exp2(float64(q.bits)) - 1) // a group's values go from -1 to 1
		fs = append(fs, form{fmt.Sprintf("MLX affine %d/%d %v in %d shards", q.bits, q.group, q.scales, q.shards), "mlx", "hf", func(l *testmodel.Logical) (map[string][]byte, string) {
			config := testmodel.With(l.Config(), "quantization", map[string]any{"bits": q.bits, "group_size": q.group, "mode": "affine"})
			return testmodel.HF(config, l.AsMLX(q.bits, q.group, q.scales), q.shards, [][2]string{{"format", "mlx"}}), "."
		}, step, false})
		if kind := map[int]string{4: "int4", 8: "int8"}[q.bits]; kind != "" {
			fs = append(fs, form{fmt.Sprintf("Ollama %s/%d %v", kind, q.group, q.scales), "ollama", "hf", func(l *testmodel.Logical) (map[string][]byte, string) {
				return ollama(l, l.AsMLX(q.bits, q.group, q.scales), kind, q.group)
			}, step, false})
		}
	}
	return fs
}()

// ollama returns a store with a model of tensor layers.
func ollama(l *testmodel.Logical, ts []testmodel.SafeTensor, quantType string, group int) (map[string][]byte, string) {
	config := testmodel.HF(l.Config(), nil, 1, nil)["config.json"]
	layers := append([]testmodel.OllamaLayer{{Kind: "json", Name: "config.json", Content: config}}, testmodel.OllamaTensors(ts, quantType, group)...)
	return testmodel.Ollama("tiny", layers)
}

// TestConformance writes one model in every form and wants the same tensors.
func TestConformance(t *testing.T) {
	for _, family := range []string{"llama", "qwen2"} {
		for _, exact := range []bool{true, false} {
			step := float32(0)
			if exact {
				step = 1. / 16
			}
			l := testmodel.NewLogical(family, step)
			var config []tensorfs.Field
			for _, f := range forms {
				t.Run(fmt.Sprintf("%s/exact=%v/%s", family, exact, f.name), func(t *testing.T) {
					m := write(t, l, f)
					if m.Format != f.format || m.Layout != f.layout || len(m.Warnings) > 0 {
						t.Errorf("format %s in layout %s, warnings %q", m.Format, m.Layout, m.Warnings)
					}
					if (m.Architecture == family) == f.nameless {
						t.Errorf("architecture %s", m.Architecture)
					}
					checkF16(t, m, l, f)
					checkExtents(t, m)
					if !f.nameless {
						got := dimensions(m.Config)
						if config == nil {
							config = got
						}
						if !reflect.DeepEqual(got, config) {
							t.Errorf("config\n%v, want\n%v", got, config)
						}
					}
				})
			}
		}
	}
}

// write stores l in a form and opens it.
func write(t *testing.T, l *testmodel.Logical, f form) *tensorfs.Model {
	t.Helper()
	dir := t.TempDir()
	files, path := f.files(l)
	if err := testmodel.Write(dir, files); err != nil {
		t.Fatal(err)
	}
	m, err := formats.Open(filepath.Join(dir, path))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m
}

// checkF16 compares names, shapes and values in f16/ with the logical model's.
func checkF16(t *testing.T, m *tensorfs.Model, l *testmodel.Logical, f form) {
	t.Helper()
	want := slices.Clone(l.Weights)
	slices.SortFunc(want, func(a, b testmodel.Weight) int { return strings.Compare(a.Name, b.Name) })
	halves := view(t, m, "f16")
	if halves.Tensors.Len() != len(want) {
		t.Fatalf("%d tensors in f16/, want %d; %d absent", halves.Tensors.Len(), len(want), halves.Absent.Len())
	}
	for i := range want {
		w, got := &want[i], halves.Tensors.At(i)
		if got.Name != w.Name || !slices.Equal(got.Shape, w.Shape) {
			t.Errorf("%s %v, want %s %v", got.Name, got.Shape, w.Name, w.Shape)
			continue
		}
		source := w.HF
		if f.layout == "gguf" {
			source = w.GGUF
		}
		if got.Source != source {
			t.Errorf("%s comes from %q, want %q", w.Name, got.Source, source)
		}
		data := content(t, got.Data)
		if !w.Matrix() { // of these it would take minutes
			if err := iotest.TestReader(io.NewSectionReader(got.Data, 0, got.Data.Size()), data); err != nil {
				t.Errorf("%s: %v", w.Name, err)
			}
		}
		if f.layout == "gguf" && l.Family == "llama" {
			data = turnBack(w.Name, data, int(w.Shape[0]), l.Heads, l.KVHeads)
		}
		exact := l.Step > 0 || !w.Matrix()
		for j, v := range w.Values {
			h := float16.Frombits(binary.LittleEndian.Uint16(data[2*j:]))
			bound := 0.0
			if !exact {
				// Half a step, what 16 bits take from it, and rounding to half.
				const largest = 0.7 // of the values
				bound = f.step*largest*(0.5+1./16) + 1./256*largest
			}
			if d := math.Abs(float64(h.Float32()) - float64(v)); exact && h != float16.Fromfloat32(v) || d > bound {
				t.Fatalf("%s[%d] = %v, want %v within %v", w.Name, j, h, v, bound)
			}
		}
	}
	// What is left of the stored tensors are companions of these.
	for i := range halves.Absent.Len() {
		if x := m.Tensor(halves.Absent.Name(i)); x == nil || x.Owner == "" || m.Tensor(x.Owner) == nil || m.Tensor(x.Owner).Quant == nil {
			t.Errorf("%s is absent: %s", halves.Absent.Name(i), halves.Absent.Reason(i))
		}
	}
	// Fused groups of halves do not depend on the form.
	if n := view(t, m, "fused-f16").Tensors.Len(); n != l.Layers*(2+map[string]int{"qwen2": 1}[l.Family]) {
		t.Errorf("%d fused groups", n)
	}
}

// turnBack returns the rows of a Llama's q and k in Hugging Face's order: GGUF
// has the two halves of a head in turns.
func turnBack(name string, data []byte, rows, qHeads, kHeads int) []byte {
	heads := 0
	switch {
	case strings.Contains(name, ".attention.q."):
		heads = qHeads
	case strings.Contains(name, ".attention.k."):
		heads = kHeads
	default:
		return data
	}
	size, d := len(data)/rows, rows/heads
	var out []byte
	for row := range rows {
		h, r := row/d, row%d
		from := h*d + 2*r
		if r >= d/2 {
			from = h*d + 2*(r-d/2) + 1
		}
		out = append(out, data[from*size:][:size]...)
	}
	return out
}

// TestPair compares two files of the same weights that other programs wrote.
func TestPair(t *testing.T) {
	dir := filepath.Join("..", "testdata", "pairs", "llama")
	var halves [2]views.Built
	var models [2]*tensorfs.Model
	for i, path := range []string{"hf", "gguf/llama.gguf"} {
		m, err := formats.Open(filepath.Join(dir, path))
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		models[i], halves[i] = m, view(t, m, "f16")
	}
	hf, gguf := halves[0].Tensors, halves[1].Tensors
	if hf.Len() != gguf.Len() || hf.Len() < 20 || models[0].Layout != "hf" || models[1].Layout != "gguf" {
		t.Fatalf("%d tensors in layout %s, %d in %s", hf.Len(), models[0].Layout, gguf.Len(), models[1].Layout)
	}
	for i := range hf.Len() {
		a, b := hf.At(i), gguf.At(i)
		rows := 1
		if len(a.Shape) > 1 {
			rows = int(a.Shape[0])
		}
		if a.Name != b.Name || !slices.Equal(a.Shape, b.Shape) || !bytes.Equal(content(t, a.Data), turnBack(b.Name, content(t, b.Data), rows, 4, 2)) {
			t.Errorf("%s %v is not %s %v", a.Name, a.Shape, b.Name, b.Shape)
		}
	}
	if !reflect.DeepEqual(dimensions(models[0].Config), dimensions(models[1].Config)) {
		t.Errorf("config %v, want %v", models[0].Config, models[1].Config)
	}
}

// checkExtents reads every stored tensor from the files of the model.
func checkExtents(t *testing.T, m *tensorfs.Model) {
	t.Helper()
	files := map[string][]byte{}
	for _, s := range m.Sources {
		b, err := os.ReadFile(s.Path)
		if err != nil {
			t.Error(err)
		}
		files[s.Name] = b
	}
	for i := range m.Tensors {
		x := &m.Tensors[i]
		var b []byte
		for _, e := range tensorfs.Extents(x.Data) {
			f, ok := files[e.File]
			if !ok || e.Offset+e.Bytes > int64(len(f)) {
				t.Fatalf("%s is at %+v, which is not in source/", x.Name, e)
			}
			b = append(b, f[e.Offset:e.Offset+e.Bytes]...)
		}
		if len(b) == 0 || !bytes.Equal(b, content(t, x.Data)) {
			t.Errorf("%s: other bytes in %+v", x.Name, tensorfs.Extents(x.Data))
		}
	}
}

// dimensions are the fields of a config that do not describe how the model is stored, including
// fields that some formats leave at their defaults.
func dimensions(fields []tensorfs.Field) (out []tensorfs.Field) {
	for _, f := range fields {
		if f.Assumed = false; !strings.HasPrefix(f.Name, "quant_") {
			out = append(out, f)
		}
	}
	return out
}

func view(t *testing.T, m *tensorfs.Model, name string) views.Built {
	t.Helper()
	for _, b := range views.Build(m, views.Options{}) {
		if b.Name == name {
			return b
		}
	}
	t.Fatalf("no view %s", name)
	return views.Built{}
}

func content(t *testing.T, d tensorfs.Data) []byte {
	t.Helper()
	b := make([]byte, d.Size())
	if err := tensorfs.ReadFull(d, b, 0); err != nil {
		t.Fatal(err)
	}
	return b
}
