package names

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

func sources(names ...string) []Source {
	src := make([]Source, len(names))
	for i, n := range names {
		src[i].Name = n
	}
	return src
}

// TestMap has a case for each rule that a list of a sound model does not show.
// A name that is to keep its source name is written "=" in want.
func TestMap(t *testing.T) {
	for _, c := range []struct {
		name   string
		layout Layout
		src    []string
		want   []string
	}{
		{"two tensors of one meaning", GGUF,
			[]string{"v.class_embd.weight", "v.class_embd"},
			[]string{"=", "vision.class_embedding.weight"}},
		{"a source name like a canonical one", GGUF,
			[]string{"layers.0.ffn.up.weight", "blk.0.ffn_up.weight"},
			[]string{"layers.0.ffn.up.weight~a96df2e2", "layers.0.ffn.up.weight"}},
		{"numbers", GGUF,
			[]string{"blk.0.attn_q.weight", "blk.00.attn_q.weight", "blk.999999.attn_q.weight", "blk.1000000.attn_q.weight", "blk.18446744073709551616.attn_q.weight", "blk.-1.attn_q.weight", "blk.+1.attn_q.weight", "blk..attn_q.weight", "blk.1.2.attn_q.weight", "blk.\u0661.attn_q.weight"},
			[]string{"layers.0.attention.q.weight", "=", "layers.999999.attention.q.weight", "=", "=", "=", "=", "=", "=", "=", "="}},
		{"placeholders in a source name", GGUF,
			[]string{"blk.{n}.attn_q.weight", "blk.0.attn_q.{s}", "{n}", "blk.{n}.attn_q.weight.scale"},
			[]string{"=", "=", "=", "="}},
		{"literal before wrapper", HF,
			[]string{"language_model.model.layers.0.self_attn.q_proj.weight", "model.layers.0.self_attn.q_proj.weight", "layers.0.self_attn.q_proj.weight"},
			[]string{"=", "=", "layers.0.attention.q.weight"}}, // both bare and model. are literal: byte order
		{"wrappers in order", HF,
			[]string{"thinker.model.norm.weight", "llm.model.norm.weight"},
			[]string{"=", "output_norm.weight"}},
		{"conditions see through a wrapper", HF,
			[]string{"thinker.model.layers.0.post_attention_layernorm.weight", "thinker.model.layers.0.post_feedforward_layernorm.weight", "thinker.model.layers.1.post_attention_layernorm.weight"},
			[]string{"layers.0.post_attention_norm.weight", "layers.0.post_ffn_norm.weight", "layers.1.ffn_norm.weight"}},
		{"conditions do not see another wrapper", HF,
			[]string{"model.layers.0.post_attention_layernorm.weight", "thinker.model.layers.0.pre_mlp_layernorm.weight"},
			[]string{"layers.0.ffn_norm.weight", "="}},
		{"conditions see inside a group", HF,
			[]string{"draft.model.layers.0.post_attention_layernorm.weight", "draft.model.layers.0.post_feedforward_layernorm.weight", "model.layers.0.post_attention_layernorm.weight"},
			[]string{"draft.layers.0.post_attention_norm.weight", "draft.layers.0.post_ffn_norm.weight", "layers.0.ffn_norm.weight"}},
		{"conditions look at one layer", GGUF,
			[]string{"blk.0.post_attention_norm.weight", "blk.1.post_attention_norm.weight", "blk.1.ffn_norm.weight", "blk.2.post_attention_norm.weight", "blk.2.post_ffw_norm.weight"},
			[]string{"layers.0.ffn_norm.weight", "layers.1.post_attention_norm.weight", "layers.1.ffn_norm.weight", "layers.2.post_attention_norm.weight", "layers.2.post_ffn_norm.weight"}},
		{"RWKV with attention names", HF,
			[]string{"model.layers.0.self_attn.q_proj.weight", "model.layers.0.self_attn.time_maa_w1"},
			[]string{"layers.0.time_mix.receptance.weight", "layers.0.time_mix.w1.weight"}},
		{"no groups in GGUF", GGUF,
			[]string{"draft.blk.0.attn_q.weight", "x/blk.0.attn_q.weight"},
			[]string{"=", "="}},
		{"components only in an Ollama store", HF,
			[]string{"vae/model.norm.weight"}, []string{"="}},
		{"components", Ollama,
			[]string{"vae/model.norm.weight", "../model.norm.weight", "VAE/model.norm.weight", "/model.norm.weight", "a.b/model.norm.weight", "a/b/model.norm.weight", strings.Repeat("x", 65) + "/model.norm.weight"},
			[]string{"vae.output_norm.weight", "=", "=", "=", "=", "=", "="}},
		{"scale of FP8", HF,
			[]string{"model.layers.0.mlp.up_proj.weight", "model.layers.0.mlp.up_proj.weight_scale", "model.layers.0.mlp.up_proj.weight_scale_2", "model.layers.0.mlp.up_proj.input_scale"},
			[]string{"layers.0.ffn.up.weight", "layers.0.ffn.up.scale", "layers.0.ffn.up.scale_2", "layers.0.ffn.up.input_scale"}},
		{"scales of a group beside offsets", HF,
			[]string{"model.layers.0.mlp.up_proj.weight_scale", "model.layers.0.mlp.up_proj.weight_qbias", "model.layers.1.mlp.up_proj.weight_scale"},
			[]string{"layers.0.ffn.up.scales", "layers.0.ffn.up.biases", "layers.1.ffn.up.scale"}},
		{"scales in an Ollama store", Ollama,
			[]string{"model.layers.0.mlp.up_proj.weight_scale"}, []string{"layers.0.ffn.up.scales"}},
		{"companions of nothing", HF,
			[]string{".scales", "scales", "_blocks", "nobody.scales", "weight.scales"},
			[]string{"=", "=", "=", "=", "="}},
		{"PEFT", HF,
			[]string{"base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight", "base_model.model.model.layers.0.self_attn.q_proj.lora_B.weight", "base_model.model.model.embed_tokens.lora_embedding_A"},
			[]string{"layers.0.attention.q.lora_a", "layers.0.attention.q.lora_b", "token_embedding.lora_a"}},
		{"a companion goes with its weight", HF,
			[]string{"model.layers.0.attention_norm.weight", "model.layers.0.input_layernorm.weight", "model.layers.0.input_layernorm.scales"},
			[]string{"layers.0.attention_norm.weight", "=", "="}},
		{"a tensor of its own before a companion", HF,
			[]string{"model.layers.0.router.scale", "model.layers.0.mlp.gate.scale", "model.layers.0.mlp.gate.weight"},
			[]string{"layers.0.ffn.router.scale", "=", "layers.0.ffn.router.weight"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			src := sources(c.src...)
			got := Map(c.layout, "", src)
			for i, r := range got {
				want := c.want[i]
				if want == "=" {
					want = Escape(c.src[i])
				}
				if mapped := c.want[i] != "=" && !strings.Contains(want, "~"); r.Name != want || r.Mapped != mapped {
					t.Errorf("%q: got %+v, want %s", c.src[i], r, want)
				}
			}
			checkResults(t, src, got)
		})
	}
}

func TestReason(t *testing.T) {
	got := Map(GGUF, "", sources("v.class_embd", "v.class_embd.weight", "layers.0.ffn.up.weight", "blk.0.ffn_up.weight", "nobody"))
	for i, want := range []string{
		"",
		`"v.class_embd.weight" keeps its name: vision.class_embedding.weight is "v.class_embd"`,
		`"layers.0.ffn.up.weight" has a mark after its name: layers.0.ffn.up.weight is "blk.0.ffn_up.weight"`,
		"",
		"",
	} {
		if got[i].Reason != want {
			t.Errorf("got %s, want %s", got[i].Reason, want)
		}
	}
}

// TestShape is the one rule that looks at shapes: gate and up in one tensor.
func TestShape(t *testing.T) {
	for _, c := range []struct {
		up, bias, down []int64
		want           string
	}{
		{[]int64{512, 64}, []int64{512}, []int64{64, 256}, "gate_up"},
		{[]int64{256, 64}, []int64{256}, []int64{64, 256}, "up"},
		{[]int64{513, 64}, []int64{513}, []int64{64, 256}, "up"},
		{[]int64{0, 64}, []int64{0}, []int64{64, 0}, "up"},
		{nil, nil, nil, "up"},
		{[]int64{-2, 64}, []int64{-2}, []int64{64, -1}, "up"},
		{[]int64{1<<63 - 2, 64}, []int64{1<<63 - 2}, []int64{64, 1<<62 - 1}, "gate_up"},
	} {
		src := []Source{{"blk.0.ffn_up.weight", c.up}, {"blk.0.ffn_up.bias", c.bias}, {"blk.0.ffn_up.scale", []int64{1}}, {"blk.0.ffn_down.weight", c.down}}
		var got []string
		for _, r := range Map(GGUF, "", src) {
			got = append(got, r.Name)
		}
		want := []string{"layers.0.ffn." + c.want + ".weight", "layers.0.ffn." + c.want + ".bias", "layers.0.ffn." + c.want + ".scale", "layers.0.ffn.down.weight"}
		if !slices.Equal(got, want) {
			t.Errorf("%v and %v: got %v, want %v", c.up, c.down, got, want)
		}
	}
	got := Map(GGUF, "", []Source{{Name: "blk.0.ffn_up.weight", Shape: []int64{512, 64}}})
	if got[0].Name != "layers.0.ffn.up.weight" {
		t.Errorf("without ffn_down: %+v", got[0])
	}
}

// TestOrder maps the same tensors in another order.
func TestOrder(t *testing.T) {
	names := []string{"v.class_embd", "v.class_embd.weight", "layers.0.ffn.up.weight", "blk.0.ffn_up.weight", "blk.0.mlp.fc1.weight", "v.boi", "v.boi.weight", "", "%"}
	want := map[string]string{}
	for i, r := range Map(GGUF, "", sources(names...)) {
		want[names[i]] = r.Name
	}
	slices.Reverse(names)
	for i, r := range Map(GGUF, "", sources(names...)) {
		if r.Name != want[names[i]] {
			t.Errorf("%q: %s, and %s in the other order", names[i], want[names[i]], r.Name)
		}
	}
}

// TestCost maps names that make the lookup work as much as it can.
func TestCost(t *testing.T) {
	var src []Source
	for i := range 2000 {
		src = append(src, Source{Name: fmt.Sprintf("model.%d.%s", i, strings.Repeat("1.", 1000))}, Source{Name: fmt.Sprintf("%d.%s.scales", i, strings.Repeat("draft.", 300))})
	}
	allocs := testing.AllocsPerRun(1, func() { Map(Ollama, "", src) })
	if per := allocs / float64(len(src)); per > 10 {
		t.Errorf("%.0f allocations a name", per)
	}
}

// checkResults holds what every result promises.
func checkResults(t *testing.T, src []Source, got []Result) {
	t.Helper()
	seen := map[string]string{}
	for i, r := range got {
		if other, ok := seen[r.Name]; ok {
			t.Errorf("%q and %q are both %s", other, src[i].Name, r.Name)
		}
		seen[r.Name] = src[i].Name
		if !safe(r.Name) || len(r.Name) > 209 {
			t.Errorf("%q: unsafe name %q", src[i].Name, r.Name)
		}
		if !r.Mapped && (r.Role != "" || r.Stem != "") || r.Role != "" && r.Name != r.Stem+"."+r.Role {
			t.Errorf("%q: %+v", src[i].Name, r)
		}
	}
}

// safe reports whether s can name a file anywhere and be printed.
func safe(s string) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] >= 0x7f || strings.IndexByte(`/\:`, s[i]) >= 0 {
			return false
		}
	}
	return s != "" && s[0] != '.'
}

func FuzzMap(f *testing.F) {
	for _, s := range []string{
		"v.class_embd\nv.class_embd.weight\nlayers.0.ffn.up.weight\nblk.0.ffn_up.weight",
		"model.layers.0.mlp.up_proj.weight\nmodel.layers.0.mlp.up_proj.scales\nlayers.0.mlp.up_proj.weight",
		"x/model.norm.weight\ndraft.norm.weight\n..\n.\n/\n%2F\n{n}\nblk.{n}.{e}",
		strings.Repeat("n", 254) + "a\n" + strings.Repeat("n", 254) + "b\n\xff\xfe\x00",
		"blk.0.post_attention_norm.weight\nblk.0.attn_qkv.weight\nblk.0.ssm_out.weight",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		all := strings.Split(text, "\n")
		slices.Sort(all)
		var src []Source
		for i, n := range slices.Compact(all) {
			src = append(src, Source{Name: n, Shape: []int64{int64(i), int64(len(n))}})
		}
		for _, layout := range layouts {
			checkResults(t, src, Map(layout, "lfm2", src))
		}
	})
}
