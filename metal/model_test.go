package metal

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats"
	"github.com/tensorfs/tensorfs/formats/config"
	"github.com/tensorfs/tensorfs/formats/models"
	"github.com/tensorfs/tensorfs/views"
)

// TestBytes loads every tensor of every view of every golden model, and compares it
// with the view.
func TestBytes(t *testing.T) {
	origins := map[Origin]int{}
	for _, model := range golden(t) {
		t.Run(strings.TrimPrefix(model, testdata), func(t *testing.T) {
			o := options(t)
			o.Views = []string{views.Default, "npy-f32"}
			l, want := load(t, model, o), build(t, model, o.Views...)
			refs := all(l)
			if len(refs) != len(want) {
				t.Fatalf("%d tensors, not %d", len(refs), len(want))
			}
			plan, err := l.Plan(refs)
			if err != nil {
				t.Fatal(err)
			}
			set, err := l.Load(t.Context(), refs, LoadOptions{})
			if err != nil {
				t.Fatal(err)
			}
			want.same(t, set, refs)
			planned := map[Origin]int64{OriginModel: plan.Model, OriginCache: plan.Cache, OriginMemory: plan.Memory}
			for _, ref := range refs {
				b, _ := set.Buffer(ref)
				origins[b.Origin]++
				if b.Size > 0 && planned[b.Origin] == 0 {
					t.Errorf("%s is of origin %s, of which the plan has nothing: %+v", ref, b.Origin, plan)
				}
				if b.Origin == OriginModel && tensorfs.Extents(want[ref].Data) == nil {
					t.Errorf("%s is of origin %s without an extent", ref, b.Origin)
				}
			}
			if err := set.Release(); err != nil {
				t.Error(err)
			}
			if err := l.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	if origins[OriginModel] < 100 || origins[OriginMemory] < 100 || origins[OriginCache] > 0 {
		t.Errorf("%v", origins)
	}
}

// TestInfo compares a loader's Info with index.json, config.json and metadata.json of the same
// model.
func TestInfo(t *testing.T) {
	for _, model := range golden(t) {
		l := load(t, model, options(t))
		want := build(t, model)
		for ref, x := range want {
			info, err := l.Info(ref.View, ref.Name)
			if err != nil {
				t.Fatal(err)
			}
			facts := map[string]string{}
			for _, p := range views.Properties(ref.View, &x) {
				facts[p.Name] = string(p.Value())
			}
			text := func(v any) string {
				b, err := json.Marshal(v)
				if err != nil {
					t.Fatal(err)
				}
				return string(b)
			}
			shape := info.Shape
			if shape == nil {
				shape = []int64{}
			}
			have := map[string]string{"dtype": info.DType.String(), "shape": text(shape), "bytes": text(info.Data.Size())}
			if info.Parts != nil {
				have["sections"] = text(info.Parts)
			}
			if code, ok := views.EngineDType(ref.View, &info); ok {
				have["engine_dtype"] = text(code)
			}
			if q := info.Quant; q != nil {
				have["quant"] = text(map[string]any{"mode": q.Mode, "bits": q.Bits, "group_size": q.GroupSize})
			}
			for _, name := range []string{"dtype", "shape", "bytes", "sections", "engine_dtype", "quant"} {
				if have[name] != facts[name] {
					t.Errorf("%s: %s: %s is %q, not %q", model, ref, name, have[name], facts[name])
				}
			}
		}
		m, err := formats.Open(model)
		if err != nil {
			t.Fatal(err)
		}
		if text := config.JSON(l.Model()); !bytes.Equal(text, config.JSON(m)) {
			t.Errorf("%s: config.json is %s", model, text)
		}
		m.Close()
	}
}

// TestConfig holds that Config has a field for each name that config.json can have, and no others,
// and decodes config.json of all golden models.
func TestConfig(t *testing.T) {
	kinds := map[reflect.Type]string{
		reflect.TypeFor[int64](): "integer", reflect.TypeFor[float64](): "number", reflect.TypeFor[string](): "string", reflect.TypeFor[bool](): "boolean",
		reflect.TypeFor[[]int64](): "integers", reflect.TypeFor[[]bool](): "booleans", reflect.TypeFor[Pattern](): "integer or booleans",
	}
	have := map[string]string{}
	for _, f := range reflect.VisibleFields(reflect.TypeFor[Config]()) {
		have[f.Tag.Get("json")] = kinds[f.Type]
	}
	if want := config.Kinds(); !reflect.DeepEqual(have, want) {
		t.Errorf("Config has %v\nand config.json %v", have, want)
	}
	for _, model := range golden(t) {
		l := load(t, model, options(t))
		c, err := l.Config()
		if err != nil {
			t.Fatal(model, err)
		}
		text := config.JSON(l.Model())
		var fields, again map[string]any
		b, err := json.Marshal(c)
		if err := errors.Join(err, json.Unmarshal(text, &fields), json.Unmarshal(b, &again)); err != nil {
			t.Fatal(err)
		}
		for name, v := range fields {
			if !reflect.DeepEqual(v, again[name]) {
				t.Errorf("%s: %s is %v, not %v", model, name, again[name], v)
			}
		}
	}
}

func TestMeta(t *testing.T) {
	l := load(t, filepath.Join(testdata, "gguf/kv.gguf"), options(t))
	text := l.Model().Meta("general.architecture")
	if text == nil {
		t.Fatal("no metadata")
	}
	if got := l.MetaString("general.architecture", "x"); got != text {
		t.Errorf("%q, not %q", got, text)
	}
	if l.MetaString("nothing", "x") != "x" || l.MetaInt("general.architecture", 7) != 7 || l.MetaFloat("nothing", math.Pi) != math.Pi || !l.MetaBool("nothing", true) ||
		l.MetaStrings("general.architecture") != nil || l.MetaInts("nothing") != nil || l.MetaFloats("nothing") != nil {
		t.Error("what is absent or of another kind is not the default")
	}
}

// TestAbsent holds the reason for an absent tensor.
func TestAbsent(t *testing.T) {
	o := options(t)
	o.Views = []string{"packed", "fused"}
	l := load(t, filepath.Join(testdata, "gguf/llama-xs.q4_k_m.gguf"), o)
	if !slices.Equal(l.Views(), []string{"fused", "packed"}) || l.Names("f16") != nil || l.Count("packed") != len(l.Names("packed")) || l.Count("packed") == 0 || l.Count("f16") != 0 {
		t.Error(l.Views(), l.Count("packed"))
	}
	for ref, want := range map[Ref]string{
		{View: "f16", Name: "output.weight"}:                       "no such view; there are fused, packed",
		{View: "packed", Name: "nothing"}:                          `"nothing" is not in view "packed"`,
		{View: "packed", Name: "../packed/token_embedding.weight"}: "is not in view",
		{View: "packed/../packed", Name: "token_embedding.weight"}: "no such view",
		{View: "packed", Name: "token_embedding.weight\x00"}:       "is not in view",
		{View: "packed", Name: strings.Repeat("x", 300)}:           "is not in view",
		{View: "packed", Name: ""}:                                 "is not in view",
	} {
		_, err := l.Tensor(ref.View, ref.Name)
		if !errors.Is(err, ErrAbsent) || !strings.Contains(err.Error(), want) || l.Has(ref.View, ref.Name) {
			t.Errorf("%v: %v", ref, err)
		}
	}
	if !l.Has("packed", "token_embedding.weight") {
		t.Error("it has a tensor")
	}
	reasons := 0
	for _, model := range golden(t) {
		m, err := formats.Open(model)
		if err != nil {
			t.Fatal(err)
		}
		x := load(t, model, options(t))
		for _, v := range views.Build(m, views.Options{}) {
			for i := range v.Absent.Len() {
				if _, err := x.Info(v.Name, v.Absent.Name(i)); !errors.Is(err, ErrAbsent) || !strings.HasSuffix(err.Error(), ": "+v.Absent.Reason(i)) {
					t.Errorf("%s: %s/%s: %v", model, v.Name, v.Absent.Name(i), err)
				}
				reasons++
			}
		}
		m.Close()
	}
	if reasons < 100 {
		t.Errorf("only %d reasons", reasons)
	}
	for _, bad := range []Options{{Views: []string{"f17"}}, {I2S: "65"}} {
		if _, err := Open(filepath.Join(testdata, "gguf/llama-xs.q4_k_m.gguf"), bad); !errors.Is(err, models.ErrOption) {
			t.Error(err)
		}
	}
}

// TestTreeIsAsItWasMade refuses a layout of codes for a tree, which has one.
func TestTreeIsAsItWasMade(t *testing.T) {
	dir := t.TempDir()
	if err := errors.Join(os.Mkdir(filepath.Join(dir, "raw"), 0o700), os.WriteFile(filepath.Join(dir, "raw/a"), make([]byte, 4), 0o600),
		os.WriteFile(filepath.Join(dir, "index.json"), []byte(`{"version":1,"views":{"raw":{"a":{"dtype":"F32","shape":[1],"bytes":4}}}}`), 0o600)); err != nil {
		t.Fatal(err)
	}
	_, err := Open(dir, Options{I2S: views.I2SLayouts[0]})
	if !errors.Is(err, tensorfs.ErrUnsupported) || !strings.Contains(err.Error(), "mount it with --i2s "+views.I2SLayouts[0]) {
		t.Error(err)
	}
}

// TestHostile opens malformed models: each is an error, or it can be opened, and then it can be
// loaded or an error explains why not.
func TestHostile(t *testing.T) {
	n := 0
	for _, dir := range []string{"hostile-gguf", "hostile-safetensors", "hostile-manifests"} {
		err := filepath.WalkDir(filepath.Join(testdata, dir), func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			n++
			o := options(t)
			l, err := Open(path, o)
			if err != nil {
				if strings.Contains(err.Error(), "\n") {
					t.Errorf("%s: more than a line: %v", path, err)
				}
				return nil
			}
			for _, ref := range all(l) {
				if b, err := l.Tensor(ref.View, ref.Name); err == nil {
					if err := b.Release(); err != nil {
						t.Error(path, err)
					}
				}
			}
			if _, err := l.Config(); err != nil {
				t.Error(path, err)
			}
			return l.Close()
		})
		if err != nil {
			t.Error(err)
		}
	}
	if n < 200 {
		t.Errorf("only %d files", n)
	}
}

// TestFolder refuses a folder with a model at its top and others below, as commands do.
func TestFolder(t *testing.T) {
	dir := t.TempDir()
	text, err := os.ReadFile(bf16Model)
	for _, name := range []string{"a.gguf", "below/b.gguf"} {
		path := filepath.Join(dir, name)
		err = errors.Join(err, os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, text, 0o600))
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir, options(t)); !errors.Is(err, tensorfs.ErrUnsupported) || !strings.Contains(err.Error(), "a folder with 2 models") {
		t.Error(err)
	}
	if err := os.RemoveAll(filepath.Join(dir, "below")); err != nil {
		t.Fatal(err)
	}
	load(t, dir, options(t))
}
