package gguf

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/testing/testmodel"
)

// large returns a model with the vocabulary and as many tensors as the largest
// models have; the tensors are small.
func large() testmodel.GGUF {
	const vocabulary, count = 262144, 2000
	tokens, scores, types := make([]string, vocabulary), make([]float32, vocabulary), make([]int32, vocabulary)
	for i := range tokens {
		tokens[i] = fmt.Sprintf("▁t%x", i*2654435761%(1<<28))
	}
	g := testmodel.GGUF{Meta: []tensorfs.Meta{
		{Key: "general.architecture", Value: "llama"},
		{Key: "llama.block_count", Value: uint32(count / 10)},
		{Key: "tokenizer.ggml.tokens", Value: tokens},
		{Key: "tokenizer.ggml.scores", Value: scores},
		{Key: "tokenizer.ggml.token_type", Value: types},
	}}
	parts := []string{"attn_q", "attn_k", "attn_v", "attn_output", "attn_norm", "ffn_up", "ffn_gate", "ffn_down", "ffn_norm", "ffn_gate_inp"}
	for i := range count {
		name := fmt.Sprintf("blk.%d.%s.weight", i/len(parts), parts[i%len(parts)])
		g.Tensors = append(g.Tensors, testmodel.GGUFTensor{Name: name, Shape: []int64{2, 32}, Type: 8, Data: make([]byte, 68)})
	}
	return g
}

func writeModel(t testing.TB, g testmodel.GGUF) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "model.gguf")
	if err := os.WriteFile(path, g.Bytes(), 0o666); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestLargeAllocations holds opening to a number of allocations that the
// vocabulary has no part in.
func TestLargeAllocations(t *testing.T) {
	path := writeModel(t, large())
	allocs := testing.AllocsPerRun(1, func() {
		m, err := Open(path)
		if err != nil {
			t.Fatal(err)
		}
		if n := len(m.Tensors); n != 2000 {
			t.Fatalf("%d tensors", n)
		}
		m.Close()
	})
	if allocs > 20_000 {
		t.Errorf("%v allocations", allocs)
	}
}

// BenchmarkOpen is to stay below 20 ms.
func BenchmarkOpen(b *testing.B) {
	path := writeModel(b, large())
	b.ReportAllocs()
	for b.Loop() {
		m, err := Open(path)
		if err != nil {
			b.Fatal(err)
		}
		m.Close()
	}
}

// BenchmarkVocabulary reads the tokens of the same model.
func BenchmarkVocabulary(b *testing.B) {
	m, err := Open(writeModel(b, large()))
	if err != nil {
		b.Fatal(err)
	}
	defer m.Close()
	b.ReportAllocs()
	var text []byte
	for b.Loop() {
		text = m.Metadata[2].AppendText(text[:0])
	}
	b.SetBytes(int64(len(text)))
}

// BenchmarkLargestHeader walks the longest allowed header: empty strings and empty arrays up to the
// limit, all in a hole.
func BenchmarkLargestHeader(b *testing.B) {
	for name, c := range map[string]struct{ elem, size uint64 }{"strings": {uint64(typeString), 8}, "arrays": {uint64(typeArray), 12}} {
		b.Run(name, func(b *testing.B) {
			n := (maxHeader - 64) / c.size
			head := "GGUF\x03\x00\x00\x00" + le64(0) + le64(1) + le64(1) + "k" + "\x09\x00\x00\x00" + le64(c.elem)[:4] + le64(n)
			path := sparse(b, []byte(head), maxHeader)
			for b.Loop() {
				m, err := Open(path)
				if err != nil {
					b.Fatal(err)
				}
				if got := m.Metadata[0].Value.(tensorfs.Array).Len(); uint64(got) != n {
					b.Errorf("%d elements", got)
				}
				m.Close()
			}
		})
	}
}
