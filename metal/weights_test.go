package metal_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/metal"
	"github.com/tensorfs/tensorfs/views/tree"
)

// weights is a model in memory whose view "v" has some tensors.
type weights struct {
	config  string
	meta    map[string]string // JSON
	tensors map[string]weight
	broken  error // of reads
}

// weight is a tensor that claims a number of bytes.
type weight struct {
	tensorfs.Tensor
	Bytes int64
	data  []byte
}

func (w *weights) Tree() *tree.Tree { return nil }
func (w *weights) Model() *tensorfs.Model {
	m := &tensorfs.Model{Path: "weights"}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal([]byte(w.config), &fields); err != nil && w.config != "" {
		panic(err)
	}
	for name, v := range fields {
		m.Config = append(m.Config, tensorfs.Field{Name: name, Value: tensorfs.JSON(v)})
	}
	for key, v := range w.meta {
		m.Metadata = append(m.Metadata, tensorfs.Meta{Key: key, Value: tensorfs.JSON(v)})
	}
	return m
}
func (w *weights) Views() []string { return []string{"v"} }
func (w *weights) Close() error    { return nil }
func (w *weights) Names(view string) []string {
	return slices.Sorted(maps.Keys(w.tensors))
}
func (w *weights) Tensor(ref metal.Ref) (tensorfs.Tensor, error) {
	t, ok := w.tensors[ref.Name]
	if !ok || ref.View != "v" {
		return tensorfs.Tensor{}, fmt.Errorf("%q: %w", ref.Name, metal.ErrAbsent)
	}
	t.Name, t.Data = ref.Name, said{w, t}
	return t.Tensor, nil
}
func (w *weights) Extents(metal.Ref, *tensorfs.Tensor) []metal.Extent { return nil }

// said are the bytes of a weight.
type said struct {
	*weights
	w weight
}

func (s said) Size() int64 { return s.w.Bytes }
func (s said) ReadAt(p []byte, off int64) (int, error) {
	if s.broken != nil {
		return 0, s.broken
	}
	return bytes.NewReader(s.w.data).ReadAt(p, off)
}

func (w *weights) load(t *testing.T, o metal.Options) *metal.Loader {
	t.Helper()
	h, err := metal.NewHost(metal.HostOptions{PageSize: max(16384, int64(os.Getpagesize())), MaxBufferLength: 64 << 20})
	if err != nil {
		t.Fatal(err)
	}
	o.Device = h
	l, err := metal.NewOf(w, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(l.Close(), h.Close()); err != nil {
			t.Error(err)
		}
	})
	return l
}

// plain is a tensor of rows of 4 floats that count from first on.
func plain(first, rows int) weight {
	b := make([]byte, rows*16)
	for i := range b {
		b[i] = byte(first*16 + i)
	}
	return weight{tensorfs.Tensor{DType: tensorfs.F32, Shape: []int64{int64(rows), 4}}, int64(len(b)), b}
}

// triple is a quantised tensor whose sections are filled with letters.
func triple(letters string, rows int64) weight {
	w := weight{Tensor: tensorfs.Tensor{DType: tensorfs.U32, Shape: []int64{rows, 64}, Quant: &tensorfs.Quant{Mode: "affine", Bits: 4, GroupSize: 64}}}
	for i, s := range []tensorfs.Part{{Name: "weights", DType: "U32", Bytes: 32 * rows}, {Name: "scales", DType: "F16", Bytes: 2 * rows}, {Name: "biases", DType: "F16", Bytes: 2 * rows}} {
		s.Offset = int64(len(w.data))
		w.Parts = append(w.Parts, s)
		w.data = append(w.data, bytes.Repeat([]byte{letters[i]}, int(s.Bytes))...)
	}
	w.Bytes = int64(len(w.data))
	return w
}

// with changes a weight.
func (w weight) with(change func(w *weight)) weight {
	w.Parts, w.Shape = slices.Clone(w.Parts), slices.Clone(w.Shape)
	if w.Quant != nil {
		q := *w.Quant
		w.Quant = &q
	}
	change(&w)
	return w
}

// TestFusedLarge joins tensors that are read in many parts, by several workers.
func TestFusedLarge(t *testing.T) {
	w := &weights{tensors: map[string]weight{}}
	var names []string
	var want []byte
	for i, rows := range []int{300_000, 1, 524_288, 262_145} {
		name := fmt.Sprint(i)
		w.tensors[name] = plain(i*7, rows)
		for k := range w.tensors[name].data {
			w.tensors[name].data[k] = byte(k>>16) ^ byte(k*(i+1))
		}
		names, want = append(names, name), append(want, w.tensors[name].data...)
	}
	b, err := w.load(t, metal.Options{TailPad: 100}).Fused("v", names...)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Release()
	if !bytes.Equal(b.Contents, want) {
		t.Error("other bytes than those of the tensors")
	}
}

func TestFusedRows(t *testing.T) {
	w := &weights{tensors: map[string]weight{
		"a": plain(0, 3), "b": plain(3, 2), "none": plain(0, 0), "bias": {tensorfs.Tensor{DType: tensorfs.F32, Shape: []int64{2}}, 8, []byte("12345678")},
		"q": triple("QRS", 3), "k": triple("KLM", 2),
		"hollow": plain(0, 0).with(func(w *weight) { w.Parts = []tensorfs.Part{} }),
	}}
	l := w.load(t, metal.Options{})
	for _, test := range []struct {
		names []string
		want  string
		shape []int64
	}{
		{[]string{"a", "b"}, string(plain(0, 5).data), []int64{5, 4}},
		{[]string{"b", "none", "a"}, string(plain(3, 2).data) + string(plain(0, 3).data), []int64{5, 4}},
		{[]string{"none", "none"}, "", []int64{0, 4}},
		{[]string{"hollow", "none"}, "", []int64{0, 4}},
		{[]string{"bias", "bias", "bias"}, "123456781234567812345678", []int64{6}},
		{[]string{"q", "k"}, strings.Repeat("Q", 96) + strings.Repeat("K", 64) + strings.Repeat("R", 6) + strings.Repeat("L", 4) + strings.Repeat("S", 6) + strings.Repeat("M", 4), []int64{5, 64}},
	} {
		b, err := l.Fused("v", test.names...)
		if err != nil {
			t.Errorf("%v: %v", test.names, err)
			continue
		}
		info, err := l.FusedInfo("v", test.names...)
		if string(b.Contents) != test.want || err != nil || !slices.Equal(info.Shape, test.shape) || info.Data.Size() != b.Size {
			t.Errorf("%v: %q, %+v, %v", test.names, b.Contents, info, err)
		}
		end := int64(0)
		for _, s := range info.Parts {
			if s.Offset != end {
				t.Errorf("%+v", info.Parts)
			}
			end += s.Bytes
		}
		if info.Parts != nil && end != b.Size {
			t.Errorf("%+v", info.Parts)
		}
		if err := b.Release(); err != nil {
			t.Error(err)
		}
	}
}

// TestFusedRefuses has tensors that cannot be joined, and trees that lie.
func TestFusedRefuses(t *testing.T) {
	a, q := plain(0, 4), triple("QRS", 4)
	const huge = 1 << 56
	w := &weights{tensors: map[string]weight{
		"a": a, "q": q,
		"scalar":   a.with(func(w *weight) { w.Shape = nil }),
		"columns":  a.with(func(w *weight) { w.Shape = []int64{2, 8} }),
		"stack":    a.with(func(w *weight) { w.Shape = []int64{2, 2, 4} }),
		"half":     a.with(func(w *weight) { w.DType, w.Shape = tensorfs.F16, []int64{8, 4} }),
		"unknown":  a.with(func(w *weight) { w.DType = tensorfs.Unknown }),
		"npy":      a.with(func(w *weight) { w.Bytes += 4096 }),
		"i2s":      a.with(func(w *weight) { w.DType = tensorfs.I2_S }),
		"groups":   a.with(func(w *weight) { w.DType, w.Shape, w.Bytes = tensorfs.Q4_0_4_4, []int64{3, 32}, 54 }),
		"negative": a.with(func(w *weight) { w.Shape = []int64{-4, -4} }),
		"fp8":      q.with(func(w *weight) { w.Quant.Mode = "fp8" }),
		"bits":     q.with(func(w *weight) { w.Quant.Bits = 8 }),
		"no quant": q.with(func(w *weight) { w.Quant = nil }),
		"two":      q.with(func(w *weight) { w.Parts[1].Bytes += w.Parts[2].Bytes; w.Parts = w.Parts[:2] }),
		"renamed":  q.with(func(w *weight) { w.Parts[2].Name = "shifts" }),
		"overlap":  q.with(func(w *weight) { w.Parts[1].Offset-- }),
		"short":    q.with(func(w *weight) { w.Parts[2].Bytes -= 4 }),
		"ragged":   q.with(func(w *weight) { w.Parts[0].Bytes--; w.Parts[1].Offset--; w.Parts[1].Bytes++ }),
		"longer": q.with(func(w *weight) {
			w.Parts[0].Bytes -= 4
			w.Parts[1].Offset, w.Parts[1].Bytes = w.Parts[1].Offset-4, w.Parts[1].Bytes+4
		}),
		"below":   q.with(func(w *weight) { w.Parts[1].Bytes = -4 }),
		"no rows": q.with(func(w *weight) { w.Shape[0] = 0 }),
		"rows":    a.with(func(w *weight) { w.Shape, w.Bytes = []int64{math.MaxInt64, 0}, 0 }),
		"huge":    a.with(func(w *weight) { w.Shape, w.Bytes = []int64{huge, 4}, huge*16 }),
		"large":   a.with(func(w *weight) { w.Shape, w.Bytes = []int64{3 << 20, 4}, 48<<20 }),
		"lies":    a.with(func(w *weight) { w.data = w.data[:60] }),
	}}
	l := w.load(t, metal.Options{})
	for _, test := range []struct{ names, want string }{
		{"", "at least two"}, {"a", "at least two"}, {"a nothing", "not in the model"},
		{"a scalar", "single number"}, {"a columns", "no common columns"}, {"a stack", "no common columns"}, {"a half", "different types, F32 and F16"},
		{"unknown unknown", "UNKNOWN"}, {"npy npy", "are more or less than the rows"}, {"i2s i2s", "more than rows"}, {"groups groups", "mixes the bytes of 4 rows"},
		{"negative negative", "are more or less than the rows"}, {"fp8 fp8", "its quantisation, fp8"}, {"q bits", "different quantisations"}, {"q no_quant", "different quantisations"},
		{"q two", "different sections"}, {"q renamed", "different sections"}, {"overlap q", "does not begin where"}, {"short q", "its sections have 140 bytes of 144"},
		{"ragged q", "do not divide into 4 rows"}, {"q longer", "rows of different lengths"}, {"below q", "does not begin where"}, {"q no_rows", "do not divide into 0 rows"},
		{strings.Repeat("huge ", 8), "2^63"}, {"rows rows", "2^63"}, {"large large", "takes buffers of at most"}, {"a lies", "unexpected EOF"},
	} {
		names := strings.Fields(test.names)
		for i := range names {
			names[i] = strings.ReplaceAll(names[i], "_", " ")
		}
		_, err := l.Fused("v", names...)
		if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", test.names, err)
		}
	}
	if _, err := l.Fused("w", "a", "a"); !errors.Is(err, metal.ErrAbsent) {
		t.Error(err)
	}
	w.broken = errors.New("broken")
	if _, err := l.Fused("v", "a", "a"); !errors.Is(err, w.broken) {
		t.Error(err)
	}
	w.broken = nil
	b, err := l.Fused("v", "a", "a") // nothing of the failure stays
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Release(); err != nil {
		t.Error(err)
	}
	if b.Release() == nil {
		t.Error("it was released twice")
	}
	small := w.load(t, metal.Options{MaxMemory: 100})
	if _, err := small.Fused("v", "a", "a"); err == nil || !strings.Contains(err.Error(), "may be taken") {
		t.Error(err)
	}
}

func TestMetadataValues(t *testing.T) {
	w := &weights{meta: map[string]string{
		"text": `"x"`, "raw": `{"base64":"//4="}`, "bad": `{"base64":"!"}`, "int": `-7`, "large": `18446744073709551615`, "float": `1.5`, "nan": `"NaN"`, "inf": `"-Infinity"`,
		"yes": `true`, "null": `null`, "texts": `["a",{"base64":"/w=="}]`, "ints": `[1,2]`, "mixed": `[1,"a"]`, "floats": `[1,2.5,"Infinity"]`, "empty": `[]`, "object": `{"a":1}`, "broken": `{`,
	}}
	l := w.load(t, metal.Options{})
	for _, test := range []struct{ got, want any }{
		{l.MetaString("text", "-"), "x"}, {l.MetaString("raw", "-"), "\xff\xfe"}, {l.MetaString("bad", "-"), "-"}, {l.MetaString("int", "-"), "-"},
		{l.MetaString("object", "-"), "-"}, {l.MetaString("null", "-"), "-"}, {l.MetaString("broken", "-"), "-"},
		{l.MetaInt("int", 1), int64(-7)}, {l.MetaInt("large", 1), int64(1)}, {l.MetaInt("float", 1), int64(1)}, {l.MetaInt("text", 1), int64(1)},
		{l.MetaFloat("int", 1), -7.0}, {l.MetaFloat("float", 1), 1.5}, {l.MetaFloat("inf", 1), math.Inf(-1)}, {l.MetaFloat("text", 1), 1.0}, {math.IsNaN(l.MetaFloat("nan", 1)), true},
		{l.MetaBool("yes", false), true}, {l.MetaBool("int", true), true},
		{l.MetaStrings("texts"), []string{"a", "\xff"}}, {l.MetaStrings("mixed"), []string(nil)}, {l.MetaStrings("text"), []string(nil)}, {l.MetaStrings("empty"), []string{}},
		{l.MetaInts("ints"), []int64{1, 2}}, {l.MetaInts("floats"), []int64(nil)}, {l.MetaFloats("floats"), []float64{1, 2.5, math.Inf(1)}}, {l.MetaFloats("mixed"), []float64(nil)},
	} {
		if !reflect.DeepEqual(test.got, test.want) {
			t.Errorf("%#v, not %#v", test.got, test.want)
		}
	}
}

func TestConfigValues(t *testing.T) {
	w := &weights{}
	l := w.load(t, metal.Options{})
	w.config = `{"dim": 64, "n_heads": 4, "n_heads_per_layer": [4, 2], "norm_eps": 1e-5, "sliding_window_pattern": 3, "tie_embeddings": true, "of a later release": {}}`
	c, err := l.Config()
	if err != nil || c.Dim != 64 || !slices.Equal(c.NHeadsPerLayer, []int64{4, 2}) || c.NormEps != 1e-5 || !c.TieEmbeddings || c.VocabSize != 0 {
		t.Errorf("%+v, %v", c, err)
	}
	for layer, want := range []bool{true, true, false, true} {
		if c.SlidingWindowPattern.Window(layer) != want {
			t.Error(layer)
		}
	}
	w.config = `{"sliding_window_pattern": [false, true]}`
	if c, err = l.Config(); err != nil || c.SlidingWindowPattern.Window(0) || !c.SlidingWindowPattern.Window(1) || c.SlidingWindowPattern.Window(2) || c.SlidingWindowPattern.Window(-1) {
		t.Errorf("%+v, %v", c, err)
	}
	if (metal.Pattern{}).Window(0) {
		t.Error("a window without a pattern")
	}
	for _, text := range []string{`{"dim": "x"}`, `{"sliding_window_pattern": "x"}`, `{"dim": 1.5}`} {
		w.config = text
		if _, err := l.Config(); err == nil || !strings.Contains(err.Error(), "config.json") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", text, err)
		}
	}
}
