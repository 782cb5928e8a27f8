package tokenizer

import (
	"slices"
	"unicode/utf8"

	"github.com/tensorfs/tensorfs"
)

const specialMapName = "special_tokens_map.json"

// settings returns tokenizer_config.json. Its class is the one that takes
// tokenizer.json as it is: others make parts of it again by rules of their own.
func (s *stored) settings(f *form) ([]byte, error) {
	b := s.appendSpecials([]byte(`{"tokenizer_class":"PreTrainedTokenizerFast"`))
	if f.around.pairs != bertPairs {
		b = appendBool(append(b, `,"add_bos_token":`...), f.around.first >= 0)
		b = appendBool(append(b, `,"add_eos_token":`...), f.around.last >= 0)
	}
	b = append(b, `,"clean_up_tokenization_spaces":false`...)
	if n, ok := integer(s.get(s.arch + ".context_length")); ok && n > 0 {
		b = appendInt(append(b, `,"model_max_length":`...), int(n))
	}
	b = append(append(append(b, `,"model_input_names":["input_ids",`...), f.around.types()...), `"attention_mask"]`...)
	b = s.appendChat(b)
	b = append(b, `,"added_tokens_decoder":{`...)
	for i, id := range s.added {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(appendInt(append(b, '"'), id), `":{`...)
		b = append(s.appendAdded(b, id), '}')
		if len(b) > maxFile {
			return nil, errLarge
		}
	}
	return append(b, "}}\n"...), nil
}

// appendSpecials appends the texts of the special tokens, each with a comma before
// it. Those that the file does not name are there if they have their token's type.
func (s *stored) appendSpecials(b []byte) []byte {
	for _, role := range storedRoles {
		id, ok := s.ids[role.name]
		if _, said := s.said[role.name]; !ok || role.name == "eot" || role.name == "eom" || !said && s.tokens.types[id] != control && s.tokens.types[id] != unknown {
			continue
		}
		b = append(b, `,"`+role.name+`_token":`...)
		b = appendQuoted(b, s.tokens.texts[id])
	}
	return b
}

// appendChat appends the chat templates: a text, or a list where some have names.
// One that is not a text, or too long, is left out.
func (s *stored) appendChat(b []byte) []byte {
	const key = "tokenizer.chat_template"
	total := 0
	template := func(key string) (string, bool) {
		text, ok := s.get(key).(string)
		if !ok || len(text) > maxText-total || !utf8.ValidString(text) {
			return "", false
		}
		total += len(text)
		return text, true
	}
	var names, texts []string
	if text, ok := template(key); ok {
		names, texts = append(names, "default"), append(texts, text)
	}
	named := func(name string) {
		if len(names) == maxTemplates || len(name) > maxTemplateName || !utf8.ValidString(name) || slices.Contains(names, name) {
			return
		}
		if text, ok := template(key + "." + name); ok {
			names, texts = append(names, name), append(texts, text)
		}
	}
	if a, ok := s.get("tokenizer.chat_templates").(tensorfs.Array); ok && a.Len() <= maxTokens {
		for v := range a.Values() {
			if name, ok := v.(string); ok {
				named(name)
			}
		}
	}
	for _, name := range namedTemplates {
		named(name)
	}
	switch {
	case names == nil:
		return b
	case len(names) == 1 && names[0] == "default":
		return appendQuoted(append(b, `,"chat_template":`...), texts[0])
	}
	b = append(b, `,"chat_template":`...)
	for i, name := range names {
		b = append(b, "[,"[min(i, 1)])
		b = appendQuoted(append(b, `{"name":`...), name)
		b = append(appendQuoted(append(b, `,"template":`...), texts[i]), '}')
	}
	return append(b, ']')
}
