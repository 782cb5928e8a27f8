package architectures

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Tokenizer is what llama.cpp's converter does with the tokenizers of a block's models and not with
// all tokenizers: the items of the word tokenizer.
type Tokenizer struct {
	Pieces   []string          // SentencePiece's files that count for more than a tokenizer.json, the first that exists
	Model    string            // the model name in GGUF, if the files would suggest another
	Space    string            // whether SentencePiece's texts get a space before them: one of spaceRules
	Roles    map[string]string // special tokens that nothing else names: an id, or the text of an added token
	End      string            // an added token that is eos whatever the files name, if the model has it
	NoBOS    bool              // no text begins with bos, whatever the files ask for
	Pre      string            // its name for a pre-tokenizer that cuts texts as others do
	First    []string          // the texts of SentencePiece's first tokens, if they are others than its file's
	After    []string          // special tokens after SentencePiece's, which only code beside a model names; all further ids are unused
	Visible  []string          // tokens that are shown although they are special
	Template string            // the chat template of a model that has none
	Segments int               // kinds of texts, if config.json does not have their number
	Shifted  bool              // SentencePiece's ids are shifted as by fairseq
	Added    bool              // the tokens that tokenizer.json adds to SentencePiece's count, too
	Scored   bool              // added_tokens_decoder has SentencePiece's own tokens: special ones score 0, the rest like missing ones
	Cut      bool              // an embedding that has more rows than the vocabulary tokens is cut
	NamedEnd bool              // eos of a file of tiktoken is what tokenizer_config.json names, whatever config.json names
}

// spaceRules are the values of Tokenizer.Space: a space comes before a text unless the pieces' own file contradicts;
// never; or as tokenizer_config.json has it.
var spaceRules = []string{"always", "never", "said"}

// tokenRoles are the roles that items may give to tokens.
var tokenRoles = strings.Fields("bos eos eot eom unk pad prefix suffix middle")

// TokenizerOf returns what a block has of tokenizers; conditions ask facts. A block that does not exist has
// nothing of them.
func TokenizerOf(block string, facts Facts) Tokenizer {
	t := Tokenizer{Roles: map[string]string{}}
	if !slices.ContainsFunc(heads(), func(h head) bool { return h.name == block && h.classes != nil }) {
		return t
	}
	for _, x := range settingsBlocks.get([]string{block}, readNeeded)[0].words["tokenizer"] {
		if x.When.Holds(facts) {
			must(t, t.read(x.Text))
		}
	}
	return t
}

func (s *Settings) readTokenizer(x Item) error {
	return (&Tokenizer{Roles: map[string]string{}}).read(x.Text)
}

// read reads an item: FLAG, NAME=VALUE, or NAME:=VALUE if files are not asked.
func (t *Tokenizer) read(item string) error {
	name, value, valued := strings.Cut(item, "=")
	texts := map[string]*string{"model": &t.Model, "space": &t.Space, "pre": &t.Pre, "eos:": &t.End}
	lists := map[string]*[]string{"pieces": &t.Pieces, "visible": &t.Visible, "first": &t.First, "after": &t.After}
	flags := map[string]*bool{"shifted": &t.Shifted, "added": &t.Added, "scored": &t.Scored, "cut": &t.Cut, "named_eos": &t.NamedEnd}
	switch n, err := strconv.Atoi(value); {
	case flags[name] != nil && !valued:
		*flags[name] = true
	case value == "":
		return fmt.Errorf("it is not NAME=VALUE, and there is no such word")
	case name == "space" && !slices.Contains(spaceRules, value):
		return fmt.Errorf("there is no rule %s", value)
	case texts[name] != nil:
		*texts[name] = value
	case lists[name] != nil:
		*lists[name] = strings.Split(value, ",")
	case slices.Contains(tokenRoles, name):
		t.Roles[name] = value
	case item == "add_bos:=false":
		t.NoBOS = true
	case name == "segments" && err == nil && n > 0:
		t.Segments = n
	case name == "template":
		text := strings.TrimSuffix(strings.TrimPrefix(value, "("), ")")
		return json.Unmarshal([]byte(text), &t.Template)
	default:
		return fmt.Errorf("there is no such item")
	}
	return nil
}
