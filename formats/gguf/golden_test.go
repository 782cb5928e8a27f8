package gguf

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/tensorfs/tensorfs"
)

const goldenDir = "../../testdata/gguf"

func open(t testing.TB, path string) *tensorfs.Model {
	t.Helper()
	m, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	return m
}

// bySource returns the tensor that the file calls so.
func bySource(t testing.TB, m *tensorfs.Model, source string) *tensorfs.Tensor {
	t.Helper()
	i := slices.IndexFunc(m.Tensors, func(t tensorfs.Tensor) bool { return t.Source == source })
	if i < 0 {
		t.Fatalf("no tensor %q", source)
	}
	return &m.Tensors[i]
}

func content(t testing.TB, d tensorfs.Data) []byte {
	t.Helper()
	b := make([]byte, d.Size())
	if err := tensorfs.ReadFull(d, b, 0); err != nil {
		t.Fatal(err)
	}
	return b
}

// TestGoldenTensors compares type, shape, offset and bytes of all tensors with the output of
// llama.cpp's own tools.
func TestGoldenTensors(t *testing.T) {
	table, err := os.ReadFile(filepath.Join(goldenDir, "tensors.tsv"))
	if err != nil {
		t.Fatal(err)
	}
	models, rows := make(map[string]*tensorfs.Model), make(map[string]int)
	for line := range strings.Lines(string(table)) {
		w := strings.Split(strings.TrimSpace(line), "\t")
		if w[0] == "file" {
			continue
		}
		file, source, want := w[0], w[1], strings.Join(w[2:7], " ")
		if models[file] == nil {
			models[file] = open(t, filepath.Join(goldenDir, file))
		}
		x := bySource(t, models[file], source)
		var ne []string
		for _, d := range slices.Backward(x.Shape) {
			ne = append(ne, fmt.Sprint(d))
		}
		e := tensorfs.Extents(x.Data)
		if len(e) != 1 || e[0].File != file {
			t.Fatalf("%s: %s: extents %v", file, source, e)
		}
		got := fmt.Sprintf("%s %s %d %d %x", x.DType, strings.Join(ne, "x"), e[0].Offset, e[0].Bytes, sha256.Sum256(content(t, x.Data)))
		if got != want {
			t.Errorf("%s: %s: %s, want %s", file, source, got, want)
		}
		if x.Opaque != "" || x.BigEndian || x.Name == "" {
			t.Errorf("%s: %+v", file, x)
		}
		rows[file]++
	}
	if len(models) != 12 {
		t.Errorf("%d files", len(models))
	}
	for file, m := range models {
		want := rows[file]
		if strings.Contains(file, "-of-") {
			want = rows["llama-xs.q8_0.gguf"]
		}
		if len(m.Tensors) != want {
			t.Errorf("%s: %d tensors, want %d", file, len(m.Tensors), want)
		}
	}
}

// TestGoldenMetadata compares every type of value, at its limits.
func TestGoldenMetadata(t *testing.T) {
	for file, want := range map[string]string{
		"kv.gguf": `general.architecture="kvtest" general.alignment=32 t.u8=255 t.i8=-128 t.u16=65535 t.i16=-32768
t.u32=4294967295 t.i32=-2147483648 t.f32=-0.15625 t.u64=18446744073709551615 t.i64=-9223372036854775808
t.f64=0.3333333333333333 t.true=true t.false=false t.str="héllo ▁ 🦙" t.empty_str="" t.f32_inf="Infinity"
a.u8=[0,1,255] a.i8=[-128,0,127] a.u16=[0,1,65535] a.i16=[-32768,0,32767] a.u32=[0,4294967295]
a.i32=[-2147483648,2147483647] a.f32=[0,-0,1e-45,3.4028235e+38] a.bool=[true,false,true]
a.u64=[18446744073709551615] a.i64=[-9223372036854775808,9223372036854775807]
a.f64=[5e-324,1.7976931348623157e+308] a.str=["","a","▁the","line\nbreak"] a.empty_i32=[] a.empty_str=[]`,
		"nested.gguf": `general.architecture="nestedtest" n.i32=[[1,2,3],[4],[5,6]] n.str=[["a","bc"],[""]]
n.deep=[[[1],[2,3]],[[4]]] n.mixed_f32=[[0.5],[1.5,-2]] after=7`,
	} {
		m := open(t, filepath.Join(goldenDir, file))
		var got []string
		for _, e := range m.Metadata {
			got = append(got, e.Key+"="+string(e.AppendJSON(nil)))
		}
		if g, w := strings.Join(got, " "), strings.ReplaceAll(want, "\n", " "); g != w {
			t.Errorf("%s:\n%s\nwant\n%s", file, g, w)
		}
	}
}

// TestGoldenShapes covers the tensors that no model has.
func TestGoldenShapes(t *testing.T) {
	m := open(t, filepath.Join(goldenDir, "kv.gguf"))
	var got []string
	for _, x := range m.Tensors {
		got = append(got, fmt.Sprintf("%.14s %s %v %d", x.Source, x.DType, x.Shape, x.Data.Size()))
	}
	want := []string{"empty F32 [4 0] 0", "f64 F64 [6] 48", "i16 I16 [3 5] 30", "i32 I32 [7] 28", "i64 I64 [3] 24", "i8 I8 [3 5] 15",
		"last_unaligned I8 [1] 1", "name.with.sixt F16 [2 1 3] 12", "scalar F32 [1] 4"}
	if !slices.Equal(got, want) {
		t.Errorf("%q\nwant\n%q", got, want)
	}
}

// TestGoldenContainers reads the same tensors from every container: versions,
// alignments and byte orders.
func TestGoldenContainers(t *testing.T) {
	types := open(t, "../../testdata/ggml/types.gguf")
	if len(types.Tensors) != 70 {
		t.Errorf("%d tensors", len(types.Tensors))
	}
	for _, c := range []struct {
		path      string
		tensors   int
		bigEndian bool
	}{
		{"../../testdata/gguf/v1.gguf", 4, false},
		{"../../testdata/gguf/v2.gguf", 4, false},
		{"../../testdata/gguf/align8.gguf", 4, false},
		{"../../testdata/gguf/align256.gguf", 4, false},
		{"../../testdata/ggml/big_endian.gguf", 8, true},
	} {
		m := open(t, c.path)
		if len(m.Tensors) != c.tensors {
			t.Errorf("%s: %d tensors", c.path, len(m.Tensors))
		}
		for i := range m.Tensors {
			x := &m.Tensors[i]
			y := bySource(t, types, x.Source)
			if x.DType != y.DType || !slices.Equal(x.Shape, y.Shape) || x.BigEndian != c.bigEndian {
				t.Errorf("%s: %s is %s %v, want %s %v", c.path, x.Source, x.DType, x.Shape, y.DType, y.Shape)
			}
			// In big-endian files only bytes of their own stay the same.
			if same := bytes.Equal(content(t, x.Data), content(t, y.Data)); same == (c.bigEndian && y.DType != tensorfs.MXFP4) {
				t.Errorf("%s: %s: same bytes: %v", c.path, x.Source, same)
			}
		}
	}
}

// TestGoldenData checks Data as io.ReaderAt wants it.
func TestGoldenData(t *testing.T) {
	m := open(t, filepath.Join(goldenDir, "llama-xs.q8_0.gguf"))
	for i := range m.Tensors {
		d := m.Tensors[i].Data
		if err := iotest.TestReader(io.NewSectionReader(d, 0, d.Size()), content(t, d)); err != nil {
			t.Errorf("%s: %v", m.Tensors[i].Name, err)
		}
	}
}

// TestGoldenShards opens a set by each of its shards: it is the whole model.
func TestGoldenShards(t *testing.T) {
	whole := open(t, filepath.Join(goldenDir, "llama-xs.q8_0.gguf"))
	for i := 1; i <= 3; i++ {
		m := open(t, filepath.Join(goldenDir, fmt.Sprintf("llama-xs.q8_0-%05d-of-00003.gguf", i)))
		if len(m.Tensors) != len(whole.Tensors) || m.Architecture != "llama" || m.Format != "gguf" || m.Layout != "gguf" {
			t.Fatalf("shard %d: %d tensors of %s", i, len(m.Tensors), m.Architecture)
		}
		if want := fmt.Sprintf("llama-xs.q8_0-%05d-of-00003.gguf", i); filepath.Base(m.Path) != want || !filepath.IsAbs(m.Path) {
			t.Errorf("path %s", m.Path)
		}
		for j := range m.Tensors {
			x, y := &m.Tensors[j], &whole.Tensors[j]
			if x.Name != y.Name || x.DType != y.DType || !slices.Equal(x.Shape, y.Shape) || !bytes.Equal(content(t, x.Data), content(t, y.Data)) {
				t.Errorf("shard %d: %s differs", i, x.Name)
			}
		}
		keys := make(map[string]string)
		for _, e := range m.Metadata {
			if _, ok := keys[e.Key]; ok {
				t.Errorf("key %q twice", e.Key)
			}
			keys[e.Key] = string(e.AppendJSON(nil))
		}
		for _, e := range whole.Metadata {
			if keys[e.Key] != string(e.AppendJSON(nil)) {
				t.Errorf("key %q is %s", e.Key, keys[e.Key])
			}
		}
		if keys["split.no"] != "0" || keys["split.count"] != "3" || len(keys) != len(whole.Metadata)+3 {
			t.Errorf("split.no %s, split.count %s, %d keys", keys["split.no"], keys["split.count"], len(keys))
		}
		if fmt.Sprint(m.Config) != fmt.Sprint(whole.Config) {
			t.Errorf("config %v", m.Config)
		}
		for j, s := range m.Sources {
			want := fmt.Sprintf("llama-xs.q8_0-%05d-of-00003.gguf", j+1)
			if s.Name != want || filepath.Base(s.Path) != want || !filepath.IsAbs(s.Path) {
				t.Errorf("source %+v", s)
			}
			if st, err := os.Stat(s.Path); err != nil || st.ModTime().After(m.ModTime) {
				t.Errorf("%s: %v %v", s.Path, st, err)
			}
		}
		if len(m.Sources) != 3 {
			t.Errorf("%d sources", len(m.Sources))
		}
	}
}
