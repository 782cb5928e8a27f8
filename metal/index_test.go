package metal

import (
	"fmt"
	"io"
	"math/rand/v2"
	"reflect"
	"runtime"
	"strings"
	"testing"
)

func TestReadIndex(t *testing.T) {
	const text = `{"absent":{"f16":{"b":"it holds integers","a":"no"}},"later":[{"x":[1]}],
	"views":{"raw":{"z.weight":{"extents":[{"file":"m.gguf","offset":64,"bytes":144}],"shape":[1,256],"bytes":144,"dtype":"Q4_K","source_name":"s"},
	                "a.weight":{"dtype":"F32","shape":[],"bytes":4,"extents":[{"bytes":2,"file":"m.gguf","offset":0},{"bytes":2,"file":"m.gguf","offset":9}]},
	                "short":{"dtype":"F32","shape":[2],"bytes":8,"extents":[{"bytes":2,"file":"m.gguf","offset":0}]}},
	         "packed":{"caf\u00e9":{"engine_dtype":100,"dtype":"U32","shape":[1,4],"bytes":20,"quant":{"mode":"affine","bits":4,"group_size":32},
	                   "sections":[{"name":"weights","dtype":"U32","offset":0,"bytes":16},{"name":"scales","dtype":"F16","offset":16,"bytes":4}]}}},
	"model":{"format":"gguf","path":{"base64":"AAA="},"architecture":"llama","layout":"","more":1},"version":1}`
	x, err := readIndex(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	if want := (ModelInfo{Format: "gguf", Architecture: "llama"}); x.model != want {
		t.Errorf("model %+v, want %+v", x.model, want)
	}
	type flat struct {
		name, dtype   string
		shape         []int64
		bytes, offset int64
		file          string
		layout        layout
	}
	flatten := func(e *entry) flat {
		f := flat{e.name, x.dtypes[e.dtype], x.shapes[e.shape], e.bytes, e.offset, "", x.layout[e.layout]}
		if e.file >= 0 {
			f.file = x.files[e.file]
		}
		return f
	}
	plain := layout{engine: -1}
	want := map[string][]flat{
		"raw": {
			{"a.weight", "F32", []int64{}, 4, 0, "", plain},
			{"short", "F32", []int64{2}, 8, 0, "", plain},
			{"z.weight", "Q4_K", []int64{1, 256}, 144, 64, "m.gguf", plain},
		},
		"packed": {{"café", "U32", []int64{1, 4}, 20, 0, "", layout{
			[]Section{{"weights", "U32", 0, 16}, {"scales", "F16", 16, 4}}, &Quant{"affine", 4, 32}, 100}}},
		"f16": nil,
	}
	if len(x.views) != len(want) {
		t.Errorf("%d views, want %d", len(x.views), len(want))
	}
	for name, entries := range want {
		v := x.view(name)
		if v == nil {
			t.Fatalf("view %q is missing", name)
		}
		var got []flat
		for i := range v.entries {
			got = append(got, flatten(&v.entries[i]))
			if e := v.entry(v.entries[i].name); e != &v.entries[i] {
				t.Errorf("entry %q is not found", v.entries[i].name)
			}
		}
		if !reflect.DeepEqual(got, entries) {
			t.Errorf("view %q:\n got %+v\nwant %+v", name, got, entries)
		}
	}
	if why, ok := x.view("f16").reason("b"); !ok || why != "it holds integers" {
		t.Errorf("reason %q, %v", why, ok)
	}
	if _, ok := x.view("f16").reason("c"); ok {
		t.Error("a reason for what is not absent")
	}
}

// entryText is an index with one entry of the given fields.
func entryText(fields string) string {
	return `{"version":1,"views":{"raw":{"t":{` + fields + `}}}}`
}

func TestReadIndexRefuses(t *testing.T) {
	const sound = `"dtype":"F32","shape":[2],"bytes":8`
	if _, err := readIndex(strings.NewReader(entryText(sound))); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ text, want string }{
		{"", "unexpected EOF"},
		{"[]", "was expected"},
		{"{}", "no version"},
		{`{"version":2,"views":{}}`, "version 2"},
		{`{"version":"1"}`, "where a size was expected"},
		{`{"version":1}x`, "text after the end"},
		{`{"version":1}{}`, "text after the end"},
		{`{"version":1,"views":[]}`, "was expected"},
		{`{"version":1,"views":{"raw":{"t":3}}}`, "was expected"},
		{`{"version":1,"views":{"raw":{"t":{` + sound + `},"t":{` + sound + `}}}}`, "is in it twice"},
		{`{"version":1,"absent":{"raw":{"t":3}}}`, "where a string was expected"},
		{entryText(sound)[:40], "unexpected EOF"},
		{entryText(`"dtype":"F32","shape":[2]`), "missing"},
		{entryText(`"dtype":"F32","bytes":8`), "missing"},
		{entryText(`"shape":[2],"bytes":8`), "missing"},
		{entryText(`"dtype":7,"shape":[2],"bytes":8`), "where a string"},
		{entryText(`"dtype":"F32","shape":[-2],"bytes":8`), "shape"},
		{entryText(`"dtype":"F32","shape":[1e400],"bytes":8`), ""},
		{entryText(`"dtype":"F32","shape":{},"bytes":8`), ""},
		{entryText(`"dtype":"F32","shape":[2],"bytes":-8`), "where a size"},
		{entryText(`"dtype":"F32","shape":[2],"bytes":8.5`), "where a size"},
		{entryText(`"dtype":"F32","shape":[2],"bytes":9223372036854775808`), "where a size"},
		{entryText(sound + `,"extents":{}`), "was expected"},
		{entryText(sound + `,"extents":[{"file":"m","offset":0}]`), "not a range"},
		{entryText(sound + `,"extents":[{"file":"m","offset":9223372036854775800,"bytes":8}]`), "not a range"},
		{entryText(sound + `,"extents":[{"file":"m","offset":0,"bytes":8},{}]`), "not a range"},
		{entryText(sound + `,"sections":[{"name":"w","offset":4,"bytes":5}]`), "section"},
		{entryText(sound + `,"sections":[{"name":"w","offset":-4,"bytes":5}]`), "section"},
		{entryText(sound + `,"sections":3`), ""},
		{entryText(sound + `,"engine_dtype":"x"`), ""},
	} {
		_, err := readIndex(strings.NewReader(c.text))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want one with %q", c.text, err, c.want)
		}
	}
}

// A layout that repeats is decoded once, and still checked against each entry.
func TestReadIndexSectionsOfSmallerEntry(t *testing.T) {
	const sections = `"sections":[{"name":"w","dtype":"U8","offset":0,"bytes":8}]`
	text := `{"version":1,"views":{"raw":{
	"a":{"dtype":"U8","shape":[8],"bytes":8,` + sections + `},
	"b":{"dtype":"U8","shape":[4],"bytes":4,` + sections + `}}}}`
	if _, err := readIndex(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), `"b"`) {
		t.Errorf("error %v, want one about b", err)
	}
}

func FuzzReadIndex(f *testing.F) {
	f.Add([]byte(entryText(`"dtype":"F32","shape":[2],"bytes":8,"extents":[{"file":"m","offset":0,"bytes":8}]`)))
	f.Add([]byte(`{"version":1,"model":{"path":"x"},"absent":{"f16":{"a":"b"}}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		x, err := readIndex(strings.NewReader(string(text)))
		if err != nil {
			return
		}
		for _, v := range x.views {
			for _, e := range v.entries {
				if e.bytes < 0 || e.offset < 0 || e.offset+e.bytes < 0 || int(e.file) >= len(x.files) {
					t.Fatalf("entry %+v", e)
				}
				_, _, _ = x.dtypes[e.dtype], x.shapes[e.shape], x.layout[e.layout]
			}
		}
	})
}

// bigIndex writes the index of a model of n tensors in eight views.
func bigIndex(w io.Writer, n int) {
	fmt.Fprint(w, `{"version":1,"model":{"format":"safetensors","path":"/m","architecture":"deepseek2","layout":""},"views":{`)
	rng := rand.New(rand.NewPCG(1, 2))
	for v, view := range []string{"raw", "packed", "f16", "bf16", "f32", "fused", "fused-f16", "npy"} {
		if v > 0 {
			fmt.Fprint(w, ",\n")
		}
		fmt.Fprintf(w, "%q:{", view)
		for i := range n {
			if i > 0 {
				fmt.Fprint(w, ",\n")
			}
			name := fmt.Sprintf("layers.%d.ffn.experts.%d.gate.weight", i/256, i%256)
			fmt.Fprintf(w, `%q:{"dtype":"BF16","shape":[7168,2048],"bytes":29360128,"source_name":"model.layers.%d.mlp.experts.%d.gate_proj.weight","extents":[{"file":"model-%05d-of-00163.safetensors","offset":%d,"bytes":29360128}],"quant":{"mode":"affine","bits":4,"group_size":64},"sections":[{"name":"weights","dtype":"U32","offset":0,"bytes":7340032},{"name":"scales","dtype":"F16","offset":7340032,"bytes":458752}],"engine_dtype":100}`,
				name, i/256, i%256, i/300, rng.Uint64N(1<<33))
		}
		fmt.Fprint(w, "}")
	}
	fmt.Fprint(w, "}}\n")
}

// The index of 50,000 tensors in eight views must neither take long to read nor
// stay in memory as it came.
func TestReadIndexKeepsLittle(t *testing.T) {
	var text strings.Builder
	const n = 5000
	bigIndex(&text, n)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	x, err := readIndex(strings.NewReader(text.String()))
	if err != nil {
		t.Fatal(err)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	perEntry := float64(after.HeapAlloc-before.HeapAlloc) / (8 * n)
	t.Logf("%d bytes of text and %.0f of memory per entry", text.Len()/(8*n), perEntry)
	if perEntry > 100 {
		t.Errorf("%.0f bytes are kept per entry", perEntry)
	}
	if got := len(x.view("npy").entries); got != n {
		t.Errorf("%d entries", got)
	}
	runtime.KeepAlive(x)
}

func BenchmarkReadIndex(b *testing.B) {
	var text strings.Builder
	bigIndex(&text, 50_000)
	b.SetBytes(int64(text.Len()))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := readIndex(strings.NewReader(text.String())); err != nil {
			b.Fatal(err)
		}
	}
}
