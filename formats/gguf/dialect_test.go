package gguf_test

import (
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/gguf"
	"github.com/tensorfs/tensorfs/internal/testing/memory"
)

// opened returns the model of a GGUF file with these keys and tensors of zeros in F32.
func opened(t *testing.T, meta []tensorfs.Meta, tensors map[string][]int64) *tensorfs.Model {
	t.Helper()
	var list []gguf.Stored
	for name, shape := range tensors {
		n, _ := tensorfs.Elements(shape)
		list = append(list, gguf.Stored{Name: name, DType: tensorfs.F32, Shape: shape, Data: tensorfs.Bytes(make([]byte, 4*n))})
	}
	d, err := gguf.Compose(meta, list)
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, d.Size())
	if err := tensorfs.ReadFull(d, b, 0); err != nil {
		t.Fatal(err)
	}
	m, err := gguf.OpenFS(memory.New(map[string][]byte{"m.gguf": b}), "m.gguf")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m
}

// TestInLlamaOnce holds that a model is brought to llama.cpp's form once, and again only if
// its tensors are others.
func TestInLlamaOnce(t *testing.T) {
	m := opened(t, []tensorfs.Meta{{Key: "general.architecture", Value: "olmo3"}}, map[string][]int64{"output_norm.weight": {4}})
	first := gguf.InLlama(m)
	if first == nil || first.Model.Architecture != "olmo2" {
		t.Fatalf("got %+v", first)
	}
	if again := gguf.InLlama(m); again != first {
		t.Error("the same model is made twice")
	}
	other := *m
	other.Tensors = []tensorfs.Tensor{m.Tensors[0]}
	if gguf.InLlama(&other) == first {
		t.Error("a model with other tensors is the first one")
	}
}

// TestLlama3 gives the tokenizer of Llama 3 to files that have its vocabulary, and a chat
// template that ends turns as it does, and no other.
func TestLlama3(t *testing.T) {
	tokens := make([]string, 128010)
	for i := range tokens {
		tokens[i] = "t"
	}
	other := append([]string(nil), tokens...)
	tokens[128009] = "<|eot_id|>"
	file := func(tokens []string, more ...tensorfs.Meta) *gguf.Spelling {
		meta := append([]tensorfs.Meta{{Key: "general.architecture", Value: "llama"}, {Key: "tokenizer.ggml.tokens", Value: tokens}}, more...)
		return gguf.InLlama(opened(t, meta, map[string][]int64{"output_norm.weight": {4}}))
	}
	turns := tensorfs.Meta{Key: "tokenizer.chat_template", Value: "{{ m }}<|eot_id|>"}
	eos := func(id uint32) tensorfs.Meta { return tensorfs.Meta{Key: "tokenizer.ggml.eos_token_id", Value: id} }
	pre := func(name string) tensorfs.Meta { return tensorfs.Meta{Key: "tokenizer.ggml.pre", Value: name} }
	for _, s := range []*gguf.Spelling{file(tokens, turns), file(tokens, turns, pre("default"), eos(128001)), file(tokens, turns, pre("llama-bpe"), eos(128001))} {
		if s == nil {
			t.Error("a file of Llama 3 stays as it is")
			continue
		}
		for key, want := range map[string]any{"tokenizer.ggml.pre": "llama-bpe", "tokenizer.ggml.eos_token_id": uint32(128009), "tokenizer.ggml.eot_token_id": uint32(128009)} {
			if got := s.Model.Meta(key); got != want {
				t.Errorf("%s is %v, want %v", key, got, want)
			}
		}
		if len(s.Notes) != 1 || s.Notes[0] == gguf.FromOllama {
			t.Errorf("notes %q", s.Notes)
		}
	}
	for _, s := range []*gguf.Spelling{file(other, turns), file(tokens), file(tokens, turns, pre("llama-bpe"), eos(128009))} {
		if s != nil {
			t.Errorf("another file is changed: %q", s.Notes)
		}
	}
}

// TestDialectAbsent refuses models that have no equivalent in llama.cpp's form, and leaves out
// layers that cannot be told apart.
func TestDialectAbsent(t *testing.T) {
	s := gguf.InLlama(opened(t, []tensorfs.Meta{{Key: "general.architecture", Value: "glmocr"}}, map[string][]int64{"blk.0.ffn_gate.weight": {4, 2}, "blk.0.ffn_up.weight": {6, 2}}))
	if s == nil || s.Absent == "" {
		t.Errorf("a gate and an up of two shapes: %+v", s)
	}
	s = gguf.InLlama(opened(t, []tensorfs.Meta{{Key: "general.architecture", Value: "qwen35"}, {Key: "qwen35.block_count", Value: uint32(1)}},
		map[string][]int64{"blk.0.attn_norm.weight": {2}, "mtp.layers.0.attn_norm.weight": {2}, "mtp.layers.1.attn_norm.weight": {2}, "mtp.norm.weight": {2}}))
	if s == nil || len(s.Left) != 3 || s.Model.Meta("qwen35.block_count") != uint32(1) || len(s.Model.Tensors) != 1 {
		t.Errorf("two layers that predict further tokens: %+v", s)
	}
	s = gguf.InLlama(opened(t, []tensorfs.Meta{{Key: "general.architecture", Value: "bert"}, {Key: "tokenizer.ggml.precompiled_charsmap", Value: []string{"A", "!"}}},
		map[string][]int64{"output_norm.weight": {4}}))
	if s == nil || s.Absent == "" {
		t.Errorf("letters that are not base64: %+v", s)
	}
}
