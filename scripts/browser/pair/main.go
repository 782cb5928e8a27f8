// Command pair writes the two models of random numbers that docs/report.md shows: llama-22, and
// llama-22-tuned, into which a LoRA was merged. The numbers are the same each time.
package main

import (
	"fmt"
	"log"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/testing/testmodel"
)

const (
	layers = 22
	dim    = 512
	ffn    = 1152
	words  = 4096
	config = `{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 512, "intermediate_size": 1152,
"num_attention_heads": 8, "num_key_value_heads": 8, "num_hidden_layers": 22, "vocab_size": 4096, "max_position_embeddings": 2048,
"rms_norm_eps": 1e-05, "rope_theta": 10000.0, "tie_word_embeddings": false, "torch_dtype": "bfloat16"}
`
)

// matrices has the matrices of a layer: rows, columns, and the size of the numbers in the first layer.
var matrices = []struct {
	name          string
	rows, columns int64
	rms           float64
}{
	{"self_attn.q_proj", dim, dim, 0.032}, {"self_attn.k_proj", dim, dim, 0.031}, {"self_attn.v_proj", dim, dim, 0.02}, {"self_attn.o_proj", dim, dim, 0.019},
	{"mlp.gate_proj", ffn, dim, 0.0235}, {"mlp.up_proj", ffn, dim, 0.023}, {"mlp.down_proj", dim, ffn, 0.022},
}

func main() {
	if err := write(os.Args[1]); err != nil {
		log.Fatal(err)
	}
}

// write writes both models into a directory.
func write(dir string) error {
	random := rand.New(rand.NewPCG(22, 4))
	var base, tuned []testmodel.SafeTensor
	add := func(name string, shape []int64, values, others []float32) {
		t := testmodel.SafeTensor{Name: name, DType: tensorfs.BF16, Shape: shape, Data: testmodel.Encode(tensorfs.BF16, values, 1)}
		base = append(base, t)
		if others != nil {
			t.Data = testmodel.Encode(tensorfs.BF16, others, 1)
		}
		tuned = append(tuned, t)
	}
	ones := slices.Repeat([]float32{1}, dim)
	add("model.embed_tokens.weight", []int64{words, dim}, normal(random, words*dim, 0.03), nil)
	for layer := range layers {
		at := fmt.Sprintf("model.layers.%d.", layer)
		add(at+"input_layernorm.weight", []int64{dim}, ones, nil)
		for _, m := range matrices {
			rms := m.rms * (1 + 0.01*float64(layer))
			values := normal(random, int(m.rows*m.columns), rms)
			var others []float32
			switch m.name {
			case "self_attn.q_proj", "self_attn.v_proj":
				if layer >= 5 && layer <= 14 {
					others = sum(values, product(normal(random, dim*4, 0.5*rms*0.23), normal(random, 4*dim, 1)))
				}
			case "self_attn.o_proj":
				if layer == 17 {
					values = normal(random, len(values), rms/47)
				}
			case "mlp.gate_proj":
				if layer == 19 {
					others = sum(values, normal(random, len(values), 0.43*rms))
				}
			case "mlp.down_proj":
				for row := range m.rows {
					if layer == 1 || layer == 2 || layer == 20 {
						values[row*m.columns+37] *= 18
					}
				}
			}
			add(at+m.name+".weight", []int64{m.rows, m.columns}, values, others)
		}
		add(at+"post_attention_layernorm.weight", []int64{dim}, ones, nil)
	}
	add("model.norm.weight", []int64{dim}, ones, nil)
	add("lm_head.weight", []int64{words, dim}, normal(random, words*dim, 0.03), nil)
	for name, tensors := range map[string][]testmodel.SafeTensor{"llama-22": base, "llama-22-tuned": tuned} {
		if err := testmodel.Write(filepath.Join(dir, name), map[string][]byte{"config.json": []byte(config), "model.safetensors": testmodel.Safetensors(tensors, nil)}); err != nil {
			return err
		}
	}
	return nil
}

// normal returns n random numbers.
func normal(random *rand.Rand, n int, rms float64) []float32 {
	list := make([]float32, n)
	for i := range list {
		list[i] = float32(max(-4.5, min(random.NormFloat64(), 4.5)) * rms)
	}
	return list
}

// product multiplies a matrix of columns and one of rows, both of dim numbers.
func product(columns, rows []float32) []float32 {
	rank := len(columns) / dim
	list := make([]float32, dim*dim)
	for i := range list {
		for k := range rank {
			list[i] += columns[i/dim*rank+k] * rows[k*dim+i%dim]
		}
	}
	return list
}

func sum(a, b []float32) []float32 {
	list := make([]float32, len(a))
	for i := range list {
		list[i] = a[i] + b[i]
	}
	return list
}
