package tokenizer

import (
	"bytes"
	_ "embed"
	"encoding/base64"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"text/template"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/architectures"
)

// Files returns the tokenizer files of a Hugging Face directory, by name: tokenizer.json,
// tokenizer_config.json, special_tokens_map.json, and tokenizer.model for SentencePiece's
// BPE. It is for what [ReadKeys] returns. The error is the reason why they cannot be made,
// in a line.
func (v *Vocabulary) Files() (map[string][]byte, error) {
	f := v.newForm()
	err := fileForms[v.Model](v, f)
	files := map[string][]byte{}
	if err == nil {
		files[jsonName], err = v.tokenizerJSON(f)
	}
	if err == nil {
		files[settingsName], err = v.settings(f)
	}
	if err != nil {
		return nil, err
	}
	files[specialMapName] = []byte("{" + strings.TrimPrefix(v.specials(), ",") + "}\n")
	if b := v.pieceFile(); b != nil {
		files[pieceName] = b
	}
	return files, nil
}

// formText are templates of all but the tokens and merges of a tokenizer.json. Its line
// breaks are for readers.
//
//go:embed forms.tmpl
var formText string

// formTemplates are the templates of formText. special returns a token for a template of
// texts with the text before and after it, nothing without a token; kind is the kind of the
// text it belongs to.
var formTemplates = sync.OnceValue(func() *template.Template {
	special := func(t *specialToken, kind int, before, after string) string {
		if t == nil {
			return ""
		}
		return fmt.Sprintf(`%s{"SpecialToken":{"id":%s,"type_id":%d}}%s`, before, t.Text, kind, after)
	}
	return template.Must(template.New("").Funcs(template.FuncMap{"json": quoted, "special": special}).Parse(strings.ReplaceAll(formText, "\n", "")))
})

// specialToken is a token that is put around texts.
type specialToken struct {
	Text string // as JSON
	ID   int
}

// form is a template's view of a vocabulary. Texts are JSON.
type form struct {
	name           string        // of the template
	Row            preRow        // how texts are cut into words, for bytes
	First, Last    *specialToken // around a text; may be nil
	One, Two       bool          // one token, or two, are between two texts
	Unknown        string        // the token for what no other fits
	UnknownID      string
	Fuse, Fallback bool // characters without a token become one unknown token, or the tokens of their bytes
	Prefix         bool // a space is put before a text
	Lowercase      bool
	Accents        string
	Normalizers    string // of Unigram
}

// Around returns the tokens that are put around a text, each once.
func (f *form) Around() (list []*specialToken) {
	for _, t := range []*specialToken{f.First, f.Last} {
		if t != nil && (len(list) == 0 || list[0].ID != t.ID) {
			list = append(list, t)
		}
	}
	return list
}

// Lines is how a text is cut that is taken as it is.
func (f *form) Lines() string { return lines }

// newForm returns what is alike for all models.
func (v *Vocabulary) newForm() *form {
	f := &form{name: v.Model, One: v.Model == wordsModel, Unknown: "null", UnknownID: "null", Fuse: true,
		Prefix: v.flag(flagPrefix, true), Lowercase: v.flag(flagLowercase, true), Accents: "null"}
	if id := v.role("unk"); id >= 0 {
		f.Unknown, f.UnknownID = quoted(v.Tokens[id]), strconv.Itoa(id)
	}
	return f
}

// flag returns a flag, or what is so where nothing is said.
func (v *Vocabulary) flag(name string, otherwise bool) bool {
	if value, said := v.Flags[name]; said {
		return value
	}
	return otherwise
}

// special returns the token of the first of the roles that has one, nil without one or
// where none is wanted.
func (v *Vocabulary) special(wanted bool, roles ...string) *specialToken {
	if id := v.role(roles...); id >= 0 && wanted {
		return &specialToken{quoted(v.Tokens[id]), id}
	}
	return nil
}

// around determines the tokens around a text: the file's, or else the model's defaults. If
// the file defines a token between two texts, it follows llama.cpp's order for models that
// compare texts.
func (v *Vocabulary) around(f *form, bos, eos bool) {
	f.First, f.Last = v.special(v.flag(flagBOS, bos), "bos"), v.special(v.flag(flagEOS, eos), "eos")
	sep, said := v.Flags[flagSEP]
	f.One, f.Two = said && f.First != nil && f.Last != nil, sep && f.Last != nil
}

// fileForms make the forms of the models that llama.cpp has, by their names.
var fileForms map[string]func(v *Vocabulary, f *form) error

func init() {
	fileForms = map[string]func(v *Vocabulary, f *form) error{
		BytesModel:  (*Vocabulary).bytesForm,
		charsModel:  (*Vocabulary).charsForm,
		textModel:   (*Vocabulary).textForm,
		wordsModel:  (*Vocabulary).wordsForm,
		piecesModel: (*Vocabulary).piecesForm,
	}
}

// bytesForm is BPE of bytes.
func (v *Vocabulary) bytesForm(f *form) error {
	row := preNamed(v.Pre)
	switch {
	case row.Text:
		return v.textForm(f)
	case row.Split == nil:
		return fmt.Errorf("its tokenizer.ggml.pre is %s, and it is not known how texts are cut under that name", tensorfs.Quote(v.Pre))
	}
	f.Row, f.Unknown, f.Fuse = *row, "null", false
	if v.around(f, row.AddBosDefault, false); row.Sep {
		f.Two = true
		f.First, f.Last = v.special(v.flag(flagBOS, true), "cls", "bos"), v.special(v.flag(flagEOS, true), "sep", "eos")
	}
	return nil
}

// lines is how llama.cpp cuts a text that it takes as it is.
const lines = `[^\n]+|[\n]+`

// textForm is BPE of text with bytes for characters that are not tokens.
func (v *Vocabulary) textForm(f *form) error {
	f.name, f.Fallback = "text", true
	v.around(f, true, false)
	f.First = v.special(true, "bos") // even if the file differs
	return nil
}

// charsForm is SentencePiece's BPE.
func (v *Vocabulary) charsForm(f *form) error {
	f.Fallback = v.bytes()
	v.around(f, true, false)
	return nil
}

// bytes reports whether each byte has a token.
func (v *Vocabulary) bytes() bool {
	all := true
	for c := range 256 {
		all = all && v.index.indexOfText(fmt.Sprintf("<0x%02X>", c)) >= 0
	}
	return all
}

// wordsForm is WordPiece.
func (v *Vocabulary) wordsForm(f *form) error {
	if strip, said := v.Flags[flagAccents]; said { // otherwise as lowercase
		f.Accents = strconv.FormatBool(strip)
	}
	if f.UnknownID == "null" {
		f.Unknown = `"[UNK]"`
	}
	f.First, f.Last = v.special(true, "bos", "cls"), v.special(true, "sep") // what is assumed counts less than bos
	if v.hasRole("cls") {
		f.First = v.special(true, "cls")
	}
	return nil
}

// piecesForm is SentencePiece's Unigram.
func (v *Vocabulary) piecesForm(f *form) error {
	for id, score := range v.Scores {
		if score := float64(score); v.Types[id] != userDefined && (math.IsNaN(score) || math.IsInf(score, 0)) {
			return fmt.Errorf("the score of the token %d, %s, is %g, which JSON has no number for", id, tensorfs.Quote(v.Tokens[id]), score)
		}
	}
	var steps []string
	if v.Charsmap != nil {
		steps = append(steps, `{"type":"Precompiled","precompiled_charsmap":"`+base64.StdEncoding.EncodeToString(v.Charsmap)+`"}`)
	}
	if v.Flags[flagTrim] {
		steps = append(steps, `{"type":"Replace","pattern":{"Regex":`+quoted(outerSpaces)+`},"content":""}`,
			`{"type":"Replace","pattern":{"Regex":`+quoted(innerSpaces)+`},"content":" "}`)
	}
	f.Normalizers = strings.Join(steps, ",")
	v.around(f, false, true)
	return nil
}

// tokenizerJSON returns the main file.
func (v *Vocabulary) tokenizerJSON(f *form) ([]byte, error) {
	b := make([]byte, 0, v.estimate())
	b = append(b, `{"version":"1.0","truncation":null,"padding":null,"added_tokens":[`...)
	b, err := appendList(b, v.added(), func(b []byte, _, id int) []byte {
		return append(v.appendAdded(append(appendInt(append(b, `{"id":`...), id), ','), id), '}')
	})
	if err != nil {
		return nil, err
	}
	text := bytes.NewBuffer(append(b, "],"...))
	if err := formTemplates().ExecuteTemplate(text, f.name, f); err != nil {
		return nil, err
	}
	b = text.Bytes()
	end := "}"
	if v.Model == piecesModel {
		end = `],"byte_fallback":false`
		b, err = appendList(append(b, '['), v.Tokens, func(b []byte, id int, text string) []byte {
			score := float64(v.Scores[id])
			if v.Types[id] == userDefined {
				score = 0
			}
			b = append(tensorfs.AppendJSONString(append(b, '['), text), ',')
			return append(strconv.AppendFloat(b, score, 'g', -1, 32), ']')
		})
	} else {
		b, err = appendList(append(b, '{'), v.Tokens, func(b []byte, id int, text string) []byte {
			return appendInt(append(tensorfs.AppendJSONString(b, text), ':'), id)
		})
	}
	if err == nil && v.Model != piecesModel && v.Model != wordsModel {
		end = "]"
		b, err = v.appendMerges(append(b, `},"merges":[`...))
	}
	return append(b, end+"}}\n"...), err
}

// estimate returns how long a tokenizer.json becomes, roughly.
func (v *Vocabulary) estimate() int {
	n := 4096
	for _, text := range v.Tokens {
		n += len(text) + len(`"":123456,`)
	}
	for _, m := range v.Merges {
		n += len(m.Left) + len(m.Right) + len(`["",""],`)
	}
	return min(n+n/4, maxFile)
}

// appendMerges appends merges as lines, which all versions of the library can
// read, or as pairs where a token has a space.
func (v *Vocabulary) appendMerges(b []byte) ([]byte, error) {
	pairs := slices.ContainsFunc(v.Merges, func(m Merge) bool { return strings.Contains(m.Left, " ") || strings.Contains(m.Right, " ") })
	return appendList(b, v.Merges, func(b []byte, _ int, m Merge) []byte {
		if pairs {
			b = append(tensorfs.AppendJSONString(append(b, '['), m.Left), ',')
			return append(tensorfs.AppendJSONString(b, m.Right), ']')
		}
		b = tensorfs.AppendJSONString(b, m.Left)
		at := len(b) // of a quotation mark in the middle of the line
		b = tensorfs.AppendJSONString(b, m.Right)
		b[at-1] = ' '
		return append(b[:at], b[at+1:]...)
	})
}

// added returns the ids of the tokens that a tokenizer finds in a text before it splits the rest.
func (v *Vocabulary) added() (list []int) {
	for id, kind := range v.Types {
		if kind == unknown || kind == control || kind == userDefined {
			list = append(list, id)
		}
	}
	return list
}

// NameOfSpaces is what llama.cpp looks for in the name of a model whose special tokens take the spaces after them
// with them, also with a hyphen before the digit.
const NameOfSpaces = "phi3"

// readName finds out by the model's name whether tokens take the spaces after them with
// them, which GGUF does not say: llama.cpp knows Phi-3 so. Converters write "Phi 3 Mini",
// by which llama.cpp does not know it.
func (v *Vocabulary) readName(name, arch string) {
	name = strings.ToLower(name[:min(len(name), 1000)])
	switch {
	case strings.Contains(name, "phi-3"), strings.Contains(name, NameOfSpaces):
		v.spacesAfter = true
	case strings.Contains(name, "phi 3") && architectures.HasTrait(arch, architectures.SpacesAfter):
		v.spacesAfter = true
		v.Notes = append(v.Notes, "special tokens take the spaces and line breaks after them with them, as in the releases of Phi-3; llama.cpp does not know the model by its name and keeps these")
	}
}

// appendAdded appends what is said of an added token but its id. Whether it takes
// the spaces before and after it with it, GGUF does not say.
func (v *Vocabulary) appendAdded(b []byte, id int) []byte {
	text, left, right := v.Tokens[id], false, false
	switch v.Pre {
	case "jina-v2-de", "jina-v2-es", "jina-v2-code":
		left = text == "<mask>"
	}
	if v.spacesAfter {
		right = text != "<unk>" && text != "<s>" && text != "<|endoftext|>"
	}
	b = tensorfs.AppendJSONString(append(b, `"content":`...), text)
	return fmt.Appendf(b, `,"single_word":false,"lstrip":%v,"rstrip":%v,"normalized":false,"special":%v`, left, right, v.Types[id] != userDefined)
}

const specialMapName = "special_tokens_map.json"

// settings returns tokenizer_config.json. Its class is the one that takes
// tokenizer.json as it is: others make parts of it again by rules of their own.
// Whether models are told which of two texts a token is of has to be said either
// way: some libraries tell models that refuse it, others tell none.
func (v *Vocabulary) settings(f *form) ([]byte, error) {
	b := []byte(`{"tokenizer_class":"PreTrainedTokenizerFast"` + v.specials())
	segments := ""
	if v.Model == wordsModel {
		segments = `"token_type_ids",`
	} else {
		b = fmt.Appendf(b, `,"add_bos_token":%v,"add_eos_token":%v`, f.First != nil, f.Last != nil)
	}
	b = append(b, `,"clean_up_tokenization_spaces":false`...)
	if v.context > 0 {
		b = fmt.Appendf(b, `,"model_max_length":%d`, v.context)
	}
	b = v.appendChat(append(b, `,"model_input_names":["input_ids",`+segments+`"attention_mask"]`...))
	b, err := appendList(append(b, `,"added_tokens_decoder":{`...), v.added(), func(b []byte, _, id int) []byte {
		return append(v.appendAdded(append(appendInt(append(b, '"'), id), `":{`...), id), '}')
	})
	return append(b, "}}\n"...), err
}

// optionalRoles are roles that no text needs: a file of toys or of hands gives them to any token.
var optionalRoles = []string{"pad", "sep", "mask"}

// specials returns the texts of the special tokens, each with a comma before it. Tokens
// that the file does not name are included if they have their token's type.
func (v *Vocabulary) specials() string {
	text := ""
	for _, role := range fileRoles {
		id := v.role(role)
		if id < 0 || slices.Contains(optionalRoles, role) && v.Types[id] == normal && !isMarker(v.Tokens[id]) { // a special token would be gone from decoded texts
			continue
		}
		if v.hasRole(role) || v.Types[id] == control || v.Types[id] == unknown {
			text += `,"` + role + `_token":` + quoted(v.Tokens[id])
		}
	}
	return text
}

// isMarker reports whether a text is spelt as special tokens are, and as nothing that people write.
func isMarker(text string) bool {
	return len(text) > 2 && (text[0] == '<' && text[len(text)-1] == '>' || text[0] == '[' && text[len(text)-1] == ']')
}

// errLarge is the reason for a file that [ReadFiles] would not take either.
var errLarge = fmt.Errorf("tokenizer.json would have more than %d bytes", maxFile)

// appendList appends what item appends for each of a list, with commas between.
func appendList[T any](b []byte, list []T, item func(b []byte, i int, value T) []byte) ([]byte, error) {
	for i, value := range list {
		if i > 0 {
			b = append(b, ',')
		}
		if b = item(b, i, value); len(b) > maxFile {
			return nil, errLarge
		}
	}
	return b, nil
}

// quoted returns a text, which must be UTF-8, as JSON.
func quoted(text string) string { return string(tensorfs.AppendJSONString(nil, text)) }

func appendInt(b []byte, n int) []byte { return strconv.AppendInt(b, int64(n), 10) }
