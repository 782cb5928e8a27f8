package tokenizer

import "slices"

// endTexts are the texts of tokens at which llama.cpp ends a generation, independent of
// their type and of the metadata. The list equals special_eog_ids in src/llama-vocab.cpp of
// llama.cpp v0.5.0, without the tokens for filling in the middle (special_fim_pad_id,
// _rep_id and _sep_id): no release has those tokens.
var endTexts = []string{
	"<|eot_id|>", "<|im_end|>", "<|end|>", "<|return|>", "<|call|>", "<|flush|>", "<|calls|>", "<end_of_turn>", "<|endoftext|>",
	"</s>", "<|eom_id|>", "<EOT>", "_<EOT>", "[EOT]", "[EOS]", "<|end_of_text|>", "<end_of_utterance>", "<eos>", "<turn|>",
	"<|tool_response>", "<｜end▁of▁sentence｜>", "[e~[",
}

// plamoEnd is a token that ends nothing by its text, and is in notEnds.
const plamoEnd = "<|plamo:eos|>"

// notEnds are rows: a text whose token does not end a generation where the tokens
// of all these other texts do. They are from the same place.
var notEnds = []struct {
	text   string
	beside []string
}{
	{"<|end|>", []string{"<|return|>", "<|call|>"}}, {"<|end|>", []string{"<|return|>", "<|calls|>"}}, // Harmony: the end of one message of an answer
	{"<|end|>", []string{"<|flush|>", "<|call|>"}}, {"<|end|>", []string{"<|flush|>", "<|calls|>"}},
	{"</s>", []string{"<|tool_response>"}}, {"</s>", []string{plamoEnd}}, // a word like any other
}

// AssumedEnds returns the token at which llama.cpp ends a generation where the keys name none;
// see [ReadKeys] for get.
func AssumedEnds(get func(key string) any) []int {
	model, _ := get(keyModel).(string)
	_, named := (&metadata{get: get}).scalars().Special["eos"]
	if id, ok := assumedIDs[model]["eos"]; ok && !named {
		return []int{id}
	}
	return nil
}

// Ends returns the ids of the tokens at which llama.cpp ends a generation, eos first and
// the rest in order; see [ReadKeys] for get. It is nil if the tokens cannot be read.
func Ends(get func(key string) any) []int {
	m := &metadata{get: get}
	v := m.scalars()
	found := map[string]int{} // by text: of several tokens with one text the last counts, as in llama.cpp
	m.err = nil               // whatever else is wrong
	m.each(keyTokens, maxTokens, func(id int, v any) bool {
		if text, ok := v.(string); ok && (text == plamoEnd || slices.Contains(endTexts, text)) {
			found[text] = id
		}
		return true
	})
	if m.err != nil {
		return nil
	}
	var ends []int
	isEnd := func(text string) bool {
		id, ok := found[text]
		return ok && slices.Contains(ends, id)
	}
	for _, text := range endTexts {
		if id, ok := found[text]; ok {
			ends = append(ends, id)
		}
	}
	for _, role := range []string{"eos", "eot", "eom"} {
		if id := v.Special[role]; v.hasRole(role) && !slices.Contains(ends, id) {
			ends = append(ends, id)
		}
	}
	var not []int
	for _, row := range notEnds {
		if !slices.ContainsFunc(append(row.beside, row.text), func(text string) bool { return !isEnd(text) }) {
			not = append(not, found[row.text])
		}
	}
	ends = slices.DeleteFunc(ends, func(id int) bool { return slices.Contains(not, id) })
	slices.Sort(ends)
	if i := slices.Index(ends, v.Special["eos"]); i > 0 && v.hasRole("eos") {
		copy(ends[1:i+1], ends[:i])
		ends[0] = v.Special["eos"]
	}
	return ends
}
