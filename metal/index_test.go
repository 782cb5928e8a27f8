package metal

import (
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

// readText reads an index from a file with that text.
func readText(t testing.TB, text string) (*index, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "index.json")
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	x, err := readIndex(f)
	if err == nil {
		t.Cleanup(func() { x.text.Close() })
	}
	return x, err
}

func TestReadIndex(t *testing.T) {
	x, err := readText(t, `{"absent":{"f16":{"b":"it holds integers","a":"no","c":1}},"later":[{"x":[1]}],
	"views":{"raw":{"z.weight":{"extents":[{"file":"m.gguf","offset":64,"bytes":144}],"shape":[1,256],"bytes":144,"dtype":"Q4_K","source_name":"s"},
	                "a.weight": {"dtype":"F32","shape":[],"bytes":4,"extents":[{"bytes":2,"file":{"base64":"AA=="},"offset":0},{"bytes":2,"file":"m.gguf","offset":9}]}
	         },
	         "packed" : { "caf\u00e9" : {"engine_dtype":100,"dtype":"U32","shape":[1,4],"bytes":20,"quant":{"mode":"affine","bits":4,"group_size":32},
	                   "sections":[{"name":"weights","dtype":"U32","offset":0,"bytes":16},{"name":"scales","dtype":"F16","offset":16,"bytes":4}]}}},
	"model":{"format":"gguf","path":{"base64":"AAA="},"architecture":"llama","layout":"","more":1,
	         "files":[{"name":"m.gguf","bytes":7,"inode":18446744073709551615,"mtime_ns":-5,"ctime_ns":1}]},"version":1}`)
	if err != nil {
		t.Fatal(err)
	}
	if want := (ModelInfo{Format: "gguf", Architecture: "llama"}); x.model.info() != want {
		t.Errorf("model %+v, want %+v", x.model.info(), want)
	}
	if want := []fileEntry{{"m.gguf", 7, 1<<64 - 1, -5, 1}}; !reflect.DeepEqual(x.model.Files, want) {
		t.Errorf("files %+v", x.model.Files)
	}
	engine := 100
	for ref, want := range map[Ref]*entry{
		{"raw", "z.weight"}: {DType: "Q4_K", Shape: []int64{1, 256}, Bytes: 144, Extents: []extentEntry{{"m.gguf", 64, 144}}},
		{"raw", "a.weight"}: {DType: "F32", Shape: []int64{}, Bytes: 4, Extents: []extentEntry{{map[string]any{"base64": "AA=="}, 0, 2}, {"m.gguf", 9, 2}}},
		{"packed", "café"}: {DType: "U32", Shape: []int64{1, 4}, Bytes: 20, Quant: &Quant{"affine", 4, 32}, Engine: &engine,
			Sections: []Section{{"weights", "U32", 0, 16}, {"scales", "F16", 16, 4}}},
		{"raw", "b"}: nil, {"f16", "b"}: nil, {"", ""}: nil,
	} {
		if got, err := x.entry(ref); !reflect.DeepEqual(got, want) || err != nil {
			t.Errorf("%s: %+v, %v; want %+v", ref, got, err, want)
		}
	}
	if got := x.views["raw"].names; !slices.Equal(got, []string{"a.weight", "z.weight"}) {
		t.Errorf("names %q", got)
	}
	for ref, want := range map[Ref]string{{"f16", "b"}: "it holds integers", {"f16", "c"}: "", {"f16", "d"}: "", {"raw", "a.weight"}: ""} {
		if got := x.reason(ref); got != want {
			t.Errorf("%s: reason %q", ref, got)
		}
	}
}

// entryText is an index with one entry of the given fields.
func entryText(fields string) string {
	return `{"version":1,"views":{"raw":{"t":{` + fields + `}}}}`
}

func TestReadIndexRefuses(t *testing.T) {
	const sound = `"dtype":"F32","shape":[2],"bytes":8`
	for _, c := range []struct{ text, want string }{
		{entryText(sound), ""},
		{"", "unexpected EOF"},
		{"[]", "was expected"},
		{"{}", "no version"},
		{`{"version":2,"views":{}}`, "version 2"},
		{`{"version":"1"}`, "version"},
		{`{"version":1}x`, "after"},
		{`{"version":1}{}`, "text after the end"},
		{`{"version":1,"views":[]}`, "was expected"},
		{`{"version":1,"views":{"raw":[]}}`, "was expected"},
		{`{"version":1,"views":{"raw":{},"raw":{}}}`, "there twice"},
		{`{"version":1,"views":{"raw":{"t":{` + sound + `},"t":{` + sound + `}}}}`, "there twice"},
		{`{"version":1,"views":{"raw":{"t":3}}}`, "entry"},
		{`{"version":1,"model":3}`, "modelEntry"},
		{`{"version":1,"model":{"files":[{"inode":-1}]}}`, "inode"},
		{entryText(sound)[:40], "unexpected EOF"},
		{entryText(`"dtype":"F32","shape":[2]`), "missing"},
		{entryText(`"dtype":"F32","bytes":8`), "missing"},
		{entryText(`"shape":[2],"bytes":8`), "missing"},
		{entryText(`"dtype":7,"shape":[2],"bytes":8`), "dtype"},
		{entryText(`"dtype":"F32","shape":[-2],"bytes":8`), "shape"},
		{entryText(`"dtype":"F32","shape":[1e400],"bytes":8`), "shape"},
		{entryText(`"dtype":"F32","shape":{},"bytes":8`), "shape"},
		{entryText(`"dtype":"F32","shape":[2],"bytes":-8`), "missing"},
		{entryText(`"dtype":"F32","shape":[2],"bytes":8.5`), "bytes"},
		{entryText(`"dtype":"F32","shape":[2],"bytes":9223372036854775808`), "bytes"},
		{entryText(sound + `,"bytes":9`), "duplicate"},
		{entryText(sound + `,"extents":{}`), "extents"},
		{entryText(sound + `,"extents":[{"file":"m","offset":-1,"bytes":8}]`), "not a range"},
		{entryText(sound + `,"extents":[{"file":"m","offset":9223372036854775800,"bytes":8}]`), "not a range"},
		{entryText(sound + `,"sections":[{"name":"w","offset":4,"bytes":5}]`), "section"},
		{entryText(sound + `,"sections":[{"name":"w","offset":-4,"bytes":5}]`), "section"},
		{entryText(sound + `,"sections":3`), "sections"},
		{entryText(sound + `,"engine_dtype":"x"`), "engine_dtype"},
	} {
		x, err := readText(t, c.text)
		if err == nil {
			_, err = x.entry(Ref{"raw", "t"})
		}
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "index.json: ")) {
			t.Errorf("%s: error %v, want one with %q", c.text, err, c.want)
		}
	}
}

// A text that is too long is not read.
func TestReadIndexTooLong(t *testing.T) {
	path := filepath.Join(t.TempDir(), "index.json")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Truncate(maxText + 1); err != nil {
		t.Fatal(err)
	}
	if _, err := readIndex(f); err == nil || !strings.Contains(err.Error(), "at most 1073741824") {
		t.Errorf("error %v", err)
	}
}

// What takes more memory than a sound tree needs is not read.
func TestReadIndexTooLarge(t *testing.T) {
	for names, want := range map[int]error{2: errNames, 3: nil} {
		left := names
		d := jsontext.NewDecoder(strings.NewReader(`{"a":1,"b":{"x":1,"y":2},"c":3}`))
		if _, err := readObject(d, &left); err != want {
			t.Errorf("%d names: %v", names, err)
		}
	}
	long := `[` + strings.Repeat("1,", maxValue/2) + `1]`
	x, err := readText(t, entryText(`"dtype":"F32","bytes":8,"shape":`+long))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := x.entry(Ref{"raw", "t"}); err == nil || !strings.Contains(err.Error(), "at most 67108864") {
		t.Error(err)
	}
	if _, err := readText(t, `{"version":1,"model":{"more":`+long+`}}`); err == nil || !strings.Contains(err.Error(), "at most 67108864") {
		t.Error(err)
	}
}

func FuzzReadIndex(f *testing.F) {
	f.Add([]byte(entryText(`"dtype":"F32","shape":[2],"bytes":8,"extents":[{"file":"m","offset":0,"bytes":8}]`)))
	f.Add([]byte(`{"version":1,"model":{"path":"x","files":[{"name":"m","inode":1}]},"absent":{"f16":{"a":"b"}}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		x, err := readText(t, string(text))
		if err != nil {
			return
		}
		x.model.info()
		for view, o := range x.views {
			if !slices.IsSorted(o.names) || len(o.names) != len(o.spans) {
				t.Fatalf("view %q: names %q", view, o.names)
			}
			for i, name := range o.names {
				if s := o.spans[i]; s.off < 0 || s.n <= 0 || s.off+s.n > int64(len(text)) {
					t.Fatalf("span %+v of %d", s, len(text))
				}
				e, err := x.entry(Ref{view, name})
				if err == nil && (e == nil || e.check() != nil) {
					t.Fatalf("entry %+v", e)
				}
			}
		}
		for view, o := range x.absent {
			for _, name := range o.names {
				x.reason(Ref{view, name})
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

// The index of 50,000 tensors in eight views must not stay in memory as it came.
func TestReadIndexKeepsLittle(t *testing.T) {
	var text strings.Builder
	const n = 5000
	bigIndex(&text, n)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	x, err := readText(t, text.String())
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
	if got := len(x.views["npy"].names); got != n {
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
		if _, err := readText(b, text.String()); err != nil {
			b.Fatal(err)
		}
	}
}
