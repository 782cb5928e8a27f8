package tokenizer_test

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// object is a JSON object.
type object = map[string]any

// preRow is a row of the table, as the file has it.
type preRow struct {
	Pre          string
	Steps        []map[string]string
	IgnoreMerges bool `json:"ignore_merges"`
	Clean        bool
}

func preRows(t testing.TB) []preRow {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(golden, "pre.json"))
	if err != nil {
		t.Fatal(err)
	}
	var table struct{ Rows []preRow }
	if err := json.Unmarshal(b, &table); err != nil {
		t.Fatal(err)
	}
	return table.Rows
}

// chain returns the pre-tokenizers of a row as a tokenizer.json has them.
func (r preRow) chain() []any {
	var list []any
	for _, s := range r.Steps {
		switch {
		case s["split"] != "":
			behavior := s["behavior"]
			if behavior == "" {
				behavior = "Isolated"
			}
			list = append(list, object{"type": "Split", "pattern": object{"Regex": s["split"]}, "behavior": behavior, "invert": false})
		case s["bytelevel"] != "":
			list = append(list, object{"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": s["bytelevel"] == "regex"})
		case s["digits"] != "":
			list = append(list, object{"type": "Digits", "individual_digits": s["digits"] == "individual"})
		case s["punctuation"] != "":
			list = append(list, object{"type": "Punctuation", "behavior": s["punctuation"]})
		}
	}
	return list
}

// withStep returns the steps with one of them changed in what is true or false.
func (r preRow) withStep(i int, key string, yes bool) (steps []map[string]string) {
	for _, s := range r.Steps {
		steps = append(steps, maps.Clone(s))
	}
	words, ok := map[string][2]string{"use_regex": {"plain", "regex"}, "individual_digits": {"group", "individual"}}[key]
	if !ok {
		return nil
	}
	name, word := map[string]string{"use_regex": "bytelevel", "individual_digits": "digits"}[key], words[0]
	if yes {
		word = words[1]
	}
	steps[i][name] = word
	return steps
}

// preVocab is the vocabulary with merges across every boundary.
type preVocab struct {
	Vocab  []string
	Merges []string
	Rows   map[string]json.RawMessage
}

func preCases(t testing.TB) preVocab {
	t.Helper()
	var v preVocab
	b, err := os.ReadFile(filepath.Join(golden, "pre-cases.json"))
	if err == nil {
		err = json.Unmarshal(b, &v)
	}
	if err != nil || len(v.Rows) != 30 {
		t.Fatal(len(v.Rows), err)
	}
	return v
}

// model returns a tokenizer.json with that vocabulary.
func (v preVocab) model(pre any, ignoreMerges bool) object {
	vocab := object{}
	for id, text := range v.Vocab {
		vocab[text] = id
	}
	return object{"pre_tokenizer": pre, "normalizer": nil, "added_tokens": []any{}, "decoder": object{"type": "ByteLevel"},
		"model": object{"type": "BPE", "ignore_merges": ignoreMerges, "byte_fallback": false, "vocab": vocab, "merges": v.Merges}}
}

func text(t testing.TB, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestPreTokenizers holds that each row of the table is recognised by its
// structure and gets its name, and that nothing that differs in one thing does.
func TestPreTokenizers(t *testing.T) {
	v, rows := preCases(t), preRows(t)
	// first returns the first equal row: names of equal behaviour are interchangeable. If the row
	// does not describe decoding, rows that differ only in decoding count as equal.
	first := func(r preRow, clean bool) string {
		for _, other := range rows {
			if reflect.DeepEqual(other.Steps, r.Steps) && other.IgnoreMerges == r.IgnoreMerges && (!clean || other.Clean == r.Clean) {
				return other.Pre
			}
		}
		return ""
	}
	whole := v
	read := func(pre any, ignoreMerges bool, config string) (string, error) {
		f := files{"tokenizer.json": text(t, v.model(pre, ignoreMerges))}
		if config != "" {
			f["tokenizer_config.json"] = config
		}
		got, err := f.read(t, "llama", len(v.Vocab))
		if err != nil {
			return "", err
		}
		return got.Meta[1].Value.(string), nil
	}
	sequence := func(list ...any) object { return object{"type": "Sequence", "pretokenizers": list} }
	seen := 0
	for _, r := range rows {
		v = whole
		if _, ok := v.Rows[r.Pre]; ok {
			seen++
		}
		chain := r.chain()
		if len(chain) != len(r.Steps) {
			t.Fatalf("%s: %d steps", r.Pre, len(chain))
		}
		for what, c := range map[string]struct {
			pre    any
			config string
			want   string
		}{
			"with what it does to text":     {sequence(chain...), text(t, object{"clean_up_tokenization_spaces": r.Clean}), first(r, true)},
			"without a word on that":        {sequence(chain...), "", first(r, false)},
			"with null for that":            {sequence(chain...), `{"clean_up_tokenization_spaces":null}`, first(r, false)},
			"in sequences inside sequences": {sequence(sequence(chain[:1]...), sequence(sequence(chain[1:]...))), "", first(r, false)},
		} {
			if got, err := read(c.pre, r.IgnoreMerges, c.config); got != c.want {
				t.Errorf("%s %s: %q, %v, want %q", r.Pre, what, got, err, c.want)
			}
		}
		// What differs in one thing has no name, or is another row.
		named := func(list []map[string]string, ignoreMerges bool) bool {
			for _, other := range rows {
				if reflect.DeepEqual(other.Steps, list) && other.IgnoreMerges == ignoreMerges {
					return true
				}
			}
			return false
		}
		v = preVocab{Vocab: v.Vocab[:1], Merges: []string{}} // which is quicker
		refuse := func(what string, pre any, ignoreMerges bool) {
			if got, err := read(pre, ignoreMerges, ""); err == nil || !strings.HasPrefix(err.Error(), "tokenizer.json: ") || strings.Contains(err.Error(), "\n") {
				t.Errorf("%s %s: %q, %v", r.Pre, what, got, err)
			}
		}
		if !named(r.Steps, !r.IgnoreMerges) {
			refuse("with ignore_merges changed", sequence(chain...), !r.IgnoreMerges)
		}
		for i := range chain {
			less := preRow{Steps: append(append([]map[string]string{}, r.Steps[:i]...), r.Steps[i+1:]...)}
			if !named(less.Steps, r.IgnoreMerges) {
				refuse("without a step", sequence(less.chain()...), r.IgnoreMerges)
			}
			for key, value := range chain[i].(object) {
				var changes []any
				switch value := value.(type) {
				case bool:
					if key != "trim_offsets" {
						changes = []any{!value, "true", 1}
					}
				case string:
					changes = []any{value + "x", nil, 5}
				case object:
					changes = []any{object{"Regex": value["Regex"].(string) + "|x"}, object{"String": value["Regex"]}, "x", nil}
				}
				for _, change := range changes {
					changed := r.chain()
					changed[i].(object)[key] = change
					if yes, ok := change.(bool); ok {
						other := r.withStep(i, key, yes)
						written := r.Pre == "deepseek-llm" && key == "individual_digits"                             // what Write makes: llama.cpp cuts around groups
						if named(other, r.IgnoreMerges) || written || len(chain) == 1 && key == "add_prefix_space" { // TestPrefix
							continue
						}
					}
					refuse("with "+key+" "+text(t, change), sequence(changed...), r.IgnoreMerges)
				}
			}
		}
		refuse("with a step more", sequence(append(r.chain(), object{"type": "Digits", "individual_digits": true})...), r.IgnoreMerges)
		refuse("with an unknown step", sequence(append(r.chain(), object{"type": "Whitespace"})...), r.IgnoreMerges)
	}
	if seen != 30 {
		t.Errorf("%d rows have cases", seen)
	}
	// Equivalent for the patterns of the table: what is removed is what does not match.
	chain := rows[0].chain()
	chain[0].(object)["behavior"], chain[0].(object)["invert"] = "Removed", true
	if got, err := read(sequence(chain...), true, ""); got != "llama-bpe" {
		t.Errorf("removed and inverted: %q, %v", got, err)
	}
	for what, pre := range map[string]any{"nothing": nil, "an empty sequence": sequence(), "a list": chain, "a text": "x", "nothing in it": object{},
		"a sequence of texts": sequence("x"), "no list": object{"type": "Sequence"}} {
		if got, err := read(pre, false, ""); err == nil {
			t.Errorf("%s: %q", what, got)
		}
	}
}

// TestPrefix holds that only gpt-2 has a space before the text.
func TestPrefix(t *testing.T) {
	v := preCases(t)
	level := func(regex, prefix any) object {
		return object{"type": "ByteLevel", "add_prefix_space": prefix, "use_regex": regex}
	}
	f := files{"tokenizer.json": text(t, v.model(level(true, true), false))}
	got, err := f.read(t, "gpt2", len(v.Vocab))
	if err != nil {
		t.Fatal(err)
	}
	if m := meta(got); m["tokenizer.ggml.pre"] != "gpt-2" || m["tokenizer.ggml.add_space_prefix"] != true {
		t.Error(m["tokenizer.ggml.pre"], m["tokenizer.ggml.add_space_prefix"])
	}
	for _, pre := range []any{
		object{"type": "Sequence", "pretokenizers": []any{object{"type": "Digits", "individual_digits": true}, level(true, true)}},
		level(true, nil), level(true, "true"), object{"type": "ByteLevel"},
	} {
		f := files{"tokenizer.json": text(t, v.model(pre, false))}
		if got, err := f.read(t, "gpt2", len(v.Vocab)); err == nil {
			t.Errorf("%v: %v", pre, got.Meta[1])
		}
	}
}

// TestSpelling holds that chains are compared by what they match: other spellings
// of a row get its name, and what matches otherwise gets none, or another one.
func TestSpelling(t *testing.T) {
	v := preCases(t)
	v = preVocab{Vocab: v.Vocab[:1], Merges: []string{}}
	split := func(expressions ...string) (list []any) {
		for _, e := range expressions {
			list = append(list, object{"type": "Split", "pattern": object{"Regex": e}, "behavior": "Isolated", "invert": false})
		}
		return append(list, object{"type": "ByteLevel", "add_prefix_space": false, "use_regex": false})
	}
	const gpt2, tail = `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`, `| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	for name, chains := range map[string][][]any{
		"qwen2": {
			split(`(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}` + tail), split(`(?:'(?i:[st]|re|ve|m|ll|d))|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}` + tail),
			split(`(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\p{N}\p{L}\n\r]?[\p{L}]+|\p{N}{1}` + tail), split("(?i:'s|'t|'re|'ve|'m|'ll|'d)|([^\r\n\\p{L}\\p{N}]?(\\p{L})+)|\\p{N}" + tail),
		},
		"gpt-2":          {split(gpt2), split(`'[st]|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{N}\p{L}]+|\s+(?!\S)|\s+`)},
		"starcoder":      {split(`\p{N}`, gpt2), append([]any{object{"type": "Digits", "individual_digits": true}}, split(gpt2)...)},
		"deepseek-coder": {split(`[\n\r]`, `\s?\p{L}+`, `\s?\p{P}+`, `[一-龥ࠀ-一가-퟿]+`, `\p{N}`)},
		"": {
			split(`(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|[0-9]` + tail), split(`(?i:'s|'t|'re|'ve|'m|'ll)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}` + tail),
			split(`(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}?` + tail), split(`(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}` + tail),
			split(`*ByteLevel`)[:1], split(), split(`*Punctuation Contiguous`, `*ByteLevel`, `\p{N}+`, `[0-9][0-9][0-9]`)[:4], split(`\p{N}` + "\x00" + gpt2), split(gpt2, `\p{N}`),
		},
	} {
		for _, chain := range chains {
			f := files{"tokenizer.json": text(t, v.model(object{"type": "Sequence", "pretokenizers": chain}, false))}
			got := ""
			if r, err := f.read(t, "llama", 1); err == nil {
				got = meta(r)["tokenizer.ggml.pre"].(string)
			}
			if got != name {
				t.Errorf("%v is %q, want %q", chain, got, name)
			}
		}
	}
}
