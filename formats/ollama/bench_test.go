package ollama

import (
	"fmt"
	"testing"
)

// BenchmarkOpen opens a model of 2000 quantised tensors, each with two companions.
func BenchmarkOpen(b *testing.B) {
	parts := []part{{"json", "config.json", `{"model_type":"llama","hidden_size":64}`}}
	for i := range 2000 {
		name := fmt.Sprintf("model.layers.%d.mlp.up_proj.weight", i)
		parts = append(parts, part{"tensor", name, blobOf(map[string]string{"quant_type": "int4", "group_size": "64"}, name+" U32 6 8", name+".bias BF16 6 1", name+".scale BF16 6 1")})
	}
	m, err := made(b, b.TempDir(), parts...)
	if err != nil {
		b.Fatal(err)
	}
	path := m.Path
	m.Close()
	b.ReportAllocs()
	for b.Loop() {
		m, err := Open(path)
		if err != nil {
			b.Fatal(err)
		}
		if err := m.Close(); err != nil {
			b.Fatal(err)
		}
	}
}
