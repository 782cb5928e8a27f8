package tokenizer

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// worldName is the vocabulary of RWKV World: a line for each token, with its id, its text as
// Python writes it and the number of its bytes. Ids begin with 1: 0 is bos and eos.
const worldName = "rwkv_vocab_v20230424.txt"

// worldEnd is the token of two line breaks, at which an answer ends.
const worldEnd = 261

// worldTemplate names llama.cpp's own template, for a model without one.
const worldTemplate = "rwkv-world"

// world reads RWKV's vocabulary. It is false if the model does not have the file.
func (s *source) world(v *Vocabulary) bool {
	text := s.read(worldName, maxFile)
	if text == nil {
		return false
	}
	v.Model = worldModel
	tokens := []string{"<s>"}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimRight(line, "\r\n")
		id, rest, _ := strings.Cut(line, " ")
		at := strings.LastIndexByte(rest, ' ')
		n, err := strconv.Atoi(id)
		if err != nil || n != len(tokens) || at < 0 {
			s.fail("%s: its line %d does not have the id %d, a text and a length", worldName, len(tokens), len(tokens))
			return true
		}
		token, ok := pythonText(rest[:at])
		if size, err := strconv.Atoi(rest[at+1:]); !ok || err != nil || size != len(token) {
			s.fail("%s: the text of the token %d is not a text of Python of so many bytes", worldName, n)
			return true
		}
		if tokens = append(tokens, pythonBytes(token)); len(tokens) > s.Rows {
			s.fail("%s: it has more tokens than the embedding has rows, %d", worldName, s.Rows)
			return true
		}
	}
	if s.tables(v, s.Rows, len(tokens)); s.err != nil {
		return true
	}
	copy(v.Tokens, tokens)
	for id := range tokens {
		v.Types[id] = normal
	}
	v.Types[0] = control
	v.Special["bos"], v.Special["eos"] = 0, 0
	if worldEnd < len(v.Tokens) {
		v.Special["eot"] = worldEnd
	}
	s.habit.Template = worldTemplate
	return true
}

// escapes are the letters that Python writes after a backslash for one byte.
var escapes = map[byte]byte{'n': '\n', 't': '\t', 'r': '\r', '\\': '\\', '\'': '\'', '"': '"', 'a': '\a', 'b': '\b', 'f': '\f', 'v': '\v'}

// pythonText returns what a text or the bytes are that Python writes so: 'a', "a" or b'a'.
func pythonText(text string) (string, bool) {
	text, isBytes := strings.CutPrefix(text, "b")
	if len(text) < 2 || text[0] != '\'' && text[0] != '"' || text[len(text)-1] != text[0] {
		return "", false
	}
	quote := text[0]
	text = text[1 : len(text)-1]
	var b strings.Builder
	for len(text) > 0 {
		c := text[0]
		if c == quote {
			return "", false
		}
		if text = text[1:]; c != '\\' {
			b.WriteByte(c)
			continue
		}
		if text == "" {
			return "", false
		}
		c, text = text[0], text[1:]
		if one, ok := escapes[c]; ok {
			b.WriteByte(one)
			continue
		}
		digits := map[byte]int{'x': 2, 'u': 4, 'U': 8}[c]
		if digits == 0 || digits > len(text) || isBytes && c != 'x' {
			return "", false
		}
		n, err := strconv.ParseUint(text[:digits], 16, 32)
		if err != nil || !isBytes && !utf8.ValidRune(rune(n)) {
			return "", false
		}
		if text = text[digits:]; isBytes {
			b.WriteByte(byte(n))
		} else {
			b.WriteRune(rune(n))
		}
	}
	return b.String(), true
}

// pythonBytes writes bytes as Python does, without the quotation marks, which llama.cpp reads.
func pythonBytes(token string) string {
	quote := byte('\'')
	if strings.Contains(token, "'") && !strings.Contains(token, `"`) {
		quote = '"'
	}
	var b strings.Builder
	for i := range len(token) {
		switch c := token[i]; {
		case c == quote || c == '\\':
			b.WriteByte('\\')
			b.WriteByte(c)
		case c == '\n':
			b.WriteString(`\n`)
		case c == '\r':
			b.WriteString(`\r`)
		case c == '\t':
			b.WriteString(`\t`)
		case c < ' ' || c > '~':
			fmt.Fprintf(&b, `\x%02x`, c)
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}
