package gguf_test

import (
	"bytes"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/gguf"
	"github.com/tensorfs/tensorfs/internal/testing/memory"
	"github.com/tensorfs/tensorfs/internal/testing/testmodel"
)

// parse parses the bytes of a file.
func parse(t testing.TB, b []byte) (*gguf.File, error) {
	t.Helper()
	f, err := memory.New(map[string][]byte{"m.gguf": b}).OpenFile("m.gguf")
	if err != nil {
		t.Fatal(err)
	}
	return gguf.Parse(f)
}

func content(t testing.TB, d tensorfs.Data) []byte {
	t.Helper()
	b := make([]byte, d.Size())
	if err := tensorfs.ReadFull(d, b, 0); err != nil {
		t.Fatal(err)
	}
	return b
}

// everyValue has a value of each type, as a single value and in arrays.
var everyValue = []tensorfs.Meta{
	{Key: "u8", Value: uint8(200)}, {Key: "i8", Value: int8(-5)}, {Key: "u16", Value: uint16(60000)}, {Key: "i16", Value: int16(-300)},
	{Key: "u32", Value: uint32(4e9)}, {Key: "i32", Value: int32(-7)}, {Key: "f32", Value: float32(math.Pi)}, {Key: "bool", Value: true},
	{Key: "text", Value: "a\x00\xff\nü"}, {Key: "u64", Value: uint64(math.MaxUint64)}, {Key: "i64", Value: int64(math.MinInt64)}, {Key: "f64", Value: -0.1},
	{Key: "texts", Value: []string{"", "a", "bc"}}, {Key: "i32s", Value: []int32{1, -2, 3}}, {Key: "f32s", Value: []float32{0, -1.5}},
	{Key: "bytes", Value: []uint8{1, 2}}, {Key: "bools", Value: []bool{true, false}}, {Key: "f64s", Value: []float64{}},
	{Key: "nested", Value: [][]uint16{{1}, {}, {2, 3}}},
}

var threeTensors = []gguf.Stored{
	{Name: "b", DType: tensorfs.F32, Shape: []int64{3}, Data: tensorfs.Bytes(strings.Repeat("x", 12))},
	{Name: "a", DType: tensorfs.Q8_0, Shape: []int64{2, 32}, Data: tensorfs.Bytes(strings.Repeat("y", 68))},
	{Name: "none", DType: tensorfs.F16, Shape: []int64{0, 4}, Data: tensorfs.Bytes(nil)},
	{Name: "one", DType: tensorfs.F32, Shape: []int64{}, Data: tensorfs.Bytes("wxyz")},
}

// TestCompose holds that what is written is what the parser reads.
func TestCompose(t *testing.T) {
	for _, alignment := range []int64{32, 256} {
		meta := everyValue
		if alignment != 32 {
			meta = append([]tensorfs.Meta{{Key: "general.alignment", Value: uint32(alignment)}}, meta...)
		}
		d, err := gguf.Compose(meta, threeTensors)
		if err != nil {
			t.Fatal(err)
		}
		b := content(t, d)
		if int64(len(b))%alignment != 0 {
			t.Errorf("%d bytes", len(b))
		}
		f, err := parse(t, b)
		if err != nil {
			t.Fatal(err)
		}
		if f.Version != 3 || f.BigEndian || f.Alignment != alignment || len(f.Metadata) != len(meta) {
			t.Errorf("%+v", f)
		}
		for i, m := range f.Metadata {
			if m.Key != meta[i].Key || fmt.Sprint(values(m.Value)) != fmt.Sprint(values(meta[i].Value)) || reflect.ValueOf(meta[i].Value).Kind() != reflect.Slice && m.Value != meta[i].Value {
				t.Errorf("%s: %v, want %s: %v", m.Key, values(m.Value), meta[i].Key, meta[i].Value)
			}
		}
		if len(f.Tensors) != len(threeTensors) {
			t.Fatalf("%d tensors", len(f.Tensors))
		}
		for i, x := range f.Tensors {
			want := threeTensors[i]
			if len(want.Shape) == 0 {
				want.Shape = []int64{1}
			}
			if x.Source != want.Name || x.DType != want.DType || !slices.Equal(x.Shape, want.Shape) || !bytes.Equal(content(t, x.Data), content(t, want.Data)) {
				t.Errorf("%+v, want %+v", x, want)
			}
		}
		// A file that was parsed is written again with the same bytes.
		again := make([]gguf.Stored, len(f.Tensors))
		for i, x := range f.Tensors {
			again[i] = gguf.Stored{Name: x.Source, DType: x.DType, Shape: x.Shape, Data: x.Data}
		}
		if d, err := gguf.Compose(f.Metadata, again); err != nil || !bytes.Equal(content(t, d), b) {
			t.Errorf("written again it differs: %v", err)
		}
	}
}

// values returns the elements of an array, or the value itself.
func values(v any) any {
	if a, ok := v.(tensorfs.Array); ok {
		out := []any{}
		for x := range a.Values() {
			out = append(out, values(x))
		}
		return out
	}
	return v
}

// TestComposeAsModels holds the writer against the one that writes the models of tests.
func TestComposeAsModels(t *testing.T) {
	g := testmodel.NewLogical("llama", 1).AsGGUF(tensorfs.Q8_0, false)
	f, err := parse(t, g.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	tensors := make([]gguf.Stored, len(f.Tensors))
	for i, x := range f.Tensors {
		tensors[i] = gguf.Stored{Name: x.Source, DType: x.DType, Shape: x.Shape, Data: x.Data}
	}
	d, err := gguf.Compose(f.Metadata, tensors)
	if err != nil || !bytes.Equal(content(t, d), g.Bytes()) {
		t.Errorf("it differs: %v", err)
	}
}

func TestComposeRefuses(t *testing.T) {
	one := func(change func(*gguf.Stored)) []gguf.Stored {
		s := gguf.Stored{Name: "a", DType: tensorfs.F32, Shape: []int64{1}, Data: tensorfs.Bytes("wxyz")}
		change(&s)
		return []gguf.Stored{s}
	}
	same := func(s *gguf.Stored) {}
	for name, c := range map[string]struct {
		meta    []tensorfs.Meta
		tensors []gguf.Stored
		want    string
	}{
		"key twice":       {[]tensorfs.Meta{{Key: "a", Value: true}, {Key: "a", Value: true}}, nil, "twice"},
		"an int":          {[]tensorfs.Meta{{Key: "a", Value: 5}}, nil, "int"},
		"ints":            {[]tensorfs.Meta{{Key: "a", Value: []int{5}}}, nil, "int"},
		"nothing":         {[]tensorfs.Meta{{Key: "a"}}, nil, "nil"},
		"JSON":            {[]tensorfs.Meta{{Key: "a", Value: struct{}{}}}, nil, "struct"},
		"alignment":       {[]tensorfs.Meta{{Key: "general.alignment", Value: uint32(48)}}, nil, "power of two"},
		"large alignment": {[]tensorfs.Meta{{Key: "general.alignment", Value: uint32(1 << 30)}}, nil, "power of two"},
		"tensor twice":    {nil, append(one(same), one(same)...), "twice"},
		"long name":       {nil, one(func(s *gguf.Stored) { s.Name = strings.Repeat("a", 64) }), "64 bytes"},
		"no name":         {nil, one(func(s *gguf.Stored) { s.Name = "" }), "0 bytes"},
		"dimensions":      {nil, one(func(s *gguf.Stored) { s.Shape = []int64{1, 1, 1, 1, 1} }), "5 dimensions"},
		"size":            {nil, one(func(s *gguf.Stored) { s.Shape = []int64{2} }), "4 bytes"},
		"type":            {nil, one(func(s *gguf.Stored) { s.DType = tensorfs.U32 }), "U32"},
	} {
		if _, err := gguf.Compose(c.meta, c.tensors); err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
