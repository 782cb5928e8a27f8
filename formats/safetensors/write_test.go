package safetensors_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/safetensors"
	"github.com/tensorfs/tensorfs/internal/testing/memory"
	"github.com/tensorfs/tensorfs/internal/testing/testmodel"
)

// written returns the file that Compose makes from tensors.
func written(t testing.TB, metadata [][2]string, list []testmodel.SafeTensor) []byte {
	t.Helper()
	tensors := make([]safetensors.Stored, len(list))
	for i, x := range list {
		tensors[i] = safetensors.Stored{Name: x.Name, DType: x.DType, Shape: x.Shape, Data: tensorfs.Bytes(x.Data)}
	}
	d, err := safetensors.Compose(metadata, tensors)
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, d.Size())
	if err := tensorfs.ReadFull(d, b, 0); err != nil {
		t.Fatal(err)
	}
	return b
}

// parsed returns a file as the package reads it.
func parsed(t testing.TB, b []byte) *safetensors.File {
	t.Helper()
	f, err := memory.New(map[string][]byte{"x": b}).OpenFile("x")
	if err != nil {
		t.Fatal(err)
	}
	s, err := safetensors.Parse(f)
	if err != nil {
		t.Fatalf("%v in %q", err, b[:min(len(b), 300)])
	}
	return s
}

var writtenTensors = []testmodel.SafeTensor{
	{Name: "bytes", DType: tensorfs.U8, Shape: []int64{3}, Data: []byte("abc")},
	{Name: "half", DType: tensorfs.F16, Shape: []int64{1, 1}, Data: []byte("de")},
	{Name: `a "quoted"\ name`, DType: tensorfs.F32, Shape: []int64{2}, Data: []byte("01234567")},
	{Name: "codes", DType: tensorfs.U32, Shape: nil, Data: []byte("wxyz")},
	{Name: "brain", DType: tensorfs.BF16, Shape: []int64{1}, Data: []byte("fg")},
	{Name: "none", DType: tensorfs.F32, Shape: []int64{4, 0}, Data: []byte{}},
	{Name: "", DType: tensorfs.Bool, Shape: []int64{1}, Data: []byte("h")},
}

// TestCompose: what is written is read again, in the order of the sizes of
// elements, and as the writer of the tests has it.
func TestCompose(t *testing.T) {
	meta := [][2]string{{"format", "pt"}, {"a\n", "\u2581"}}
	b := written(t, meta, writtenTensors)
	n := binary.LittleEndian.Uint64(b)
	header := b[8 : 8+n]
	if (8+n)%4096 != 0 || n > 4096 || !bytes.HasPrefix(header, []byte(`{"__metadata__":{"format":"pt",`)) {
		t.Errorf("a header of %d bytes: %q", n, header[:60])
	}
	if text := bytes.TrimRight(header, " "); text[len(text)-1] != '}' || !json.Valid(text) {
		t.Errorf("a header of %q", text)
	}
	sorted := make([]testmodel.SafeTensor, 0, len(writtenTensors))
	for _, i := range []int{2, 3, 5, 1, 4, 0, 6} {
		sorted = append(sorted, writtenTensors[i])
	}
	got, want := parsed(t, b), parsed(t, testmodel.Safetensors(sorted, meta))
	if !slices.Equal(got.Metadata, want.Metadata) {
		t.Errorf("metadata %q, want %q", got.Metadata, want.Metadata)
	}
	if len(got.Tensors) != len(want.Tensors) {
		t.Fatal(got.Tensors, want.Tensors)
	}
	base := int64(8 + n)
	for i, g := range got.Tensors {
		w := want.Tensors[i]
		if _, width := g.DType.Block(); g.Offset%width != 0 || i == 0 && g.Offset != base {
			t.Errorf("%q of %s is at %d", g.Name, g.DType, g.Offset)
		}
		x, y := make([]byte, g.Data.Size()), make([]byte, w.Data.Size())
		if err := tensorfs.ReadFull(g.Data, x, 0); err != nil {
			t.Error(err)
		}
		if err := tensorfs.ReadFull(w.Data, y, 0); err != nil {
			t.Error(err)
		}
		if g.Name != w.Name || g.DType != w.DType || !reflect.DeepEqual(g.Shape, w.Shape) || !bytes.Equal(x, y) {
			t.Errorf("tensor %d is %+v, want %+v", i, g, w)
		}
	}
	if b := written(t, nil, nil); len(b) != 4096 || string(bytes.TrimRight(b[8:], " ")) != "{}" {
		t.Errorf("no tensors are %q", b)
	}
}

func TestComposeRefuses(t *testing.T) {
	bytesOf := func(n int) tensorfs.Data { return make(tensorfs.Bytes, n) }
	for _, c := range []struct {
		want string
		meta [][2]string
		list []safetensors.Stored
	}{
		{"\"a\" is there twice", nil, []safetensors.Stored{{"a", tensorfs.U8, nil, bytesOf(1)}, {"a", tensorfs.F32, nil, bytesOf(4)}}},
		{"\"k\" is there twice", [][2]string{{"k", ""}, {"k", "x"}}, nil},
		{"not UTF-8", nil, []safetensors.Stored{{"\xff", tensorfs.U8, nil, bytesOf(1)}}},
		{"not UTF-8", [][2]string{{"k", "\xff"}}, nil},
		{"__metadata__", nil, []safetensors.Stored{{"__metadata__", tensorfs.U8, nil, bytesOf(1)}}},
		{"Q4_0, which safetensors does not have", nil, []safetensors.Stored{{"a", tensorfs.Q4_0, []int64{32}, bytesOf(18)}}},
		{"3 bytes, which do not fit F16", nil, []safetensors.Stored{{"a", tensorfs.F16, []int64{2}, bytesOf(3)}}},
		{"do not fit", nil, []safetensors.Stored{{"a", tensorfs.F16, []int64{1 << 40, 1 << 40}, bytesOf(3)}}},
		{"do not fit", nil, []safetensors.Stored{{"a", tensorfs.F16, []int64{-1}, bytesOf(2)}}},
	} {
		_, err := safetensors.Compose(c.meta, c.list)
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
}

// FuzzComposeNames: any name is refused or read again as it was.
func FuzzComposeNames(f *testing.F) {
	for _, s := range []string{"a", "", "\x00\x1f\"\\/", "\u2028\U0001F600", "\xed\xa0\x80", "__metadata__", "dtype", "<&>"} {
		f.Add(s, s+"x")
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		d, err := safetensors.Compose([][2]string{{a, b}}, []safetensors.Stored{
			{a, tensorfs.U8, []int64{1}, tensorfs.Bytes{1}}, {b, tensorfs.F32, nil, tensorfs.Bytes{1, 2, 3, 4}},
		})
		bad := !utf8.ValidString(a) || !utf8.ValidString(b) || a == b || a == "__metadata__" || b == "__metadata__"
		if bad != (err != nil) {
			t.Fatalf("%q, %q: %v", a, b, err)
		}
		if err != nil {
			return
		}
		file := make([]byte, d.Size())
		if err := tensorfs.ReadFull(d, file, 0); err != nil {
			t.Fatal(err)
		}
		s := parsed(t, file)
		if s.Tensors[0].Name != b || s.Tensors[1].Name != a || s.Metadata[0] != [2]string{a, b} {
			t.Errorf("%q, %q are read as %+v, %q", a, b, s.Tensors, s.Metadata)
		}
	})
}
