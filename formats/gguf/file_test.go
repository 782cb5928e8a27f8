package gguf

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/names"
	"github.com/tensorfs/tensorfs/internal/assemble"
	"github.com/tensorfs/tensorfs/internal/source"
	"github.com/tensorfs/tensorfs/internal/testing/testmodel"
)

// everything returns a model with a value of each type and tensors of odd sizes.
func everything() testmodel.GGUF {
	return testmodel.GGUF{
		Meta: []tensorfs.Meta{
			{Key: "general.architecture", Value: "llama"},
			{Key: "a", Value: uint8(200)}, {Key: "b", Value: int8(-100)},
			{Key: "c", Value: uint16(60000)}, {Key: "d", Value: int16(-30000)},
			{Key: "e", Value: uint32(4e9)}, {Key: "f", Value: int32(-2e9)},
			{Key: "g", Value: uint64(math.MaxUint64)}, {Key: "h", Value: int64(math.MinInt64)},
			{Key: "i", Value: float32(1.5)}, {Key: "j", Value: -2.25}, {Key: "k", Value: true},
			{Key: "l", Value: strings.Repeat("long ", 30_000)}, // more than a window
			{Key: "m", Value: []string{"x", strings.Repeat("y", 100_000), "", "z"}},
			{Key: "n", Value: []uint16{1, 2, 3}},
			{Key: "o", Value: []any{[]float64{0.5}, []string{"p", "q"}, [][]int8{{1}, {}}}},
			{Key: "p", Value: make([]uint64, 50_000)},
		},
		Tensors: []testmodel.GGUFTensor{
			{Name: "token_embd.weight", Shape: []int64{3, 5}, Data: bytes.Repeat([]byte{1}, 60)},
			{Name: "one", Shape: nil, Type: 24, Data: []byte{2}},
			{Name: "none", Shape: []int64{4, 0, 3}, Type: 1},
			{Name: "blk.0.attn_q.weight", Shape: []int64{2, 2, 1, 32}, Type: 8, Data: bytes.Repeat([]byte{3}, 136)},
		},
	}
}

// plain returns a value in a form that can be compared.
func plain(v any) string {
	return string(tensorfs.Meta{Value: v}.AppendJSON(nil))
}

// TestRoundTrip writes models in every version, byte order and alignment.
func TestRoundTrip(t *testing.T) {
	for _, c := range []struct {
		version uint32
		big     bool
	}{{1, false}, {2, false}, {3, false}, {3, true}} {
		for _, alignment := range []uint32{0, 1, 2, 4, 8, 16, 32, 64, 4096} {
			g := everything()
			g.Version, g.BigEndian, g.Alignment = c.version, c.big, alignment
			m, err := source.Map(writeModel(t, g), "model.gguf")
			if err != nil {
				t.Fatal(err)
			}
			f, err := Parse(m)
			if err != nil {
				t.Fatal(err)
			}
			if want := int64(max(alignment, 1)); alignment != 0 && f.Alignment != want || f.Version != int(c.version) || f.BigEndian != c.big {
				t.Errorf("%+v", f)
			}
			if got := f.Architecture(); got != "llama" {
				t.Errorf("architecture %q", got)
			}
			for _, want := range g.Meta {
				// The writer's slices are JSON to encode; compare by text.
				if got := plain(f.Value(want.Key)); got != text(want.Value) {
					t.Errorf("version %d: %s is %.60s, want %.60s", c.version, want.Key, got, text(want.Value))
				}
			}
			if len(f.Tensors) != len(g.Tensors) {
				t.Fatalf("%d tensors", len(f.Tensors))
			}
			for i, want := range g.Tensors {
				x := f.Tensors[i]
				if x.Source != want.Name || x.Name != "" || !slices.Equal(x.Shape, want.Shape) || !bytes.Equal(content(t, x.Data), want.Data) || x.BigEndian != c.big {
					t.Errorf("version %d, alignment %d: %+v, want %+v", c.version, alignment, x, want)
				}
				if at := tensorfs.Extents(x.Data)[0].Offset; at%f.Alignment != 0 {
					t.Errorf("%s is at %d", x.Source, at)
				}
			}
			if err := m.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

// text is plain for the values that the writer takes.
func text(v any) string {
	var parts []string
	switch v := v.(type) {
	case []string:
		for _, e := range v {
			parts = append(parts, text(e))
		}
	case []uint16:
		for _, e := range v {
			parts = append(parts, text(e))
		}
	case []uint64:
		for _, e := range v {
			parts = append(parts, text(e))
		}
	case []any:
		return `[[0.5],["p","q"],[[1],[]]]`
	default:
		return plain(v)
	}
	return "[" + strings.Join(parts, ",") + "]"
}

// TestValuesStop ends the reading of arrays early.
func TestValuesStop(t *testing.T) {
	m := open(t, writeModel(t, everything()))
	for _, e := range m.Metadata {
		a, ok := e.Value.(tensorfs.Array)
		if !ok {
			continue
		}
		for range a.Values() {
			break
		}
		n := 0
		for range a.Values() {
			n++
		}
		if n != a.Len() {
			t.Errorf("%s: %d values of %d", e.Key, n, a.Len())
		}
	}
}

// TestModel checks the model that Open returns.
func TestModel(t *testing.T) {
	path := writeModel(t, everything())
	m := open(t, path)
	st, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if m.Path != path || m.Format != "gguf" || m.Layout != "gguf" || m.Architecture != "llama" || !m.ModTime.Equal(st.ModTime()) || len(m.Warnings) != 0 {
		t.Errorf("%+v", m)
	}
	if s := m.Sources; len(s) != 1 || s[0].Name != "model.gguf" || s[0].Path != path {
		t.Errorf("sources %v", s)
	}
	var got []string
	for _, x := range m.Tensors {
		got = append(got, x.Name)
	}
	if want := []string{"layers.0.attention.q.weight", "none", "one", "token_embedding.weight"}; !slices.Equal(got, want) {
		t.Errorf("names %q", got)
	}
	i := slices.IndexFunc(m.Config, func(f tensorfs.Field) bool { return f.Name == "n_layers" })
	if i < 0 || fmt.Sprint(m.Config[i].Value) != "1" {
		t.Errorf("config %v", m.Config)
	}
}

// TestWarnings checks that a name that two tensors want is reported.
func TestWarnings(t *testing.T) {
	m := open(t, filepath.Join(hostileDir, "valid/names-canonical-clash.gguf"))
	if len(m.Warnings) != 1 || !strings.Contains(m.Warnings[0], "v.class_embd") {
		t.Errorf("%q", m.Warnings)
	}
}

// TestParse parses a file that the caller has opened, under a meaningless name.
func TestParse(t *testing.T) {
	for name, shards := range map[string]int64{"llama-xs.q8_0.gguf": 1, "llama-xs.q8_0-00002-of-00003.gguf": 3, "tensors.tsv": 0} {
		b, err := os.ReadFile(filepath.Join(goldenDir, name))
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), "sha256-0123")
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		m, err := source.Map(path, "blob")
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		f, err := Parse(m)
		if (err == nil) != (shards > 0) {
			t.Errorf("%s: %v", name, err)
		}
		if err != nil {
			continue
		}
		if n, err := f.Shards(); n != shards || err != nil {
			t.Errorf("%s: %d shards, %v", name, n, err)
		}
		if tensorfs.Extents(f.Tensors[0].Data)[0].File != "blob" {
			t.Errorf("%s: extents %v", name, tensorfs.Extents(f.Tensors[0].Data))
		}
		ts := assemble.Tensors{List: f.Tensors}
		if warnings := ts.Name(names.GGUF, f.Architecture()); len(warnings) > 0 || f.Tensors[0].Name == "" {
			t.Errorf("%s: %q, %q", name, f.Tensors[0].Name, warnings)
		}
	}
}

// TestMatch looks at the beginnings of files.
func TestMatch(t *testing.T) {
	for head, want := range map[string]bool{
		"GGUF": true, "GGUF\x03\x00\x00\x00": true, "FUGG": true, "gguf": true, "lmgg": true, "tjgg": true, "fmgg": true,
		"algg": true, "ggml": true, "ggjt": true, "": false, "GGU": false, "{\"a\"": false, "\x08\x00\x00\x00\x00\x00\x00\x00{}": false,
		"PK\x03\x04": false,
	} {
		if got := Match([]byte(head)); got != want {
			t.Errorf("Match(%q) = %v", head, got)
		}
	}
}
