package tokenizer_test

import (
	"fmt"
	"io/fs"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/tokenizer"
	"github.com/tensorfs/tensorfs/internal/testing/testlimit"
)

// TestHostile holds that what no program writes is refused with one line.
func TestHostile(t *testing.T) {
	good := bytesDoc().text(t)
	edit := func(old, with string) string {
		if strings.Count(good, old) != 1 {
			t.Fatalf("%q is not once in %s", old, good)
		}
		return strings.Replace(good, old, with, 1)
	}
	added := func(tokens string) string { return edit(`"added_tokens":null`, `"added_tokens":`+tokens) }
	for _, c := range []struct{ text, reason string }{
		{"", "the text is cut off"}, {"[]", "it is of a wrong JSON type"}, {"5", "it is of a wrong JSON type"}, {"null", "it is of a wrong JSON type"},
		{good[:len(good)-1], "the text is cut off"}, {good + "x", "something follows"}, {good + good, "something follows"}, {"\xef\xbb\xbf" + good, "byte order mark of UTF-8"},
		{edit(`"Ġ":3`, `"\ud800":3`), "it is not JSON at byte"}, {edit(`"Ġ":3`, "\"\xff\":3"), "it is not JSON at byte"}, {edit(`"Ġ":3`, "\"\n\":3"), "it is not JSON at byte"},
		{edit(`"Ġ":3`, `"Ġ":-3`), "which is not a number of a row"}, {edit(`"Ġ":3`, `"Ġ":3.0`), "which is not a number"}, {edit(`"Ġ":3`, `"Ġ":3e0`), "which is not a number"},
		{edit(`"Ġ":3`, `"Ġ":"3"`), "which is not a number"}, {edit(`"Ġ":3`, `"Ġ":null`), "which is not a number"}, {edit(`"Ġ":3`, `"Ġ":[3]`), "which is not a number"},
		{edit(`"Ġ":3`, `"Ġ":9`), "past the 9 rows"}, {edit(`"Ġ":3`, `"Ġ":`+strings.Repeat("9", 1000)), "past the 9 rows"}, {edit(`"Ġ":3`, `"Ġ":18446744073709551616`), "past the 9 rows"},
		{edit(`"Ġ":3`, `"Ġ":2`), "the id 2 twice"}, {edit(`"Ġ":3`, `"Ġ":3,"Ġ":5`), "the token \"Ġ\" twice"}, {edit(`"Ġ":3`, `"Ġ":3,"\u0120":5`), "the token \"Ġ\" twice"},
		{edit(`"Ġ":3`, `"Ġ":3,"1":5,"2":6,"3":7,"4":8,"5":8`), "more tokens than the embedding has rows, 9"},
		{edit(`"vocab":{`, `"vocab":{},"vocab":{`), "two vocabularies"}, {edit(`"merges":[`, `"merges":[],"merges":[`), "two lists of merges"}, {edit(`"added_tokens":null`, `"added_tokens":null,"added_tokens":[]`), "added_tokens twice"},
		{edit(`"vocab":{`, `"vocab":5,"x":{`), "its vocabulary is of a wrong JSON type"}, {edit(`"vocab":{`, `"vocab":null,"x":{`), "its vocabulary is of a wrong JSON type"},
		{edit(`"a b"`, `"a c"`), "its merge 0, of \"a\" and \"c\", is of tokens that are not in the vocabulary"}, {edit(`"a b"`, `"b a"`), "not in the vocabulary"}, {edit(`"a b"`, `"ab"`), "which is not two tokens"},
		{edit(`"a b"`, `"a  b"`), "which is not two tokens"}, {edit(`"a b"`, `" a b"`), "which is not two tokens"}, {edit(`"a b"`, `"a "`), "which is not two tokens"}, {edit(`"a b"`, `""`), "which is not two tokens"},
		{edit(`"a b"`, `5`), "a merge is of a wrong JSON type"}, {edit(`"a b"`, `null`), "a merge is of a wrong JSON type"}, {edit(`"a b"`, `["a"]`), "its merge 0 has 1 tokens"}, {edit(`"a b"`, `["a","b","c"]`), "its merge 0 has 3 tokens"},
		{edit(`"a b"`, `["a",5]`), "a token of a merge is of a wrong JSON type"}, {edit(`"a b"`, `["a","c"]`), "not in the vocabulary"}, {edit(`"a b"`, `[]`), "has 0 tokens"}, {strings.Replace(edit(`"a b"`, `["","a"]`), `"Ġ":3`, `"Ġ":3,"":5`, 1), "merge 0 has an empty token"},
		{edit(`"merges":["a b","Ġ ab"]`, `"merges":{}`), "its merges is of a wrong JSON type"},
		{edit(`"type":"BPE"`, `"type":5`), "type is of a wrong JSON type"}, {edit(`"type":"BPE"`, `"byte_fallback":1`), "byte_fallback is of a wrong"}, {edit(`"type":"BPE"`, `"ignore_merges":"true"`), "ignore_merges is of a wrong"},
		{added(`{}`), "its added_tokens is of a wrong JSON type"}, {added(`[5]`), "an added token is of a wrong JSON type"}, {added(`[{}]`), "has no id or no content"}, {added(`[{"id":5}]`), "has no id or no content"},
		{added(`[{"content":"x"}]`), "has no id or no content"}, {added(`[{"id":-1,"content":"x"}]`), "not a number of a row"}, {added(`[{"id":4294967296,"content":"x"}]`), "past what the tokenizers library reads"}, {added(`[{"id":5,"content":"x"},{"id":5,"content":"y"},{"id":5,"content":"z"},{"id":5,"content":"u"},{"id":5,"content":"v"}]`), "\"v\" is past the 9 rows"},
		{added(`[{"id":5,"content":5}]`), "wrong JSON type"}, {added(`[{"id":5,"content":"x","special":0}]`), "wrong JSON type"},
		{added(`[{"id":5,"content":"[PAD6]"}]`), "the tokens 5 and 6 are both"},
		{edit(`"pre_tokenizer":{`, `"pre_tokenizer":5,"x":{`), "its pre_tokenizer is of a wrong JSON type"}, {edit(`"pre_tokenizer":{`, `"normalizer":"NFC","pre_tokenizer":{`), "its normalizer is of a wrong JSON type"},
		{edit(`"pre_tokenizer":{`, `"post_processor":{"x":"`+strings.Repeat("x", 1<<20)+`"},"pre_tokenizer":{`), "at most 1048576 are read"},
		{edit(`"pre_tokenizer":{`, `"pre_tokenizer":`+strings.Repeat(`{"type":"Sequence","pretokenizers":[`, 1000)+strings.Repeat(`]}`, 1000)+`,"x":{`), "not a list of steps"},
		{edit(`"pre_tokenizer":{`, `"x":`+strings.Repeat("[", 20000)), "it is not JSON"}, {edit(`"pre_tokenizer":{`, `"x":{"x":`+strings.Repeat(`{"x":`, 20000)), "it is not JSON"},
		{strings.Replace(good, `"model":`, `"models":`, 1), "its model has no type"}, {`{}`, "its model has no type"}, {`{"model":{}}`, "its model has no type"}, {`{"model":[]}`, "wrong JSON type"},
	} {
		refuse(t, fmt.Sprintf("%.300s", c.text), files{"tokenizer.json": c.text}, "llama", 9, c.reason)
	}
	want(t, "the text that all these change", files{"tokenizer.json": good}, "llama", 9, nil)
	want(t, "an empty token", files{"tokenizer.json": edit(`"Ġ":3`, `"":5,"Ġ":3`)}, "llama", 9, nil)
	for _, rows := range []int{-1 << 62, -1, 0, 1 << 17, 1 << 24, 1<<24 + 1, 1 << 62} {
		refuse(t, "rows", files{"tokenizer.json": good}, "llama", rows, "the embedding has")
	}
}

// sized is Data that only has a size.
type sized int64

func (s sized) Size() int64                       { return int64(s) }
func (s sized) ReadAt([]byte, int64) (int, error) { return 0, fmt.Errorf("the disk\nis gone") }

func TestFilesThatAreNotRead(t *testing.T) {
	for _, name := range []string{"tokenizer.json", "tokenizer.model", "tokenizer_config.json", "added_tokens.json", "vocab.json", "merges.txt", "chat_template.jinja", "chat_template.json"} {
		for reason, d := range map[string]tensorfs.Data{"bytes, and at most": sized(1 << 40), "the disk; is gone": sized(5), "": nil} {
			f := files{"tokenizer.json": bytesDoc().text(t)}
			switch name {
			case "vocab.json", "merges.txt":
				f = files{"vocab.json": "{}", "merges.txt": "x"}
			case "added_tokens.json":
				f = files{"tokenizer.model": spModel{pieces: []spPiece{{"a", 0, 1}}}.text()}
			}
			_, err := read(tokenizer.Options{Block: "llama", Rows: 9, File: func(n string) (tensorfs.Data, error) {
				switch {
				case n == name && d == nil:
					return nil, fs.ErrPermission
				case n == name:
					return d, nil
				}
				return f.open(n)
			}})
			if d == nil {
				reason = "permission"
			}
			if err == nil || !strings.HasPrefix(err.Error(), name) || !strings.Contains(err.Error(), reason) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%s: %v does not say %q", name, err, reason)
			}
		}
	}
}

// TestCost holds that no file costs more than a few times its size, whatever is in
// it.
func TestCost(t *testing.T) {
	const size, rows = 1 << 20, 1000
	repeat := func(format string) string {
		var b strings.Builder
		for i := 0; b.Len() < size; i++ {
			if i > 0 {
				b.WriteByte(',')
			}
			fmt.Fprintf(&b, format, i)
		}
		return b.String()
	}
	deep := strings.Repeat(`{"type":"Sequence","pretokenizers":[`, 3000)
	steps := `{"pre_tokenizer":{"type":"Sequence","pretokenizers":[` + repeat(`{"type":"Digits","x":%d}`) + `]},"model":{"type":"BPE","vocab":{"a":0},"merges":[]}}`
	piece := spModel{pieces: []spPiece{{"a", 0, 1}}}.text()
	for name, f := range map[string]files{
		"added tokens of one id":     {"tokenizer.json": `{"added_tokens":[` + repeat(`{"id":1,"content":"%d"}`) + `]}`},
		"added tokens":               {"tokenizer.json": `{"added_tokens":[` + repeat(`{"id":%d,"content":""}`) + `]}`},
		"added tokens beside pieces": {"tokenizer.model": piece, "tokenizer.json": `{"added_tokens":[` + repeat(`{"id":%d,"content":""}`) + `]}`},
		"a vocabulary":               {"tokenizer.json": `{"model":{"type":"BPE","vocab":{` + repeat(`"%d":0`) + `}}}`},
		"merges":                     {"tokenizer.json": `{"model":{"type":"BPE","vocab":{"a":0},"merges":[` + repeat(`"%d x"`) + `]}}`},
		"merges that are empty":      {"tokenizer.json": `{"model":{"type":"BPE","vocab":{"a":0},"merges":[` + repeat(`["",""]%.0d`) + `]}}`},
		"steps":                      {"tokenizer.json": steps},
		"deep steps":                 {"tokenizer.json": `{"pre_tokenizer":` + deep + strings.Repeat("]}", 3000) + `,"model":{"type":"BPE","vocab":{"a":0},"merges":[]},"x":"` + strings.Repeat("x", size) + `"}`},
		"an id":                      {"tokenizer.json": `{"model":{"type":"BPE","vocab":{"a":` + strings.Repeat("9", size) + `}}}`},
		"decoder":                    {"tokenizer.model": piece, "tokenizer_config.json": `{"added_tokens_decoder":{` + repeat(`"%d":{"content":""}`) + `}}`},
		"decoder, one id":            {"tokenizer.model": piece, "tokenizer_config.json": `{"added_tokens_decoder":{` + repeat(`"1":{"content":"%d"}`) + `}}`},
		"chat templates":             {"tokenizer.model": piece, "tokenizer_config.json": `{"chat_template":[` + repeat(`{"name":"%d","template":""}`) + `]}`},
		"template":                   {"tokenizer.model": piece, "tokenizer.json": `{"post_processor":{"type":"TemplateProcessing","single":[` + repeat(`{"Sequence":{"id":"%d"}}`)[:size-100] + `"}}]}}`},
		"pieces":                     {"tokenizer.model": strings.Repeat("\x0a\x00", size/2)},
		"pieces of nothing":          {"tokenizer.model": piece + strings.Repeat("\x20\x00", size/2)},
		"lines":                      {"tokenizer_config.json": `{"tokenizer_class":"GPT2Tokenizer"}`, "vocab.json": `{"a":0}`, "merges.txt": strings.Repeat("a a\n", size/4)},
		"special tokens":             {"tokenizer_config.json": `{"tokenizer_class":"GPT2Tokenizer","additional_special_tokens":[` + repeat(`"%d"`) + `]}`, "vocab.json": `{"a":0}`, "merges.txt": ""},
	} {
		total := 0
		for _, text := range f {
			total += len(text)
		}
		testlimit.Work(t, 12*(total>>20+1), func() {
			used := testlimit.Allocated(func() {
				if _, err := f.read(t, "llama", rows); err != nil && (strings.Contains(err.Error(), "\n") || len(err.Error()) > 1000) {
					t.Errorf("%s: %.2000q", name, err)
				}
			})
			if used > 24*uint64(total) {
				t.Errorf("%s: %d bytes are allocated for %d", name, used, total)
			}
		})
	}
}
