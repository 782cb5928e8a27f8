package lora_test

import (
	"os"
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats"
	"github.com/tensorfs/tensorfs/formats/adapter"
	"github.com/tensorfs/tensorfs/internal/testing/memory"
	"github.com/tensorfs/tensorfs/internal/testing/testlimit"
	"github.com/tensorfs/tensorfs/views"
	"github.com/tensorfs/tensorfs/views/lora"
)

// FuzzApply applies any adapter_config.json and any file of weights, or any GGUF file, to a
// model, and reads what it changes. It costs no more than these files' size allows.
func FuzzApply(f *testing.F) {
	for _, dir := range []string{"plain-bf16-f32", "dora", "embed-save", "patterns", "rslora", "moe-nested"} {
		config, err := os.ReadFile(golden + "/" + dir + "/adapter0/" + adapter.ConfigName)
		must(f, err)
		weights, err := os.ReadFile(golden + "/" + dir + "/adapter0/" + adapter.WeightsName)
		must(f, err)
		f.Add(config, weights)
	}
	file, err := os.ReadFile(golden + "/plain-bf16-f32/adapter0.gguf")
	must(f, err)
	f.Add([]byte(nil), file)
	for _, hostile := range []string{
		`{"peft_type":"LORA","r":0,"lora_alpha":1}`, `{"r":1e300,"lora_alpha":1}`, `{"r":8,"lora_alpha":-Infinity}`, `{"r":8,"lora_alpha":16,"rank_pattern":{"(((a{1000}){1000}){1000}":1}}`,
		`{"r":8,"lora_alpha":16,"target_parameters":[".","a.b.c",{}]}`, `{"r":8,"lora_alpha":16,"use_rslora":true,"alpha_pattern":{"":1e308}}`,
		`{"r":8,"lora_alpha":16,"alpha_pattern":{"a{100}":1,"(.*a){9}":2,"^model.layers.0.self_attn.q_proj":3,"(?i)Q_PROJ|x":4,"q.proj":5}}`, `{"r":8,"lora_alpha":16,"target_parameters":["q_proj.a","q_proj.b","self_attn.q_proj.c"]}`,
	} {
		f.Add([]byte(hostile), weights(f, pairOf(layer+"self_attn.q_proj", 64, 64, 8)...))
	}
	base, err := memory.Load(golden + "/moe-nested/base")
	must(f, err)
	apply := func(t *testing.T, config, weights []byte) {
		files := map[string][]byte{adapter.ConfigName: config, adapter.WeightsName: weights}
		name := "."
		if config == nil {
			files, name = map[string][]byte{"a.gguf": weights}, "a.gguf"
		}
		a, err := formats.OpenFS(memory.New(files), name)
		if err != nil {
			return
		}
		if _, err := adapter.Of(a); err != nil {
			must(t, a.Close())
			return
		}
		m, err := formats.OpenFS(base, ".")
		must(t, err)
		defer m.Close()
		if err := lora.Apply(m, views.Options{}, lora.Use{Model: a, Adapter: tensorfs.Adapter{Source: "a", Scale: 0.5}}); err != nil {
			if len(m.Adapters) > 0 {
				t.Errorf("an adapter that is refused (%v) is part of the model", err)
			}
			return
		}
		for i := range m.Tensors {
			x := &m.Tensors[i]
			if x.Change == nil {
				continue
			}
			d, err := views.Encode(x, tensorfs.F32)
			if err != nil { // an adapter's own numbers may be of a type that is not decoded
				continue
			}
			if err := tensorfs.ReadFull(d, make([]byte, d.Size()), 0); err != nil {
				t.Errorf("%s: %v", x.Name, err)
			}
		}
	}
	f.Fuzz(func(t *testing.T, config, weights []byte) {
		var allocated uint64
		testlimit.Work(t, 400, func() { allocated = testlimit.Allocated(func() { apply(t, config, weights) }) })
		if size := uint64(len(config) + len(weights)); allocated > 32<<20+500*size {
			t.Errorf("%d bytes were allocated for %d", allocated, size)
		}
	})
}
