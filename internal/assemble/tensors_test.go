package assemble

import (
	"reflect"
	"slices"
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/names"
)

func tensor(source string, d tensorfs.DType, shape ...int64) tensorfs.Tensor {
	size, _ := d.Size(shape)
	return tensorfs.Tensor{Source: source, DType: d, Shape: shape, Data: tensorfs.Bytes(make([]byte, size))}
}

// TestModel takes tensors of a quantised module to a model, which sorts them:
// companions must stay what they were.
func TestModel(t *testing.T) {
	const up = "model.layers.4.mlp.up_proj"
	var ts Tensors
	for _, x := range []tensorfs.Tensor{
		tensor(up+".weight", tensorfs.U32, 6, 8), tensor(up+".scales", tensorfs.F16, 6, 1), tensor(up+".biases", tensorfs.F16, 6, 1),
		tensor("model.embed_tokens.weight", tensorfs.F16, 10, 64), tensor("model.layers.0.mlp.experts.gate_up_proj", tensorfs.F16, 2, 64, 12),
		tensor("layers.9", tensorfs.F16, 1),
	} {
		if _, ok := ts.Add(x); !ok {
			t.Fatal(x.Source)
		}
	}
	if other, ok := ts.Add(tensor(up+".scales", tensorfs.U8)); ok || other != 1 || len(ts.List) != 6 {
		t.Errorf("a second %s.scales is added, or is not %d", up, other)
	}
	if warnings := ts.Name(names.HF, "qwen3moe"); len(warnings) > 0 {
		t.Errorf("%q", warnings)
	}
	codes := ts.Source(up + ".weight")
	q, err := Params{Affine, 4, 64}.Quant(codes, ts.Source(up+".scales"), ts.Source(up+".biases"), ts.Source("nothing"))
	if err != nil {
		t.Fatal(err)
	}
	Attach(codes, q)
	m := tensorfs.Model{Tensors: ts.List, Config: ts.Config(nil)}
	if got := ts.Apart(m.Dim()); got == nil || got.Source != "model.layers.0.mlp.experts.gate_up_proj" {
		t.Errorf("%+v is apart", got)
	}
	done, err := tensorfs.NewModel(m)
	if err != nil {
		t.Fatal(err)
	}
	w := done.Tensor("layers.4.ffn.up.weight")
	if w == nil || !reflect.DeepEqual(w.Numbers(), []int64{6, 64}) || w.Quant.Scales.Name != "layers.4.ffn.up.scales" || w.Quant.Biases.Name != "layers.4.ffn.up.biases" || w.Quant.Global != nil {
		t.Fatalf("%+v, %+v", w, w.Quant)
	}
	for _, name := range []string{w.Quant.Scales.Name, w.Quant.Biases.Name} {
		if c := done.Tensor(name); c == nil || c.Owner != w.Name {
			t.Errorf("%s: %+v", name, c)
		}
	}
	want := map[string]any{"dim": int64(64), "n_layers": int64(5), "vocab_size": int64(10)} // "layers.9" is not in a layer
	for _, f := range done.Config {
		if v, ok := want[f.Name]; ok && v != f.Value {
			t.Errorf("%s is %v, want %v", f.Name, f.Value, v)
		}
		delete(want, f.Name)
	}
	if len(want) > 0 {
		t.Errorf("the config lacks %v", want)
	}
}

// TestNameTaken has two tensors that would have one name.
func TestNameTaken(t *testing.T) {
	ts := Tensors{List: []tensorfs.Tensor{tensor("model.norm.weight", tensorfs.F16, 4), tensor("language_model.model.norm.weight", tensorfs.F16, 4)}}
	if warnings := ts.Name(names.HF, "llama"); len(warnings) != 1 || ts.List[0].Name == ts.List[1].Name {
		t.Errorf("%q for %q and %q", warnings, ts.List[0].Name, ts.List[1].Name)
	}
}

// TestFitting holds what callers build on: the number of codes for a scale tells
// the modes with scales of bytes apart, and parameters fit their own shapes.
func TestFitting(t *testing.T) {
	n := 0
	for p := range existing {
		n++
		columns := int64(p.Bits) * 128
		codes, scales := tensor("", tensorfs.U32, 2, columns*int64(p.Bits)/32), tensor("", tensorfs.U8, 2, columns/int64(p.Group))
		fit := Fitting(&codes, &scales, func(q Params) bool { return (q.Mode == Affine) == (p.Mode == Affine) })
		if !slices.Contains(fit, p) || p.Mode != Affine && len(fit) != 1 {
			t.Errorf("%v: %v", p, fit)
		}
		if d, ok := Default(p.Mode); !ok || d.exist() != nil {
			t.Errorf("%s: %v by default", p.Mode, d)
		}
	}
	if n != 6*3+3 {
		t.Errorf("%d parameters exist", n)
	}
	empty := tensor("", tensorfs.U32, 2, 0)
	if fit := Fitting(&empty, &empty, func(Params) bool { return true }); fit != nil {
		t.Errorf("no codes fit %v", fit)
	}
	if p, ok := Default("int4"); ok || p.exist() == nil {
		t.Errorf("int4 is %v", p)
	}
}
