package convert_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats"
	"github.com/tensorfs/tensorfs/internal/convert"
	"github.com/tensorfs/tensorfs/internal/testing/memory"
	"github.com/tensorfs/tensorfs/internal/testing/testmodel"
	"github.com/tensorfs/tensorfs/internal/testing/testwhole"
)

const testdata = "../../testdata/"

// hash returns a text's SHA-256.
func hash(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// one returns the one file of a kind.
func one(t testing.TB, f *convert.Files) []byte {
	t.Helper()
	if f.Reason != "" || len(f.List) != 1 || f.List[0].Path != "model.gguf" {
		t.Fatalf("%s", f.Describe())
	}
	return testwhole.Read(t, f.List[0].Data)
}

func read(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(testdata, name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestStored holds that a GGUF file is given as it is, and a split one as the
// file that it was split from.
func TestStored(t *testing.T) {
	files, err := filepath.Glob(testdata + "gguf/*.gguf")
	if err != nil || len(files) == 0 {
		t.Fatal("no files", err)
	}
	for _, path := range files {
		base := filepath.Base(path)
		got := one(t, convert.GGUF(testwhole.Open(t, path), convert.Options{}))
		want := read(t, "gguf/"+base)
		switch {
		case strings.Contains(base, "-of-"):
			want = read(t, "gguf/llama-xs.q8_0.gguf")
		case base == "v1.gguf":
			if got[4] != 3 || !bytes.Contains(want, got[len(got)-64:]) {
				t.Errorf("%s: version %d", base, got[4])
			}
			continue
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s: other bytes", base)
		}
	}
}

// TestMapped holds that gguf/ has a note about a file whose alignment is too small for llama.cpp to
// map it.
func TestMapped(t *testing.T) {
	noted := 0
	for n := range 32 {
		g := testmodel.NewLogical("llama", 1).AsGGUF(tensorfs.Q8_0, false)
		g.Alignment = 8
		g.Meta = append(g.Meta, tensorfs.Meta{Key: "general.description", Value: strings.Repeat("x", n)})
		stored := g.Bytes()
		m := testwhole.OpenGGUF(t, stored)
		first := tensorfs.Extents(m.Tensors[0].Data)[0].Offset
		for i := range m.Tensors {
			first = min(first, tensorfs.Extents(m.Tensors[i].Data)[0].Offset)
		}
		f := convert.GGUF(m, convert.Options{})
		says := strings.Contains(strings.Join(f.Notes, "\n"), fmt.Sprintf("whose numbers begin at byte %d ", first))
		if says != (first%32 != 0) || !bytes.Equal(one(t, f), stored) {
			t.Errorf("%d, from byte %d: %q", n, first, f.Notes)
		}
		if says {
			noted++
		}
	}
	if noted != 24 {
		t.Errorf("%d of 32 are noted", noted)
	}
}

// TestMerged holds what becomes of shards with alignments of their own.
func TestMerged(t *testing.T) {
	g := testmodel.NewLogical("llama", 1).AsGGUF(tensorfs.Q8_0, false)
	g.Alignment = 64
	shards := g.Shards("m", 3)
	m, err := formats.OpenFS(memory.New(shards), "m-00002-of-00003.gguf")
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	got := one(t, convert.GGUF(m, convert.Options{}))
	p := testwhole.Parse(t, got)
	if p.Alignment != 64 || len(p.Tensors) != len(g.Tensors) {
		t.Fatalf("%+v", p)
	}
	for i, x := range p.Tensors {
		if want := g.Tensors[i]; x.Source != want.Name || !bytes.Equal(testwhole.Read(t, x.Data), want.Data) {
			t.Errorf("tensor %d is %s, want %s", i, x.Source, want.Name)
		}
	}
	if p.Value("split.count") != nil || p.Value("general.architecture") != "llama" {
		t.Errorf("%v", p.Metadata)
	}
}

// TestOllamaStored holds that the model layer of an Ollama model is given as it
// is, and its projector is not in it.
func TestOllamaStored(t *testing.T) {
	model := testmodel.NewLogical("llama", 1).AsGGUF(tensorfs.F16, false).Bytes()
	projector := testmodel.GGUF{Meta: []tensorfs.Meta{{Key: "general.architecture", Value: "clip"}},
		Tensors: []testmodel.GGUFTensor{{Name: "mm.0.weight", Shape: []int64{1}, Data: make([]byte, 4)}}}.Bytes()
	files, manifest := testmodel.Ollama("m", []testmodel.OllamaLayer{{Kind: "model", Content: model}, {Kind: "projector", Content: projector}})
	m, err := formats.OpenFS(memory.New(files), manifest)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	f := convert.GGUF(m, convert.Options{})
	if !bytes.Equal(one(t, f), model) || f.Tensors != len(m.Tensors)-1 || f.Types["F32"]+f.Types["F16"] != f.Tensors {
		t.Errorf("%s", f.Describe())
	}
}

func TestAbsent(t *testing.T) {
	for path, want := range map[string]string{
		"ggml/big_endian.gguf":   "big-endian",
		"models-mlx/qwen3-mixed": "",
	} {
		f := convert.GGUF(testwhole.Open(t, testdata+path), convert.Options{})
		var d struct {
			Available *bool
			Reason    string
			Files     []any
		}
		if err := json.Unmarshal(f.Describe(), &d); err != nil || d.Available == nil || *d.Available || d.Files != nil || d.Reason == "" || !strings.Contains(d.Reason, want) || len(f.List) != 0 {
			t.Errorf("%s: %s, %v", path, f.Describe(), err)
		}
	}
}

// TestStoredTypes holds that the weights of a GGUF file are quantised exactly as the weights of the
// directory that the file was made from, and that quantised tensors stay unchanged.
func TestStoredTypes(t *testing.T) {
	for _, dir := range golden(t) {
		m := testwhole.Open(t, dir)
		plain := one(t, convert.GGUF(m, convert.Options{}))
		again, err := formats.OpenFS(memory.New(map[string][]byte{"m.gguf": plain}), "m.gguf")
		if err != nil {
			t.Fatal(err)
		}
		defer again.Close()
		for _, d := range []tensorfs.DType{tensorfs.Q8_0, tensorfs.Q4_0, tensorfs.F16, tensorfs.BF16} {
			got, want := testwhole.Parse(t, one(t, convert.GGUF(again, convert.Options{Quantise: pure(d)}))), testwhole.Parse(t, one(t, convert.GGUF(m, convert.Options{Quantise: pure(d)})))
			blocks := false
			for _, x := range want.Tensors {
				y := got.Tensors[slices.IndexFunc(got.Tensors, func(y tensorfs.Tensor) bool { return y.Source == x.Source })]
				stored := again.Tensors[slices.IndexFunc(again.Tensors, func(s tensorfs.Tensor) bool { return s.Source == x.Source })]
				switch {
				case stored.DType.Kind() == tensorfs.KindBlock:
					blocks = true
					if y.DType != stored.DType || !bytes.Equal(testwhole.Read(t, y.Data), testwhole.Read(t, stored.Data)) {
						t.Errorf("%s as %v: %s was quantised again", dir, d, x.Source)
					}
				case strings.Contains(dir, "mlx-") && strings.Contains(x.Source, ".weight") && m.Format == "mlx":
					// From the module's own numbers, or from numbers that were rounded to F16.
				case y.DType != x.DType || !bytes.Equal(testwhole.Read(t, y.Data), testwhole.Read(t, x.Data)):
					t.Errorf("%s as %v: %s is another", dir, d, x.Source)
				}
			}
			for _, e := range want.Metadata {
				if v := got.Value(e.Key); e.Key != "general.file_type" && fmt.Sprint(values(v)) != fmt.Sprint(values(e.Value)) || e.Key == "general.file_type" && !blocks && v != e.Value {
					t.Errorf("%s as %v: %s is %v, want %v", dir, d, e.Key, v, e.Value)
				}
			}
		}
	}
}
