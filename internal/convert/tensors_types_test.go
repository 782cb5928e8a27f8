package convert

import (
	"bytes"
	"encoding/binary"
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/architectures"
	"github.com/tensorfs/tensorfs/formats/gguf"
	"github.com/tensorfs/tensorfs/internal/convert/preset"
	"github.com/tensorfs/tensorfs/internal/testing/testmodel"
	"github.com/tensorfs/tensorfs/internal/testing/testwhole"
	"github.com/tensorfs/tensorfs/views"
)

// TestAlwaysF32: some roles stay F32, because llama.cpp computes with them only in F32.
func TestAlwaysF32(t *testing.T) {
	for _, c := range []struct {
		name string
		rank int
		want bool
	}{
		{"token_embd.weight", 2, false}, {"blk.0.attn_q.weight", 2, false}, {"blk.0.ffn_up_exps.weight", 3, false}, {"output.weight", 2, false},
		{"blk.0.attn_k_b.weight", 3, false}, {"blk.0.ffn_gate_shexp.weight", 2, false},
		{"blk.0.attn_norm.weight", 1, true}, {"blk.0.attn_q_norm.weight", 2, true}, {"blk.0.attn_q.bias", 1, true}, {"blk.0.ffn_up_exps.bias", 2, true},
		{"blk.0.ffn_gate_inp.weight", 2, true}, {"blk.0.ffn_gate_inp_shexp.weight", 2, true}, {"position_embd.weight", 2, true}, {"token_types.weight", 2, true},
		{"blk.0.attn_sinks.weight", 1, true}, {"rope_freqs.weight", 1, true}, {"blk.0.exp_probs_b.bias", 1, true}, {"blk.0.ssm_a", 2, true},
	} {
		if got := isF32(c.name, c.rank); got != c.want {
			t.Errorf("%s is F32: %v", c.name, got)
		}
	}
}

// pure asks for one type everywhere.
func pure(to tensorfs.DType) *preset.Options {
	p, err := preset.Named(to.String())
	if err != nil {
		panic(err)
	}
	return &preset.Options{Preset: p, Pure: true}
}

// TestTypesAskedFor: every weight gets the type that was asked for, except weights that are already
// quantised.
func TestTypesAskedFor(t *testing.T) {
	for _, c := range []struct {
		model string
		to    tensorfs.DType
		exact bool
		again bool // what is quantised is quantised again
	}{
		{"llama3", tensorfs.F16, false, false},
		{"llama3", tensorfs.BF16, true, false},
		{"llama2-spm", tensorfs.F16, true, false},
		{"mlx-llama3-4bit", tensorfs.Q8_0, false, false},
		{"mlx-llama3-4bit", tensorfs.Q8_0, false, true},
		{"mlx-mixtral-mxfp4", tensorfs.Q4_0, false, false},
		{"gpt-oss", tensorfs.Q8_0, false, false},
		{"gpt-oss", tensorfs.Q4_0, false, true},
		{"mlx-llama2-nvfp4", tensorfs.F16, false, true},
	} {
		m, cfg := open(t, testdata+"/whole-gguf/"+c.model)
		of := preset.Model{Architecture: m.Architecture}
		plain, _, err := tensors(m, cfg, Options{}, 0, of)
		if err != nil {
			t.Fatal(c.model, err)
		}
		o := pure(c.to)
		o.Requantise = c.again
		list, notes, err := tensors(m, cfg, Options{Quantise: o}, 0, of)
		if err != nil {
			t.Fatal(c.model, err)
		}
		stay := 0
		for _, s := range plain {
			want := c.to
			switch {
			case isF32(s.Name, len(s.Shape)):
				want = tensorfs.F32
			case s.DType.Kind() == tensorfs.KindBlock && !c.again:
				want = s.DType
				stay++
			}
			i := slices.IndexFunc(list, func(x gguf.Stored) bool { return x.Name == s.Name })
			if list[i].DType != want {
				t.Errorf("%s as %s: %s is %s, want %s", c.model, c.to, s.Name, list[i].DType, want)
			}
			testwhole.Read(t, list[i].Data)
		}
		if said := strings.Contains(strings.Join(notes.Notes, "\n"), "stay as they are"); said != (stay > 0) || notes.Exact != c.exact || notes.FileType != o.FileType {
			t.Errorf("%s as %s: %+v", c.model, c.to, notes)
		}
		if !slices.IsSortedFunc(list, func(a, b gguf.Stored) int { return preset.Compare(a.Name, b.Name) }) {
			t.Errorf("%s as %s: not in the order of llama-quantize", c.model, c.to)
		}
	}
}

// quantise replaces a weight by 4-bit codes in groups of 32, as MLX stores them.
func (s *sampleModel) quantise(t testing.TB, name string) {
	t.Helper()
	shape := s.drop(t, "^"+regexp.QuoteMeta(name)+`\.weight$`)[0].Shape
	groups := []int64{shape[0], shape[1] / 32}
	s.add(name+".weight", tensorfs.U32, 31, shape[0], shape[1]/8)
	for i, part := range []string{".scales", ".biases"} {
		x := testmodel.SafeTensor{Name: name + part, DType: tensorfs.F16, Shape: groups}
		for n := range int(x.Size() / 2) {
			x.Data = binary.LittleEndian.AppendUint16(x.Data, uint16(0x2000+0x1800*i+n))
		}
		s.list = append(s.list, x)
	}
	if !strings.Contains(s.config, `"quantization"`) {
		s.config = strings.TrimRight(strings.TrimSpace(s.config), "}") + `, "quantization": {"bits": 4, "group_size": 32}}`
	}
}

// TestQuantisedLatent: the part of kv_b that makes v keeps its codes, the other one
// is transposed and has none.
func TestQuantisedLatent(t *testing.T) {
	s := published(t, "deepseek3")
	s.quantise(t, "model.layers.0.self_attn.kv_b_proj")
	got := s.must(t)
	k, v := got["blk.0.attn_k_b.weight"], got["blk.0.attn_v_b.weight"]
	if k.DType != tensorfs.F16 || v.DType != tensorfs.Q4_1 {
		t.Fatal(k.DType, v.DType)
	}
	part := func(name string, d tensorfs.DType) *tensorfs.Tensor {
		x := s.get(t, "model.layers.0.self_attn.kv_b_proj."+name)
		return &tensorfs.Tensor{DType: d, Shape: x.Shape, Data: tensorfs.Bytes(x.Data)}
	}
	whole := part("weight", tensorfs.U32)
	whole.Quant = &tensorfs.Quant{Mode: "affine", Bits: 4, GroupSize: 32, Shape: []int64{128, 32}, Scales: part("scales", tensorfs.F16), Biases: part("biases", tensorfs.F16)}
	as := func(d tensorfs.DType) []byte {
		e, err := views.Encode(whole, d)
		if err != nil {
			t.Fatal(err)
		}
		return testwhole.Read(t, gguf.Stored{Data: e}.Data)
	}
	halves, blocks := as(tensorfs.F16), as(tensorfs.Q4_1)
	gotK, gotV := testwhole.Read(t, k.Data), testwhole.Read(t, v.Data)
	for h := range 4 {
		for r := range 16 {
			for c := range 32 {
				if !bytes.Equal(gotK[2*((h*32+c)*16+r):][:2], halves[2*((h*32+r)*32+c):][:2]) {
					t.Fatal("k", h, r, c)
				}
			}
			if !bytes.Equal(gotV[20*(h*16+r):][:20], blocks[20*(h*32+16+r):][:20]) {
				t.Fatal("v", h, r)
			}
		}
	}
}

// TestPermutedBiases: the biases of q and k are permuted as the rows of the weights; the biases of
// v are not.
func TestPermutedBiases(t *testing.T) {
	s := published(t, "llama3")
	for i, p := range []string{"q", "k", "v"} {
		for _, layer := range []string{"0", "1"} {
			s.add("model.layers."+layer+".self_attn."+p+"_proj.bias", tensorfs.F32, uint64(i), []int64{64, 32, 32}[i])
		}
	}
	got := s.must(t)
	for p, moved := range map[string]bool{"q": true, "k": true, "v": false} {
		in, out := s.get(t, "model.layers.1.self_attn."+p+"_proj.bias").Data, testwhole.Read(t, got["blk.1.attn_"+p+".bias"].Data)
		for i := range len(in) / 4 {
			from := i
			if moved { // heads of 16
				from = i/16*16 + i%2*8 + i%16/2
			}
			if !bytes.Equal(out[4*i:][:4], in[4*from:][:4]) {
				t.Errorf("%s: row %d", p, i)
			}
		}
	}
}

// TestFalconOfOneGroup: with one head of k and v nothing moves. The first Falcons
// had one, and say 71.
func TestFalconOfOneGroup(t *testing.T) {
	s := made(`{"architectures":["FalconForCausalLM"],"hidden_size":32,"num_hidden_layers":1,"num_attention_heads":4,"num_kv_heads":4,"multi_query":true}`, tensorfs.BF16, map[string][]int64{
		"transformer.word_embeddings.weight": {70, 32}, "transformer.ln_f.weight": {32}, "transformer.ln_f.bias": {32},
		"transformer.h.0.input_layernorm.weight": {32}, "transformer.h.0.input_layernorm.bias": {32},
		"transformer.h.0.self_attention.query_key_value.weight": {48, 32}, "transformer.h.0.self_attention.dense.weight": {32, 32},
		"transformer.h.0.mlp.dense_h_to_4h.weight": {128, 32}, "transformer.h.0.mlp.dense_4h_to_h.weight": {32, 128},
	})
	got := s.must(t)
	if !slices.Equal(testwhole.Read(t, got["blk.0.attn_qkv.weight"].Data), s.get(t, "transformer.h.0.self_attention.query_key_value.weight").Data) {
		t.Error("rows moved")
	}
	if len(got) != 9 || got["blk.0.attn_norm.bias"].Data == nil {
		t.Error(len(got), "tensors")
	}
}

// TestLayoutsAndKeys: an architecture that has keys has tensors, and the other way
// round.
func TestLayoutsAndKeys(t *testing.T) {
	keys := map[string]bool{}
	for _, a := range architectures.AllSettings() {
		if len(a.Classes) == 0 || len(a.Keys) == 0 {
			continue
		}
		keys[a.GGUF] = true
		if d := architectures.Find(a.GGUF); d == nil || !d.Makes("gguf") {
			t.Errorf("%s has keys and no tensors", a.GGUF)
		}
	}
	for _, a := range architectures.All() {
		if a.Makes("gguf") && !keys[a.Name] {
			t.Errorf("%s has tensors and no keys", a.Name)
		}
	}
}

// TestDoubles holds that F64 becomes F32, each number rounded to the nearest, with a note.
func TestDoubles(t *testing.T) {
	for name, stored := range map[string]string{"model.layers.0.mlp.up_proj.weight": "blk.0.ffn_up.weight", "model.norm.weight": "output_norm.weight"} {
		s := published(t, "llama3")
		x := s.get(t, name)
		n := int(x.Size() / 2)
		doubles, want := []byte{}, []byte{}
		for i := range n {
			v := math.Ldexp(1+float64(i)*0x1p-30, i%40-20)
			doubles = binary.LittleEndian.AppendUint64(doubles, math.Float64bits(v))
			want = binary.LittleEndian.AppendUint32(want, math.Float32bits(float32(v)))
		}
		x.DType, x.Data = tensorfs.F64, doubles
		for _, opts := range []Options{{}, {Quantise: pure(tensorfs.F32)}} {
			list, notes, err := s.make(t, opts, 0)
			if err != nil {
				t.Fatal(err)
			}
			i := slices.IndexFunc(list, func(x gguf.Stored) bool { return x.Name == stored })
			if list[i].DType != tensorfs.F32 || !bytes.Equal(testwhole.Read(t, list[i].Data), want) {
				t.Errorf("%s is %s with other numbers", stored, list[i].DType)
			}
			if said := strings.Join(notes.Notes, "\n"); notes.Exact || !strings.Contains(said, "1 tensors are rounded to F32, the first is "+stored) {
				t.Errorf("%s: exact %t, %s", stored, notes.Exact, said)
			}
		}
	}
}
