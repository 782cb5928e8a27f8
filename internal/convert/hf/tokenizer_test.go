package hf_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats"
	"github.com/tensorfs/tensorfs/formats/gguf"
	hfmodel "github.com/tensorfs/tensorfs/formats/hf"
	"github.com/tensorfs/tensorfs/internal/convert"
	"github.com/tensorfs/tensorfs/internal/convert/hf"
	"github.com/tensorfs/tensorfs/internal/testing/memory"
	"github.com/tensorfs/tensorfs/internal/testing/testwhole"
)

// TestNoTokenizer holds that gguf/, hf/ and mlx/ of a model without a tokenizer say so, and of
// one whose pre-tokenizer is not named that llama.cpp's default is taken.
func TestNoTokenizer(t *testing.T) {
	const aborts, unnamed = "abort when they are given a text", "(tokenizer.ggml.pre)"
	base := testwhole.Open(t, data+"whole-gguf/llama3")
	without := func(prefix string, more ...tensorfs.Meta) func() *tensorfs.Model {
		return func() *tensorfs.Model {
			f := convert.GGUF(base, convert.Options{})
			m, err := openGGUF(memory.New(map[string][]byte{"m.gguf": testwhole.Read(t, f.List[0].Data)}))
			if err != nil {
				t.Fatal(err)
			}
			defer m.Close()
			meta := more
			for _, x := range m.Metadata {
				if !strings.HasPrefix(x.Key, prefix) {
					meta = append(meta, x)
				}
			}
			var list []gguf.Stored
			for i := range m.Tensors {
				x := &m.Tensors[i]
				list = append(list, gguf.Stored{Name: x.Source, DType: x.DType, Shape: x.Shape, Data: x.Data})
			}
			d, err := gguf.Compose(meta, list)
			if err != nil {
				t.Fatal(err)
			}
			g, err := formats.OpenFS(memory.New(map[string][]byte{"m.gguf": bytes.Clone(testwhole.Read(t, d))}), "m.gguf")
			if err != nil {
				t.Fatal(err)
			}
			return g
		}
	}
	directory := func(keep func(name string) bool) func() *tensorfs.Model {
		return func() *tensorfs.Model {
			files := onDisk(t, data+"whole-gguf/llama3")
			for name := range files {
				if strings.Contains(name, "token") && !keep(name) {
					delete(files, name)
				}
			}
			m, err := hfmodel.OpenFS(memory.New(files), ".")
			if err != nil {
				t.Fatal(err)
			}
			return m
		}
	}
	model := func(name string) tensorfs.Meta { return tensorfs.Meta{Key: "tokenizer.ggml.model", Value: name} }
	for _, c := range []struct {
		what   string
		open   func() *tensorfs.Model
		gguf   string // a note of gguf/, "" for no note about tokenizers
		others string // of hf/ and mlx/
	}{
		{"a directory", directory(func(string) bool { return true }), "", ""},
		{"a directory without", directory(func(string) bool { return false }), aborts, convert.NoTokenizer},
		{"a file", without("nothing."), "", ""},
		{"a file without", without("tokenizer."), "it has no tokenizer", convert.NoTokenizer},
		{"a file of none", without("tokenizer.", model("none")), aborts, convert.NoTokenizer},
		{"a file of no_vocab", without("tokenizer.", model("no_vocab")), aborts, convert.NoTokenizer},
		{"a file without tokens", without("tokenizer.ggml.tokens"), "it has no tokens", convert.NoTokenizer},
		{"a file without pre", without("tokenizer.ggml.pre"), unnamed, unnamed},
		{"a file of an empty pre", without("tokenizer.ggml.pre", tensorfs.Meta{Key: "tokenizer.ggml.pre", Value: ""}), unnamed, unnamed},
	} {
		m := c.open()
		defer m.Close()
		for name, make := range map[string]func(*tensorfs.Model, convert.Options) *convert.Files{"gguf": convert.GGUF, "hf": hf.HF, "mlx": hf.MLX} {
			for _, opts := range []convert.Options{{}, {Changes: []convert.Change{{Key: "general.name", Text: "x"}}}} {
				f, want := make(m, opts), c.others
				if name == "gguf" {
					want = c.gguf
				}
				notes := strings.Join(f.Notes, "; ")
				if f.Reason != "" || (want == "") != (f.TokenizerNote() == "" && !strings.Contains(notes, unnamed)) || !strings.Contains(notes, want) {
					t.Errorf("%s: %s/: %s notes %q, want %q", c.what, name, f.Reason, notes, want)
				}
				if none := f.TokenizerNote() != ""; none != (want != "" && want != unnamed) {
					t.Errorf("%s: %s/: the note is %q", c.what, name, f.TokenizerNote())
				}
			}
		}
	}
}

// TestNoEOS holds that config.json of a GGUF file that names no end has one at which llama.cpp
// ends: transformers would take the default of its class, which may be no token of the model.
func TestNoEOS(t *testing.T) {
	const eos = "tokenizer.ggml.eos_token_id"
	for _, c := range []struct {
		model string
		add   []tensorfs.Meta
		want  any
	}{
		{"lfm2", nil, 367.0},          // the first of several tokens that end a generation by their texts
		{"whole-gguf/phi3", nil, 2.0}, // SentencePiece's
		{"whole-gguf/gpt2", nil, 366.0},
		{"whole-gguf/phi3", []tensorfs.Meta{{Key: eos, Value: uint32(5)}}, 5.0},
		{"whole-gguf/phi3", []tensorfs.Meta{{Key: eos, Value: uint32(1 << 31)}}, 2.0}, // a token that does not exist
	} {
		dir := c.model
		if !strings.Contains(dir, "/") {
			dir = "architectures/" + dir
		}
		f := convert.GGUF(testwhole.Open(t, data+dir), convert.Options{})
		if f.Reason != "" {
			t.Fatal(c.model, f.Reason)
		}
		m, err := openGGUF(memory.New(map[string][]byte{"m.gguf": testwhole.Read(t, f.List[0].Data)}))
		if err != nil {
			t.Fatal(err)
		}
		meta := slices.DeleteFunc(slices.Clone(m.Metadata), func(x tensorfs.Meta) bool { return x.Key == eos })
		m.Metadata = append(meta, c.add...)
		got := readJSONOf(t, contents(t, hf.HF(m, convert.Options{}))["config.json"])["eos_token_id"]
		if got != c.want {
			t.Errorf("%s with %v: eos_token_id is %v, want %v", c.model, c.add, got, c.want)
		}
		m.Close()
	}
}
