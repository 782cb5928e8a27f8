package tokenizer

// around is what is put around texts: the ids of special tokens, -1 for none.
type around struct {
	first, last int
	pairs       pairing
	bytes       bool // offsets are those of bytes' characters
}

// pairing is how two texts stand together.
type pairing int

const (
	eachAlone pairing = iota // <s> A </s> <s> B </s>
	bertPairs                // [CLS] A [SEP] B [SEP]
	sepTwice                 // <s> A </s> </s> B </s>, all of one type
)

// types returns the name of the list that says which of two texts a token is of, and
// a comma, for models that are told. It has to be said either way: some libraries
// give it to models that refuse it, others to none.
func (a *around) types() string {
	if a.pairs == bertPairs {
		return `"token_type_ids",`
	}
	return ""
}

// byteProcessor only mends offsets.
const byteProcessor = `{"type":"ByteLevel","add_prefix_space":true,"trim_offsets":false,"use_regex":true}`

// begins returns the tokens that are put around a text. What the file says counts
// more than what its model does by default.
func (s *stored) begins(bos, eos bool, first, last []string) around {
	a := around{first: -1, last: -1}
	if s.flag("tokenizer.ggml.add_bos_token", bos) {
		a.first = s.id(first...)
	}
	if s.flag("tokenizer.ggml.add_eos_token", eos) {
		a.last = s.id(last...)
	}
	return a
}

// appendAround appends a post_processor.
func (s *stored) appendAround(b []byte, a *around) []byte {
	template := a.first >= 0 || a.last >= 0
	switch {
	case a.bytes && template:
		b = append(b, `{"type":"Sequence","processors":[`+byteProcessor+`,`...)
		return append(s.appendTemplate(b, a), `]}`...)
	case a.bytes:
		return append(b, byteProcessor...)
	case template:
		return s.appendTemplate(b, a)
	}
	return append(b, "null"...)
}

func (s *stored) appendTemplate(b []byte, a *around) []byte {
	comma := false
	put := func(kind string, id string, typeID int) {
		if comma {
			b = append(b, ',')
		}
		comma = true
		b = append(b, `{"`+kind+`":{"id":`...)
		b = append(b, id...)
		b = append(appendInt(append(b, `,"type_id":`...), typeID), `}}`...)
	}
	special := func(id, typeID int) {
		if id >= 0 {
			put("SpecialToken", quoted(s.tokens.texts[id]), typeID)
		}
	}
	single := func() {
		special(a.first, 0)
		put("Sequence", `"A"`, 0)
		special(a.last, 0)
	}
	b = append(b, `{"type":"TemplateProcessing","single":[`...)
	single()
	b = append(b, `],"pair":[`...)
	comma = false
	single()
	second := 1
	switch a.pairs {
	case eachAlone:
		special(a.first, 1)
	case sepTwice:
		second = 0
		special(a.last, 0)
	}
	put("Sequence", `"B"`, second)
	special(a.last, second)
	b = append(b, `],"special_tokens":{`...)
	for i, id := range []int{a.first, a.last} {
		if id < 0 || i == 1 && id == a.first {
			continue
		}
		if i == 1 && a.first >= 0 {
			b = append(b, ',')
		}
		text := quoted(s.tokens.texts[id])
		b = append(b, text+`:{"id":`+text+`,"ids":[`...)
		b = append(appendInt(b, id), `],"tokens":[`+text+`]}`...)
	}
	return append(b, `}}`...)
}
