package layout

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/architectures"
	"github.com/tensorfs/tensorfs/internal/testing/testwhole"
)

// sampleWalk is a walk of a model with sizes that no two of are the same.
func sampleWalk(to Side) *Walk {
	sizes := map[string]any{"dim": int64(20), "n_heads": int64(6), "n_kv_heads": int64(3), "head_dim": int64(4), "ssm_inner": int64(10), "ssm_dt_rank": int64(5)}
	w := New(&tensorfs.Model{}, architectures.Find("mamba2"), to, func(name string) any { return sizes[name] })
	w.Sink = &List{}
	return w
}

// sample returns a tensor of F32 with other numbers in every place.
func sample(shape ...int64) *tensorfs.Tensor {
	n, _ := tensorfs.Elements(shape)
	list := make([]float32, n)
	for i := range list {
		list[i] = float32(i%97) / 8
	}
	t := float32s("sample", list)
	t.Shape = shape
	return t
}

// halves are, for moves that make a tensor of one, what they begin with for Hugging Face
// and end with in GGUF.
var halves = map[string]struct {
	module   string // heads of q and of k differ
	hf, gguf []int64
	shape    []string // as descriptions say it
	args     []string
}{
	"heads":    {module: "attention.k", hf: []int64{12, 20}, gguf: []int64{12, 20}, shape: []string{"k", "width"}},
	"plus":     {module: "attention_norm", hf: []int64{20}, gguf: []int64{20}, shape: []string{"width"}, args: []string{"1"}},
	"plus_mlx": {module: "attention_norm", hf: []int64{20}, gguf: []int64{20}, shape: []string{"width"}, args: []string{"1"}},
	"groups":   {module: "attention.qkv", hf: []int64{48, 20}, gguf: []int64{48, 20}, shape: []string{"qkv", "width"}},
	"thirds":   {module: "attention.qkv", hf: []int64{72, 20}, gguf: []int64{72, 20}, shape: []string{"72", "width"}},
	"as":       {module: "ssm.d", hf: []int64{5}, gguf: []int64{5, 1}, shape: []string{"ssm_heads", "1"}, args: []string{"ssm_heads"}},
	"kernel":   {module: "ssm.conv1d", hf: []int64{10, 1, 4}, gguf: []int64{10, 4}, shape: []string{"inner", "4"}},
	"neg_exp":  {module: "ssm.a", hf: []int64{5}, gguf: []int64{5}, shape: []string{"ssm_heads"}},
	"exp":      {module: "ssm.a", hf: []int64{5}, gguf: []int64{5}, shape: []string{"ssm_heads"}},
}

// TestHalves: the half from GGUF undoes the half towards it, and refuses no tensor that
// that one makes.
func TestHalves(t *testing.T) {
	for name, c := range halves {
		t.Run(name, func(t *testing.T) {
			p := &part{module: &module{Tensor: &architectures.Tensor{Module: c.module, Shape: c.shape}, from: "layers.0." + c.module, to: c.module}, param: ".weight", args: c.args}
			first := sample(c.hf...)
			made, err := moves[name].To(sampleWalk(GGUF), p, first)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(made.Numbers(), c.gguf) {
				t.Errorf("GGUF has %v, want %v", made.Numbers(), c.gguf)
			}
			if same := bytes.Equal(testwhole.Read(t, made.Data), testwhole.Read(t, first.Data)); same != (name == "as" || name == "kernel") {
				t.Errorf("the numbers are as they were: %v", same)
			}
			w := sampleWalk(HF)
			w.tensors = &Tensors{list: []tensorfs.Tensor{{Name: "layers.0.attention_norm_2.weight"}}} // a newer Falcon
			back, err := moves[name].From(w, p, made)
			if err != nil {
				t.Fatal(err)
			}
			if back.DType == tensorfs.BF16 { // the numbers were such
				back, err = Encoded(back, tensorfs.F32)
			}
			if err != nil || !slices.Equal(back.Numbers(), c.hf) || !bytes.Equal(testwhole.Read(t, back.Data), testwhole.Read(t, first.Data)) {
				t.Errorf("back it is another, of shape %v, %v", back.Numbers(), err)
			}
		})
	}
}

// TestHalvesRefuse: a tensor that a move is not for is refused by its name.
func TestHalvesRefuse(t *testing.T) {
	for name, c := range halves {
		if name == "plus" || name == "plus_mlx" || name == "neg_exp" || name == "exp" { // of any shape
			continue
		}
		p := &part{module: &module{Tensor: &architectures.Tensor{Module: c.module, Shape: c.shape}, from: "layers.0." + c.module, to: c.module}, param: ".weight", args: c.args}
		if _, err := moves[name].To(sampleWalk(GGUF), p, sample(7, 11, 13)); err == nil || !strings.Contains(err.Error(), "sample") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
