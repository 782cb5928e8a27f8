package views

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs"
)

// indexFile is index.json as readers outside know it; strict decoding refuses
// any other field.
type indexFile struct {
	Version int `json:"version"`
	Model   struct {
		Format       string `json:"format"`
		Path         string `json:"path"`
		Architecture string `json:"architecture"`
		Layout       string `json:"layout"`
	} `json:"model"`
	Views  map[string]map[string]indexEntry `json:"views"`
	Absent map[string]map[string]string     `json:"absent"`
}

type indexEntry struct {
	DType            string            `json:"dtype"`
	Shape            []int64           `json:"shape"`
	Bytes            int64             `json:"bytes"`
	SourceName       *string           `json:"source_name"`
	SourceNameBase64 *string           `json:"source_name_base64"`
	Extents          []tensorfs.Extent `json:"extents"`
	Sections         []tensorfs.Part   `json:"sections"`
	EngineDType      *int              `json:"engine_dtype"`
	Module           *Module           `json:"module"`
	BigEndian        bool              `json:"big_endian"`
	Opaque           string            `json:"opaque"`
	Apart            string            `json:"apart"`
	MayOverflow      bool              `json:"may_overflow"`
	Factor           string            `json:"factor"`
	Quant            *struct {
		Mode      string `json:"mode"`
		Bits      int    `json:"bits"`
		GroupSize int    `json:"group_size"`
	} `json:"quant"`
}

// parseIndex reads index.json strictly.
func parseIndex(t *testing.T, text []byte) (x indexFile) {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&x); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	if _, err := d.Token(); err != io.EOF {
		t.Fatalf("text after the end: %v", err)
	}
	return x
}

func TestIndex(t *testing.T) {
	m := describe(t, `
		layers.0.attention.q.weight affine:4:64:F16 4x64
		layers.0.attention.k.weight affine:4:64:F16 2x64
		layers.0.attention.v.weight affine:6:64:BF16 2x64
		layers.0.ffn.gate.weight Q4_K 2x256
		layers.0.ffn.up.weight Q4_K 2x256
		norm.weight F32 3
		scalar BF16 -
		five affine:5:32:F16 1x32
		mx mxfp4 1x32
		twin IQ4_KS 1x256 foreign
		positions I64 4
		strange UNKNOWN 7 nobody knows "this"
		empty F16 0x3`)
	m.Format, m.Path, m.Architecture, m.Layout = "gguf", "/models/\"odd\"\n\xff", "llama", "hf"
	raw := m.Tensor("norm.weight")
	raw.Source = "norm\xff\x00"
	m.Tensor("scalar").Source = "sca\"lar\n"
	built := Build(m, Options{})
	d := Index(m, built)
	text := content(t, d)
	if !json.Valid(text) {
		t.Fatalf("no JSON: %s", text)
	}
	checkData(t, tensorfs.Section(d, 100, 150), text[100:250])
	// The path is not UTF-8: it is an object there, as everywhere.
	if !bytes.Contains(text, []byte(`"path":{"base64":"`+base64.StdEncoding.EncodeToString([]byte(m.Path))+`"}`)) {
		t.Errorf("the path is missing in %.200s", text)
	}
	m.Path = "/models/\"odd\"\n"
	x := parseIndex(t, content(t, Index(m, built)))
	if x.Version != 1 || x.Model.Format != "gguf" || x.Model.Path != m.Path || x.Model.Architecture != "llama" || x.Model.Layout != "hf" {
		t.Errorf("model %+v", x.Model)
	}
	if len(x.Views) != len(built) || len(built) != 8 {
		t.Errorf("%d views of %d", len(x.Views), len(built))
	}
	for _, b := range built {
		if len(x.Views[b.Name]) != b.Tensors.Len() {
			t.Errorf("%s: %d entries for %d files", b.Name, len(x.Views[b.Name]), b.Tensors.Len())
		}
		for _, file := range list(b.Tensors) {
			checkEntry(t, b.Name, &file, x.Views[b.Name][file.Name])
		}
		if _, has := x.Absent[b.Name]; has != (b.Absent.Len() > 0) {
			t.Errorf("%s: absent is there: %v, for %d", b.Name, has, b.Absent.Len())
		}
		for i := range b.Absent.Len() {
			if name, reason := b.Absent.Name(i), b.Absent.Reason(i); x.Absent[b.Name][name] != reason {
				t.Errorf("%s: %s is absent: %q, want %q", b.Name, name, x.Absent[b.Name][name], reason)
			}
		}
		if len(x.Absent[b.Name]) != b.Absent.Len() {
			t.Errorf("%s: %d absent, want %d", b.Name, len(x.Absent[b.Name]), b.Absent.Len())
		}
	}
	if x.Absent["raw"] != nil || x.Absent["f16"]["positions"] == "" || x.Absent["npy"]["positions.npy"] == "" || x.Absent["fused"]["layers.0.attention.qkv.weight"] == "" {
		t.Errorf("absent %v", x.Absent)
	}

	// What engines read of single files.
	code := func(n int) *int { return &n }
	for path, want := range map[string]struct {
		dtype  string
		shape  string
		engine *int
		quant  string
	}{
		"raw/layers.0.attention.q.weight":       {"U32", "[4 8]", nil, "&{affine 4 64}"},
		"raw/layers.0.attention.q.scales":       {"F16", "[4 1]", nil, "<nil>"},
		"packed/layers.0.attention.q.weight":    {"U32", "[4 64]", code(100), "&{affine 4 64}"},
		"packed/layers.0.attention.v.weight":    {"U32", "[2 64]", code(102), "&{affine 6 64}"},
		"packed/layers.0.ffn.gate.weight":       {"Q4_K", "[2 256]", code(12), "<nil>"},
		"packed/norm.weight":                    {"F16", "[3]", code(1), "<nil>"},
		"f16/layers.0.attention.q.weight":       {"F16", "[4 64]", code(1), "<nil>"},
		"f16/scalar":                            {"F16", "[]", code(1), "<nil>"},
		"fused/layers.0.attention.qk.weight":    {"U32", "[6 64]", code(100), "&{affine 4 64}"},
		"fused/layers.0.ffn.gate_up.weight":     {"Q4_K", "[4 256]", code(12), "<nil>"},
		"bf16/layers.0.attention.q.weight":      {"BF16", "[4 64]", code(30), "<nil>"},
		"f32/layers.0.attention.q.weight":       {"F32", "[4 64]", code(0), "<nil>"},
		"fused-f16/layers.0.ffn.gate_up.weight": {"F16", "[4 256]", code(1), "<nil>"},
		"packed/five":                           {"U32", "[1 32]", nil, "&{affine 5 32}"},
		"packed/mx":                             {"U32", "[1 32]", nil, "&{mxfp4 4 32}"},
		"packed/twin":                           {"IQ4_KS", "[1 256]", code(144), "<nil>"},
		"npy/empty.npy":                         {"F16", "[0 3]", nil, "<nil>"},
	} {
		dir, name, _ := strings.Cut(path, "/")
		e, ok := x.Views[dir][name]
		if !ok || e.DType != want.dtype || fmt.Sprint(e.Shape) != want.shape || !reflect.DeepEqual(e.EngineDType, want.engine) || fmt.Sprint(e.Quant) != want.quant {
			t.Errorf("%s is %+v, want %+v", path, e, want)
		}
	}
}

// TestFactor holds that index.json names the tensor that multiplies the numbers of another, and that
// matrices with factors of their own are not joined.
func TestFactor(t *testing.T) {
	m := describe(t, `
		layers.0.ffn.gate.weight NVFP4 2x64
		layers.0.ffn.up.weight NVFP4 2x64`)
	all, err := Choose([]string{Default})
	if err != nil {
		t.Fatal(err)
	}
	counted := func() (joined, factors int) {
		for view, list := range parseIndex(t, content(t, Index(m, Build(m, Options{Views: all})))).Views {
			for name, e := range list {
				if strings.HasPrefix(view, "fused") && strings.HasSuffix(name, "gate_up.weight") {
					joined++
				}
				if e.Factor == "layers.0.ffn.gate.scale" {
					factors++
				}
			}
		}
		return joined, factors
	}
	if joined, factors := counted(); joined != 2 || factors != 0 {
		t.Fatalf("without factors: %d joined, %d factors", joined, factors)
	}
	m.Tensors[0].Factor = "layers.0.ffn.gate.scale"
	if joined, factors := counted(); joined != 0 || factors != 6 {
		t.Errorf("with a factor: %d joined, %d files name it", joined, factors)
	}
}

// TestMayOverflow holds that index.json marks tensors in which infinity may be a larger number of
// the source: in halves, and in no other type.
func TestMayOverflow(t *testing.T) {
	m := describe(t, `
		a F32 4
		b F16 4
		c BF16 4
		d F64 4
		e Q8_0 32
		f TQ1_0 256
		g mxfp4 1x32
		h nvfp4 1x32
		i affine:4:32:BF16 1x32
		j affine:4:32:F16 1x32
		layers.0.ffn.gate.weight BF16 2x4
		layers.0.ffn.up.weight F16 2x4`)
	all, err := Choose([]string{Default, "npy-f32"})
	if err != nil {
		t.Fatal(err)
	}
	x := parseIndex(t, content(t, Index(m, Build(m, Options{Views: all}))))
	for view, want := range map[string]string{
		"raw":       "",
		"packed":    "a c i layers.0.ffn.gate.weight",
		"f16":       "a c d e g i j layers.0.ffn.gate.weight",
		"bf16":      "",
		"f32":       "",
		"fused":     "layers.0.ffn.gate_up.weight",
		"fused-f16": "layers.0.ffn.gate_up.weight",
		"npy":       "a.npy c.npy d.npy e.npy g.npy i.npy j.npy layers.0.ffn.gate.weight.npy",
		"npy-f32":   "",
	} {
		var got []string
		for name, e := range x.Views[view] {
			if e.MayOverflow {
				got = append(got, name)
			}
		}
		slices.Sort(got)
		if strings.Join(got, " ") != want {
			t.Errorf("%s/: %v, want %s", view, got, want)
		}
	}
}

// checkEntry compares an entry of index.json with the file.
func checkEntry(t *testing.T, view string, x *tensorfs.Tensor, e indexEntry) {
	t.Helper()
	source := ""
	switch {
	case e.SourceName != nil && e.SourceNameBase64 == nil:
		source = *e.SourceName
	case e.SourceName == nil && e.SourceNameBase64 != nil:
		b, err := base64.StdEncoding.DecodeString(*e.SourceNameBase64)
		if err != nil || json.Valid([]byte(`"`+string(b)+`"`)) {
			t.Errorf("%s/%s: source_name_base64 is %q, %v", view, x.Name, b, err)
		}
		source = string(b)
	}
	shape := x.Shape
	if shape == nil {
		shape = []int64{}
	}
	if source != x.Source || e.DType != x.DType.String() || e.Bytes != x.Data.Size() || !reflect.DeepEqual(e.Shape, shape) || !reflect.DeepEqual(e.Sections, x.Parts) || e.MayOverflow != x.MayOverflow {
		t.Errorf("%s/%s is %+v, want %+v", view, x.Name, e, x)
	}
	if !reflect.DeepEqual(e.Extents, tensorfs.Extents(x.Data)) {
		t.Errorf("%s/%s is at %+v, want %+v", view, x.Name, e.Extents, tensorfs.Extents(x.Data))
	}
	if view == "raw" && e.Extents == nil || strings.HasPrefix(view, "npy") && e.Extents != nil {
		t.Errorf("%s/%s is at %+v", view, x.Name, e.Extents)
	}
	if (e.Quant != nil) != (x.Quant != nil) || (e.Sections != nil) != (view == "packed" || view == "fused") {
		t.Errorf("%s/%s is %+v", view, x.Name, e)
	}
}

// TestIndexGarbage holds that an entry is rendered without garbage but for the places
// of its bytes.
func TestIndexGarbage(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector makes sync.Pool forget")
	}
	m := model(t, 1000)
	raw := Build(m, Options{})[:1]
	if n := testing.AllocsPerRun(5, func() { Index(m, raw).Size() }); n > 1300 {
		t.Errorf("the index of %d tensors allocates %v times", len(m.Tensors), n)
	}
}

// Views that show the same tensors and leave out the same have one list of them.
func TestViewsShareLists(t *testing.T) {
	m := describe(t, `
		layers.0.attention.q.weight affine:4:64:F16 4x64
		layers.0.ffn.gate.weight Q4_K 2x256
		positions I64 4`)
	built := map[string]Built{}
	for _, b := range Build(m, Options{}) {
		built[b.Name] = b
	}
	half := built["f16"]
	for _, name := range []string{"bf16", "f32"} {
		v := built[name]
		if half.Absent.Len() == 0 || v.Absent != half.Absent || &v.Tensors.(*derived).index[0] != &half.Tensors.(*derived).index[0] {
			t.Errorf("%s/ has lists of its own", name)
		}
	}
}

// TestIndexEmpty holds that a model without tensors has an index too.
func TestIndexEmpty(t *testing.T) {
	m := describe(t, "")
	x := parseIndex(t, content(t, Index(m, Build(m, Options{}))))
	if len(x.Views) != 8 || len(x.Absent) != 0 || x.Absent == nil {
		t.Errorf("%+v", x)
	}
	for name, v := range x.Views {
		if v == nil || len(v) > 0 {
			t.Errorf("%s: %v", name, v)
		}
	}
}

func TestExtentsJSON(t *testing.T) {
	d := tensorfs.Concat(mapped(t, "a<b>\n", []byte("xy")), mapped(t, "\xff", []byte("z")))
	got := string(appendExtents(nil, tensorfs.Extents(d)))
	if want := `[{"file":"a<b>\n","offset":9,"bytes":2},{"file":{"base64":"/w=="},"offset":9,"bytes":1}]`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// zero is Data of zeros that takes no memory.
type zero struct{ size int64 }

func (z zero) Size() int64 { return z.size }

func (z zero) ReadAt(p []byte, off int64) (int, error) {
	n, err := tensorfs.ClipRange(z.size, p, off)
	clear(p[:n])
	return n, err
}

// TestIndexMemory streams the index of a large model.
func TestIndexMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("not in the short form: it measures memory")
	}
	for _, c := range []struct {
		scales bool
		limit  uint64
	}{{false, 8 << 20}, {true, 10 << 20}} {
		t.Run(fmt.Sprint("scales ", c.scales), func(t *testing.T) { indexMemory(t, c.scales, c.limit) })
	}
}

// indexMemory makes the views and the index of a model whose every second tensor may be the scales of
// the one before, and limits what they keep.
func indexMemory(t *testing.T, scales bool, limit uint64) {
	const tensors = 50000
	var m tensorfs.Model
	parts := []string{"attention.q", "attention.k", "attention.v", "ffn.gate", "ffn.up"}
	for i := range tensors {
		d := tensorfs.Q4_K
		if i%15 == 0 {
			d = tensorfs.Q6_K
		}
		if scales {
			if d = tensorfs.F8_E4M3; i%2 == 1 {
				continue
			}
		}
		size, _ := d.Size([]int64{64, 1024})
		name := fmt.Sprintf("layers.%d.%s.weight", i/len(parts), parts[i%len(parts)])
		x := tensorfs.Tensor{Name: name, Source: name, DType: d, Shape: []int64{64, 1024}, Data: zero{size}}
		if scales {
			scale := &tensorfs.Tensor{Name: name + "_scale", Source: name + "_scale", DType: tensorfs.F32, Shape: []int64{1, 1}, Data: zero{4}, Owner: name}
			x.Quant = &tensorfs.Quant{Mode: "fp8", Bits: 8, Block: [2]int{128, 1024}, Shape: x.Shape, Scales: scale, Float: tensorfs.BF16}
			m.Tensors = append(m.Tensors, *scale)
		}
		m.Tensors = append(m.Tensors, x)
	}
	model, err := tensorfs.NewModel(m)
	if err != nil {
		t.Fatal(err)
	}
	m.Tensors = nil
	live := func() uint64 {
		var s runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&s)
		return s.HeapAlloc
	}
	before := live()
	built := Build(model, Options{})
	d := Index(model, built)
	size := d.Size()
	if size < 30<<20 {
		t.Errorf("the index has %d bytes", size)
	}
	p := make([]byte, 1<<20)
	peak := uint64(0)
	for off := int64(0); off < size; off += int64(len(p)) {
		if _, err := d.ReadAt(p, off); err != nil && err != io.EOF {
			t.Fatal(err)
		}
		if off>>20%16 == 0 {
			peak = max(peak, live())
		}
	}
	// Six views and the index of them: less than the index is long.
	if peak > before+limit {
		t.Errorf("%d MiB in use for %d tensors and an index of %d MiB", (peak-before)>>20, tensors, size>>20)
	}
	t.Logf("index of %d MiB, %d MiB in use", size>>20, int64(peak-before)>>20)
	runtime.KeepAlive(built)
}

// BenchmarkBuild makes the views of a model with many tensors.
func BenchmarkBuild(b *testing.B) {
	m := model(b, 2000)
	b.ReportAllocs()
	for b.Loop() {
		Build(m, Options{})
	}
}

// BenchmarkIndex renders index.json of a model with many tensors.
func BenchmarkIndex(b *testing.B) {
	m := model(b, 2000)
	built := Build(m, Options{})
	b.SetBytes(Index(m, built).Size())
	b.ReportAllocs()
	for b.Loop() {
		Index(m, built).Size()
	}
}

// model returns one of many tensors.
func model(t testing.TB, tensors int) *tensorfs.Model {
	var m tensorfs.Model
	size, _ := tensorfs.Q4_K.Size([]int64{64, 1024})
	for i := range tensors {
		name := fmt.Sprintf("layers.%d.ffn.%s.weight", i/2, []string{"gate", "up"}[i%2])
		m.Tensors = append(m.Tensors, tensorfs.Tensor{Name: name, Source: name, DType: tensorfs.Q4_K, Shape: []int64{64, 1024}, Data: zero{size}})
	}
	made, err := tensorfs.NewModel(m)
	if err != nil {
		t.Fatal(err)
	}
	return made
}
