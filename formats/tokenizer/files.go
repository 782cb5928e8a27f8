package tokenizer

import (
	"encoding/base64"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/tensorfs/tensorfs"
)

// Files returns the tokenizer files of a Hugging Face directory, by name:
// tokenizer.json, tokenizer_config.json, special_tokens_map.json, and tokenizer.model
// of what is SentencePiece's BPE. It is for what [ReadKeys] returns. The error is the reason why there are none, in a line.
func (v *Vocabulary) Files() (map[string][]byte, error) {
	f, err := fileForms[v.Model](v)
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{}
	if files[jsonName], err = v.tokenizerJSON(f); err != nil {
		return nil, err
	}
	if files[settingsName], err = v.settings(f); err != nil {
		return nil, err
	}
	files[specialMapName] = []byte("{" + strings.TrimPrefix(v.specials(), ",") + "}\n")
	if v.Model == "llama" {
		files[pieceName] = v.pieceFile()
	}
	return files, nil
}

// form is what a model of GGUF becomes in a tokenizer.json. The texts are JSON.
type form struct {
	normalizer, preTokenizer, decoder string
	around                            around
	bytes                             bool   // its tokens are bytes
	model                             string // up to its vocabulary
}

// fileForms make the forms of the models that llama.cpp has, by their names.
var fileForms map[string]func(v *Vocabulary) (*form, error)

func init() {
	fileForms = map[string]func(v *Vocabulary) (*form, error){
		"gpt2":   (*Vocabulary).bytesForm,
		"llama":  (*Vocabulary).charsForm,
		"gemma4": (*Vocabulary).textForm,
		"bert":   (*Vocabulary).wordsForm,
		"t5":     (*Vocabulary).piecesForm,
	}
}

// textPre are the names under which the tokens of model gpt2 are text as it is.
var textPre = map[string]bool{"gemma4": true, "sarvam-moe": true, "granite-embed-multi-311m": true}

// bytesForm is BPE of bytes.
func (v *Vocabulary) bytesForm() (*form, error) {
	if textPre[v.Pre] {
		return v.textForm()
	}
	row := preNamed(v.Pre)
	if row == nil {
		return nil, fmt.Errorf("its tokenizer.ggml.pre is %s, and it is not known how texts are cut under that name", tensorfs.Quote(v.Pre))
	}
	f := &form{normalizer: "null", decoder: `{"type":"ByteLevel","add_prefix_space":true,"trim_offsets":true,"use_regex":true}`, bytes: true}
	if row.Normalizer != "" {
		f.normalizer = `{"type":` + quoted(row.Normalizer) + `}`
	}
	f.preTokenizer = `{"type":"Sequence","pretokenizers":[`
	for _, split := range row.Split {
		f.preTokenizer += splitStep(split) + `,`
	}
	f.preTokenizer += `{"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":false}]}`
	if row.Sep {
		f.around = v.around(true, true, "cls bos", "sep eos")
		f.around.pairs = sepTwice
	} else {
		f.around = v.around(row.AddBosDefault, false, "bos", "eos")
	}
	f.model = bpeModel("null", false, false, row.IgnoreMerges)
	return f, nil
}

// splitStep is a pre-tokenizer that cuts before and after what matches.
func splitStep(expression string) string {
	return `{"type":"Split","pattern":{"Regex":` + quoted(expression) + `},"behavior":"Isolated","invert":false}`
}

const (
	replaceSpaces = `{"type":"Replace","pattern":{"String":" "},"content":"` + space + `"}`
	restoreSpaces = `{"type":"Sequence","decoders":[{"type":"Replace","pattern":{"String":"` + space + `"},"content":" "},{"type":"ByteFallback"},{"type":"Fuse"}`
)

// lines is how llama.cpp cuts a text that it takes as it is.
const lines = `[^\n]+|[\n]+`

// textForm is BPE of text with bytes for characters that are not tokens.
func (v *Vocabulary) textForm() (*form, error) {
	f := &form{normalizer: replaceSpaces, preTokenizer: splitStep(lines), decoder: restoreSpaces + `]}`,
		around: v.around(false, false, "", "eos"), model: bpeModel(v.unknown(), true, true, false)}
	f.around.first = v.role("bos") // whatever the file says
	return f, nil
}

// charsForm is SentencePiece's BPE. A Metaspace in place of what follows would cut
// at each word, and there are tokens across spaces.
func (v *Vocabulary) charsForm() (*form, error) {
	prepend, strip := "", ""
	if prefix, ok := v.Flags[flagPrefix]; prefix || !ok {
		prepend = `{"type":"Prepend","prepend":"` + space + `"},`
		strip = `,{"type":"Strip","content":" ","start":1,"stop":0}`
	}
	return &form{normalizer: `{"type":"Sequence","normalizers":[` + prepend + replaceSpaces + `]}`, preTokenizer: "null", decoder: restoreSpaces + strip + `]}`,
		around: v.around(true, false, "bos", "eos"), model: bpeModel(v.unknown(), true, v.bytes(), false)}, nil
}

// bytes reports whether each byte has a token.
func (v *Vocabulary) bytes() bool {
	all := true
	for c := range 256 {
		all = all && v.index.find(fmt.Sprintf("<0x%02X>", c)) >= 0
	}
	return all
}

// unknown returns the token for what no other token fits, as JSON.
func (v *Vocabulary) unknown() string {
	if id := v.role("unk"); id >= 0 {
		return quoted(v.Tokens[id])
	}
	return "null"
}

// bpeModel returns the beginning of a model.
func bpeModel(unknown string, fuse, fallback, ignoreMerges bool) string {
	return fmt.Sprintf(`{"type":"BPE","dropout":null,"unk_token":%s,"continuing_subword_prefix":null,"end_of_word_suffix":null,`+
		`"fuse_unk":%v,"byte_fallback":%v,"ignore_merges":%v,"vocab":`,
		unknown, fuse, fallback, ignoreMerges)
}

// wordsForm is WordPiece.
func (v *Vocabulary) wordsForm() (*form, error) {
	lowercase, ok := v.Flags[flagLowercase]
	strip := "null" // as lowercase
	if value, ok := v.Flags[flagAccents]; ok {
		strip = strconv.FormatBool(value)
	}
	unknown := `"[UNK]"`
	if v.role("unk") >= 0 {
		unknown = v.unknown()
	}
	first := v.role("bos", "cls") // what is assumed counts less than bos
	if v.said("cls") {
		first = v.role("cls")
	}
	return &form{
		normalizer: `{"type":"BertNormalizer","clean_text":true,"handle_chinese_chars":true,"strip_accents":` + strip +
			`,"lowercase":` + strconv.FormatBool(lowercase || !ok) + `}`,
		preTokenizer: `{"type":"BertPreTokenizer"}`,
		decoder:      `{"type":"WordPiece","prefix":"` + inside + `","cleanup":true}`,
		around:       around{first: first, last: v.role("sep"), pairs: bertPairs},
		model:        `{"type":"WordPiece","unk_token":` + unknown + `,"continuing_subword_prefix":"` + inside + `","max_input_chars_per_word":100,"vocab":`,
	}, nil
}

// piecesForm is SentencePiece's Unigram.
func (v *Vocabulary) piecesForm() (*form, error) {
	for id, score := range v.Scores {
		if score := float64(score); v.Types[id] != userDefined && (math.IsNaN(score) || math.IsInf(score, 0)) {
			return nil, fmt.Errorf("the score of the token %d, %s, is %g, which JSON has no number for", id, tensorfs.Quote(v.Tokens[id]), score)
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
	scheme := "always"
	if prefix, ok := v.Flags[flagPrefix]; ok && !prefix {
		scheme = "never"
	}
	metaspace := `{"type":"Metaspace","replacement":"` + space + `","prepend_scheme":"` + scheme + `","split":false}`
	f := &form{normalizer: "null", preTokenizer: metaspace, decoder: metaspace, around: v.around(false, true, "bos", "eos"),
		model: `{"type":"Unigram","unk_id":null,"vocab":`}
	if id := v.role("unk"); id >= 0 {
		f.model = fmt.Sprintf(`{"type":"Unigram","unk_id":%d,"vocab":`, id)
	}
	if steps != nil {
		f.normalizer = `{"type":"Sequence","normalizers":[` + strings.Join(steps, ",") + `]}`
	}
	return f, nil
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
	b = append(b, `],"normalizer":`+f.normalizer+`,"pre_tokenizer":`+f.preTokenizer+`,"post_processor":`+v.postProcessor(f.around, f.bytes)+
		`,"decoder":`+f.decoder+`,"model":`+f.model...)
	end := "}"
	if v.Model == "t5" {
		end = `],"byte_fallback":false`
		b, err = appendList(append(b, '['), v.Tokens, func(b []byte, id int, text string) []byte {
			score := float64(v.Scores[id])
			if v.Types[id] == userDefined {
				score = 0
			}
			b = append(appendQuoted(append(b, '['), text), ',')
			return append(strconv.AppendFloat(b, score, 'g', -1, 32), ']')
		})
	} else {
		b, err = appendList(append(b, '{'), v.Tokens, func(b []byte, id int, text string) []byte {
			return appendInt(append(appendQuoted(b, text), ':'), id)
		})
	}
	if err == nil && v.Model != "t5" && v.Model != "bert" {
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
	open, between, end := `"`, ` `, `"`
	for _, m := range v.Merges {
		if strings.Contains(m.Left, " ") || strings.Contains(m.Right, " ") {
			open, between, end = `["`, `","`, `"]`
		}
	}
	return appendList(b, v.Merges, func(b []byte, _ int, m Merge) []byte {
		b = appendEscaped(append(b, open...), m.Left)
		b = appendEscaped(append(b, between...), m.Right)
		return append(b, end...)
	})
}

// added returns the ids of tokens that are looked for before all else.
func (v *Vocabulary) added() (list []int) {
	for id, kind := range v.Types {
		if kind == unknown || kind == control || kind == userDefined {
			list = append(list, id)
		}
	}
	return list
}

// readName finds out by the model's name whether tokens take the spaces after them with
// them, which GGUF does not say: llama.cpp knows Phi-3 so. Converters write "Phi 3 Mini",
// by which llama.cpp does not know it.
func (v *Vocabulary) readName(name, arch string) {
	name = strings.ToLower(name[:min(len(name), 1000)])
	switch {
	case strings.Contains(name, "phi-3"), strings.Contains(name, "phi3"):
		v.spacesAfter = true
	case strings.Contains(name, "phi 3") && strings.HasPrefix(arch, "phi"):
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
	b = appendQuoted(append(b, `"content":`...), text)
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
	if f.around.pairs == bertPairs {
		segments = `"token_type_ids",`
	} else {
		b = fmt.Appendf(b, `,"add_bos_token":%v,"add_eos_token":%v`, f.around.first >= 0, f.around.last >= 0)
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

// specials returns the texts of the special tokens, each with a comma before it.
// Those that the file does not name are there if they have their token's type.
func (v *Vocabulary) specials() string {
	text := ""
	for _, role := range fileRoles {
		if id := v.role(role); id >= 0 && (v.said(role) || v.Types[id] == control || v.Types[id] == unknown) {
			text += `,"` + role + `_token":` + quoted(v.Tokens[id])
		}
	}
	return text
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
func quoted(text string) string { return string(appendQuoted(nil, text)) }

// appendQuoted appends a text, which must be UTF-8, as JSON.
func appendQuoted(b []byte, text string) []byte {
	return append(appendEscaped(append(b, '"'), text), '"')
}

// appendEscaped appends what is between the quotation marks.
func appendEscaped(b []byte, text string) []byte {
	const hex = "0123456789abcdef"
	start := 0
	for i := range len(text) {
		c := text[i]
		if c >= ' ' && c != '"' && c != '\\' {
			continue
		}
		b = append(b, text[start:i]...)
		start = i + 1
		switch c {
		case '"', '\\':
			b = append(b, '\\', c)
		case '\n':
			b = append(b, `\n`...)
		case '\r':
			b = append(b, `\r`...)
		case '\t':
			b = append(b, `\t`...)
		default:
			b = append(b, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		}
	}
	return append(b, text[start:]...)
}

func appendInt(b []byte, n int) []byte { return strconv.AppendInt(b, int64(n), 10) }
