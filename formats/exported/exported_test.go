package exported_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats"
	"github.com/tensorfs/tensorfs/formats/exported"
	"github.com/tensorfs/tensorfs/internal/export"
	"github.com/tensorfs/tensorfs/internal/testing/memory"
	"github.com/tensorfs/tensorfs/internal/testing/testmodel"
	"github.com/tensorfs/tensorfs/views"
	"github.com/tensorfs/tensorfs/views/tree"
)

const testdata = "../../testdata"

// write writes the files of a model's tree that keep selects to a directory, with source/ as in a
// mount if links is set.
func write(t *testing.T, m *tensorfs.Model, dir string, links bool, keep func(path string) bool) {
	t.Helper()
	var files []export.File
	var walk func(d tensorfs.Dir, prefix string)
	walk = func(d tensorfs.Dir, prefix string) {
		for i := range d.Len() {
			e := d.Entry(i)
			path := prefix + e.Name
			switch {
			case e.Dir != nil && !slices.Contains([]string{"gguf", "hf", "mlx"}, path):
				walk(e.Dir, path+"/")
			case e.Link != "" && links:
				at := filepath.Join(dir, path)
				if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o777), os.Symlink(e.Link, at)); err != nil {
					t.Fatal(err)
				}
			case e.Data != nil && keep(path):
				files = append(files, export.File{Path: path, Data: e.Data, Last: path == "index.json"})
			}
		}
	}
	walk(tree.New(m, tree.Options{}).Root, "")
	if _, err := export.Run(t.Context(), dir, files, export.Options{Jobs: 2, ModTime: m.ModTime, Check: m.Check}); err != nil {
		t.Fatal(err)
	}
}

// in keeps the texts and the files of views.
func in(names ...string) func(path string) bool {
	return func(path string) bool {
		view, _, below := strings.Cut(path, "/")
		return !below || slices.Contains(names, view)
	}
}

// open opens a model, which the test closes.
func open(t *testing.T, path string) *tensorfs.Model {
	t.Helper()
	m, err := formats.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m
}

// golden calls fn for every model of testdata, each in a test of its own.
func golden(t *testing.T, fn func(t *testing.T, m *tensorfs.Model)) {
	seen, n := map[string]bool{}, 0
	err := filepath.WalkDir(testdata, func(p string, d fs.DirEntry, err error) error {
		if err != nil || strings.Contains(p, "hostile") || !testmodel.Sampled(p) {
			return err
		}
		m, err := formats.Open(p)
		if err != nil || seen[m.Path] {
			return nil
		}
		m.Close()
		seen[m.Path] = true
		n++
		t.Run(strings.ReplaceAll(strings.TrimPrefix(p, testdata+"/"), "/", "_"), func(t *testing.T) { fn(t, open(t, p)) })
		return nil
	})
	if err != nil || n < 60 {
		t.Errorf("%d models, %v", n, err)
	}
}

// content reads all of d.
func content(t *testing.T, d tensorfs.Data) string {
	t.Helper()
	b, err := io.ReadAll(io.NewSectionReader(d, 0, d.Size()))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// same holds that two models have the same tensors, and views the same bytes.
func same(t *testing.T, got, want *tensorfs.Model) {
	t.Helper()
	if got.Architecture != want.Architecture || got.Layout != want.Layout || len(got.Tensors) != len(want.Tensors) {
		t.Fatalf("%s %s with %d tensors, want %s %s with %d", got.Architecture, got.Layout, len(got.Tensors), want.Architecture, want.Layout, len(want.Tensors))
	}
	plain := func(x tensorfs.Tensor) tensorfs.Tensor {
		x.Data = nil
		x.Shape = append([]int64{}, x.Shape...)
		if x.Quant != nil {
			q := *x.Quant
			q.Shape = append([]int64{}, q.Shape...)
			q.Float = tensorfs.Unknown // of whole models, which an export has none of
			for _, c := range []**tensorfs.Tensor{&q.Scales, &q.Biases, &q.Global} {
				if *c != nil {
					*c = &tensorfs.Tensor{Name: (*c).Name, DType: (*c).DType}
				}
			}
			x.Quant = &q
		}
		return x
	}
	for i := range want.Tensors {
		if g, w := plain(got.Tensors[i]), plain(want.Tensors[i]); !reflect.DeepEqual(g, w) {
			t.Errorf("%+v, want %+v", g, w)
		}
	}
	fields := func(m *tensorfs.Model) []tensorfs.Field {
		list := slices.Clone(m.Config)
		for i := range list {
			list[i].Assumed = false
		}
		return list
	}
	if !reflect.DeepEqual(fields(got), fields(want)) {
		t.Errorf("config %v, want %v", fields(got), fields(want))
	}
	a, b := tree.New(got, tree.Options{}), tree.New(want, tree.Options{})
	for _, name := range []string{"config.json", "metadata.json"} {
		x, _ := tensorfs.Find(a.Root, name)
		y, _ := tensorfs.Find(b.Root, name)
		var g, w map[string]any // numbers may be written in another way
		if err := errors.Join(json.Unmarshal([]byte(content(t, x.Data)), &g), json.Unmarshal([]byte(content(t, y.Data)), &w)); err != nil || !reflect.DeepEqual(g, w) {
			t.Errorf("%s: %v, want %v (%v)", name, g, w, err)
		}
	}
	sameViews(t, a.Views, b.Views)
}

// left are the lines of what a view leaves out.
func left(b *views.Built) (lines []string) {
	for i := range b.Absent.Len() {
		lines = append(lines, fmt.Sprint(b.Absent.Name(i), " ", b.Absent.Lost(i), " ", b.Absent.Reason(i)))
	}
	return lines
}

func sameViews(t *testing.T, got, want []views.Built) {
	t.Helper()
	for i := range want {
		g, w := &got[i], &want[i]
		if g.Tensors.Len() != w.Tensors.Len() || !slices.Equal(left(g), left(w)) {
			t.Errorf("%s: %d tensors and without %v, want %d and without %v", w.Name, g.Tensors.Len(), left(g), w.Tensors.Len(), left(w))
			continue
		}
		for k := range w.Tensors.Len() {
			x, y := g.Tensors.At(k), w.Tensors.At(k)
			if x.Name != y.Name || x.DType != y.DType || !slices.Equal(x.Shape, y.Shape) || content(t, x.Data) != content(t, y.Data) {
				t.Errorf("%s/%s is %s %v, want %s %s %v, or other bytes", w.Name, x.Name, x.DType, x.Shape, y.Name, y.DType, y.Shape)
			}
		}
	}
}

// TestExports opens an export of raw/ of every golden model.
func TestExports(t *testing.T) {
	golden(t, func(t *testing.T, m *tensorfs.Model) {
		dir := memory.Dir(t)
		write(t, m, dir, false, in("raw"))
		got := open(t, dir)
		if got.Format != exported.Format || got.Path != dir || len(got.Sources) != len(m.Tensors) {
			t.Errorf("%s %s with %d sources", got.Format, got.Path, len(got.Sources))
		}
		same(t, got, m)
	})
}

// TestMounts opens trees with links to the model's files, as mounts have them.
func TestMounts(t *testing.T) {
	golden(t, func(t *testing.T, m *tensorfs.Model) {
		dir := memory.Dir(t)
		write(t, m, dir, true, in())
		if err := os.Mkdir(filepath.Join(dir, "raw"), 0o777); err != nil && !os.IsExist(err) {
			t.Fatal(err)
		}
		got := open(t, dir)
		if got.Format != m.Format {
			t.Errorf("format %s, want %s", got.Format, m.Format)
		}
		for i, s := range m.Sources {
			if real, err := filepath.EvalSymlinks(s.Path); err != nil || got.Sources[i].Name != s.Name || got.Sources[i].Path != real {
				t.Errorf("source %+v, want %s at %s (%v)", got.Sources[i], s.Name, real, err)
			}
		}
		same(t, got, m)
	})
}

// TestParts opens exports of parts of trees: a tensor comes from the view that keeps most of it,
// and the views that follow from that view are unchanged.
func TestParts(t *testing.T) {
	const model = "models-mlx/qwen3-mixed"
	for _, c := range []struct {
		model, keep string
		same        string // views of the model that must have the same bytes
		tensors     int    // less than the model has, 0 for as many
	}{
		{model, "packed", "packed f16 fused-f16 npy", 0},
		{"gguf/llama-xs.q4_k_m.gguf", "packed fused", "packed f16 fused-f16 npy", 0},
		{"gguf/llama-xs.q4_k_m.gguf", "f16", "f16 fused-f16 npy", 0},
		{"gguf/llama-xs.q4_k_m.gguf", "f32 f16", "f32 f16 bf16 npy", 0},
		{"gguf/llama-xs.q4_k_m.gguf", "npy", "f16 npy fused-f16", 0},
		{"gguf/llama-xs.bf16.gguf", "bf16", "bf16", 0},
		{"gguf/llama-xs.q8_0.gguf", "fused", "fused", -1},
		{"models-mlx/gpt-oss-mxfp4", "packed", "packed f16", -1},
		{"gguf/v1.gguf", "raw", "raw packed f16", 0},
	} {
		t.Run(c.model+" "+c.keep, func(t *testing.T) {
			m, dir := open(t, filepath.Join(testdata, c.model)), memory.Dir(t)
			write(t, m, dir, false, in(strings.Fields(c.keep)...))
			got := open(t, dir)
			if c.tensors == 0 && len(got.Tensors) != len(m.Tensors) {
				t.Errorf("%d tensors, want %d", len(got.Tensors), len(m.Tensors))
			}
			chosen, err := views.Choose(strings.Fields(c.same))
			if err != nil {
				t.Fatal(err)
			}
			a, b := views.Build(got, views.Options{Views: chosen}), views.Build(m, views.Options{Views: chosen})
			for i := range b {
				for k := range b[i].Tensors.Len() {
					y := b[i].Tensors.At(k)
					if strings.HasPrefix(c.same, "fused") {
						a[i] = views.Build(got, views.Options{})[1] // packed, whose tensor it is
					}
					at, ok := views.Find(a[i].Tensors, y.Name)
					if !ok {
						t.Errorf("%s has no %s", b[i].Name, y.Name)
						continue
					}
					if x := a[i].Tensors.At(at); x.DType != y.DType || !slices.Equal(x.Shape, y.Shape) || content(t, x.Data) != content(t, y.Data) {
						t.Errorf("%s/%s is %s %v, want %s %v, or other bytes", b[i].Name, x.Name, x.DType, x.Shape, y.DType, y.Shape)
					}
				}
			}
		})
	}
}

// TestIncomplete opens what lacks files: codes without their scales are only bytes, and
// a tree without tensors is refused with the next step.
func TestIncomplete(t *testing.T) {
	m, dir := open(t, filepath.Join(testdata, "models-mlx/qwen3-mixed")), memory.Dir(t)
	write(t, m, dir, false, func(path string) bool { return path == "index.json" || path == "raw/layers.0.attention.q.weight" })
	got := open(t, dir)
	if len(got.Tensors) != 1 || got.Tensors[0].Quant != nil || !strings.Contains(got.Tensors[0].Opaque, "raw/layers.0.attention.q.scales") {
		t.Errorf("%+v", got.Tensors)
	}
	if err := os.Remove(filepath.Join(dir, "raw/layers.0.attention.q.weight")); err != nil {
		t.Fatal(err)
	}
	if _, err := formats.Open(dir); !errors.Is(err, tensorfs.ErrUnsupported) || !strings.Contains(err.Error(), "export raw or packed to it") {
		t.Error(err)
	}
}

// TestChanged holds that an open tree whose files are replaced continues with its open files, and
// that one whose files are overwritten gives ErrChanged.
func TestChanged(t *testing.T) {
	m, dir := open(t, filepath.Join(testdata, "gguf/llama-xs.q8_0.gguf")), memory.Dir(t)
	write(t, m, dir, false, in("raw"))
	got := open(t, dir)
	path := filepath.Join(dir, "raw/output_norm.weight")
	if err := os.Rename(path, path+".old"); err != nil || got.Check() != nil {
		t.Fatal(err, got.Check())
	}
	if err := os.Truncate(path+".old", 3); err != nil {
		t.Fatal(err)
	}
	if _, err := got.Tensor("output_norm.weight").Data.ReadAt(make([]byte, 1), 0); !errors.Is(err, tensorfs.ErrChanged) {
		t.Error(err)
	}
	if _, err := formats.Open(dir); err != nil { // without that tensor
		t.Error(err)
	}
	if err := os.Rename(path+".old", path); err != nil {
		t.Fatal(err)
	}
	if _, err := formats.Open(dir); !errors.Is(err, tensorfs.ErrFormat) || !strings.Contains(err.Error(), "it has 3 bytes instead of the 256 in index.json") {
		t.Error(err)
	}
}

// FuzzOpen opens trees with any index.json.
func FuzzOpen(f *testing.F) {
	files := map[string][]byte{"raw/a": make([]byte, 64), "raw/b": make([]byte, 4), "packed/c": make([]byte, 40), "npy/d.npy": make([]byte, 4098), "config.json": []byte(`{"dim":1}`)}
	for _, s := range []string{
		`{"version":1,"model":{"format":"gguf","architecture":"llama","layout":"gguf"},"views":{"raw":{"a":{"dtype":"F32","shape":[4,4],"bytes":64,"source_name":"x"}}}}`,
		`{"version":1,"views":{"raw":{"a":{"dtype":"U32","shape":[1,16],"bytes":64,"quant":{"mode":"affine","bits":4,"group_size":64},
			"module":{"weight":"w","shape":[1,128],"scales":"b","biases":"b"}},"b":{"dtype":"F16","shape":[1,2],"bytes":4}}}}`,
		`{"version":1,"views":{"packed":{"c":{"dtype":"U32","shape":[1,64],"bytes":40,"quant":{"mode":"affine","bits":4,"group_size":64},
			"sections":[{"name":"weights","dtype":"U32","offset":0,"bytes":32},{"name":"scales","dtype":"F16","offset":32,"bytes":2},{"name":"biases","dtype":"F16","offset":34,"bytes":2}]}}}}`,
		`{"version":1,"views":{"npy":{"d.npy":{"dtype":"F16","shape":[1],"bytes":4098,"source_name_base64":"/w=="}}}}`,
		`{"version":1,"model":{"format":"gguf","files":[{"name":"m","bytes":4}]},"views":{"raw":{"a":{"dtype":"F32","shape":[1],"bytes":4,"extents":[{"file":"m","offset":0,"bytes":4}]}}}}`,
	} {
		f.Add([]byte(s), []byte(`{"k":[1,"x",{"base64":"/w=="}],"s":"NaN"}`))
	}
	f.Fuzz(func(t *testing.T, index, metadata []byte) {
		src := memory.New(map[string][]byte{"index.json": index, "metadata.json": metadata})
		for name, b := range files {
			src.Files[name] = b
		}
		m, err := exported.OpenFS(src, ".")
		if err != nil {
			if strings.ContainsAny(err.Error(), "\n\x1b") {
				t.Errorf("no clear line: %q", err)
			}
			return
		}
		tree.New(m, tree.Options{}) // reads no tensor
		for _, v := range views.Build(m, views.Options{}) {
			for i := range v.Tensors.Len() {
				if x := v.Tensors.At(i); x.Data.Size() < 1<<16 {
					content(t, x.Data)
				}
			}
		}
		m.Close()
		if src.Opens.Load() != src.Closes.Load() {
			t.Errorf("%d files opened, %d closed", src.Opens.Load(), src.Closes.Load())
		}
	})
}
