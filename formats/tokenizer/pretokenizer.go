package tokenizer

import (
	"cmp"
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/tensorfs/tensorfs/internal/jsonobj"
)

// preTable says how texts are cut into words under each of llama.cpp's names, and
// by which chains of steps models say so; its text explains its keys. It has
// characters that editors confuse with others, so these are escaped.
//
//go:embed pretokenizers.json
var preTable []byte

// preRow is one way to cut texts.
type preRow struct {
	Pre           []string // its names
	Clean         *bool    // nil: not looked for in published models
	Unclean       string
	Split, Source []string
	Normalizer    string
	IgnoreMerges  bool `json:"ignore_merges"`
	AddBosDefault bool `json:"add_bos_default"`
	Sep           bool
}

// preRows are the rows of the table, with their expressions in place.
var preRows = sync.OnceValue(func() []preRow {
	var table struct {
		Expressions map[string]string
		Rows        []preRow
	}
	if err := json.Unmarshal(preTable, &table); err != nil {
		panic(err) // it is our own
	}
	for _, row := range table.Rows {
		for _, list := range [][]string{row.Split, row.Source} {
			for i, step := range list {
				if name, ok := strings.CutPrefix(step, "@"); ok {
					list[i] = table.Expressions[name]
				}
			}
		}
	}
	return table.Rows
})

// preNamed returns the row with one of llama.cpp's names that can be written; nil
// without one.
func preNamed(name string) *preRow {
	for i, row := range preRows() {
		for _, other := range row.Pre {
			if other == name && row.Split != nil {
				return &preRows()[i]
			}
		}
	}
	return nil
}

// bytesStep is the step that turns bytes into characters and cuts nothing. Steps
// that are no regular expression begin with a star, as no expression does.
const bytesStep = "*bytes"

// chain returns the normal form of a chain of steps of the table.
func chain(steps []string) string {
	var forms []string
	for _, step := range steps {
		words, expression, ok := strings.Cut(step, " ")
		switch {
		case step[0] != '*':
			step = normalForm(step)
		case ok:
			step = words + " " + normalForm(expression)
		}
		forms = append(forms, step)
	}
	return strings.Join(forms, "\x00")
}

// preForms are the chains of the table's rows: those of published models, and
// those that [Write] makes.
var preForms = sync.OnceValue(func() (forms []struct{ source, split string }) {
	for _, row := range preRows() {
		split := chain(append(slices.Clip(row.Split), bytesStep))
		source := split
		switch {
		case slices.Contains(row.Source, byteLevel):
			source = chain(row.Source)
		case row.Source != nil:
			source = chain(append(slices.Clip(row.Source), bytesStep))
		}
		if row.Split == nil {
			split = ""
		}
		forms = append(forms, struct{ source, split string }{source, split})
	}
	return forms
})

// byteLevel is the step that cuts by GPT-2's expression and turns bytes into
// characters.
const byteLevel = "*ByteLevel"

// findPre returns llama.cpp's name of a chain of steps, "" where it has none.
//
// Most chains are those of published models, and names of one chain differ by what
// is done when tokens become text (clean, where known). Chains that [Write] makes
// are spelled as in the table, and go back to their own row: rows of one chain
// differ in whether characters are composed (nfc).
func findPre(steps []string, ignoreMerges, clean, known, nfc bool) string {
	rows, forms, form := preRows(), preForms(), chain(steps)
	written := func(same func(i int) bool) string {
		for i, row := range rows {
			if row.Split != nil && row.IgnoreMerges == ignoreMerges && (row.Normalizer == "NFC") == nfc && same(i) {
				return row.Pre[0]
			}
		}
		return ""
	}
	otherwise := "" // published, and known to be cleaned otherwise
	name := written(func(i int) bool { return slices.Equal(append(slices.Clip(rows[i].Split), bytesStep), steps) })
	for i, row := range rows {
		if name != "" || row.Clean == nil || row.IgnoreMerges != ignoreMerges || forms[i].source != form {
			continue
		}
		switch {
		case !known || *row.Clean == clean:
			return row.Pre[0]
		case row.Unclean != "":
			return row.Unclean
		}
		otherwise = cmp.Or(otherwise, row.Pre[0])
	}
	return cmp.Or(name, otherwise, written(func(i int) bool { return forms[i].split == form }))
}

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
	steps := make([]string, len(list))
	for i, r := range list {
		var p bool
		if steps[i], p, err = step(r); err != nil {
			return "", false, d.problem("step %d of its pre_tokenizer: %v", i+1, err)
		}
		prefix = prefix || p
	}
	clean, known := boolean(s.settings.Raw("clean_up_tokenization_spaces"))
	nfc, _ := composes(d.normalizer)
	if name = findPre(steps, d.model.ignoreMerges, clean, known, nfc); name == "" {
		return "", false, d.problem("llama.cpp has no name for its pre_tokenizer (%d steps, the last %s, ignore_merges %v)", len(list), typeOf(list[len(list)-1]), d.model.ignoreMerges)
	}
	if prefix && name != "gpt-2" {
		return "", false, d.problem("its pre_tokenizer puts a space before the text, which llama.cpp does for gpt-2 and not for %s", name)
	}
	return name, prefix, nil
}

// step returns a pre-tokenizer in the words of the table, and whether it puts a
// space before the text. Digits is the expression that cuts in the same way.
func step(r jsonobj.Raw) (step string, prefix bool, err error) {
	flag := func(key string) (value, said bool) {
		value, said = boolean(r.Member(key))
		if !said && r.Member(key).Kind() != 0 && err == nil {
			err = fmt.Errorf("its %s is of a wrong JSON type", key)
		}
		return value, said
	}
	need := func(key string, said bool) {
		if !said && err == nil {
			err = fmt.Errorf("it does not say %s", key)
		}
	}
	behavior := r.Member("behavior").Text()
	switch r.Member("type").Text() {
	case "Split":
		invert, _ := flag("invert")
		step = r.Member("pattern").Member("Regex").Text()
		switch {
		case err != nil:
		case step == "" || step[0] == '*':
			err = fmt.Errorf("it does not split by a regular expression")
		case behavior == "Isolated" && !invert, behavior == "Removed" && invert: // the expressions of the table leave nothing between
		case behavior == "MergedWithNext" && !invert:
			step = "*MergedWithNext " + step
		default:
			err = fmt.Errorf("it splits in a way that llama.cpp does not")
		}
	case "ByteLevel":
		step = byteLevel
		if regex, said := flag("use_regex"); said && !regex {
			step = bytesStep
		}
		var said bool
		prefix, said = boolean(r.Member("add_prefix_space"))
		need("add_prefix_space", said)
	case "Digits":
		individual, said := boolean(r.Member("individual_digits"))
		if need("individual_digits", said); individual {
			return `\p{N}`, false, err
		}
		step = `\p{N}+`
	case "Punctuation":
		step = "*Punctuation " + behavior
		need("its behavior", behavior != "")
	default:
		err = fmt.Errorf("llama.cpp does not have %s for bytes", typeOf(r))
	}
	return step, prefix, err
}
