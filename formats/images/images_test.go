package images

import (
	"slices"
	"strings"
	"testing"
)

func TestRecognise(t *testing.T) {
	const flux, sd1 = "double_blocks.0.img_attn.proj.weight", "input_blocks.3.0.op.weight input_blocks.6.0.op.weight input_blocks.9.0.op.weight output_blocks.2.1.conv.weight output_blocks.5.2.conv.weight output_blocks.8.2.conv.weight"
	for names, want := range map[string]string{
		"":                                       "",
		"model.layers.0.self_attn.q_proj.weight": "",
		flux:                                     "flux ",
		"net." + flux:                            "flux net.",
		"net." + flux + " other":                 "",
		"model." + flux + " vae.x":               "flux model.",
		"model.diffusion_model." + flux + " model.x": "flux model.diffusion_model.",
		"model.x " + flux:             "", // which the converter does not look at
		sd1:                           "sd1 ",
		sd1 + " label_emb.0.0.weight": "sdxl ",
		strings.Join(strings.Fields(sd1)[1:], " "):                                         "",
		"cap_embedder.1.weight context_refiner.0.attention.qkv.weight":                     "lumina2 ",
		"txt_norm.weight transformer_blocks.0.img_mod.1.weight " + flux:                    "qwen_image ",
		"blocks.0.self_attn.norm_q.weight text_embedding.2.weight head.modulation":         "wan ",
		"blocks.0.self_attn.norm_q.weight text_embedding.2.weight":                         "",
		"down_blocks.0.downsamplers.0.conv.weight":                                         "sd1 ",
		"down_blocks.0.downsamplers.0.conv.weight add_embedding.linear_1.weight conv_in.x": "sdxl ",
	} {
		got := ""
		if a, prefix := Recognise(strings.Fields(names)); a != nil {
			got = a.Name + " " + prefix
		}
		if got != want {
			t.Errorf("%q: %q, want %q", names, got, want)
		}
	}
}

func TestFromDiffusers(t *testing.T) {
	flux, sd3 := Find("flux"), Find("sd3")
	for _, c := range []struct {
		a     *Architecture
		names string
		want  string // NAME=PART+PART, ^ for exchanged halves; or a part of the error
	}{
		{flux, "x_embedder.bias norm_out.linear.weight", "final_layer.adaLN_modulation.1.weight=^norm_out.linear.weight img_in.bias=x_embedder.bias"},
		{flux, "transformer_blocks.12.attn.to_v.weight transformer_blocks.12.attn.to_q.weight transformer_blocks.12.attn.to_k.weight",
			"double_blocks.12.img_attn.qkv.weight=transformer_blocks.12.attn.to_q.weight+transformer_blocks.12.attn.to_k.weight+transformer_blocks.12.attn.to_v.weight"},
		{flux, "transformer_blocks.0.attn.to_q.weight", "is there without the tensors"},
		{flux, "x_embedder.scale", "is no tensor of diffusers' FLUX"},
		{flux, "transformer_blocks.x.norm1.linear.weight", "is no tensor"},
		{sd3, "transformer_blocks.9.norm1_context.linear.weight transformer_blocks.10.norm1_context.linear.weight",
			"joint_blocks.10.context_block.adaLN_modulation.1.weight=^transformer_blocks.10.norm1_context.linear.weight joint_blocks.9.context_block.adaLN_modulation.1.weight=transformer_blocks.9.norm1_context.linear.weight"},
		{Find("lumina2"), "a.attention.to_out.0.weight x", "a.attention.out.weight=a.attention.to_out.0.weight x=x"},
		{Find("ltxv"), "proj_in.weight patchify_proj.weight", "are both patchify_proj.weight"},
	} {
		list, err := c.a.FromDiffusers(strings.Fields(c.names))
		var got []string
		for _, s := range list {
			of := strings.Join(s.Of, "+")
			if s.Exchange {
				of = "^" + of
			}
			got = append(got, s.Name+"="+of)
		}
		if err != nil && !strings.Contains(err.Error(), c.want) || err == nil && strings.Join(got, " ") != c.want {
			t.Errorf("%s %q: %q, %v; want %q", c.a.Name, c.names, got, err, c.want)
		}
	}
}

// TestTables holds that every line of the tables can be used.
func TestTables(t *testing.T) {
	for name := range rules() {
		if a := Find(name); a == nil || len(a.classes) == 0 {
			t.Errorf("diffusers.txt has names for %s, and no class of diffusers is of it", name)
		}
	}
	for _, a := range all() {
		if a.Title == "" || len(a.ways) == 0 || !a.NoFile && len(a.kept) == 0 {
			t.Errorf("%+v lacks something", a)
		}
		for _, class := range a.classes {
			if OfClass(class) != a {
				t.Errorf("%s is the class of another", class)
			}
		}
	}
	if slices.ContainsFunc(all(), func(a *Architecture) bool { return Find(a.Name) != a }) || Find("llama") != nil || OfClass("") != nil {
		t.Error("an architecture is not found by its name")
	}
}

func TestFold(t *testing.T) {
	folded, plain := Find("sdxl"), Find("flux")
	for _, c := range []struct{ shape, want []int64 }{
		{[]int64{32, 32, 3, 3}, []int64{36, 256}},
		{[]int64{8, 64}, []int64{2, 256}},
		{[]int64{4, 64}, []int64{4, 64}},     // fewer than 512
		{[]int64{512}, []int64{512}},         // one dimension
		{[]int64{3, 256}, []int64{3, 256}},   // whole rows
		{[]int64{10, 100}, []int64{10, 100}}, // not a whole number of rows
	} {
		n := int64(1)
		for _, d := range c.shape {
			n *= d
		}
		if got := folded.Fold(c.shape, n); !slices.Equal(got, c.want) {
			t.Errorf("%v: %v, want %v", c.shape, got, c.want)
		}
		if got := plain.Fold(c.shape, n); !slices.Equal(got, c.shape) {
			t.Errorf("%v of FLUX: %v", c.shape, got)
		}
	}
}
