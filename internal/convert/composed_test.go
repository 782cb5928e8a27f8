package convert_test

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats"
	"github.com/tensorfs/tensorfs/internal/convert"
	"github.com/tensorfs/tensorfs/internal/convert/preset"
	"github.com/tensorfs/tensorfs/internal/testing/memory"
	"github.com/tensorfs/tensorfs/internal/testing/testmodel"
	"github.com/tensorfs/tensorfs/internal/testing/testwhole"
)

// pure asks for one type everywhere, or for none if the type is nil.
func pure(to tensorfs.DType) *preset.Options {
	p, err := preset.Named(to.String())
	if err != nil {
		return nil
	}
	return &preset.Options{Preset: p, Pure: true}
}

// golden are the directories of models that have a golden GGUF file.
func golden(t testing.TB) []string {
	t.Helper()
	configs, err := filepath.Glob(testdata + "whole-gguf/*/config.json")
	if err != nil || len(configs) < 20 {
		t.Fatalf("%d models, %v", len(configs), err)
	}
	for i, c := range configs {
		configs[i] = filepath.Dir(c)
	}
	return configs
}

// TestComposed holds that the GGUF parser accepts a composed file, that its tensors have the golden
// bytes at the offsets in the header, and that reading any part gives the same bytes as reading the
// file.
func TestComposed(t *testing.T) {
	for _, dir := range golden(t) {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			f := convert.GGUF(testwhole.Open(t, dir), convert.Options{})
			b := one(t, f)
			p := testwhole.Parse(t, b)
			if len(p.Tensors) != f.Tensors || p.Version != 3 || len(b)%32 != 0 {
				t.Errorf("version %d, %d tensors, %d bytes; %s", p.Version, len(p.Tensors), len(b), f.Describe())
			}
			want := map[string]string{}
			for _, line := range strings.Split(string(read(t, "whole-gguf/expected/"+filepath.Base(dir)+".tensors.tsv")), "\n")[1:] {
				if c := strings.Split(line, "\t"); len(c) > 4 {
					want[c[0]] = c[1] + " " + c[4]
				}
			}
			got := map[string]string{}
			for _, x := range p.Tensors {
				got[x.Source] = fmt.Sprintf("%s %s", x.DType, hash(testwhole.Read(t, x.Data)))
			}
			if !maps.Equal(got, want) {
				t.Errorf("tensors %v, want %v", got, want)
			}
			random := rand.New(rand.NewPCG(1, 2))
			d := f.List[0].Data
			for range 200 {
				off := random.Int64N(d.Size())
				part := make([]byte, min(1+random.Int64N(200_000), d.Size()-off))
				if err := tensorfs.ReadFull(d, part, off); err != nil || !bytes.Equal(part, b[off:off+int64(len(part))]) {
					t.Fatalf("%d bytes at %d are others than in the whole (%v)", len(part), off, err)
				}
			}
		})
	}
}

// TestComposedOllama holds that the same tensors and texts in an Ollama store give
// the same file, but for the name.
func TestComposedOllama(t *testing.T) {
	for _, name := range []string{"llama3", "qwen2moe", "qwen3moe"} {
		dir := testdata + "whole-gguf/" + name
		m := testwhole.Open(t, dir)
		var tensors []testmodel.SafeTensor
		for _, x := range m.Tensors {
			tensors = append(tensors, testmodel.SafeTensor{Name: x.Source, DType: x.DType, Shape: x.Shape, Data: testwhole.Read(t, x.Data)})
		}
		layers := testmodel.OllamaTensors(tensors, "", 0)
		for _, s := range m.Sources {
			if strings.HasSuffix(s.Name, ".json") {
				layers = append(layers, testmodel.OllamaLayer{Kind: "json", Name: s.Name, Content: read(t, "whole-gguf/"+name+"/"+s.Name)})
			}
		}
		files, manifest := testmodel.Ollama(name, layers)
		o, err := formats.OpenFS(memory.New(files), manifest)
		if err != nil {
			t.Fatal(err)
		}
		defer o.Close()
		got, want := testwhole.Parse(t, one(t, convert.GGUF(o, convert.Options{}))), testwhole.Parse(t, one(t, convert.GGUF(m, convert.Options{})))
		for i, x := range want.Metadata {
			if y := got.Metadata[i]; y.Key != x.Key || x.Key != "general.name" && fmt.Sprint(values(y.Value)) != fmt.Sprint(values(x.Value)) {
				t.Errorf("%s: %s is %v, want %s: %v", name, y.Key, y.Value, x.Key, x.Value)
			}
		}
		for i, x := range want.Tensors {
			if y := got.Tensors[i]; y.Source != x.Source || !slices.Equal(y.Shape, x.Shape) || !bytes.Equal(testwhole.Read(t, y.Data), testwhole.Read(t, x.Data)) {
				t.Errorf("%s: %s differs", name, x.Source)
			}
		}
	}
}

// values returns the elements of an array, or the value itself.
func values(v any) any {
	if a, ok := v.(tensorfs.Array); ok {
		return slices.Collect(a.Values())
	}
	return v
}

// TestTypes holds that --gguf-type gives a file of the type that was asked for.
func TestTypes(t *testing.T) {
	for _, d := range []tensorfs.DType{tensorfs.F16, tensorfs.BF16, tensorfs.Q8_0, tensorfs.Q4_0} {
		f := convert.GGUF(testwhole.Open(t, testdata+"whole-gguf/llama3"), convert.Options{Quantise: pure(d)})
		p := testwhole.Parse(t, one(t, f))
		if f.Types[d.String()] == 0 || f.Exact != (d == tensorfs.BF16) {
			t.Errorf("%v: %s", d, f.Describe())
		}
		for _, x := range p.Tensors {
			if len(x.Shape) > 1 && x.DType != d && (x.DType != tensorfs.F16 || x.Shape[len(x.Shape)-1]%32 == 0) {
				t.Errorf("%s is %v, not %v", x.Source, x.DType, d)
			}
		}
	}
}

// TestTypesOfGGUF holds that weights of a GGUF file that are quantised stay as they
// are, with a note, and that nothing is converted where all are.
func TestTypesOfGGUF(t *testing.T) {
	for _, c := range []struct {
		path string
		to   tensorfs.DType
		kept string // what Kept returns
		note string
	}{
		{"gguf/gpt-oss.mxfp4.gguf", tensorfs.Q8_0, "", "3 tensors are quantised already and stay as they are, the first is blk.0.ffn_"},
		{"gguf/llama-xs.q8_0.gguf", tensorfs.Q4_0, "its weights are quantised already (Q8_0), and are not quantised again", "not converted to Q4_0: its weights are"},
		{"gguf/llama-xs.q8_0.gguf", tensorfs.Unknown, "", ""},
		{"gguf/llama-xs.f16.gguf", tensorfs.Q8_0, "", ""},
		{"gguf/llama-xs.bf16.gguf", tensorfs.BF16, "its weights are BF16 already", "not converted to BF16"},
		{"whole-gguf/llama3", tensorfs.BF16, "", ""}, // the file is composed again
	} {
		m := testwhole.Open(t, testdata+c.path)
		if got := convert.Kept(m, convert.Options{Quantise: pure(c.to)}); got != c.kept {
			t.Errorf("%s as %v: %q", c.path, c.to, got)
		}
		f := convert.GGUF(m, convert.Options{Quantise: pure(c.to)})
		if notes := strings.Join(f.Notes, "\n"); f.Reason != "" || !strings.Contains(notes, c.note) || c.note == "" && strings.Contains(notes, "already") {
			t.Errorf("%s as %v: %s", c.path, c.to, f.Describe())
		}
	}
}

// TestWithoutTokenizer holds that a model without a tokenizer has a file, and one
// without a config none.
func TestWithoutTokenizer(t *testing.T) {
	dir := testdata + "whole-gguf/qwen2"
	for missing, want := range map[string]string{"tokenizer": "", "config": "config.json"} {
		files := map[string][]byte{}
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if !strings.HasPrefix(e.Name(), missing) {
				files[e.Name()] = read(t, "whole-gguf/qwen2/"+e.Name())
			}
		}
		m, err := formats.OpenFS(memory.New(files), ".")
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		f := convert.GGUF(m, convert.Options{})
		if want != "" {
			if !strings.Contains(f.Reason, want) {
				t.Errorf("without %s: %s", missing, f.Describe())
			}
			continue
		}
		p := testwhole.Parse(t, one(t, f))
		if p.Value("tokenizer.ggml.model") != "none" || p.Value("qwen2.vocab_size") == nil {
			t.Errorf("%v", p.Metadata)
		}
	}
}
