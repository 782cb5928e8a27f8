package safetensors_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/safetensors"
	"github.com/tensorfs/tensorfs/internal/source"
	"github.com/tensorfs/tensorfs/internal/testing/memory"
	"github.com/tensorfs/tensorfs/internal/testing/testlimit"
	"github.com/tensorfs/tensorfs/internal/testing/testmodel"
)

// withHeader returns a file of the given header and data.
func withHeader(header string, data ...byte) []byte {
	b := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	return append(append(b, header...), data...)
}

func write(t testing.TB, b []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "model.safetensors")
	if err := os.WriteFile(path, b, 0o666); err != nil {
		t.Fatal(err)
	}
	return path
}

// tensor is an Entry as values.
type tensor struct {
	name   string
	dtype  tensorfs.DType
	shape  []int64
	offset int64 // in the data section
	data   string
}

func TestEntries(t *testing.T) {
	for _, c := range []struct {
		name string
		file []byte
		want []tensor
		meta [][2]string
		warn int
	}{
		{
			name: "data order, not header order",
			file: withHeader(`{"b":{"dtype":"U8","shape":[2],"data_offsets":[2,4]},"a":{"data_offsets":[0,2],"shape":[1,1],"dtype":"F16"}}`, 1, 2, 3, 4),
			want: []tensor{{"a", tensorfs.F16, []int64{1, 1}, 0, "\x01\x02"}, {"b", tensorfs.U8, []int64{2}, 2, "\x03\x04"}},
		},
		{
			name: "empty tensors at boundaries, a scalar, escaped names and fields",
			file: withHeader("\t{\"\\u0061\\u0000/\" : {\"\\u0064type\":\"\\u0055\\u0038\",\"shape\":[],\"data_offsets\":[0,1]},\n\"\":{\"dtype\":\"F64\",\"shape\":[3,0],\"data_offsets\":[1,1]},\"\\ud83d\\ude00\":{\"dtype\":\"I8\",\"shape\":[0],\"data_offsets\":[0,0]}} ", 9),
			want: []tensor{{"\U0001F600", tensorfs.I8, []int64{0}, 0, ""}, {"a\x00/", tensorfs.U8, []int64{}, 0, "\x09"}, {"", tensorfs.F64, []int64{3, 0}, 1, ""}},
		},
		{
			name: "metadata keeps its order, the last value wins",
			file: withHeader(`{"__metadata__":{"b":"1","a":"2","b":"3"}}`),
			want: []tensor{}, meta: [][2]string{{"b", "3"}, {"a", "2"}},
		},
		{
			name: "an empty tensor of absurd shape",
			file: withHeader(`{"w":{"dtype":"U8","shape":[0,9223372036854775808,18446744073709551615],"data_offsets":[0,0]},"v":{"dtype":"U8","shape":[0,4294967296,4294967296],"data_offsets":[0,0]}}`),
			want: []tensor{{"v", tensorfs.U8, []int64{0}, 0, ""}, {"w", tensorfs.U8, []int64{0}, 0, ""}}, warn: 2,
		},
		{
			name: "unknown fields of any kind",
			file: withHeader(`{"w":{"x":null,"dtype":"BOOL","y":{"dtype":[1.5e-3,"}"]},"shape":[1],"data_offsets":[0,1],"x":true}}`, 1),
			want: []tensor{{"w", tensorfs.Bool, []int64{1}, 0, "\x01"}},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			f, err := parse(t, write(t, c.file))
			if err != nil {
				t.Fatal(err)
			}
			got := []tensor{}
			start := int64(8 + binary.LittleEndian.Uint64(c.file))
			for _, e := range f.Tensors {
				b := make([]byte, e.Data.Size())
				if err := tensorfs.ReadFull(e.Data, b, 0); err != nil {
					t.Fatal(err)
				}
				if err := iotest.TestReader(io.NewSectionReader(e.Data, 0, e.Data.Size()), b); err != nil {
					t.Error(err)
				}
				got = append(got, tensor{e.Name, e.DType, e.Shape, e.Offset - start, string(b)})
			}
			if !reflect.DeepEqual(got, c.want) {
				t.Errorf("tensors\n%v, want\n%v", got, c.want)
			}
			if !reflect.DeepEqual(f.Metadata, c.meta) || len(f.Warnings) != c.warn {
				t.Errorf("metadata %q, warnings %q", f.Metadata, f.Warnings)
			}
		})
	}
}

// TestRefused names rules that the files of the verdict table do not touch.
func TestRefused(t *testing.T) {
	ok := `"dtype":"U8","shape":[1],"data_offsets":[0,1]`
	nested := func(n int) string {
		return `{"w":{` + ok + `,"x":` + strings.Repeat("[", n) + strings.Repeat("]", n) + `}}`
	}
	if _, err := parse(t, write(t, withHeader(nested(125), 1))); err != nil {
		t.Errorf("127 levels: %v", err)
	}
	for name, c := range map[string]struct{ header, want string }{
		"128 levels":                      {nested(126), "deeper than 127"},
		"deep beyond the decoder":         {nested(20000), "deeper than 127"},
		"deep where a number is expected": {`{"w":{"dtype":"U8","shape":[` + strings.Repeat("[", 20000), "incomplete"},
		"dtype null":                      {`{"w":{"dtype":null,"shape":[1],"data_offsets":[0,1]}}`, "null instead of a string"},
		"offsets twice":                   {`{"w":{` + ok + `,"data_offsets":[0,1]}}`, "data_offsets twice"},
		"name escaped twice":              {`{"w":{` + ok + `},"\u0077":{` + ok + `}}`, "occurs twice"},
		"key is not a string":             {`{1:{` + ok + `}}`, "not JSON"},
		"metadata escaped twice":          {`{"__metadata__":null,"__meta\u0064ata__":{}}`, "occurs twice"},
		"comment":                         {`{/**/}`, "not JSON"},
		"low surrogate":                   {`{"\udc00":{` + ok + `}}`, "surrogate"},
		"2^64 in offsets":                 {`{"w":{"dtype":"U8","shape":[1],"data_offsets":[0,18446744073709551616]}}`, "not a plain integer"},
		"30 digits":                       {`{"w":{"dtype":"U8","shape":[100000000000000000000000000000],"data_offsets":[0,1]}}`, "not a plain integer"},
		"two objects":                     {`{} {}`, "something follows"},
		"form feed":                       {"{}\f", "not JSON"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := parse(t, write(t, withHeader(c.header, 1))); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v does not say %q", err, c.want)
			}
		})
	}
}

// TestEveryLength cuts a sound file at every byte and lengthens it by one:
// nothing but the whole is accepted.
func TestEveryLength(t *testing.T) {
	whole := testmodel.Safetensors([]testmodel.SafeTensor{
		{Name: "a", DType: tensorfs.F32, Shape: []int64{2, 3}},
		{Name: "b", DType: tensorfs.U8, Shape: []int64{5}},
		{Name: "c", DType: tensorfs.I64, Shape: nil},
	}, [][2]string{{"format", "mlx"}})
	path := write(t, whole)
	if f, err := parse(t, path); err != nil || len(f.Tensors) != 3 {
		t.Fatal(f, err)
	}
	for n := range len(whole) + 2 {
		if n == len(whole) {
			continue
		}
		path := write(t, append(whole[:len(whole):len(whole)], 0)[:n])
		if _, err := parse(t, path); err == nil {
			t.Errorf("the first %d of %d bytes are accepted", n, len(whole))
		}
	}
}

func TestMatch(t *testing.T) {
	whole := testmodel.Safetensors([]testmodel.SafeTensor{{Name: "a", DType: tensorfs.F32, Shape: []int64{2}}}, nil)
	for _, c := range []struct {
		name string
		head string
		want bool
	}{
		{"whole", string(whole), true},
		{"empty model", string(withHeader("{}")), true},
		{"white space first", string(withHeader(" \r\n\t{ }")), true},
		{"nothing but white space in sight", string(withHeader(strings.Repeat(" ", 100))), true},
		{"GGUF", "GGUF\x03\x00\x00\x00\x01\x00\x00\x00", false},
		{"zip", "PK\x03\x04\x14\x00\x00\x00\x08\x00", false},
		{"no object", string(withHeader(`["a"]`)), false},
		{"short", "\x02\x00\x00", false},
		{"text", `{"model_type": "llama"}`, false},
	} {
		if got := safetensors.Match([]byte(c.head), int64(len(c.head))); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

// large is a header as DeepSeek-V3 would have in one file, with 45,000 pairs.
func large(pairs int) []testmodel.SafeTensor {
	var ts []testmodel.SafeTensor
	for i := range pairs {
		stem := fmt.Sprintf("model.layers.%d.mlp.experts.%d.down_proj.weight", i/750, i%750)
		ts = append(ts, testmodel.SafeTensor{Name: stem, DType: tensorfs.F8_E4M3, Shape: []int64{7168, 2048}},
			testmodel.SafeTensor{Name: stem + "_scale_inv", DType: tensorfs.F32, Shape: []int64{56, 16}})
	}
	return ts
}

// TestLarge parses a header of 90,000 tensors, and holds that the work is in
// proportion to the header.
func TestLarge(t *testing.T) {
	const pairs = 45_000
	paths := map[int]string{}
	for _, n := range []int{pairs / 4, pairs} {
		paths[n] = filepath.Join(t.TempDir(), "large.safetensors")
		if err := testmodel.WriteSparseSafetensors(paths[n], large(n)); err != nil {
			t.Fatal(err)
		}
	}
	testlimit.Growth(t, pairs/4, func(pairs int) {
		n := testlimit.Allocated(func() {
			if f, err := parse(t, paths[pairs]); err != nil || len(f.Tensors) != 2*pairs {
				t.Fatal(err)
			}
		})
		if per := n / uint64(2*pairs); per > 1024 {
			t.Errorf("%d bytes are allocated for each of %d tensors", per, 2*pairs)
		}
		t.Logf("%d bytes for each of %d tensors", n/uint64(2*pairs), 2*pairs)
	})
}

func BenchmarkParse(b *testing.B) {
	path := filepath.Join(b.TempDir(), "large.safetensors")
	if err := testmodel.WriteSparseSafetensors(path, large(45_000)); err != nil {
		b.Fatal(err)
	}
	f, err := source.Map(path, "large")
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	var n [8]byte
	if _, err := f.ReadAt(n[:], 0); err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(binary.LittleEndian.Uint64(n[:])))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := safetensors.Parse(f); err != nil {
			b.Fatal(err)
		}
	}
}

// FuzzParse reads every tensor of whatever is accepted and checks that the
// tensors tile the file's end.
func FuzzParse(f *testing.F) {
	paths, _ := filepath.Glob(hostile + "/*.safetensors")
	valid, _ := filepath.Glob(hostile + "/valid/*.safetensors")
	for _, p := range append(paths, valid...) {
		b, err := os.ReadFile(p)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := memory.New(map[string][]byte{"fuzz": b}).OpenFile("fuzz")
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		got, err := safetensors.Parse(m)
		if err != nil {
			return
		}
		next := int64(8 + binary.LittleEndian.Uint64(b))
		for _, e := range got.Tensors {
			size, ok := e.DType.Size(e.Shape)
			if !ok || size != e.Data.Size() || e.Offset != next {
				t.Fatalf("%q: %v %v at %d of %d bytes", e.Name, e.DType, e.Shape, e.Offset, e.Data.Size())
			}
			next += size
			data := make([]byte, size)
			if err := tensorfs.ReadFull(e.Data, data, 0); err != nil || !bytes.Equal(data, b[e.Offset:next]) {
				t.Fatalf("%q: wrong bytes: %v", e.Name, err)
			}
		}
		if next != int64(len(b)) {
			t.Fatalf("tensors end at %d of %d", next, len(b))
		}
	})
}
