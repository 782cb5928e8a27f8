package compare

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/testing/testmodel"
	"github.com/tensorfs/tensorfs/internal/testing/testwhole"
	"github.com/tensorfs/tensorfs/views/measure"
)

// numbersOf is n numbers from first on, as a type of 2 or 4 bytes.
func numbersOf(d tensorfs.DType, first, n int) (b []byte) {
	for i := range n {
		bits := math.Float32bits(float32(first + i))
		if d == tensorfs.BF16 {
			b = binary.LittleEndian.AppendUint16(b, uint16(bits>>16))
		} else {
			b = binary.LittleEndian.AppendUint32(b, bits)
		}
	}
	return b
}

// openHF writes a model of Hugging Face, and opens it.
func openHF(t *testing.T, config map[string]any, tensors ...testmodel.SafeTensor) *tensorfs.Model {
	t.Helper()
	dir := t.TempDir()
	if err := testmodel.Write(dir, testmodel.HF(config, tensors, 1, nil)); err != nil {
		t.Fatal(err)
	}
	return testwhole.Open(t, dir)
}

// rows is a matrix of 4 columns that counts up.
func rows(name string, d tensorfs.DType, first, n int) testmodel.SafeTensor {
	return testmodel.SafeTensor{Name: name, DType: d, Shape: []int64{int64(n), 4}, Data: numbersOf(d, 4*first, 4*n)}
}

// found is what a comparison comes to, as texts.
func found(t *testing.T, a, b *tensorfs.Model) (lines, notes []string) {
	t.Helper()
	_, results, notes := statuses(t, a, b)
	for _, r := range results {
		lines = append(lines, r.Name+" "+string(r.Status))
	}
	return lines, notes
}

// TestJoin holds which tensors are joined for a comparison, and which are not.
func TestJoin(t *testing.T) {
	const layer = "model.layers.0."
	qkv := []testmodel.SafeTensor{rows(layer+"self_attn.q_proj.weight", tensorfs.F32, 0, 4), rows(layer+"self_attn.k_proj.weight", tensorfs.F32, 4, 2), rows(layer+"self_attn.v_proj.weight", tensorfs.F32, 6, 2)}
	mixed := slices.Clone(qkv)
	mixed[2] = rows(layer+"self_attn.v_proj.weight", tensorfs.BF16, 6, 2)
	joined := rows(layer+"self_attn.qkv_proj.weight", tensorfs.F32, 0, 8)
	var experts []testmodel.SafeTensor
	for e := range 3 {
		experts = append(experts, rows(fmt.Sprintf(layer+"mlp.experts.%d.down_proj.weight", e), tensorfs.F32, 2*e, 2))
	}
	stack := rows(layer+"mlp.switch_mlp.down_proj.weight", tensorfs.F32, 0, 6)
	stack.Shape = []int64{3, 2, 4}
	phi := map[string]any{"architectures": []string{"Phi3ForCausalLM"}, "model_type": "phi3"}
	moe := map[string]any{"architectures": []string{"Qwen3MoeForCausalLM"}, "model_type": "qwen3_moe"}
	for _, test := range []struct {
		name   string
		config map[string]any
		a, b   []testmodel.SafeTensor
		want   []string
		note   string
	}{
		{"parts", phi, qkv, []testmodel.SafeTensor{joined}, []string{"layers.0.attention.qkv.weight equal"}, "A has attention.qkv.weight in parts, which are joined for the comparison (1)"},
		{"joined", phi, []testmodel.SafeTensor{joined}, qkv, []string{"layers.0.attention.qkv.weight equal"}, "B has attention.qkv.weight in parts, which are joined for the comparison (1)"},
		{"parts of two types", phi, mixed, []testmodel.SafeTensor{joined}, []string{"layers.0.attention.qkv.weight equal"}, "A has attention"},
		{"a part is missing", phi, qkv[:2], []testmodel.SafeTensor{joined},
			[]string{"layers.0.attention.k.weight only_a", "layers.0.attention.q.weight only_a", "layers.0.attention.qkv.weight only_b"}, ""},
		{"a part is paired", phi, qkv, []testmodel.SafeTensor{joined, qkv[0]},
			[]string{"layers.0.attention.k.weight only_a", "layers.0.attention.q.weight equal", "layers.0.attention.qkv.weight only_b", "layers.0.attention.v.weight only_a"}, ""},
		{"experts", moe, experts, []testmodel.SafeTensor{stack}, []string{"layers.0.ffn.experts.down.weight equal"}, "A has ffn.experts.down.weight in parts"},
		{"too few experts", moe, experts[:2], []testmodel.SafeTensor{stack},
			[]string{"layers.0.ffn.experts.0.down.weight only_a", "layers.0.ffn.experts.1.down.weight only_a", "layers.0.ffn.experts.down.weight only_b"}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			lines, notes := found(t, openHF(t, test.config, test.a...), openHF(t, test.config, test.b...))
			if !slices.Equal(lines, test.want) || !strings.HasPrefix(strings.Join(notes, "|"), test.note) || (test.note == "") != (notes == nil) {
				t.Errorf("%q, notes %q", lines, notes)
			}
		})
	}
}

// TestUnknown holds that models of an unknown layout are compared as they are stored, with a note.
func TestUnknown(t *testing.T) {
	a := openHF(t, map[string]any{"architectures": []string{"NobodysForCausalLM"}}, rows("model.layers.0.self_attn.q_proj.weight", tensorfs.F32, 0, 4), rows("only", tensorfs.F32, 0, 1))
	g := testmodel.GGUF{
		Meta:    []tensorfs.Meta{{Key: "general.architecture", Value: "nobody"}},
		Tensors: []testmodel.GGUFTensor{{Name: "blk.0.attn_q.weight", Shape: []int64{4, 4}, Type: uint32(tensorfs.F32.GGML()), Data: numbersOf(tensorfs.F32, 0, 16)}},
	}
	path := filepath.Join(t.TempDir(), "m.gguf")
	if err := os.WriteFile(path, g.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	lines, notes := found(t, a, testwhole.Open(t, path))
	if !slices.Equal(lines, []string{"layers.0.attention.q.weight equal", "only only_a"}) || len(notes) != 1 ||
		!strings.Contains(notes[0], "NobodysForCausalLM") || !strings.HasSuffix(notes[0], "tensors are compared as they are stored") {
		t.Errorf("%q, notes %q", lines, notes)
	}
}

// TestRowsOfNoToken holds that an embedding with more rows than a GGUF file's is
// compared without these.
func TestRowsOfNoToken(t *testing.T) {
	m := testwhole.Open(t, filepath.Join(testdata, "whole-gguf", "gemma3"))
	list, err := os.ReadFile(filepath.Join(testdata, "whole-gguf", "gemma3", "model.safetensors"))
	if err != nil || len(list) == 0 {
		t.Fatal(err)
	}
	e := m.Tensor("token_embedding.weight")
	b := make([]byte, e.Data.Size())
	if err := tensorfs.ReadFull(e.Data, b, 0); err != nil {
		t.Fatal(err)
	}
	kept := e.Shape[0] - 30
	g := testmodel.GGUF{
		Meta:    []tensorfs.Meta{{Key: "general.architecture", Value: "gemma3"}},
		Tensors: []testmodel.GGUFTensor{{Name: "token_embd.weight", Shape: []int64{kept, e.Shape[1]}, Type: uint32(e.DType.GGML()), Data: b[:e.Data.Size()/e.Shape[0]*kept]}},
	}
	path := filepath.Join(t.TempDir(), "m.gguf")
	if err := os.WriteFile(path, g.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	count, _, notes := statuses(t, testwhole.Open(t, path), m)
	if count[Equal] != 1 || count[Shape] != 0 || !slices.ContainsFunc(notes, func(s string) bool {
		return strings.HasPrefix(s, "B has 30 more rows of token_embedding.weight than A")
	}) {
		t.Errorf("%v, notes %q", count, notes)
	}
}

// TestLogical compares one model in several formats and types.
func TestLogical(t *testing.T) {
	for _, family := range []string{"llama", "qwen2"} {
		l := testmodel.NewLogical(family, 0.125)
		path := filepath.Join(t.TempDir(), "m.gguf")
		if err := os.WriteFile(path, l.AsGGUF(tensorfs.Q4_0, false).Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		big := filepath.Join(t.TempDir(), "big.gguf")
		if err := os.WriteFile(big, l.AsGGUF(tensorfs.F32, true).Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		mlx := testmodel.With(l.Config(), "quantization", map[string]any{"group_size": 32, "bits": 4})
		models := []*tensorfs.Model{testwhole.Open(t, path), testwhole.Open(t, big), openHF(t, l.Config(), l.AsSafetensors(tensorfs.BF16)...), openHF(t, mlx, l.AsMLX(4, 32, tensorfs.F16)...)}
		for _, m := range models[1:] {
			same(t, models[0], m)
		}
		same(t, models[1], models[3])
	}
}

func TestTolerance(t *testing.T) {
	for _, test := range []struct {
		tensor tensorfs.Tensor
		want   float64
	}{
		{tensorfs.Tensor{DType: tensorfs.F64}, 0x1p-24},
		{tensorfs.Tensor{DType: tensorfs.F32}, 0x1p-24},
		{tensorfs.Tensor{DType: tensorfs.F16}, 0x1p-11},
		{tensorfs.Tensor{DType: tensorfs.BF16}, 0x1p-8},
		{tensorfs.Tensor{DType: tensorfs.F8_E4M3}, 0x1p-4},
		{tensorfs.Tensor{DType: tensorfs.F8_E5M2}, 0x1p-3},
		{tensorfs.Tensor{DType: tensorfs.Q8_0}, 0x1p-7},
		{tensorfs.Tensor{DType: tensorfs.Q6_K}, 0x1p-5},
		{tensorfs.Tensor{DType: tensorfs.Q4_K}, 0x1p-3},
		{tensorfs.Tensor{DType: tensorfs.IQ4_XS}, 0x1p-3},
		{tensorfs.Tensor{DType: tensorfs.Q2_K}, 0x1p-1},
		{tensorfs.Tensor{DType: tensorfs.IQ1_S}, 1},
		{tensorfs.Tensor{DType: tensorfs.MXFP4}, 0x1p-2},
		{tensorfs.Tensor{DType: tensorfs.U32, Quant: &tensorfs.Quant{Mode: "affine", Bits: 4, GroupSize: 64}}, 0x1p-3},
		{tensorfs.Tensor{DType: tensorfs.U32, Quant: &tensorfs.Quant{Mode: "mxfp4", Bits: 4, GroupSize: 32}}, 0x1p-2},
		{tensorfs.Tensor{DType: tensorfs.F8_E4M3, Quant: &tensorfs.Quant{Mode: "fp8"}}, 0x1p-4},
	} {
		if got := Tolerance(&test.tensor); got != test.want {
			t.Errorf("%v: %v, want %v", test.tensor.DType, got, test.want)
		}
	}
	for d := range tensorfs.DTypes() { // none divides by nothing
		if got := Tolerance(&tensorfs.Tensor{DType: d}); !(got > 0) {
			t.Errorf("%v: %v", d, got)
		}
	}
}

func TestJudge(t *testing.T) {
	for _, test := range []struct {
		d    measure.Difference
		want Status
	}{
		{measure.Difference{Equal: true, Numbers: true}, Equal},
		{measure.Difference{Equal: true}, Equal},
		{measure.Difference{}, Different},
		{measure.Difference{Numbers: true, Differ: 1, Max: 1, Largest: 8}, Close},
		{measure.Difference{Numbers: true, Differ: 1, Max: 1.01, Largest: 8}, Different},
		{measure.Difference{Numbers: true, Differ: 1, Odd: 1, Largest: 8}, Different},
	} {
		r := Result{Tolerance: 0.125}
		if r.judge(test.d); r.Status != test.want {
			t.Errorf("%+v: %s, want %s", test.d, r.Status, test.want)
		}
	}
}

// unreadable is Data that cannot be read.
type unreadable struct{ tensorfs.Data }

var errGone = errors.New("gone")

func (unreadable) ReadAt([]byte, int64) (int, error) { return 0, errGone }

// tensor is one without a file.
func tensor(d tensorfs.DType, shape []int64, data tensorfs.Data) *tensorfs.Tensor {
	return &tensorfs.Tensor{Name: "x", Source: "x", DType: d, Shape: shape, Data: data}
}

// TestCompareOdd compares tensors that are empty, single, of integers, opaque or
// unreadable.
func TestCompareOdd(t *testing.T) {
	one, two := tensorfs.Bytes{0, 0, 0x80, 0x3f}, tensorfs.Bytes{0, 0, 0, 0x40}
	opaque := func(b tensorfs.Bytes) *tensorfs.Tensor {
		x := tensor(tensorfs.U8, []int64{4}, b)
		x.Opaque = "nobody knows the layout"
		return x
	}
	for _, test := range []struct {
		name   string
		a, b   *tensorfs.Tensor
		want   Status
		reason string
	}{
		{"empty", tensor(tensorfs.F32, []int64{0, 3}, tensorfs.Bytes{}), tensor(tensorfs.F16, []int64{0, 3}, tensorfs.Bytes{}), Equal, ""},
		{"empty in other ways", tensor(tensorfs.F32, []int64{0, 3}, tensorfs.Bytes{}), tensor(tensorfs.F32, []int64{3, 0}, tensorfs.Bytes{}), Shape, ""},
		{"no dimensions", tensor(tensorfs.F32, nil, one), tensor(tensorfs.F32, nil, one), Equal, ""},
		{"no dimensions and one of 1", tensor(tensorfs.F32, nil, one), tensor(tensorfs.F32, []int64{1, 1}, two), Different, ""},
		{"shapes", tensor(tensorfs.F32, []int64{1, 2}, append(one, two...)), tensor(tensorfs.F32, []int64{2, 1}, append(one, two...)), Shape, ""},
		{"integers", tensor(tensorfs.I32, []int64{1}, one), tensor(tensorfs.I32, []int64{1}, one), Equal, "integers"},
		{"other integers", tensor(tensorfs.I32, []int64{1}, one), tensor(tensorfs.I32, []int64{1}, two), Different, "integers"},
		{"integers of two types", tensor(tensorfs.I32, []int64{1}, one), tensor(tensorfs.U32, []int64{1}, one), Different, "integers"},
		{"integers and floats", tensor(tensorfs.I32, []int64{1}, one), tensor(tensorfs.F32, []int64{1}, one), Different, "integers"},
		{"opaque", opaque(one), opaque(one), Equal, "nobody knows"},
		{"other opaque", opaque(one), opaque(two), Different, "nobody knows"},
	} {
		results, err := Compare(t.Context(), []Pair{{"x", test.a, test.b}}, Options{})
		if err != nil || results[0].Status != test.want || !strings.Contains(results[0].Reason, test.reason) || (test.reason == "") != (results[0].Reason == "") {
			t.Errorf("%s: %+v, %v", test.name, results, err)
		}
	}
	_, err := Compare(t.Context(), []Pair{{"x", tensor(tensorfs.F32, []int64{1}, one), tensor(tensorfs.F32, []int64{1}, unreadable{one})}}, Options{})
	if !errors.Is(err, errGone) || !strings.HasPrefix(err.Error(), "x: ") {
		t.Errorf("unreadable: %v", err)
	}
}

// TestHugeStack holds that a shape which claims many experts costs nothing.
func TestHugeStack(t *testing.T) {
	stack := tensor(tensorfs.F32, []int64{1 << 62, 0}, tensorfs.Bytes{})
	s := side{tensors: map[string]*tensorfs.Tensor{"layers.0.ffn.experts.0.down.weight": stack}}
	if parts := s.experts("layers.0.ffn.experts.down.weight", stack); parts != nil {
		t.Errorf("%d parts", len(parts))
	}
}
