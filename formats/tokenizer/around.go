package tokenizer

import (
	"fmt"
	"strings"
)

// around is what is put around texts: the ids of special tokens, -1 for none.
type around struct {
	first, last int
	pairs       pairing
}

// pairing is how two texts stand together.
type pairing int

const (
	eachAlone pairing = iota // <s> A </s> <s> B </s>
	bertPairs                // [CLS] A [SEP] B [SEP]
	sepTwice                 // <s> A </s> </s> B </s>, all of one type
)

// byteProcessor only mends offsets, which are those of bytes' characters.
const byteProcessor = `{"type":"ByteLevel","add_prefix_space":true,"trim_offsets":false,"use_regex":true}`

// around returns what is put around a text. What the file says counts more than
// what its model does by default.
func (v *Vocabulary) around(bos, eos bool, first, last string) around {
	a := around{first: -1, last: -1}
	if said, ok := v.Flags[flagBOS]; said || bos && !ok {
		a.first = v.role(strings.Fields(first)...)
	}
	if said, ok := v.Flags[flagEOS]; said || eos && !ok {
		a.last = v.role(strings.Fields(last)...)
	}
	return a
}

// postProcessor returns a post_processor, of tokens that are bytes or not.
func (v *Vocabulary) postProcessor(a around, bytes bool) string {
	template := a.first >= 0 || a.last >= 0
	switch {
	case bytes && template:
		return `{"type":"Sequence","processors":[` + byteProcessor + `,` + v.template(a) + `]}`
	case bytes:
		return byteProcessor
	case template:
		return v.template(a)
	}
	return "null"
}

func (v *Vocabulary) template(a around) string {
	slot := func(kind, id string, typeID int) string {
		return fmt.Sprintf(`{"%s":{"id":%s,"type_id":%d}}`, kind, id, typeID)
	}
	special := func(id, typeID int) []string {
		if id < 0 {
			return nil
		}
		return []string{slot("SpecialToken", quoted(v.Tokens[id]), typeID)}
	}
	single := append(append(special(a.first, 0), slot("Sequence", `"A"`, 0)), special(a.last, 0)...)
	pair, second := single[:len(single):len(single)], 1
	switch a.pairs {
	case eachAlone:
		pair = append(pair, special(a.first, 1)...)
	case sepTwice:
		second = 0
		pair = append(pair, special(a.last, 0)...)
	}
	pair = append(append(pair, slot("Sequence", `"B"`, second)), special(a.last, second)...)
	var tokens []string
	for i, id := range []int{a.first, a.last} {
		if id >= 0 && (i == 0 || id != a.first) {
			text := quoted(v.Tokens[id])
			tokens = append(tokens, fmt.Sprintf(`%s:{"id":%s,"ids":[%d],"tokens":[%s]}`, text, text, id, text))
		}
	}
	list := func(l []string) string { return strings.Join(l, ",") }
	return `{"type":"TemplateProcessing","single":[` + list(single) + `],"pair":[` + list(pair) + `],"special_tokens":{` + list(tokens) + `}}`
}
