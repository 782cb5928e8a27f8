package tokenizer

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"
	"sync"

	"github.com/tensorfs/tensorfs/internal/jsonobj"
)

//go:embed pretokenizers.json
var preTable []byte

// preRow is a pre-tokenizer that llama.cpp knows by a name.
type preRow struct {
	Pre          string
	Steps        []preStep
	IgnoreMerges bool `json:"ignore_merges"`
	Clean        bool // what it does when it makes text of tokens
}

// preStep is one step of a chain, in the words of the table.
type preStep struct {
	Split       string // a regular expression
	Behavior    string // of split; "" is Isolated
	ByteLevel   string // plain, regex
	Digits      string // individual, group
	Punctuation string // its behavior
}

// preRows are the rows of the table.
var preRows = sync.OnceValue(func() []preRow {
	var table struct{ Rows []preRow }
	if err := json.Unmarshal(preTable, &table); err != nil {
		panic(err) // it is our own
	}
	return table.Rows
})

// preTokenizer returns llama.cpp's name for what cuts a text into words, and
// whether a space is put before the text.
func (s *source) preTokenizer() (name string, prefix bool, err error) {
	d := s.document
	list, ok := flatten(d.preTokenizer, "pretokenizers")
	if !ok {
		return "", false, d.problem("its pre_tokenizer is not a list of steps")
	}
	if len(list) == 0 {
		return "", false, d.problem("it has no pre_tokenizer, and llama.cpp's BPE cuts text into words")
	}
	const most = 32 // more than any row has
	if len(list) > most {
		return "", false, d.problem("its pre_tokenizer has %d steps, and llama.cpp has no name for that", len(list))
	}
	steps := make([]preStep, len(list))
	for i, r := range list {
		var p bool
		if steps[i], p, err = step(r); err != nil {
			return "", false, d.problem("step %d of its pre_tokenizer: %v", i+1, err)
		}
		prefix = prefix || p
	}
	clean, known := boolean(s.settings.Raw("clean_up_tokenization_spaces"))
	if name = findPre(steps, d.model.ignoreMerges, clean, known); name == "" {
		nfc, _ := composes(d.normalizer)
		name = writtenPre(steps, d.model.ignoreMerges, nfc)
	}
	if name == "" {
		return "", false, d.problem("llama.cpp has no name for its pre_tokenizer (%d steps, the last %s, ignore_merges %v)", len(list), typeOf(list[len(list)-1]), d.model.ignoreMerges)
	}
	if prefix && name != "gpt-2" {
		return "", false, d.problem("its pre_tokenizer puts a space before the text, which llama.cpp does for gpt-2 and not for %s", name)
	}
	return name, prefix, nil
}

// findPre returns the name of the first row of the table that is equal, "" where
// none is. What is done when tokens become text only chooses among those that are
// equal in all else.
func findPre(steps []preStep, ignoreMerges, clean, known bool) string {
	name := ""
	for _, row := range preRows() {
		if row.IgnoreMerges != ignoreMerges || !slices.Equal(row.Steps, steps) {
			continue
		}
		if known && row.Clean == clean {
			return row.Pre
		}
		if name == "" {
			name = row.Pre
		}
	}
	return name
}

// writtenPre is findPre for the chains that Write makes: llama.cpp's own expressions,
// one after the other, and the bytes. Of several names for one row it is that which
// reading gives otherwise, if one is. nfc says whether the source composes
// characters, by which rows may differ.
func writtenPre(steps []preStep, ignoreMerges, nfc bool) string {
	last := len(steps) - 1
	if last < 1 || steps[last] != (preStep{ByteLevel: "plain"}) {
		return ""
	}
	var found []string
	for _, row := range splitRows() {
		if row.IgnoreMerges != ignoreMerges || len(row.Split) != last || (row.Normalizer == "NFC") != nfc {
			continue
		}
		if slices.EqualFunc(row.Split, steps[:last], func(split string, s preStep) bool { return s == preStep{Split: split} }) {
			found = append(found, row.Pre...)
		}
	}
	for _, row := range preRows() {
		if slices.Contains(found, row.Pre) {
			return row.Pre
		}
	}
	if len(found) == 0 {
		return ""
	}
	return slices.Min(found)
}

// steps are the pre-tokenizers that rows of the table consist of.
var steps = map[string]func(r jsonobj.Raw) (preStep, error){
	"Split": func(r jsonobj.Raw) (preStep, error) {
		behavior := r.Member("behavior").Text()
		invert, ok := boolean(r.Member("invert"))
		if !ok && r.Member("invert").Kind() != 0 {
			return preStep{}, fmt.Errorf("its invert is of a wrong JSON type")
		}
		pattern := r.Member("pattern").Member("Regex").Text()
		switch {
		case pattern == "":
			return preStep{}, fmt.Errorf("it does not split by a regular expression")
		case behavior == "Removed" && invert, behavior == "Isolated" && !invert:
			return preStep{Split: pattern}, nil
		case !invert && behavior != "":
			return preStep{Split: pattern, Behavior: behavior}, nil
		}
		return preStep{}, fmt.Errorf("it splits in a way that llama.cpp does not")
	},
	"ByteLevel": func(r jsonobj.Raw) (preStep, error) {
		regex, ok := boolean(r.Member("use_regex"))
		if !ok && r.Member("use_regex").Kind() != 0 {
			return preStep{}, fmt.Errorf("its use_regex is of a wrong JSON type")
		}
		if regex || !ok {
			return preStep{ByteLevel: "regex"}, nil
		}
		return preStep{ByteLevel: "plain"}, nil
	},
	"Digits": func(r jsonobj.Raw) (preStep, error) {
		individual, ok := boolean(r.Member("individual_digits"))
		switch {
		case !ok:
			return preStep{}, fmt.Errorf("it does not say individual_digits")
		case individual:
			return preStep{Digits: "individual"}, nil
		}
		return preStep{Digits: "group"}, nil
	},
	"Punctuation": func(r jsonobj.Raw) (preStep, error) {
		behavior := r.Member("behavior").Text()
		if behavior == "" {
			return preStep{}, fmt.Errorf("it does not say its behavior")
		}
		return preStep{Punctuation: behavior}, nil
	},
}

// step returns a pre-tokenizer in the words of the table, and whether it puts a
// space before the text.
func step(r jsonobj.Raw) (preStep, bool, error) {
	kind := r.Member("type").Text()
	read, ok := steps[kind]
	if !ok {
		return preStep{}, false, fmt.Errorf("llama.cpp does not have %s for bytes", typeOf(r))
	}
	p, err := read(r)
	if err != nil {
		return preStep{}, false, err
	}
	if kind != "ByteLevel" {
		return p, false, nil
	}
	prefix, ok := boolean(r.Member("add_prefix_space"))
	if !ok {
		return preStep{}, false, fmt.Errorf("it does not say add_prefix_space")
	}
	return p, prefix, nil
}
