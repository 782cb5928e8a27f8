package preset

import (
	"slices"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs"
)

// TestMix holds that weights get the types of another file by their canonical names, that rules come
// first, and what is said about weights of only one side.
func TestMix(t *testing.T) {
	other := []Tensor{
		{Name: "token_embd.weight", Shape: []int64{40, 256}, Type: tensorfs.Q6_K, Canonical: "embedding"},
		{Name: "blk.0.ffn_up.weight", Shape: []int64{256, 256}, Type: tensorfs.Q5_K, Canonical: "up"},
		{Name: "blk.0.ffn_down.weight", Shape: []int64{256, 256}, Type: tensorfs.Q1_0, Canonical: "down"},
		{Name: "blk.0.attn_v.weight", Shape: []int64{256, 256}, Type: tensorfs.NVFP4, Canonical: "v"},
		{Name: "blk.0.attn_norm.weight", Shape: []int64{256}, Type: tensorfs.F32, Canonical: "norm"},
	}
	x, err := MixOf("m-UD-Q4_K_XL.gguf", 15, other)
	if err != nil || len(x.Types) != 4 || x.Preset().Name != "Q4_K_M" || x.Label() != "UD-Q4_K_XL" {
		t.Fatalf("%+v, %v", x, err)
	}
	const want = "2 of its weights have types that are not made here (NVFP4, Q1_0), the first is blk.0.attn_v.weight; choose another file, or give such weights a type with --tensor-type, such as --tensor-type attn_v=q3_k"
	if err := x.CheckMade(nil); err == nil || err.Error() != want {
		t.Errorf("%v", err)
	}
	var rules []Rule
	for _, text := range []string{"attn_v=q8_0", "ffn_down=q3_k"} {
		r, err := RuleOf(text)
		if err != nil {
			t.Fatal(err)
		}
		rules = append(rules, r)
	}
	if err := x.CheckMade(rules); err != nil {
		t.Error(err)
	}
	model := []Tensor{
		{Name: "token_embd.weight", Shape: []int64{40, 96}, Type: tensorfs.F16, Canonical: "embedding"},
		{Name: "other_name.weight", Shape: []int64{256, 256}, Type: tensorfs.F16, Canonical: "up"},
		{Name: "blk.0.ffn_down.weight", Shape: []int64{256, 256}, Type: tensorfs.F16, Canonical: "down"},
		{Name: "blk.0.ffn_gate.weight", Shape: []int64{256, 256}, Type: tensorfs.F16, Canonical: "gate"},
		{Name: "blk.0.attn_norm.weight", Shape: []int64{256}, Type: tensorfs.F32, Canonical: "norm"},
	}
	o := Options{Preset: x.Preset(), From: x, Implied: true, Rules: rules}
	types := o.Types(Model{Layers: 1}, model)
	if want := []tensorfs.DType{tensorfs.Q8_0, tensorfs.Q5_K, tensorfs.Q3_K, tensorfs.Q4_K, tensorfs.F32}; !slices.Equal(types, want) {
		t.Errorf("%v, want %v", types, want)
	}
	notes := strings.Join(x.Differences(model, types, rules, "--gguf-type q4_k_m"), "\n")
	for _, want := range []string{
		"types of m-UD-Q4_K_XL.gguf: 3 of its 4 weights are here",
		"only m-UD-Q4_K_XL.gguf has blk.0.attn_v.weight",
		"only this model has, with the types of --gguf-type q4_k_m, blk.0.ffn_gate.weight",
		"rows do not fit the type of m-UD-Q4_K_XL.gguf: token_embd.weight (Q8_0 for Q6_K)",
	} {
		if !strings.Contains(notes, want) {
			t.Errorf("%s lacks %s", notes, want)
		}
	}
	// A preset of plain numbers is only for the other weights.
	f16, err := Named("f16")
	if err != nil {
		t.Fatal(err)
	}
	o = Options{Preset: f16, From: x}
	if types := o.Types(Model{Layers: 1}, model); types[1] != tensorfs.Q5_K || types[3] != tensorfs.F16 {
		t.Errorf("%v", types)
	}
	if _, err := MixOf("x", 0, other[4:]); err == nil || err.Error() != "it has no weights" {
		t.Error(err)
	}
	for file, want := range map[string]string{"Qwen3-4B-Q8_0.gguf": "Q8_0", "a-IQ4_XS-00001-of-00002.gguf": "IQ4_XS", "a.BF16.gguf": "BF16", "q.gguf": "Q4_K_M", "ab.gguf": "Q4_K_M"} {
		x.File = file
		if got := x.Label(); got != want {
			t.Errorf("%s: %s, want %s", file, got, want)
		}
	}
	x.FileType, x.Types = 40, map[string]tensorfs.DType{"a": tensorfs.Q6_K, "b": tensorfs.Q1_0, "c": tensorfs.Q6_K}
	if p := x.Preset(); p.Name != "Q6_K" || p.FileType != 40 {
		t.Errorf("%+v", p)
	}
}
