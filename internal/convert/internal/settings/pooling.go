package settings

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/architectures"
	"github.com/tensorfs/tensorfs/internal/jsonobj"
)

// poolings are the ways to combine the vectors of all tokens into one: their names in a
// config.json of sentence-transformers, and GGUF's numbers.
var poolings = []struct {
	field, word string
	number      int64
}{
	{"pooling_mode_mean_tokens", "mean", 1},
	{"pooling_mode_cls_token", "cls", 2},
	{"pooling_mode_lasttoken", "lasttoken", 3},
	{"pooling_mode_max_tokens", "max", 0},
	{"pooling_mode_mean_sqrt_len_tokens", "mean_sqrt_len_tokens", 0},
	{"pooling_mode_weightedmean_tokens", "weightedmean", 0},
}

// poolingMeanings are about combining the vectors of all tokens into one.
var poolingMeanings = map[string]meaning{
	"pooling":     {toGGUF: poolingType},
	"token_types": {fromGGUF: tokenTypes},
	// The converter takes the matrix of 1_Dense, after the pooling, into the file; of other classes it does not.
	"dense_module": {toGGUF: check(func(c call) {
		dirs, err := modules(c.m, func(kind string) bool { return strings.HasSuffix(kind, "Dense") })
		_, none := c.m.File("1_Dense/config.json")
		switch {
		case err != nil:
			c.fail(err)
		case len(dirs) > 0 || none == nil:
			c.refuse("a matrix comes after the pooling (1_Dense), and a GGUF file of %s has it too, which none that is made here has", c.arch.GGUF)
		}
	})},
	// The same of a model that classifies texts.
	"classifier_pooling": {toGGUF: func(c call) any {
		word := cmp.Or(c.cfg.Word("classifier_pooling"), "cls")
		for _, p := range poolings {
			if p.word == word && p.number != 0 {
				return p.number
			}
		}
		c.refuse("classifier_pooling is %s, which a GGUF file cannot say", Shown(word))
		return nil
	}, fromGGUF: func(c call) any {
		for _, p := range poolings {
			if c.raw("classifier_pooling") == any(p.number) && p.number != 0 {
				return p.word
			}
		}
		c.refuse("the file does not say how the classifier pools")
		return nil
	}},
	// The names of the answers of a model that classifies texts, unless they carry no
	// information.
	"labels": {toGGUF: func(c call) any {
		labels := c.cfg.Object("id2label")
		var list []any
		for id := range labels.top.All() {
			list = append(list, id)
		}
		slices.SortFunc(list, func(a, b any) int { return byNumber(a.(string), b.(string)) })
		for i, id := range list {
			list[i] = labels.Word(id.(string))
		}
		rows, classifies := cmp.Or(c.env.Fact("rows.classifier_output"), c.env.Fact("rows.classifier")).(int64)
		switch {
		case classifies && len(list) == 0 && rows <= maxList: // as transformers calls them
			for i := range rows {
				list = append(list, fmt.Sprint("LABEL_", i))
			}
		case !classifies && (len(list) == 0 || len(list) == 2 && list[0] == "LABEL_0"):
			return nil
		}
		return list
	}, fromGGUF: func(c call) any {
		var o Object
		for i, name := range c.answers() {
			o = append(o, Member{strconv.Itoa(i), name})
		}
		return o
	}},
	// The numbers of the answers, by name.
	"label_numbers": {fromGGUF: func(c call) any {
		var o Object
		for i, name := range c.answers() {
			o = append(o, Member{name, int64(i)})
		}
		return o
	}},
}

// byNumber compares the numbers of labels: 2 is before 10.
func byNumber(a, b string) int { return cmp.Or(len(a)-len(b), strings.Compare(a, b)) }

// answers are the names of the rows of the last matrix of a model that classifies texts:
// transformers' defaults if the file lacks them.
func (c call) answers() (list []string) {
	const matrix = "classifier_output"
	rows, _ := c.env.Fact("rows." + matrix).(int64)
	names, said := c.raw("classifier_labels").([]any)
	if said && int64(len(names)) != rows || rows > maxList {
		c.refuse("%s has %d texts, and the model %d answers", c.full("classifier_labels"), len(names), rows)
		return nil
	}
	for i := range rows {
		name := fmt.Sprint("LABEL_", i)
		if said {
			name, _ = names[i].(string)
		}
		if slices.Contains(list, name) {
			c.refuse("%s has %s twice", c.full("classifier_labels"), Shown(name))
			return nil
		}
		list = append(list, name)
	}
	return list
}

// poolingFields returns the fields for a pooling_type of GGUF, one for each way to pool;
// nil if the number is unknown.
func poolingFields(number int64) Object {
	var list Object
	known := false
	for _, p := range poolings {
		set := p.number == number && number != 0
		list = append(list, Member{p.field, set})
		known = known || set
	}
	if !known {
		return nil
	}
	return list
}

// poolingType returns how the model's vectors are pooled; nil if modules.json is missing,
// or describes no pooling.
func poolingType(c call) any {
	dir, err := poolingModule(c.m)
	if err == nil && dir == "" {
		return nil
	}
	name := path.Join(dir, "config.json")
	var s Fields
	if err == nil {
		s, err = Read(c.m, name)
	}
	if err != nil {
		c.fail(err)
		return nil
	}
	numbers := []int64{}
	word := s.Word("pooling_mode")
	for _, p := range poolings {
		if set, _ := s.Flag(p.field); set || word == p.word {
			numbers = append(numbers, p.number)
		}
	}
	if err := s.Err(); err != nil {
		c.fail(err)
		return nil
	}
	if len(numbers) != 1 || numbers[0] == 0 {
		c.fail(fmt.Errorf("%s: it does not pool by one of mean, first and last token, and a GGUF file has no other way", tensorfs.Printable(name)))
		return nil
	}
	return numbers[0]
}

// modulesName is the file that lists what sentence-transformers does with a model.
const modulesName = "modules.json"

// poolingModule returns the directory of the module that pools, "" without one.
func poolingModule(m *tensorfs.Model) (string, error) {
	dirs, err := modules(m, func(kind string) bool { return strings.HasSuffix(kind, "Pooling") })
	if len(dirs) == 0 {
		return "", err
	}
	if !tensorfs.ValidName(dirs[0]) {
		return "", fmt.Errorf("%s: the directory %s of the module that pools is not a plain name", modulesName, tensorfs.Quote(dirs[0]))
	}
	return dirs[0], nil
}

// modules returns the directories of modules of the types that are wanted, in the order in
// which sentence-transformers runs them.
func modules(m *tensorfs.Model, wanted func(kind string) bool) (dirs []string, err error) {
	text, err := ReadText(m, modulesName, MaxText)
	if err != nil || text == nil {
		return nil, err
	}
	// It is a list, and what parses it wants an object.
	o, err := jsonobj.Parse([]byte(`{"modules":` + string(text) + `}`))
	if err != nil {
		return nil, &tensorfs.FormatError{File: modulesName, Offset: -1, Problem: "it is not a list of modules in JSON"}
	}
	for e := range o.Raw("modules").Elements() {
		if wanted(e.Member("type").Text()) {
			dirs = append(dirs, e.Member("path").Text())
		}
	}
	return dirs, nil
}

// maxNamed is how many modules a note names.
const maxNamed = 8

// Beyond is a note about what sentence-transformers does with a model and a GGUF file does
// not say, such as matrices that the vector of a text is multiplied by: llama.cpp's
// converter leaves them out. It is "" without any.
func Beyond(m *tensorfs.Model) string {
	dirs, err := modules(m, func(kind string) bool {
		return !slices.ContainsFunc([]string{"Transformer", "Pooling", "Normalize"}, func(known string) bool { return strings.HasSuffix(kind, known) })
	})
	if err != nil || len(dirs) == 0 { // a list that cannot be read is an error where pooling is asked for
		return ""
	}
	for i := range dirs {
		dirs[i] = tensorfs.Printable(dirs[i])
	}
	return fmt.Sprintf("without %s of %s, which sentence-transformers has after the pooling: embeddings by a GGUF file are those before", strings.Join(dirs[:min(len(dirs), maxNamed)], " and "), modulesName)
}

// Prompts is a note about texts that sentence-transformers puts before others, "" without any.
func Prompts(m *tensorfs.Model) string {
	s, err := Read(m, "config_sentence_transformers.json")
	if err != nil {
		return ""
	}
	var names []string
	prompts := s.Object("prompts")
	for name := range prompts.top.All() {
		if text, _ := prompts.Value(name).(string); text != "" {
			names = append(names, tensorfs.Quote(name))
		}
	}
	if len(names) == 0 {
		return ""
	}
	if len(names) > maxNamed {
		names = append(names[:maxNamed:maxNamed], fmt.Sprintf("%d more", len(names)-maxNamed))
	}
	return fmt.Sprintf("without the prompts of config_sentence_transformers.json (%s): with a GGUF file, put them before the texts yourself", strings.Join(names, ", "))
}

// tokenTypes returns how many kinds of tokens there are; a single one is stored as
// a vector.
func tokenTypes(c call) any {
	t := c.tensor("token_type_embedding.weight")
	switch {
	case t == nil:
		c.refuse("the file has no embedding of token types, as %s has", c.arch.Written.Name)
		return nil
	case len(t.Shape) == 1:
		return int64(1)
	case len(t.Shape) != 2 || t.Shape[0] < 1:
		c.refuse("%s has the shape %v", t.Name, t.Shape)
		return nil
	}
	return t.Shape[0]
}

// Embedding returns the files by which sentence-transformers combines the vectors of all
// tokens into one, with notes for the user. Without them it takes the mean, and for
// decoders it wraps each text in the chat template.
func (s *Model) Embedding() (files map[string][]byte, notes []string) {
	v, key := s.keys.find("pooling_type")
	if v == nil && !architectures.HasTrait(s.arch.GGUF, architectures.Pools) || s.tensor("classifier_output.weight") != nil {
		return nil, nil
	}
	n, _ := wholeNumber(v)
	fields := poolingFields(n)
	if fields == nil {
		how := fmt.Sprintf("%s is %s, which sentence-transformers does not have", key, Shown(v))
		if v == nil {
			how = "the file has no " + key
		}
		return nil, []string{"there is no modules.json, without which sentence-transformers takes the mean of all tokens: " + how}
	}
	var modules []Object
	for i, m := range []struct{ path, class string }{{"", "Transformer"}, {"1_Pooling", "Pooling"}, {"2_Normalize", "Normalize"}} {
		modules = append(modules, Object{{"idx", int64(i)}, {"name", fmt.Sprint(i)}, {"path", m.path}, {"type", "sentence_transformers.models." + m.class}})
	}
	context := s.count("max_seq_len")
	pooling := slices.Concat(Object{{"word_embedding_dimension", s.count("dim")}}, fields, Object{{"include_prompt", true}})
	return map[string][]byte{
			"modules.json":              indented(modules),
			"1_Pooling/config.json":     pooling.Text(),
			"sentence_bert_config.json": Object{{"max_seq_length", context}, {"do_lower_case", false}}.Text(),
		}, []string{
			"modules.json: that vectors are brought to the length 1 (2_Normalize) is what llama.cpp does by default; the file does not say it",
			fmt.Sprintf("sentence_bert_config.json: max_seq_length is the model's context of %d tokens; the file does not say how much of a text the release takes", context),
		}
}
