package tokenizer

import "slices"

// endTexts are the texts of tokens at which llama.cpp ends a generation, whatever
// their type and whatever the metadata says. The list is that of special_eog_ids in
// src/llama-vocab.cpp of llama.cpp v0.5.0, without the tokens for filling in the
// middle (special_fim_pad_id, _rep_id and _sep_id): no release has those.
var endTexts = []string{
	"<|eot_id|>", "<|im_end|>", "<|end|>", "<|return|>", "<|call|>", "<|flush|>", "<|calls|>", "<end_of_turn>", "<|endoftext|>",
	"</s>", "<|eom_id|>", "<EOT>", "_<EOT>", "[EOT]", "[EOS]", "<|end_of_text|>", "<end_of_utterance>", "<eos>", "<turn|>",
	"<|tool_response>", "<｜end▁of▁sentence｜>", "[e~[",
}

// notEnds are rows: a text whose token does not end a generation where the tokens
// of all these other texts do. They are from the same place.
var notEnds = []struct {
	text   string
	beside []string
}{
	{"<|end|>", []string{"<|return|>", "<|call|>"}}, {"<|end|>", []string{"<|return|>", "<|calls|>"}}, // Harmony: the end of one message of an answer
	{"<|end|>", []string{"<|flush|>", "<|call|>"}}, {"<|end|>", []string{"<|flush|>", "<|calls|>"}},
	{"</s>", []string{"<|tool_response>"}}, {"</s>", []string{"<|plamo:eos|>"}}, // a word like any other
}

// Ends returns the ids of the tokens at which llama.cpp ends a generation, that of
// eos first and the others in order; see [ReadKeys] for get. It is nil where the
// tokens cannot be read.
func Ends(get func(key string) any) []int {
	m := &metadata{get: get}
	v := m.scalars()
	found := map[string]int{} // by text: of several tokens with one text the last counts, as in llama.cpp
	_, err := m.each(keyTokens, maxTokens, func(id int, v any) error {
		if text, ok := v.(string); ok && endWords[text] {
			found[text] = id
		}
		return nil
	})
	if err != nil {
		return nil
	}
	var ends []int
	for _, text := range endTexts {
		if id, ok := found[text]; ok {
			ends = append(ends, id)
		}
	}
	for _, role := range []string{"eos", "eot", "eom"} {
		if v.said(role) && !slices.Contains(ends, v.Special[role]) {
			ends = append(ends, v.Special[role])
		}
	}
	isEnd := func(text string) bool {
		id, ok := found[text]
		return ok && slices.Contains(ends, id)
	}
	var not []int
	for _, row := range notEnds {
		if !slices.ContainsFunc(append(row.beside, row.text), func(text string) bool { return !isEnd(text) }) {
			not = append(not, found[row.text])
		}
	}
	ends = slices.DeleteFunc(ends, func(id int) bool { return slices.Contains(not, id) })
	slices.SortFunc(ends, func(a, b int) int {
		if eos := v.Special["eos"]; v.said("eos") && (a == eos) != (b == eos) {
			return map[bool]int{true: -1, false: 1}[a == eos]
		}
		return a - b
	})
	return ends
}

// endWords are all texts of endTexts and notEnds.
var endWords = func() map[string]bool {
	words := map[string]bool{}
	for _, text := range endTexts {
		words[text] = true
	}
	for _, row := range notEnds {
		for _, text := range row.beside {
			words[text] = true
		}
	}
	return words
}()
