package hf

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/gguf"
	"github.com/tensorfs/tensorfs/internal/convert"
	"github.com/tensorfs/tensorfs/internal/testing/datatest"
	"github.com/tensorfs/tensorfs/internal/testing/testwhole"
)

// partsOfDirectory returns the parts of the GGUF file of a Hugging Face directory.
func partsOfDirectory(t testing.TB, name string) *ggufParts {
	t.Helper()
	files := convert.GGUF(testwhole.Open(t, filepath.Join(tensorData, "whole-gguf", name)), convert.Options{})
	if files.Reason != "" {
		t.Fatal(files.Reason)
	}
	path := filepath.Join(t.TempDir(), "model.gguf")
	if err := os.WriteFile(path, testwhole.Read(t, files.List[0].Data), 0o600); err != nil {
		t.Fatal(err)
	}
	m := testwhole.Open(t, path)
	p := &ggufParts{meta: slices.Clone(m.Metadata)}
	for _, x := range m.Tensors {
		p.list = append(p.list, gguf.Stored{Name: x.Source, DType: x.DType, Shape: x.Shape, Data: x.Data})
	}
	return p
}

// linesOf returns the tensors of a directory.
func linesOf(t testing.TB, p *ggufParts, kind string) map[string]string {
	t.Helper()
	m, err := p.open(t)
	if err != nil {
		t.Fatal(err)
	}
	r, err := directories[kind](m)
	if err != nil {
		t.Fatal(kind, err)
	}
	all := map[string]string{}
	for _, s := range r.List {
		all[s.Name] = storedLine(t, s)
	}
	return all
}

// TestMixtralForms: stacks, stacks under the names that Ollama gives them and one
// tensor for each expert are the same directory.
func TestMixtralForms(t *testing.T) {
	for name, change := range map[string]func(p *ggufParts){
		"Ollama's names": func(p *ggufParts) {
			swap := strings.NewReplacer("ffn_up_exps", "ffn_down_exps", "ffn_down_exps", "ffn_up_exps")
			for i := range p.list {
				p.list[i].Name = swap.Replace(p.list[i].Name)
			}
		},
		"one by one": func(p *ggufParts) {
			var list []gguf.Stored
			for _, s := range p.list {
				base, ok := strings.CutSuffix(s.Name, "_exps.weight")
				if !ok {
					list = append(list, s)
					continue
				}
				each := s.Data.Size() / s.Shape[0]
				for e := range s.Shape[0] {
					list = append(list, gguf.Stored{Name: fmt.Sprintf("%s.%d.weight", base, e), DType: s.DType, Shape: s.Shape[1:], Data: tensorfs.Section(s.Data, e*each, each)})
				}
			}
			p.list = list
		},
	} {
		for _, model := range []string{"mixtral", "mlx-mixtral-mxfp4"} {
			for kind := range directories {
				p := partsOfDirectory(t, model)
				want := linesOf(t, p, kind)
				change(p)
				if got := linesOf(t, p, kind); !maps.Equal(got, want) {
					t.Errorf("%s of %s, %s: %v, want %v", kind, model, name, got, want)
				}
			}
		}
	}
	// Experts of several types are one as numbers.
	p := partsOfDirectory(t, "mlx-mixtral-mxfp4")
	var list []gguf.Stored
	for _, s := range p.list {
		if s.Name != "blk.0.ffn_gate_exps.weight" {
			list = append(list, s)
			continue
		}
		for e, d := range []tensorfs.DType{tensorfs.MXFP4, tensorfs.F16, tensorfs.F32, tensorfs.Q8_0} {
			size, _ := d.Size(s.Shape[1:])
			list = append(list, gguf.Stored{Name: fmt.Sprintf("blk.0.ffn_gate.%d.weight", e), DType: d, Shape: s.Shape[1:], Data: make(tensorfs.Bytes, size)})
		}
	}
	p.list = list
	const stack = "model.layers.0.block_sparse_moe.switch_mlp.gate_proj.weight"
	if got := linesOf(t, p, "mlx")[stack]; !strings.HasPrefix(got, "F16 4x") {
		t.Errorf("a stack of several types is %s", got)
	}
}

// TestStoredKVB: where a file has kv_b, its parts are of no use; mlx-lm has it in
// two parts in the third version.
func TestStoredKVB(t *testing.T) {
	const heads, nope, v, rank = 2, 64, 64, 256
	p := partsOf(t, "deepseek2.q4_k_m")
	kvb := datatest.Random(1, 2*heads*(nope+v)*rank)
	for i := 1; i < len(kvb); i += 2 { // ordinary numbers
		kvb[i] = kvb[i]&0x80 | 0x3A
	}
	p.list = append(p.list, gguf.Stored{Name: "blk.0.attn_kv_b.weight", DType: tensorfs.F16, Shape: []int64{heads * (nope + v), rank}, Data: tensorfs.Bytes(kvb)})
	m, err := p.open(t)
	if err != nil {
		t.Fatal(err)
	}
	var k, values []byte
	for h := range heads {
		head := kvb[2*h*(nope+v)*rank:][:2*(nope+v)*rank]
		k = append(k, turnedMatrix(head[:2*nope*rank], nope, rank)...)
		values = append(values, head[2*nope*rank:]...)
	}
	want := map[string][]byte{"kv_b_proj": kvb, "embed_q": k, "unembed_out": values}
	shapes := map[string][]int64{"kv_b_proj": {heads * (nope + v), rank}, "embed_q": {heads, rank, nope}, "unembed_out": {heads, v, rank}}
	found := 0
	for kind, make := range directories {
		r, err := make(m)
		if err != nil {
			t.Fatal(kind, err)
		}
		for _, s := range r.List {
			stem := strings.TrimSuffix(strings.TrimPrefix(s.Name, "model.layers.0.self_attn."), ".weight")
			if want[stem] == nil {
				continue
			}
			found++
			if (stem == "kv_b_proj") != (kind == "hf") || !slices.Equal(s.Shape, shapes[stem]) || !bytes.Equal(testwhole.Read(t, s.Data), want[stem]) {
				t.Errorf("%s: %s is something else, of shape %v", kind, s.Name, s.Shape)
			}
		}
	}
	if found != 3 {
		t.Errorf("%d tensors", found)
	}
}

// TestSingleTokenType: a BERT with one type of tokens stores a vector.
func TestSingleTokenType(t *testing.T) {
	p := partsOf(t, "bert.q8_0")
	p.replace(t, "token_types.weight", tensorfs.F32, 128)
	if got := linesOf(t, p, "hf")["embeddings.token_type_embeddings.weight"]; !strings.HasPrefix(got, "F32 1x128 ") {
		t.Error(got)
	}
}
