package tokenizer

import (
	"cmp"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/tensorfs/tensorfs/internal/jsonobj"
)

// preTable describes how texts are cut into words under each of llama.cpp's names, and the
// chains of steps that models store for it; its text explains its keys. It has characters
// that editors confuse with others, so these are escaped.
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
	Text          bool
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
	for i := range table.Rows {
		row := &table.Rows[i]
		for _, list := range [][]string{row.Split, row.Source} {
			for i, step := range list {
				if name, ok := strings.CutPrefix(step, "@"); ok {
					list[i] = table.Expressions[name]
				}
			}
		}
		if row.Source == nil {
			row.Source = row.Split
		}
	}
	return table.Rows
})

// preNamed returns the row with one of llama.cpp's names, without fields if there is no such row.
func preNamed(name string) *preRow {
	i := slices.IndexFunc(preRows(), func(row preRow) bool { return slices.Contains(row.Pre, name) })
	if i < 0 {
		return &preRow{}
	}
	return &preRows()[i]
}

// LlamaCuts reports whether llama.cpp has a way to cut texts of this name. It loads no file with another one.
func LlamaCuts(name string) bool { return preNamed(name).Pre != nil }

// LlamaModels are the kinds of tokenizers that llama.cpp has, with two names for no tokenizer.
var LlamaModels = []string{wordsModel, textModel, BytesModel, "hybriddna", charsModel, "no_vocab", noModel, linesModel, worldModel, piecesModel, "whitespace"}

// bytesStep is the step that turns bytes into characters and cuts nothing. Steps
// that are no regular expression begin with a star, as no expression does.
const bytesStep = "*bytes"

// matches reports whether a chain of steps of the table matches the same as one of a file.
// The expressions of the table are many and their normal forms take long, so each is
// computed on first use, and kept; read has the file's normal forms.
func matches(row, steps []string, read map[string]string) bool {
	return slices.EqualFunc(row, steps, func(a, b string) bool {
		aWords, a := expressionOf(a)
		bWords, b := expressionOf(b)
		if aWords != bWords || a == b {
			return aWords == bWords
		}
		known, ok := forms.Load(a)
		if !ok {
			known = normalForm(a)
			forms.Store(a, known)
		}
		if read[b] == "" {
			read[b] = normalForm(b)
		}
		return known == read[b]
	})
}

// forms are the normal forms of expressions of the table.
var forms sync.Map

// expressionOf divides a step into its words, "" if it is only an expression, and its
// expression, "" without one.
func expressionOf(step string) (words, expression string) {
	if !strings.HasPrefix(step, "*") {
		return "", step
	}
	words, expression, _ = strings.Cut(step, " ")
	return words, expression
}

// byteLevel is the step that cuts by GPT-2's expression and turns bytes into
// characters.
const byteLevel = "*ByteLevel"

// findPre returns llama.cpp's name of a chain of steps, "" if it has no name. Bytes become
// characters once: in a last step, or in the step that cuts as well.
//
// Most chains belong to published models, and names of one chain differ by how tokens
// become text again (clean, where known). Chains that [Vocabulary.Files] makes are spelled
// as in the table, and map back to their own row: rows of one chain differ in whether
// characters are composed (nfc).
func findPre(steps []string, ignoreMerges, clean, known, nfc bool) string {
	if n := len(steps) - 1; slices.Contains(steps[:n], bytesStep) || (steps[n] == bytesStep) == slices.Contains(steps, byteLevel) {
		return ""
	} else if steps[n] == bytesStep {
		steps = steps[:n]
	}
	read := map[string]string{}
	written := func(same func(row *preRow) bool) string {
		for _, row := range preRows() {
			if row.Split != nil && row.IgnoreMerges == ignoreMerges && (row.Normalizer == "NFC") == nfc && same(&row) {
				return row.Pre[0]
			}
		}
		return ""
	}
	otherwise := "" // published, and known to be cleaned otherwise
	name := written(func(row *preRow) bool { return slices.Equal(row.Split, steps) })
	for _, row := range preRows() {
		if name != "" || row.Clean == nil || row.IgnoreMerges != ignoreMerges || !matches(row.Source, steps, read) {
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
	return cmp.Or(name, otherwise, written(func(row *preRow) bool { return matches(row.Split, steps, read) }))
}

// preTokenizer reads llama.cpp's name for what cuts a text into words, and whether
// a space is put before the text.
func (s *source) preTokenizer(v *Vocabulary) {
	d := s.document
	_, list := d.steps()
	const most = 32 // more than any row has
	switch {
	case len(list) == 0:
		d.fail("it has no pre_tokenizer, and llama.cpp's BPE cuts text into words")
	case len(list) > most:
		d.fail("its pre_tokenizer has %d steps, and llama.cpp has no name for that", len(list))
	}
	var steps []string
	for i, r := range list {
		step, prefix, err := step(r)
		if err != nil {
			d.fail("step %d of its pre_tokenizer: %v", i+1, err)
		}
		if steps = append(steps, step); prefix {
			v.Flags[flagPrefix] = true
		}
	}
	if d.err != nil {
		return
	}
	clean, known := boolean(s.settings.Raw("clean_up_tokenization_spaces"))
	nfc, _ := composes(d.normalizer)
	if v.Pre = findPre(steps, d.model.ignoreMerges, clean, known, nfc); v.Pre == "" {
		d.fail("llama.cpp has no name for its pre_tokenizer (%d steps, the last %s, ignore_merges %v)", len(list), typeOf(list[len(list)-1]), d.model.ignoreMerges)
	}
	if own := preNamed(s.habit.Pre); own.Split != nil && slices.Equal(own.Split, preNamed(v.Pre).Split) {
		v.Pre = s.habit.Pre
	}
	if v.Flags[flagPrefix] && v.Pre != "gpt-2" {
		d.fail("its pre_tokenizer puts a space before the text, which llama.cpp does for gpt-2 and not for %s", v.Pre)
	}
}

// step returns a pre-tokenizer in the words of the table, and whether it puts a
// space before the text. Digits is the expression that cuts in the same way.
func step(r jsonobj.Raw) (step string, prefix bool, err error) {
	flag := func(key string) (value, said bool) {
		value, said = boolean(r.Member(key))
		if !said && r.Member(key).Kind() != 0 {
			err = fmt.Errorf("its %s is of a wrong JSON type", key)
		}
		return value, said
	}
	behavior := r.Member("behavior").Text()
	switch r.Member("type").Text() {
	case "Split":
		invert, _ := flag("invert")
		step = r.Member("pattern").Member("Regex").Text()
		switch {
		case step == "" || step[0] == '*':
			return "", false, errors.New("it does not split by a regular expression")
		case behavior == "MergedWithNext" && !invert:
			step = "*MergedWithNext " + step
		case (behavior != "Isolated" || invert) && (behavior != "Removed" || !invert): // the expressions of the table leave nothing between
			return "", false, errors.New("it splits in a way that llama.cpp does not")
		}
	case "ByteLevel":
		step = byteLevel
		if regex, said := flag("use_regex"); said && !regex {
			step = bytesStep
		}
		var said bool
		if prefix, said = flag("add_prefix_space"); !said {
			return "", false, errors.New("it does not say add_prefix_space")
		}
	case "Digits":
		individual, said := flag("individual_digits")
		if step = `\p{N}`; !individual {
			step = `\p{N}+`
		}
		if !said {
			return "", false, errors.New("it does not say individual_digits")
		}
	case "Punctuation":
		if step = "*Punctuation " + behavior; behavior == "" {
			return "", false, errors.New("it does not say its behavior")
		}
	default:
		return "", false, fmt.Errorf("llama.cpp does not have %s for bytes", typeOf(r))
	}
	return step, prefix, err
}
