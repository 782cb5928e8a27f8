package lora_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats"
	"github.com/tensorfs/tensorfs/formats/gguf"
	"github.com/tensorfs/tensorfs/formats/safetensors"
	"github.com/tensorfs/tensorfs/internal/testing/memory"
	"github.com/tensorfs/tensorfs/views"
	"github.com/tensorfs/tensorfs/views/lora"
)

// product is row o and column i of B A, as numbers are promised.
func product(a, b []float32, rank, columns, o, i int) float32 {
	sum := 0.0
	for k := range rank {
		sum += float64(b[o*rank+k]) * float64(a[k*columns+i])
	}
	return float32(sum)
}

// stored are the numbers of a tensor of a file.
func stored(t testing.TB, x safetensors.Stored) []float32 {
	return numbers(t, &tensorfs.Tensor{DType: x.DType, Shape: x.Shape, Data: x.Data})
}

const layer = "model.layers.0."

// pairOf are A and B of a module.
func pairOf(module string, out, in, rank int64) []safetensors.Stored {
	return []safetensors.Stored{tensor(pre+module+".lora_A.weight", tensorfs.F32, rank, in), tensor(pre+module+".lora_B.weight", tensorfs.F32, out, rank)}
}

// A module is found where the base has it: as it is, with rows as columns, as rows of a joined
// matrix or in parts, and as one of a stack.
func TestPlaces(t *testing.T) {
	const rank, s = 2, 1.5 // alpha 3
	type row = func(o, i int) (tensor string, row, column int)
	plain := func(name string, from int) row {
		return func(o, i int) (string, int, int) { return name, from + o, i }
	}
	for _, c := range []struct {
		name, arch, config string
		base               []safetensors.Stored
		module             string
		out, in            int64
		at                 row
	}{
		{"linear", "llama", "", []safetensors.Stored{tensor(q, tensorfs.BF16, 32, 64)}, layer + "self_attn.q_proj", 32, 64, plain(q, 0)},
		{"Conv1D", "gpt2", "", []safetensors.Stored{tensor("h.0.attn.c_attn.weight", tensorfs.BF16, 64, 192)}, "transformer.h.0.attn.c_attn", 192, 64,
			func(o, i int) (string, int, int) { return "h.0.attn.c_attn.weight", i, o }},
		{"square Conv1D", "gpt2", "", []safetensors.Stored{tensor("h.0.attn.c_proj.weight", tensorfs.F32, 64, 64)}, "transformer.h.0.attn.c_proj", 64, 64,
			func(o, i int) (string, int, int) { return "h.0.attn.c_proj.weight", i, o }},
		{"fan_in_fan_out", "llama", `,"fan_in_fan_out":true`, []safetensors.Stored{tensor(q, tensorfs.F32, 64, 64)}, layer + "self_attn.q_proj", 64, 64,
			func(o, i int) (string, int, int) { return q, i, o }},
		{"q of qkv", "llama", "", []safetensors.Stored{tensor(layer+"self_attn.qkv_proj.weight", tensorfs.F16, 128, 64)}, layer + "self_attn.q_proj", 64, 64, plain(layer+"self_attn.qkv_proj.weight", 0)},
		{"k of qkv", "llama", "", []safetensors.Stored{tensor(layer+"self_attn.qkv_proj.weight", tensorfs.F16, 128, 64)}, layer + "self_attn.k_proj", 32, 64, plain(layer+"self_attn.qkv_proj.weight", 64)},
		{"v of qkv", "llama", "", []safetensors.Stored{tensor(layer+"self_attn.qkv_proj.weight", tensorfs.F16, 128, 64)}, layer + "self_attn.v_proj", 32, 64, plain(layer+"self_attn.qkv_proj.weight", 96)},
		{"gate_up in parts", "llama", "", []safetensors.Stored{tensor(layer+"mlp.gate_proj.weight", tensorfs.F32, 24, 16), tensor(layer+"mlp.up_proj.weight", tensorfs.F32, 24, 16)}, layer + "mlp.gate_up_proj", 48, 16,
			func(o, i int) (string, int, int) {
				return layer + []string{"mlp.gate_proj.weight", "mlp.up_proj.weight"}[o/24], o % 24, i
			}},
		{"an expert of a stack", "llama", "", []safetensors.Stored{tensor(layer+"mlp.experts.down_proj", tensorfs.F32, 3, 16, 8)}, layer + "mlp.experts.1.down_proj", 16, 8, plain(layer+"mlp.experts.down_proj", 16)},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := model(t, c.arch, c.base...)
			pair := pairOf(c.module, c.out, c.in, rank)
			apply(t, m, peft(t, `{"peft_type":"LORA","r":2,"lora_alpha":3`+c.config+`}`, pair...), 1)
			a, b := stored(t, pair[0]), stored(t, pair[1])
			want := map[string][]float32{}
			for _, x := range c.base {
				want[x.Name] = stored(t, x)
			}
			for o := range int(c.out) {
				for i := range int(c.in) {
					name, row, column := c.at(o, i)
					shape := m.TensorBySource(name).Shape
					want[name][row*int(shape[len(shape)-1])+column] += float32(product(a, b, rank, int(c.in), o, i) * s)
				}
			}
			for name, w := range want {
				if x := m.TensorBySource(name); !slices.Equal(numbers(t, x), w) || x.Change == nil {
					t.Errorf("%s has other numbers", name)
				}
			}
		})
	}
}

// A stack of a GGUF adapter is applied to a stack, and to experts one by one.
func TestStackOfGGUF(t *testing.T) {
	const experts, out, in, rank = 3, 16, 8, 2
	a, b := tensor("a", tensorfs.F32, experts, rank, in), tensor("bb", tensorfs.F32, experts, out, rank)
	d, err := gguf.Compose([]tensorfs.Meta{{Key: "general.architecture", Value: "llama"}, {Key: "general.type", Value: "adapter"}, {Key: "adapter.type", Value: "lora"}, {Key: "adapter.lora.alpha", Value: float32(4)}},
		[]gguf.Stored{{Name: "blk.0.ffn_down_exps.weight.lora_a", DType: tensorfs.F32, Shape: a.Shape, Data: a.Data}, {Name: "blk.0.ffn_down_exps.weight.lora_b", DType: tensorfs.F32, Shape: b.Shape, Data: b.Data}})
	must(t, err)
	file := make([]byte, d.Size())
	must(t, tensorfs.ReadFull(d, file, 0))
	stack := tensor(layer+"mlp.experts.down_proj", tensorfs.F32, experts, out, in)
	var each []safetensors.Stored
	for e := range int64(experts) {
		each = append(each, safetensors.Stored{Name: fmt.Sprintf(layer+"mlp.experts.%d.down_proj.weight", e), DType: tensorfs.F32, Shape: []int64{out, in}, Data: tensorfs.Section(stack.Data, e*out*in*4, out*in*4)})
	}
	want, x, y := stored(t, stack), stored(t, a), stored(t, b)
	for e := range experts {
		for o := range out {
			for i := range in {
				want[(e*out+o)*in+i] += float32(product(x[e*rank*in:], y[e*out*rank:], rank, in, o, i) * 2)
			}
		}
	}
	for _, base := range [][]safetensors.Stored{{stack}, each} {
		m := model(t, "llama", base...)
		opened, err := formats.OpenFS(memory.New(map[string][]byte{"a.gguf": file}), "a.gguf")
		must(t, err)
		apply(t, m, opened, 1)
		var got []float32
		for i := range m.Tensors {
			got = append(got, numbers(t, &m.Tensors[i])...)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%d tensors of experts: other numbers", len(base))
		}
	}
}

// Parameters of one module are told apart by their order in the module, not in the list.
func TestOrderOfParameters(t *testing.T) {
	var results [][]float32
	for _, list := range []string{`["experts.down_proj","experts.gate_up_proj"]`, `["experts.gate_up_proj","experts.down_proj"]`} {
		m := model(t, "llama", tensor(layer+"mlp.experts.gate_up_proj", tensorfs.F32, 2, 12, 8), tensor(layer+"mlp.experts.down_proj", tensorfs.F32, 2, 8, 6))
		experts := layer + "mlp.experts"
		pairs := append(pairOf(experts+".base_layer", 12, 8, 4), pairOf(experts, 8, 6, 4)...)
		apply(t, m, peft(t, `{"peft_type":"LORA","r":2,"lora_alpha":4,"target_parameters":`+list+`}`, pairs...), 1)
		for i := range m.Tensors {
			if m.Tensors[i].Change == nil {
				t.Errorf("%s stays", m.Tensors[i].Name)
			}
			results = append(results, numbers(t, &m.Tensors[i]))
		}
	}
	if !slices.Equal(results[0], results[2]) || !slices.Equal(results[1], results[3]) {
		t.Error("the order of the list counts")
	}
}

// An adapter that replaces or rescales weights has to come first, and a complete weight before
// everything that adds to it.
func TestOrderOfAdapters(t *testing.T) {
	const usual = `{"peft_type":"LORA","r":2,"lora_alpha":4}`
	module := layer + "self_attn.q_proj"
	pair := pairOf(module, 32, 64, 2)
	dora := append(slices.Clone(pair), tensor(pre+module+".lora_magnitude_vector", tensorfs.F32, 32))
	full := []safetensors.Stored{tensor(pre+module+".weight", tensorfs.F16, 32, 64)}
	for _, c := range []struct {
		list [][]safetensors.Stored
		want string
	}{
		{[][]safetensors.Stored{dora, pair}, ""},
		{[][]safetensors.Stored{pair, dora}, "name this adapter first"},
		{[][]safetensors.Stored{dora, dora}, "name this adapter first"},
		{[][]safetensors.Stored{full, pair}, ""},
		{[][]safetensors.Stored{full, full}, ""},
		{[][]safetensors.Stored{pair, full}, "name this adapter first"},
	} {
		m := model(t, "llama", tensor(q, tensorfs.BF16, 32, 64))
		var uses []lora.Use
		for _, list := range c.list {
			uses = append(uses, lora.Use{Model: peft(t, usual, list...), Adapter: tensorfs.Adapter{Source: "a", Scale: 1}})
		}
		err := lora.Apply(m, views.Options{}, uses...)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
	// The adapter's own type is the stored one, and what is added acts on its numbers.
	m := model(t, "llama", tensor(q, tensorfs.BF16, 32, 64))
	apply(t, m, peft(t, usual, full...), 1)
	if x := &m.Tensors[0]; x.DType != tensorfs.F16 || x.Change == nil || !slices.Equal(numbers(t, x), stored(t, full[0])) {
		t.Error("a weight in full is not the adapter's")
	}
}

// All NaN become one NaN, whatever the base had, and rows of zeros stay zeros with DoRA.
func TestNotNumbers(t *testing.T) {
	base := stored(t, tensor(q, tensorfs.F32, 32, 64))
	base[3] = math.Float32frombits(0xFFC12345)
	clear(base[64:128])
	var data []byte
	for _, v := range base {
		data = append(data, byte(math.Float32bits(v)), byte(math.Float32bits(v)>>8), byte(math.Float32bits(v)>>16), byte(math.Float32bits(v)>>24))
	}
	m := model(t, "llama", safetensors.Stored{Name: q, DType: tensorfs.F32, Shape: []int64{32, 64}, Data: tensorfs.Bytes(data)})
	pair := pairOf(layer+"self_attn.q_proj", 32, 64, 2)
	zeros := tensorfs.Bytes(make([]byte, pair[1].Data.Size()))
	pair[1].Data = zeros
	apply(t, m, peft(t, `{"peft_type":"LORA","r":2,"lora_alpha":4}`, append(pair, tensor(pre+layer+"self_attn.q_proj.lora_magnitude_vector", tensorfs.F32, 32))...), 1)
	got := numbers(t, &m.Tensors[0])
	if math.Float32bits(got[3]) != 0x7FC00000 {
		t.Errorf("NaN has the bits %x", math.Float32bits(got[3]))
	}
	if slices.ContainsFunc(got[64:128], func(v float32) bool { return v != 0 }) {
		t.Error("a row of zeros has become another")
	}
}

// Of a quantised base it is the numbers that it decodes to, to which adapters add.
func TestQuantisedBase(t *testing.T) {
	const rank, out, in = 2, 32, 256
	pair := pairOf(layer+"self_attn.q_proj", out, in, rank)
	a, b := stored(t, pair[0]), stored(t, pair[1])
	for _, c := range []struct{ stored, float tensorfs.DType }{
		{tensorfs.Q4_K, tensorfs.BF16}, {tensorfs.Q8_0, tensorfs.BF16}, {tensorfs.MXFP4, tensorfs.BF16},
		{tensorfs.BF16, tensorfs.BF16}, {tensorfs.F16, tensorfs.F16}, {tensorfs.F32, tensorfs.Unknown},
	} {
		base := tensor(q, c.stored, out, in)
		m := model(t, "llama", base)
		apply(t, m, peft(t, `{"peft_type":"LORA","r":2,"lora_alpha":3}`, pair...), 1)
		want := stored(t, base)
		for o := range out {
			for i := range in {
				want[o*in+i] += float32(product(a, b, rank, in, o, i) * 1.5)
			}
		}
		x := &m.Tensors[0]
		if !slices.Equal(numbers(t, x), want) || x.DType != tensorfs.F32 || x.Float != c.float {
			t.Errorf("%s: other numbers, or %s and %s", c.stored, x.DType, x.Float)
		}
		raw := views.Build(m, views.Options{})[0]
		if isFloat := c.stored.Kind() == tensorfs.KindFloat; (raw.Tensors.Len() == 1) != isFloat || (raw.Absent.Len() == 0) != isFloat {
			t.Errorf("%s: raw/ has %d tensors and leaves out %d", c.stored, raw.Tensors.Len(), raw.Absent.Len())
		} else if isFloat && (raw.Tensors.At(0).DType != c.stored || tensorfs.Extents(raw.Tensors.At(0).Data) != nil) {
			t.Errorf("%s: raw/ has %s, stored somewhere", c.stored, raw.Tensors.At(0).DType)
		}
	}
}
