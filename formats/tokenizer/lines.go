package tokenizer

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/tensorfs/tensorfs/internal/jsonobj"
)

// linesName is the vocabulary of PLaMo 2 and 3: a line of JSON for each token, a list of its text,
// its score, its type and more.
const linesName = "tokenizer.jsonl"

// plamoOperator is the token <|plamo:op|>, at which an answer ends.
const plamoOperator = 4

// lineTypes are the types of such tokens; any other is a normal token's.
var lineTypes = map[string]int32{"UNKNOWN": unknown, "CONTROL": control, "BYTE": byteToken}

// padLine is the score of ids that no token has.
const padLine = -1000

// jsonLines reads PLaMo's vocabulary. It is false if the model does not have the file.
func (s *source) jsonLines(v *Vocabulary) bool {
	text := s.read(linesName, maxFile)
	if text == nil {
		return false
	}
	v.Model, v.Pre = linesModel, "default"
	var texts []string
	var scores []float32
	var types []int32
	for line := range bytes.Lines(text) {
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		token, score, kind, ok := lineToken(line)
		switch {
		case !ok:
			s.fail("%s: its line %d is not a list of a text, a number and a type", linesName, len(texts)+1)
		case len(texts) == s.Rows:
			s.fail("%s: it has more tokens than the embedding has rows, %d", linesName, s.Rows)
		}
		if s.err != nil {
			return true
		}
		texts, scores, types = append(texts, token), append(scores, score), append(types, kind)
	}
	if s.tables(v, s.Rows, len(texts)); s.err != nil {
		return true
	}
	v.Scores = make([]float32, s.Rows)
	for id := range v.Tokens {
		if id < len(texts) {
			v.Tokens[id], v.Types[id], v.Scores[id] = texts[id], types[id], scores[id]
		} else {
			v.Tokens[id], v.Types[id], v.Scores[id] = padName(id-len(texts)+1), unused, padLine
		}
	}
	for _, role := range []string{"bos", "eos", "pad", "sep", "unk"} {
		if r := s.settings.Raw(role + "_token"); r.Kind() == '"' {
			if id := slices.Index(texts, r.Text()); id >= 0 {
				v.Special[role] = id
			}
		}
	}
	if plamoOperator < len(texts) {
		v.Special["eot"] = plamoOperator
	}
	v.Flags[flagPrefix] = false
	return true
}

// lineToken reads a line: the text of a token, its score and its type.
func lineToken(line []byte) (text string, score float32, kind int32, ok bool) {
	o, err := jsonobj.Parse(append(append([]byte(`{"token":`), line...), '}'))
	if err != nil || o.Raw("token").Kind() != '[' {
		return "", 0, 0, false
	}
	word, n := "NORMAL", 0
	for e := range o.Raw("token").Elements() {
		switch n++; n {
		case 1:
			text = e.Text()
			ok = e.Kind() == '"' && utf8.ValidString(text)
		case 2:
			x, err := strconv.ParseFloat(e.String(), 64)
			score, ok = float32(x), ok && err == nil
		case 3:
			word = e.Text()
		}
	}
	if kind = lineTypes[word]; kind == 0 {
		if kind = normal; strings.HasPrefix(text, "<|plamo:") && strings.HasSuffix(text, "|>") {
			kind = control
		}
	}
	return text, score, kind, ok && n > 1
}
