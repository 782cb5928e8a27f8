package names

import (
	"fmt"
	"testing"
)

// manyNames is a mixture of experts as large as they come: 90,000 tensors.
func manyNames(prefix string) []Source {
	var src []Source
	for l := range 60 {
		for e := range 500 {
			for _, p := range []string{"gate_proj", "up_proj", "down_proj"} {
				src = append(src, Source{Name: fmt.Sprintf("%slayers.%d.mlp.experts.%d.%s.weight", prefix, l, e, p), Shape: []int64{64, 64}})
			}
		}
	}
	return src
}

func BenchmarkMap(b *testing.B) {
	quantized := []Source{}
	for _, s := range manyNames("model.")[:30000] {
		stem := s.Name[:len(s.Name)-len("weight")]
		quantized = append(quantized, s, Source{Name: stem + "scales"}, Source{Name: stem + "biases"})
	}
	for name, src := range map[string][]Source{
		"literal":    manyNames("model."),
		"wrapped":    manyNames("model.language_model."),
		"companions": quantized,
		"unknown":    manyNames("model.nobody.knows.this."),
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				Map(HF, "", src)
			}
		})
	}
}

func BenchmarkReadTables(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		readSpellings(HF)
		readSpellings(GGUF)
		readCompanions()
		readWrappers()
	}
}
