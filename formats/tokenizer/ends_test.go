package tokenizer_test

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/tensorfs/tensorfs/formats/tokenizer"
)

// endKeys are tokens, with some of those at which a generation ends by their role.
func endKeys(tokens []string, roles ...any) keys {
	k := keys{"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.tokens": tokens}
	for i := 0; i < len(roles); i += 2 {
		k = k.with("tokenizer.ggml."+roles[i].(string)+"_token_id", roles[i+1])
	}
	return k
}

// TestEnds holds at which tokens a generation ends: by their texts, by the roles
// that the metadata gives, and the exceptions, each as llama.cpp has it.
func TestEnds(t *testing.T) {
	plain := []string{"a", "b", "c", "d", "e"}
	for name, c := range map[string]struct {
		k    keys
		want []int
	}{
		"nothing":            {endKeys(plain), nil},
		"eos":                {endKeys(plain, "eos", uint32(2)), []int{2}},
		"roles":              {endKeys(plain, "eos", uint32(3), "eot", uint32(1), "eom", uint32(2)), []int{3, 1, 2}},
		"one token":          {endKeys(plain, "eos", uint32(2), "eot", uint32(2), "eom", uint32(2)), []int{2}},
		"no such token":      {endKeys(plain, "eos", uint32(2), "eot", uint32(5), "eom", int32(-1)), []int{2}},
		"eot alone":          {endKeys(plain, "eot", uint32(2), "bos", uint32(1), "padding", uint32(0)), []int{2}},
		"a role of a text":   {endKeys(plain, "eos", "x", "eot", uint32(1)), []int{1}},
		"Llama 3":            {endKeys([]string{"<|begin_of_text|>", "<|end_of_text|>", "<|eom_id|>", "<|eot_id|>"}, "eos", uint32(3)), []int{3, 1, 2}},
		"Qwen":               {endKeys([]string{"<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|fim_pad|>", "<|repo_name|>", "<|file_sep|>"}, "eos", uint32(2)), []int{2, 0}},
		"Gemma 3":            {endKeys([]string{"<pad>", "<eos>", "<bos>", "<end_of_turn>"}, "eos", uint32(1)), []int{1, 3}},
		"Gemma 4":            {endKeys([]string{"<eos>", "</s>", "<turn|>", "<|tool_response>"}, "eos", uint32(0)), []int{0, 2, 3}},
		"Phi 3":              {endKeys([]string{"</s>", "<|endoftext|>", "<|end|>"}, "eos", uint32(1)), []int{1, 0, 2}},
		"Harmony":            {endKeys([]string{"<|endoftext|>", "<|return|>", "<|end|>", "<|call|>"}, "eos", uint32(1)), []int{1, 0, 3}},
		"Harmony, no call":   {endKeys([]string{"<|endoftext|>", "<|return|>", "<|end|>"}, "eos", uint32(1)), []int{1, 0, 2}},
		"Solar":              {endKeys([]string{"<|flush|>", "<|end|>", "<|calls|>"}), []int{0, 2}},
		"flush alone":        {endKeys([]string{"<|flush|>", "<|end|>"}), []int{0, 1}},
		"PLaMo":              {endKeys([]string{"</s>", "<|plamo:eos|>"}, "eos", uint32(1)), []int{1}},
		"PLaMo, another eos": {endKeys([]string{"</s>", "<|plamo:eos|>"}, "eos", uint32(0)), []int{0}},
		"DeepSeek":           {endKeys([]string{"<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>"}), []int{1}},
		"the rest":           {endKeys([]string{"<EOT>", "_<EOT>", "[EOT]", "[EOS]", "<end_of_utterance>", "[e~["}), []int{0, 1, 2, 3, 4, 5}},
		"nearly":             {endKeys([]string{" </s>", "</S>", "<|im_end|", "<|im_start|>", "</s"}), nil},
		"of any type":        {endKeys([]string{"</s>", "<|im_end|>"}).with("tokenizer.ggml.token_type", []int32{1, 5}), []int{0, 1}},
		"twice":              {endKeys([]string{"</s>", "</s>", "</s>"}), []int{2}},
		"no tokens":          {keys{"tokenizer.ggml.eos_token_id": uint32(0)}, nil},
		"tokens of no text":  {keys{"tokenizer.ggml.tokens": []int32{1, 2}, "tokenizer.ggml.eos_token_id": uint32(1)}, []int{1}},
		"tokens are a text":  {keys{"tokenizer.ggml.tokens": "</s>"}, nil},
		"too many":           {keys{"tokenizer.ggml.tokens": claimed{1 << 30, 1 << 30, "</s>"}}, nil},
		"fewer than claimed": {keys{"tokenizer.ggml.tokens": claimed{1 << 20, 3, "</s>"}}, nil},
	} {
		if got := tokenizer.Ends(c.k.get); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// TestEndsBounds holds that a vocabulary of nothing but such texts costs no more
// memory than another one.
func TestEndsBounds(t *testing.T) {
	k := keys{"tokenizer.ggml.tokens": claimed{1 << 22, 1 << 22, "<|im_end|>"}, "tokenizer.ggml.eos_token_id": uint32(7)}
	if n := testing.AllocsPerRun(1, func() {
		if got := tokenizer.Ends(k.get); !slices.Equal(got, []int{7, 1<<22 - 1}) {
			t.Errorf("%v", got)
		}
	}); n > 100 {
		t.Errorf("%v allocations", n)
	}
}

// TestEndsReal holds the stop tokens of real vocabularies.
func TestEndsReal(t *testing.T) {
	for name, want := range map[string][]int{"llama-spm": {2}, "falcon": {11}, "starcoder": {0}, "bert-bge": nil, "deepseek-llm": {100001}} {
		if got := tokenizer.Ends(parse(t, filepath.Join(wholeHF, "vocab", "ggml-vocab-"+name+".gguf.gz")).Value); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
}
