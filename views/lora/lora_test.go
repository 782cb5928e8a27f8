package lora_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats"
	"github.com/tensorfs/tensorfs/formats/adapter"
	"github.com/tensorfs/tensorfs/formats/safetensors"
	"github.com/tensorfs/tensorfs/internal/testing/datatest"
	"github.com/tensorfs/tensorfs/internal/testing/memory"
	"github.com/tensorfs/tensorfs/internal/testing/testmodel"
	"github.com/tensorfs/tensorfs/views"
	"github.com/tensorfs/tensorfs/views/lora"
)

const (
	pre = "base_model.model."
	q   = "model.layers.0.self_attn.q_proj.weight"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// tensor is one of a file, of numbers that its name decides.
func tensor(name string, to tensorfs.DType, shape ...int64) safetensors.Stored {
	n, _ := tensorfs.Elements(shape)
	r := rand.New(rand.NewPCG(uint64(len(name)), uint64(n)))
	values := make([]float32, n)
	for i := range values {
		values[i] = float32(r.NormFloat64())
	}
	if to.Kind() == tensorfs.KindBlock {
		d, err := views.Encode(&tensorfs.Tensor{DType: tensorfs.F32, Shape: shape, Data: tensorfs.Bytes(testmodel.Encode(tensorfs.F32, values, 0))}, to)
		if err != nil {
			panic(err)
		}
		b := make([]byte, d.Size())
		if err := tensorfs.ReadFull(d, b, 0); err != nil {
			panic(err)
		}
		return safetensors.Stored{Name: name, DType: to, Shape: shape, Data: tensorfs.Bytes(b)}
	}
	return safetensors.Stored{Name: name, DType: to, Shape: shape, Data: tensorfs.Bytes(testmodel.Encode(to, values, 0))}
}

// weights is a file of tensors.
func weights(t testing.TB, list ...safetensors.Stored) []byte {
	t.Helper()
	d, err := safetensors.Compose(nil, list)
	must(t, err)
	b := make([]byte, d.Size())
	must(t, tensorfs.ReadFull(d, b, 0))
	return b
}

// model is a base of Hugging Face's names. Its tensors may have types that no such file has.
func model(t testing.TB, arch string, list ...safetensors.Stored) *tensorfs.Model {
	t.Helper()
	m := tensorfs.Model{Format: "huggingface", Path: "/base", Architecture: arch, Layout: "hf"}
	plain := slices.Clone(list)
	for i := range plain {
		plain[i].DType = tensorfs.F32
		plain[i].Data = tensorfs.Bytes(make([]byte, 4*elements(plain[i].Shape)))
	}
	opened, err := formats.OpenFS(memory.New(map[string][]byte{"config.json": []byte(config[arch]), "model.safetensors": weights(t, plain...)}), ".")
	must(t, err)
	t.Cleanup(func() { opened.Close() })
	m.Config, m.Metadata = opened.Config, opened.Metadata
	for _, x := range list {
		of := opened.TensorBySource(x.Name)
		m.Tensors = append(m.Tensors, tensorfs.Tensor{Name: of.Name, Source: x.Name, DType: x.DType, Shape: x.Shape, Data: x.Data, Apart: of.Apart})
	}
	made, err := tensorfs.NewModel(m)
	must(t, err)
	t.Cleanup(func() { made.Close() })
	return made
}

var config = map[string]string{
	"llama":    `{"architectures":["LlamaForCausalLM"],"model_type":"llama","num_attention_heads":4,"num_key_value_heads":4,"head_dim":16,"hidden_size":64,"num_hidden_layers":1}`,
	"qwen3moe": `{"architectures":["Qwen3MoeForCausalLM"],"model_type":"qwen3_moe","num_attention_heads":1,"num_key_value_heads":1,"head_dim":16,"hidden_size":16,"num_hidden_layers":1}`,
	"gpt2":     `{"architectures":["GPT2LMHeadModel"],"model_type":"gpt2","n_head":4,"n_embd":64,"n_layer":1}`,
	"tied":     `{"architectures":["LlamaForCausalLM"],"model_type":"llama","num_attention_heads":4,"hidden_size":64,"tie_word_embeddings":true}`,
}

func elements(shape []int64) int64 { n, _ := tensorfs.Elements(shape); return n }

// peft is an adapter.
func peft(t testing.TB, config string, list ...safetensors.Stored) *tensorfs.Model {
	t.Helper()
	m, err := formats.OpenFS(memory.New(map[string][]byte{adapter.ConfigName: []byte(config), adapter.WeightsName: weights(t, list...)}), ".")
	must(t, err)
	return m
}

func apply(t testing.TB, m, a *tensorfs.Model, scale float64) {
	t.Helper()
	must(t, lora.Apply(m, views.Options{}, lora.Use{Model: a, Adapter: tensorfs.Adapter{Source: "a", Scale: scale}}))
}

// numbers are a tensor's as f32/ has them.
func numbers(t testing.TB, x *tensorfs.Tensor) []float32 {
	t.Helper()
	d, err := views.Encode(x, tensorfs.F32)
	must(t, err)
	b := make([]byte, d.Size())
	must(t, tensorfs.ReadFull(d, b, 0))
	out := make([]float32, len(b)/4)
	for i := range out {
		out[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
	}
	return out
}

const golden = "../../testdata/lora"

// Every golden case has the bits that torch computed: products in F64, sums in F32.
func TestGolden(t *testing.T) {
	cases, err := filepath.Glob(golden + "/*/base")
	must(t, err)
	if len(cases) != 8 {
		t.Fatalf("%d cases, want 8", len(cases))
	}
	for _, base := range cases {
		dir := filepath.Dir(base)
		var of struct{ Scale float64 }
		text, err := os.ReadFile(dir + "/case.json")
		must(t, err)
		must(t, json.Unmarshal(text, &of))
		peft, err := filepath.Glob(dir + "/adapter[0-9]")
		must(t, err)
		goldenCase(t, base, peft, of.Scale, dir+"/expected-f32.safetensors")
		if _, err := os.Stat(dir + "/adapter0.gguf"); err == nil {
			goldenCase(t, base, []string{dir + "/adapter0.gguf"}, of.Scale, dir+"/expected-gguf-f32.safetensors")
		}
	}
}

func goldenCase(t *testing.T, base string, adapters []string, scale float64, expected string) {
	t.Run(filepath.Base(filepath.Dir(base))+"/"+filepath.Base(adapters[0]), func(t *testing.T) {
		m := opened(t, base, adapters, scale)
		want, err := formats.Open(expected)
		must(t, err)
		defer want.Close()
		changed := 0
		for i := range want.Tensors {
			w := &want.Tensors[i]
			got := m.TensorBySource(w.Source)
			if got.Change != nil {
				changed++
			}
			if x, y := numbers(t, got), numbers(t, w); !slices.Equal(x, y) {
				t.Errorf("%s: other numbers", w.Source)
			}
		}
		if changed == 0 {
			t.Error("nothing is changed")
		}
	})
}

// opened is a model with adapters.
func opened(t testing.TB, base string, adapters []string, scale float64) *tensorfs.Model {
	t.Helper()
	m, err := formats.Open(base)
	must(t, err)
	t.Cleanup(func() { m.Close() })
	var uses []lora.Use
	for _, path := range adapters {
		a, by, err := formats.Options{}.OpenAdapter(fmt.Sprintf("%s:%v", path, scale))
		must(t, err)
		uses = append(uses, lora.Use{Model: a, Adapter: by})
	}
	must(t, lora.Apply(m, views.Options{}, uses...))
	return m
}

// The stack of experts whose B has the expert as its fastest index.
func TestStackOfExperts(t *testing.T) {
	f, err := formats.Open(golden + "/moe-param-eoi/case.safetensors")
	must(t, err)
	defer f.Close()
	const name = "model.layers.0.mlp.experts."
	stored := func(source, name string) safetensors.Stored {
		x := f.TensorBySource(source)
		return safetensors.Stored{Name: name, DType: x.DType, Shape: x.Shape, Data: x.Data}
	}
	m := model(t, "llama", stored("base", name+"down_proj"))
	apply(t, m, peft(t, `{"peft_type":"LORA","r":2,"lora_alpha":8,"target_parameters":["mlp.experts.down_proj"]}`,
		stored("lora_A", pre+name+"lora_A.weight"), stored("lora_B", pre+name+"lora_B.weight")), 1)
	if got, want := numbers(t, &m.Tensors[0]), numbers(t, f.TensorBySource("expected")); !slices.Equal(got, want) {
		t.Error("other numbers than those of the golden stack")
	}
}

// A read of any range gives the bytes of the whole, whatever other readers ask for.
func TestRanges(t *testing.T) {
	for _, dir := range []string{"plain-bf16-f32", "dora", "embed-save"} {
		m := opened(t, golden+"/"+dir+"/base", []string{golden + "/" + dir + "/adapter0"}, 0.7)
		for i := range m.Tensors {
			x := &m.Tensors[i]
			if x.Change == nil {
				continue
			}
			d, err := views.Encode(x, tensorfs.F16)
			must(t, err)
			whole := make([]byte, d.Size())
			must(t, tensorfs.ReadFull(d, whole, 0))
			raw := make([]byte, x.Data.Size())
			must(t, tensorfs.ReadFull(x.Data, raw, 0))
			var readers sync.WaitGroup
			for seed := range uint64(4) {
				readers.Go(func() {
					r := rand.New(rand.NewPCG(seed, 7))
					for range 12 {
						for of, want := range map[tensorfs.Data][]byte{d: whole, x.Data: raw} {
							off := r.IntN(len(want))
							got := make([]byte, r.IntN(len(want)-off+1))
							if err := tensorfs.ReadFull(of, got, int64(off)); err != nil || !bytes.Equal(got, want[off:][:len(got)]) {
								t.Errorf("%s: %d bytes from %d: %v", x.Name, len(got), off, err)
								return
							}
						}
					}
				})
			}
			readers.Wait()
		}
	}
	m := opened(t, golden+"/dora/base", []string{golden + "/dora/adapter0"}, 1)
	x := m.Tensor("layers.0.attention.k.weight")
	whole := make([]byte, x.Data.Size())
	must(t, tensorfs.ReadFull(x.Data, whole, 0))
	datatest.Check(t, tensorfs.Section(x.Data, 200, 700), whole[200:900])
}

// ulps is the largest distance of two lists, in units of the last place of the largest number.
func ulps(a, b []float32) float64 {
	most, apart := 0.0, 0.0
	for i := range a {
		most = max(most, math.Abs(float64(a[i])))
		apart = max(apart, math.Abs(float64(a[i])-float64(b[i])))
	}
	return apart / float64(math.Nextafter32(float32(most), math.MaxFloat32)-float32(most))
}

// Scale 0 changes nothing, s and then -s next to nothing, and an adapter twice is one of
// twice the scale.
func TestScales(t *testing.T) {
	const dir = golden + "/plain-bf16-f32"
	name := "layers.0.attention.q.weight"
	base, err := formats.Open(dir + "/base")
	must(t, err)
	defer base.Close()
	of := numbers(t, base.Tensor(name))
	none := opened(t, dir+"/base", []string{dir + "/adapter0"}, 0)
	if len(none.Adapters) != 0 || none.Tensor(name).Change != nil || len(none.Sources) != len(base.Sources) {
		t.Errorf("scale 0 changes the model: %v, %d files", none.Adapters, len(none.Sources))
	}
	use := func(scales ...float64) []float32 {
		m, err := formats.Open(dir + "/base")
		must(t, err)
		defer m.Close()
		var uses []lora.Use
		for _, s := range scales {
			a, by, err := formats.Options{}.OpenAdapter(fmt.Sprintf("%s/adapter0:%v", dir, s))
			must(t, err)
			uses = append(uses, lora.Use{Model: a, Adapter: by})
		}
		must(t, lora.Apply(m, views.Options{}, uses...))
		if len(m.Tensor(name).Change.By) != len(scales) || len(m.Adapters) != len(scales) {
			t.Errorf("%v: %v by %v", scales, m.Adapters, m.Tensor(name).Change.By)
		}
		return numbers(t, m.Tensor(name))
	}
	if got := use(0.3, -0.3); ulps(of, got) > 1 {
		t.Errorf("0.3 and -0.3: %v ulp from the base", ulps(of, got))
	}
	if twice, two := use(1, 1), use(2); ulps(two, twice) > 1 || slices.Equal(two, of) {
		t.Errorf("twice: %v ulp from twice the scale", ulps(two, twice))
	}
}

// manySteps are patterns that go on with most of their instructions at each character.
func manySteps() string {
	var list []string
	for i := range 40 {
		list = append(list, fmt.Sprintf(`"((.?.?.?.?){99})*x%d":1`, i))
	}
	return strings.Join(list, ",")
}

// What cannot be applied as it is meant is refused, by its key or its tensor.
func TestRefusals(t *testing.T) {
	const usual = `"peft_type":"LORA","r":2,"lora_alpha":4`
	const module = pre + "model.layers.0.self_attn.q_proj."
	a, b := tensor(module+"lora_A.weight", tensorfs.F32, 2, 64), tensor(module+"lora_B.weight", tensorfs.F32, 64, 2)
	at := func(name string, x safetensors.Stored) safetensors.Stored { x.Name = name; return x }
	for _, c := range []struct {
		arch, config string
		list         []safetensors.Stored
		want         string
	}{
		{"llama", usual + `,"layer_replication":[[0,1]]`, nil, `"layer_replication"`},
		{"llama", usual + `,"trainable_token_indices":[1]`, nil, `"trainable_token_indices"`},
		{"llama", usual + `,"alora_invocation_tokens":[1]`, nil, `"alora_invocation_tokens"`},
		{"llama", usual + `,"megatron_config":{"a":1}`, nil, `"megatron_config"`},
		{"llama", usual + `,"init_lora_weights":"pissa_niter_4"`, nil, `"init_lora_weights"`},
		{"llama", usual + `,"init_lora_weights":"olora"`, nil, `"init_lora_weights"`},
		{"llama", `"peft_type":"LOHA","r":2,"lora_alpha":4`, nil, `"peft_type": "LOHA" is not LORA`},
		{"llama", `"peft_type":"LORA","r":0,"lora_alpha":4`, nil, `"r": "0" is not a number from 1`},
		{"llama", `"peft_type":"LORA","r":2.5,"lora_alpha":4`, nil, `"r": a rank is a whole number`},
		{"llama", `"peft_type":"LORA","r":2,"lora_alpha":NaN`, nil, `"lora_alpha"`},
		{"llama", `"peft_type":"LORA","r":2,"lora_alpha":1e999`, nil, `"lora_alpha"`},
		{"llama", `"peft_type":"LORA","r":9223372036854775808,"lora_alpha":1`, nil, `"r"`},
		{"llama", usual + `,"rank_pattern":{"(?=q)":2}`, nil, `"rank_pattern": "(?=q)" is not a pattern`},
		{"llama", usual + `,"rank_pattern":{"a{1000}":2}`, nil, `"rank_pattern": "a{1000}" repeats something more than 100 times`},
		{"llama", usual + `,"alpha_pattern":{` + manySteps() + `}`, nil, `"alpha_pattern": its expressions take too long`},
		{"llama", usual + `,"target_parameters":["q_proj.a","q_proj.b","q_proj.c","q_proj.d","self_attn.q_proj.e","self_attn.q_proj.f","self_attn.q_proj.g","self_attn.q_proj.h","q_proj.i"]`, nil, `"target_parameters": it names more than 8 parameters of`},
		{"llama", usual + `,"rank_pattern":{"q_proj":-1}`, nil, `"rank_pattern": -1 is not a rank`},
		{"llama", `"peft_type":"LORA","r":4,"lora_alpha":4`, nil, "does not fit the rank in adapter_config.json, which is 4"},
		{"llama", `"peft_type":"LORA","r":65,"lora_alpha":4`, []safetensors.Stored{tensor(module+"lora_A.weight", tensorfs.F32, 65, 64), tensor(module+"lora_B.weight", tensorfs.F32, 64, 65)}, "a rank of 65 is more than the 64 columns"},
		{"llama", `"peft_type":"LORA","r":1e-999,"lora_alpha":4`, nil, `"r"`},
		{"llama", usual + `,"modules_to_save":"` + strings.Repeat("a", 4<<20) + `"`, nil, "such a file may have at most 4194304"},
		{"llama", usual + `,"alpha_pattern":{"q_proj":1e39}`, nil, "no finite number"},
		{"llama", usual, []safetensors.Stored{tensor(module+"lora_A.weight", tensorfs.F32, 0, 64), tensor(module+"lora_B.weight", tensorfs.F32, 64, 0)}, "lora_A.weight"},
		{"llama", usual, []safetensors.Stored{a}, "no B"},
		{"llama", usual, []safetensors.Stored{b}, "no A"},
		{"llama", usual, []safetensors.Stored{a, tensor(module+"lora_B.weight", tensorfs.F32, 64, 3)}, "no common rank"},
		{"llama", usual, []safetensors.Stored{a, tensor(module+"lora_B.weight", tensorfs.F32, 65, 2)}, "for another model"},
		{"llama", usual, []safetensors.Stored{a, b, tensor(module+"lora_C.weight", tensorfs.F32, 2)}, "not a known part of a LoRA adapter"},
		{"llama", usual, []safetensors.Stored{at(module+"lora_A.one.weight", a), at(module+"lora_B.two.weight", b)}, "one file has one adapter"},
		{"llama", usual, []safetensors.Stored{at(pre+"model.layers.7.self_attn.q_proj.lora_A.weight", a), at(pre+"model.layers.7.self_attn.q_proj.lora_B.weight", b)}, "the base has no layers.7.attention.q.weight"},
		{"llama", usual, []safetensors.Stored{a, b, tensor(module+"lora_B.bias", tensorfs.F32, 64)}, `"lora_bias": the base has no`},
		{"llama", usual + `,"use_dora":true`, nil, "no lora_magnitude_vector"},
		{"llama", usual, []safetensors.Stored{a, b, tensor(module+"lora_magnitude_vector", tensorfs.F32, 63)}, "where B has 64 rows"},
		{"llama", usual, []safetensors.Stored{at(pre+"lm_head.lora_A.weight", a), at(pre+"lm_head.lora_B.weight", b)}, "the base ties lm_head to embed_tokens"},
		{"llama", usual, []safetensors.Stored{tensor(pre+"lm_head.weight", tensorfs.F32, 64, 64)}, "the base ties lm_head to embed_tokens"},
		{"llama", usual, []safetensors.Stored{tensor(pre+"model.embed_tokens.weight", tensorfs.F32, 66, 64)}, "for one with other tokens"},
		{"llama", usual + `,"target_parameters":["experts.other"]`, []safetensors.Stored{at(pre+"model.layers.0.mlp.experts.lora_A.weight", a), at(pre+"model.layers.0.mlp.experts.lora_B.weight", b)}, "no stack of experts that is known"},
		{"llama", usual + `,"target_parameters":["experts.down_proj"]`, []safetensors.Stored{tensor(pre+"model.layers.0.mlp.experts.lora_A.weight", tensorfs.F32, 4, 8), tensor(pre+"model.layers.0.mlp.experts.lora_B.weight", tensorfs.F32, 8, 4)}, "does not tell rows from columns"},
	} {
		if c.list == nil {
			c.list = []safetensors.Stored{a, b}
		}
		m := model(t, c.arch, tensor(q, tensorfs.BF16, 64, 64), tensor("model.embed_tokens.weight", tensorfs.BF16, 64, 64), tensor("model.layers.0.mlp.experts.down_proj", tensorfs.F32, 2, 8, 8))
		before := slices.Clone(m.Tensors)
		err := lora.Apply(m, views.Options{}, lora.Use{Model: peft(t, "{"+c.config+"}", c.list...), Adapter: tensorfs.Adapter{Source: "a", Scale: 1}})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%.200s: %v, want %s", c.config, err, c.want)
		}
		if err != nil && (strings.Contains(err.Error(), "\n") || len(err.Error()) > 1000) {
			t.Errorf("%.200s: the error is not one line, or has %d bytes", c.config, len(err.Error()))
		}
		for i := range before {
			if m.Tensors[i].Change != nil || m.Tensors[i].Data.Size() != before[i].Data.Size() {
				t.Errorf("%s: the model is changed all the same", c.config)
			}
		}
	}
}
