package tokenizer_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/tensorfs/tensorfs"
)

// charKeys are a tokenizer of characters, with scores.
var charKeys = keys{
	"tokenizer.ggml.model":      "llama",
	"tokenizer.ggml.tokens":     []string{"<unk>", "<s>", "</s>", "▁", "a", "b", "ab", "▁ab"},
	"tokenizer.ggml.token_type": []int32{2, 3, 3, 1, 1, 1, 1, 1},
	"tokenizer.ggml.scores":     []float32{0, 0, 0, -4, -5, -6, -1, -2},
}

// wordKeys are a tokenizer of words.
var wordKeys = keys{
	"tokenizer.ggml.model":              "bert",
	"tokenizer.ggml.tokens":             []string{"[PAD]", "[UNK]", "[CLS]", "[SEP]", "▁a", "b"},
	"tokenizer.ggml.token_type":         []int32{3, 3, 3, 3, 1, 1},
	"tokenizer.ggml.cls_token_id":       uint32(2),
	"tokenizer.ggml.seperator_token_id": uint32(3),
	"bert.context_length":               uint32(64),
}

// pieceKeys are a tokenizer of pieces.
var pieceKeys = keys{
	"tokenizer.ggml.model":      "t5",
	"tokenizer.ggml.tokens":     []string{"<pad>", "</s>", "<unk>", "▁a", "x y"},
	"tokenizer.ggml.token_type": []int32{3, 3, 2, 1, 4},
	"tokenizer.ggml.scores":     []float32{0, 0, 0, -2.1, -3},
}

// put writes a tokenizer that is good.
func put(t testing.TB, k keys) map[string][]byte {
	t.Helper()
	arch, ok := k.get("general.architecture").(string)
	if !ok {
		arch = "bert"
	}
	files, err := written(k.get, arch)
	if err != nil {
		t.Fatalf("%v: %v", k, err)
	}
	if len(files) != 3 && (len(files) != 4 || files["tokenizer.model"] == nil || k["tokenizer.ggml.model"] != "llama") {
		t.Fatalf("%d files", len(files))
	}
	return files
}

const addedFlags = `"single_word":false,"lstrip":false,"rstrip":false,"normalized":false`

// TestWriteText holds every byte of the files of the least tokenizers.
func TestWriteText(t *testing.T) {
	const begin = `{"version":"1.0","truncation":null,"padding":null,"added_tokens":[`
	const bpe = `{"type":"BPE","dropout":null,"unk_token":%s,"continuing_subword_prefix":null,"end_of_word_suffix":null,"fuse_unk":%v,"byte_fallback":%v,"ignore_merges":%v,`
	for name, c := range map[string]struct {
		k                     keys
		main, small, specials string
	}{
		"bytes": {byteKeys,
			begin + `],"normalizer":null,"pre_tokenizer":{"type":"Sequence","pretokenizers":[{"type":"Split","pattern":{"Regex":"'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"},"behavior":"Isolated","invert":false},` +
				`{"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":false}]},"post_processor":{"type":"ByteLevel","add_prefix_space":true,"trim_offsets":false,"use_regex":true},` +
				`"decoder":{"type":"ByteLevel","add_prefix_space":true,"trim_offsets":true,"use_regex":true},"model":` + fmt.Sprintf(bpe, "null", false, false, false) +
				`"vocab":{"a":0,"b":1,"ab":2,"Ġ":3,"<s>":4},"merges":["a b"]}}`,
			`{"tokenizer_class":"PreTrainedTokenizerFast","add_bos_token":false,"add_eos_token":false,"clean_up_tokenization_spaces":false,"model_input_names":["input_ids","attention_mask"],"added_tokens_decoder":{}}`, `{}`},
		"bytes with a beginning": {byteKeys.with("tokenizer.ggml.pre", "qwen2", "tokenizer.ggml.bos_token_id", uint64(4), "tokenizer.ggml.eos_token_id", int8(4), "tokenizer.ggml.add_bos_token", true,
			"tokenizer.ggml.add_eos_token", true, "tokenizer.ggml.token_type", []int32{1, 1, 1, 1, 3}, "tokenizer.chat_template", "{{ \"x\" }}\n"),
			begin + `{"id":4,"content":"<s>",` + addedFlags + `,"special":true}],"normalizer":{"type":"NFC"},"pre_tokenizer":{"type":"Sequence","pretokenizers":[{"type":"Split","pattern":{"Regex":"` + qwen2Split + `"},"behavior":"Isolated","invert":false},` +
				`{"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":false}]},"post_processor":{"type":"Sequence","processors":[{"type":"ByteLevel","add_prefix_space":true,"trim_offsets":false,"use_regex":true},` +
				`{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"<s>","type_id":0}},{"Sequence":{"id":"A","type_id":0}},{"SpecialToken":{"id":"<s>","type_id":0}}],"pair":[{"SpecialToken":{"id":"<s>","type_id":0}},{"Sequence":{"id":"A","type_id":0}},` +
				`{"SpecialToken":{"id":"<s>","type_id":0}},{"SpecialToken":{"id":"<s>","type_id":1}},{"Sequence":{"id":"B","type_id":1}},{"SpecialToken":{"id":"<s>","type_id":1}}],"special_tokens":{"<s>":{"id":"<s>","ids":[4],"tokens":["<s>"]}}}]},` +
				`"decoder":{"type":"ByteLevel","add_prefix_space":true,"trim_offsets":true,"use_regex":true},"model":` + fmt.Sprintf(bpe, "null", false, false, false) +
				`"vocab":{"a":0,"b":1,"ab":2,"Ġ":3,"<s>":4},"merges":["a b"]}}`,
			`{"tokenizer_class":"PreTrainedTokenizerFast","bos_token":"<s>","eos_token":"<s>","add_bos_token":true,"add_eos_token":true,"clean_up_tokenization_spaces":false,"model_input_names":["input_ids","attention_mask"],"chat_template":"{{ \"x\" }}\n","added_tokens_decoder":{"4":{"content":"<s>",` + addedFlags + `,"special":true}}}`,
			`{"bos_token":"<s>","eos_token":"<s>"}`},
		"characters": {charKeys,
			begin + `{"id":0,"content":"<unk>",` + addedFlags + `,"special":true},{"id":1,"content":"<s>",` + addedFlags + `,"special":true},{"id":2,"content":"</s>",` + addedFlags + `,"special":true}],` +
				`"normalizer":{"type":"Sequence","normalizers":[{"type":"Prepend","prepend":"▁"},{"type":"Replace","pattern":{"String":" "},"content":"▁"}]},"pre_tokenizer":null,` +
				`"post_processor":{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"<s>","type_id":0}},{"Sequence":{"id":"A","type_id":0}}],"pair":[{"SpecialToken":{"id":"<s>","type_id":0}},{"Sequence":{"id":"A","type_id":0}},` +
				`{"SpecialToken":{"id":"<s>","type_id":1}},{"Sequence":{"id":"B","type_id":1}}],"special_tokens":{"<s>":{"id":"<s>","ids":[1],"tokens":["<s>"]}}},` +
				`"decoder":{"type":"Sequence","decoders":[{"type":"Replace","pattern":{"String":"▁"},"content":" "},{"type":"ByteFallback"},{"type":"Fuse"},{"type":"Strip","content":" ","start":1,"stop":0}]},"model":` + fmt.Sprintf(bpe, `"<unk>"`, true, false, false) +
				`"vocab":{"<unk>":0,"<s>":1,"</s>":2,"▁":3,"a":4,"b":5,"ab":6,"▁ab":7},"merges":["a b","▁ ab"]}}`,
			`{"tokenizer_class":"PreTrainedTokenizerFast","bos_token":"<s>","eos_token":"</s>","unk_token":"<unk>","add_bos_token":true,"add_eos_token":false,"clean_up_tokenization_spaces":false,"model_input_names":["input_ids","attention_mask"],"added_tokens_decoder":{"0":{"content":"<unk>",` + addedFlags +
				`,"special":true},"1":{"content":"<s>",` + addedFlags + `,"special":true},"2":{"content":"</s>",` + addedFlags + `,"special":true}}}`,
			`{"bos_token":"<s>","eos_token":"</s>","unk_token":"<unk>"}`},
		"words": {wordKeys,
			begin + strings.Join(each([]any{"[PAD]", "[UNK]", "[CLS]", "[SEP]"}, func(v any) string {
				return fmt.Sprintf(`{"id":%d,"content":"%s",`+addedFlags+`,"special":true}`, slices.Index([]string{"[PAD]", "[UNK]", "[CLS]", "[SEP]"}, v.(string)), v)
			}), ",") + `],"normalizer":{"type":"BertNormalizer","clean_text":true,"handle_chinese_chars":true,"strip_accents":null,"lowercase":true},"pre_tokenizer":{"type":"BertPreTokenizer"},` +
				`"post_processor":{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"[CLS]","type_id":0}},{"Sequence":{"id":"A","type_id":0}},{"SpecialToken":{"id":"[SEP]","type_id":0}}],` +
				`"pair":[{"SpecialToken":{"id":"[CLS]","type_id":0}},{"Sequence":{"id":"A","type_id":0}},{"SpecialToken":{"id":"[SEP]","type_id":0}},{"Sequence":{"id":"B","type_id":1}},{"SpecialToken":{"id":"[SEP]","type_id":1}}],` +
				`"special_tokens":{"[CLS]":{"id":"[CLS]","ids":[2],"tokens":["[CLS]"]},"[SEP]":{"id":"[SEP]","ids":[3],"tokens":["[SEP]"]}}},"decoder":{"type":"WordPiece","prefix":"##","cleanup":true},` +
				`"model":{"type":"WordPiece","unk_token":"[UNK]","continuing_subword_prefix":"##","max_input_chars_per_word":100,"vocab":{"[PAD]":0,"[UNK]":1,"[CLS]":2,"[SEP]":3,"a":4,"##b":5}}}`,
			"", `{"unk_token":"[UNK]","pad_token":"[PAD]","sep_token":"[SEP]","cls_token":"[CLS]"}`},
		"pieces": {pieceKeys,
			begin + `{"id":0,"content":"<pad>",` + addedFlags + `,"special":true},{"id":1,"content":"</s>",` + addedFlags + `,"special":true},{"id":2,"content":"<unk>",` + addedFlags + `,"special":true},{"id":4,"content":"x y",` + addedFlags + `,"special":false}],` +
				`"normalizer":null,"pre_tokenizer":{"type":"Metaspace","replacement":"▁","prepend_scheme":"always","split":false},` +
				`"post_processor":{"type":"TemplateProcessing","single":[{"Sequence":{"id":"A","type_id":0}},{"SpecialToken":{"id":"</s>","type_id":0}}],"pair":[{"Sequence":{"id":"A","type_id":0}},{"SpecialToken":{"id":"</s>","type_id":0}},` +
				`{"Sequence":{"id":"B","type_id":1}},{"SpecialToken":{"id":"</s>","type_id":1}}],"special_tokens":{"</s>":{"id":"</s>","ids":[1],"tokens":["</s>"]}}},"decoder":{"type":"Metaspace","replacement":"▁","prepend_scheme":"always","split":false},` +
				`"model":{"type":"Unigram","unk_id":2,"vocab":[["<pad>",0],["</s>",0],["<unk>",0],["▁a",-2.1],["x y",0]],"byte_fallback":false}}`,
			"", `{"eos_token":"</s>","unk_token":"<unk>","pad_token":"<pad>"}`},
		"text": {byteKeys.with("tokenizer.ggml.model", "gemma4", "tokenizer.ggml.bos_token_id", uint32(4), "tokenizer.ggml.add_bos_token", false),
			begin + `{"id":4,"content":"<s>",` + addedFlags + `,"special":true}],"normalizer":{"type":"Replace","pattern":{"String":" "},"content":"▁"},"pre_tokenizer":{"type":"Split","pattern":{"Regex":"[^\\n]+|[\\n]+"},"behavior":"Isolated","invert":false},` +
				`"post_processor":{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"<s>","type_id":0}},{"Sequence":{"id":"A","type_id":0}}],"pair":[{"SpecialToken":{"id":"<s>","type_id":0}},{"Sequence":{"id":"A","type_id":0}},` +
				`{"SpecialToken":{"id":"<s>","type_id":1}},{"Sequence":{"id":"B","type_id":1}}],"special_tokens":{"<s>":{"id":"<s>","ids":[4],"tokens":["<s>"]}}},` +
				`"decoder":{"type":"Sequence","decoders":[{"type":"Replace","pattern":{"String":"▁"},"content":" "},{"type":"ByteFallback"},{"type":"Fuse"}]},"model":` + fmt.Sprintf(bpe, "null", true, true, false) +
				`"vocab":{"a":0,"b":1,"ab":2,"Ġ":3,"<s>":4},"merges":["a b"]}}`,
			"", `{"bos_token":"<s>"}`},
	} {
		files := put(t, c.k)
		for file, want := range map[string]string{"tokenizer.json": c.main, "tokenizer_config.json": c.small, "special_tokens_map.json": c.specials} {
			if got := string(files[file]); want != "" && got != want+"\n" {
				t.Errorf("%s: %s is\n%s\nwant\n%s", name, file, got, want)
			}
		}
	}
}

const qwen2Split = `(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+`

// at returns what a path leads to in a file, as JSON.
func at(t testing.TB, b []byte, path ...any) string {
	t.Helper()
	var v any = document(t, b)
	for _, p := range path {
		switch p := p.(type) {
		case string:
			v = v.(map[string]any)[p]
		case int:
			v = v.([]any)[p]
		}
	}
	out, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return strings.NewReplacer(`\u003c`, "<", `\u003e`, ">").Replace(string(out))
}

// TestWriteRules holds what follows from single keys.
func TestWriteRules(t *testing.T) {
	bytes := func(pairs ...any) keys { return byteKeys.with(pairs...) }
	chars := func(pairs ...any) keys { return charKeys.with(pairs...) }
	words := func(pairs ...any) keys { return wordKeys.with(pairs...) }
	parts := func(pairs ...any) keys { return pieceKeys.with(pairs...) }
	key := func(k string) string { return "tokenizer.ggml." + k }
	const main, small = "tokenizer.json", "tokenizer_config.json"
	merges, added, post := []any{"model", "merges"}, []any{"added_tokens"}, []any{"post_processor"}
	var all []string
	for c := range 256 {
		all = append(all, fmt.Sprintf("<0x%02X>", c))
	}
	named, control := make([]string, 104), make([]int32, 104)
	for i := range named {
		named[i], control[i] = fmt.Sprintf("[%d]", i), 3
	}
	for name, c := range map[string]struct {
		k    keys
		file string
		path []any
		want string
	}{
		"an empty token":         {bytes(key("tokens"), []string{"a", "", "b"}, key("merges"), []string{}), main, []any{"model", "vocab"}, `{"[EMPTY_1]":1,"a":0,"b":2}`},
		"no merges in the list":  {bytes(key("merges"), []string{}), main, merges, `[]`},
		"bad merges":             {bytes(key("merges"), []string{"a c", "c a", "b a", "", "a", " ", "a ", " a", "ab", "a b b", "a b", "a b"}), main, merges, `["a b"]`},
		"the first rank":         {bytes(key("tokens"), []string{"a", "b", "ab", "ba"}, key("merges"), []string{"b a", "a b", "b a"}), main, merges, `["b a","a b"]`},
		"a space before":         {bytes(key("tokens"), []string{" ", "a", " a"}, key("merges"), []string{"  a"}), main, merges, `[[" ","a"]]`},
		"a space inside":         {bytes(key("tokens"), []string{"a", "b", "ab", "b c", "ab c"}, key("merges"), []string{"a b", "a b c"}), main, merges, `[["a","b"],["a","b c"]]`},
		"quotation marks":        {bytes(key("tokens"), []string{"\"", "\\", "\"\\"}, key("merges"), []string{"\" \\"}), main, merges, `["\" \\"]`},
		"control characters":     {bytes(key("tokens"), []string{"\x00\x1f\n\r\t\x7f\u2028", "b", "é"}), main, []any{"model", "vocab"}, `{"\u0000\u001f\n\r\t` + "\x7f" + `\u2028":0,"b":1,"é":2}`},
		"merges of characters":   {chars(key("merges"), []string{"b a", "a b"}), main, merges, `["a b"]`},
		"equal scores":           {chars(key("scores"), []float32{0, 0, 0, 0, 0, 0, 0, 0}), main, merges, `["▁ ab","a b"]`},
		"no scores":              {chars(key("scores"), nil), main, merges, `["▁ ab","a b"]`},
		"scores the other way":   {chars(key("scores"), []float32{0, 0, 0, 0, 0, 0, 1, 2}), main, merges, `["▁ ab","a b"]`},
		"scores above zero":      {chars(key("scores"), []float32{0, 0, 0, 0, 0, 0, 2, 1}), main, merges, `["a b","▁ ab"]`},
		"scores around zero":     {chars(key("scores"), []float32{0, 0, 0, 0, 0, 0, 1, -1}), main, merges, `["a b","▁ ab"]`},
		"the first token":        {chars(key("tokens"), []string{"a", "b", "ab", "ba"}, key("scores"), []float32{0, 0, 2, 1}, key("token_type"), []int32{1, 1, 1, 1}), main, merges, `["a b","b a"]`},
		"the first token, said":  {bytes(key("tokens"), []string{"a", "b", "ab", "ba"}, key("merges"), []string{"a b", "b a"}), main, merges, `["a b","b a"]`},
		"assumed and ordinary":   {chars(key("token_type"), []int32{1, 1, 1, 1, 1, 1, 1, 1}), "special_tokens_map.json", nil, `{}`},
		"said and ordinary":      {chars(key("token_type"), []int32{1, 1, 1, 1, 1, 1, 1, 1}, key("mask_token_id"), uint32(4), key("eos_token_id"), uint32(5)), "special_tokens_map.json", nil, `{"eos_token":"b"}`},
		"said in place":          {chars(key("bos_token_id"), uint32(2)), "special_tokens_map.json", nil, `{"bos_token":"</s>","eos_token":"</s>","unk_token":"<unk>"}`},
		"no length":              {words("bert.context_length", uint32(0)), small, []any{"model_max_length"}, `null`},
		"a length below zero":    {words("bert.context_length", int64(-5)), small, []any{"model_max_length"}, `null`},
		"a length that is text":  {words("bert.context_length", "x"), small, []any{"model_max_length"}, `null`},
		"large templates":        {bytes("tokenizer.chat_template", "d", "tokenizer.chat_template.rag", strings.Repeat("r", 32<<20), "tokenizer.chat_template.tool_use", strings.Repeat("t", 32<<20-1)), small, []any{"chat_template", 1, "name"}, `"tool_use"`},
		"zeros of both signs":    {chars(key("scores"), []float32{0, 0, 0, 0, 0, 0, 0, float32(math.Copysign(0, -1))}), main, merges, `["▁ ab","a b"]`},
		"control and bytes":      {chars(key("token_type"), []int32{2, 3, 3, 6, 1, 3, 1, 1}), main, merges, `[]`},
		"a type that is unknown": {chars(key("token_type"), []int32{2, 3, 3, 1, 1, 77, -1, 0}), main, merges, `["a b","▁ ab"]`},
		"unused and the user's":  {chars(key("token_type"), []int32{2, 3, 3, 1, 1, 4, 5, 1}), main, merges, `["a b","▁ ab"]`},
		"types of other widths":  {chars(key("token_type"), listOf[any](int64(2), uint8(3), int16(3), uint64(1), 1, uint32(1), int8(1), uint16(1))), main, merges, `["a b","▁ ab"]`},
		"scores of other widths": {chars(key("scores"), listOf[any](0.0, 0.0, 0.0, 0.0, 0.0, 0.0, float32(1), 2.0)), main, merges, `["▁ ab","a b"]`},
		"no prefix":              {chars(key("add_space_prefix"), false), main, []any{"normalizer"}, `{"normalizers":[{"content":"▁","pattern":{"String":" "},"type":"Replace"}],"type":"Sequence"}`},
		"no prefix decoded":      {chars(key("add_space_prefix"), false), main, []any{"decoder", "decoders", 2}, `{"type":"Fuse"}`},
		"all bytes":              {chars(key("tokens"), all, key("token_type"), nil, key("scores"), nil), main, []any{"model", "byte_fallback"}, `true`},
		"a byte less":            {chars(key("tokens"), all[1:], key("token_type"), nil, key("scores"), nil), main, []any{"model", "byte_fallback"}, `false`},
		"unknown out of range":   {chars(key("unknown_token_id"), uint32(8)), main, []any{"model", "unk_token"}, `null`},
		"bos out of range":       {chars(key("bos_token_id"), ^uint64(0)>>1), main, post, `null`},
		"bos below":              {chars(key("bos_token_id"), int32(-1)), main, post, `null`},
		"bos said to be left":    {chars(key("add_bos_token"), false), main, post, `null`},
		"both":                   {chars(key("add_eos_token"), true), main, []any{"post_processor", "single", 2}, `{"SpecialToken":{"id":"</s>","type_id":0}}`},
		"no id to add":           {bytes(key("add_bos_token"), true), small, []any{"add_bos_token"}, `false`},
		"bos of the row":         {bytes(key("pre"), "llama-bpe", key("bos_token_id"), uint32(4)), main, []any{"post_processor", "processors", 1, "single", 0}, `{"SpecialToken":{"id":"<s>","type_id":0}}`},
		"merges of the row":      {bytes(key("pre"), "llama-bpe"), main, []any{"model", "ignore_merges"}, `true`},
		"not of the row":         {bytes(key("pre"), "llama-bpe", key("bos_token_id"), uint32(4), key("add_bos_token"), false), main, []any{"post_processor", "type"}, `"ByteLevel"`},
		"default":                {bytes(key("pre"), "default"), main, []any{"pre_tokenizer", "pretokenizers", 2, "pattern", "Regex"}, `"\\p{N}+"`},
		"no pre":                 {bytes(key("pre"), nil), main, []any{"pre_tokenizer", "pretokenizers", 2, "pattern", "Regex"}, `"\\p{N}+"`},
		"text as it is":          {bytes(key("pre"), "sarvam-moe"), main, []any{"normalizer", "type"}, `"Replace"`},
		"no types": {bytes(key("bos_token_id"), uint32(4), key("padding_token_id"), uint32(0), key("eos_token_id"), uint32(4)), main, added,
			`[{"content":"a","id":0,"lstrip":false,"normalized":false,"rstrip":false,"single_word":false,"special":true},{"content":"<s>","id":4,"lstrip":false,"normalized":false,"rstrip":false,"single_word":false,"special":true}]`},
		"the user's": {bytes(key("token_type"), []int32{1, 5, 6, 4, 2}), main, added,
			`[{"content":"Ġ","id":3,"lstrip":false,"normalized":false,"rstrip":false,"single_word":false,"special":false},{"content":"<s>","id":4,"lstrip":false,"normalized":false,"rstrip":false,"single_word":false,"special":true}]`},
		"Phi-3":        {chars("general.name", "My PHI-3 Mini"), main, []any{"added_tokens", 2, "rstrip"}, `true`},
		"phi3":         {chars("general.name", "phi3"), main, []any{"added_tokens", 2, "rstrip"}, `true`},
		"Phi 3":        {chars("general.name", "Phi 3 Mini 4k Instruct", "general.architecture", "phi3"), main, []any{"added_tokens", 2, "rstrip"}, `true`},
		"Delphi 3":     {chars("general.name", "Delphi 3B", "general.architecture", "llama"), main, []any{"added_tokens", 2, "rstrip"}, `false`},
		"Phi-3's <s>":  {chars("general.name", "phi3"), main, []any{"added_tokens", 1, "rstrip"}, `false`},
		"Phi-3, small": {chars("general.name", "phi3"), small, []any{"added_tokens_decoder", "2", "rstrip"}, `true`},
		"Phi-4":        {chars("general.name", "phi-4"), main, []any{"added_tokens", 2, "rstrip"}, `false`},
		"a mask":       {bytes(key("pre"), "jina-v2-de", key("tokens"), []string{"<mask>", "b", "<s>"}, key("token_type"), []int32{3, 1, 3}), main, []any{"added_tokens", 0, "lstrip"}, `true`},
		"no mask":      {bytes(key("pre"), "jina-v2-de", key("tokens"), []string{"<mask>", "b", "<s>"}, key("token_type"), []int32{3, 1, 3}), main, []any{"added_tokens", 1, "lstrip"}, `false`},
		"RoBERTa": {bytes(key("pre"), "roberta-bpe", key("bos_token_id"), uint32(4), key("separator_token_id"), uint32(1)), main, []any{"post_processor", "processors", 1, "pair"},
			`[{"SpecialToken":{"id":"<s>","type_id":0}},{"Sequence":{"id":"A","type_id":0}},{"SpecialToken":{"id":"b","type_id":0}},{"SpecialToken":{"id":"b","type_id":0}},{"Sequence":{"id":"B","type_id":0}},{"SpecialToken":{"id":"b","type_id":0}}]`},
		"a separator":           {parts(key("bos_token_id"), uint32(0), key("add_bos_token"), true, key("add_sep_token"), true), main, append(post, "pair"), `[{"SpecialToken":{"id":"<pad>","type_id":0}},{"Sequence":{"id":"A","type_id":0}},{"SpecialToken":{"id":"</s>","type_id":0}},{"SpecialToken":{"id":"</s>","type_id":0}},{"Sequence":{"id":"B","type_id":0}},{"SpecialToken":{"id":"</s>","type_id":0}}]`},
		"no separator":          {parts(key("bos_token_id"), uint32(0), key("add_bos_token"), true, key("add_sep_token"), false), main, append(post, "pair"), `[{"SpecialToken":{"id":"<pad>","type_id":0}},{"Sequence":{"id":"A","type_id":0}},{"SpecialToken":{"id":"</s>","type_id":0}},{"Sequence":{"id":"B","type_id":1}},{"SpecialToken":{"id":"</s>","type_id":1}}]`},
		"bos alone":             {chars(key("add_sep_token"), false), main, append(post, "pair"), `[{"SpecialToken":{"id":"<s>","type_id":0}},{"Sequence":{"id":"A","type_id":0}},{"SpecialToken":{"id":"<s>","type_id":1}},{"Sequence":{"id":"B","type_id":1}}]`},
		"RoBERTa's cls":         {bytes(key("pre"), "roberta-bpe", key("bos_token_id"), uint32(4), key("cls_token_id"), uint32(1)), main, []any{"post_processor", "processors", 1, "single", 0}, `{"SpecialToken":{"id":"b","type_id":0}}`},
		"words as they are":     {words(key("normalizer.lowercase"), false, key("normalizer.strip_accents"), true), main, []any{"normalizer"}, `{"clean_text":true,"handle_chinese_chars":true,"lowercase":false,"strip_accents":true,"type":"BertNormalizer"}`},
		"bos in place of cls":   {words(key("cls_token_id"), nil, key("bos_token_id"), uint32(0)), main, []any{"post_processor", "single", 0}, `{"SpecialToken":{"id":"[PAD]","type_id":0}}`},
		"no special words":      {words(key("cls_token_id"), nil, key("seperator_token_id"), nil), main, post, `null`},
		"another unknown word":  {words(key("unknown_token_id"), uint32(0)), main, []any{"model", "unk_token"}, `"[PAD]"`},
		"spelled as special":    {words(key("tokens"), []string{"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[x]", "▁"}), main, []any{"model", "vocab"}, `{"[CLS]":2,"[EMPTY_5]":5,"[PAD]":0,"[SEP]":3,"[UNK]":1,"[x]":4}`},
		"the length":            {words(), small, []any{"model_max_length"}, `64`},
		"inputs of BERT":        {words(), small, []any{"model_input_names"}, `["input_ids","token_type_ids","attention_mask"]`},
		"inputs of Unigram":     {pieceKeys, small, []any{"model_input_names"}, `["input_ids","attention_mask"]`},
		"inputs of bytes":       {byteKeys, small, []any{"model_input_names"}, `["input_ids","attention_mask"]`},
		"assumed words":         {keys{key("model"): "bert", key("tokens"): named, key("token_type"): control}, "special_tokens_map.json", nil, `{"cls_token":"[101]","mask_token":"[103]","pad_token":"[0]","sep_token":"[102]","unk_token":"[100]"}`},
		"around assumed words":  {keys{key("model"): "bert", key("tokens"): named, key("token_type"): control}, main, []any{"post_processor", "single"}, `[{"SpecialToken":{"id":"[101]","type_id":0}},{"Sequence":{"id":"A","type_id":0}},{"SpecialToken":{"id":"[102]","type_id":0}}]`},
		"no flags for words":    {words(key("add_bos_token"), true), small, []any{"add_bos_token"}, `null`},
		"spaces removed":        {parts(key("remove_extra_whitespaces"), true), main, []any{"normalizer", "normalizers"}, `[{"content":"","pattern":{"Regex":"\\A +| +\\z"},"type":"Replace"},{"content":" ","pattern":{"Regex":" {2,}"},"type":"Replace"}]`},
		"characters normalized": {parts(key("precompiled_charsmap"), listOf[any](int8(-1), uint8(255), int8(0), uint8(7))), main, []any{"normalizer"}, `{"normalizers":[{"precompiled_charsmap":"//8ABw==","type":"Precompiled"}],"type":"Sequence"}`},
		"pieces without prefix": {parts(key("add_space_prefix"), false), main, []any{"pre_tokenizer", "prepend_scheme"}, `"never"`},
		"pieces with bos":       {parts(key("bos_token_id"), uint32(0), key("add_bos_token"), true, key("add_eos_token"), false), main, []any{"post_processor", "single"}, `[{"SpecialToken":{"id":"<pad>","type_id":0}},{"Sequence":{"id":"A","type_id":0}}]`},
		"pieces without unk":    {parts(key("unknown_token_id"), uint32(99)), main, []any{"model", "unk_id"}, `null`},
		"a plain padding token": {bytes(key("padding_token_id"), uint32(0), key("token_type"), []int32{1, 1, 1, 1, 3}), small, []any{"pad_token"}, `null`},
		"a marker as padding":   {bytes(key("padding_token_id"), uint32(4), key("token_type"), []int32{1, 1, 1, 1, 1}), small, []any{"pad_token"}, `"<s>"`},
		"no template":           {bytes(), small, []any{"chat_template"}, `null`},
		"a bad template":        {bytes("tokenizer.chat_template", "\xff"), small, []any{"chat_template"}, `null`},
		"a number as template":  {bytes("tokenizer.chat_template", 5), small, []any{"chat_template"}, `null`},
		"named templates": {bytes("tokenizer.chat_template", "d", "tokenizer.chat_templates", []string{"x", "y", "default", "x"}, "tokenizer.chat_template.x", "X", "tokenizer.chat_template.rag", "R"), small, []any{"chat_template"},
			`[{"name":"default","template":"d"},{"name":"x","template":"X"},{"name":"rag","template":"R"}]`},
		"only a named one": {bytes("tokenizer.chat_template.tool_use", "T"), small, []any{"chat_template"}, `[{"name":"tool_use","template":"T"}]`},
	} {
		t.Run(name, func(t *testing.T) {
			if got := at(t, put(t, c.k)[c.file], c.path...); got != c.want {
				t.Errorf("%v is %s\nwant %s", c.path, got, c.want)
			}
		})
	}
}

// TestScoredMerges compares the merges of a real vocabulary with the merges that the simplest
// program computes from its scores.
func TestScoredMerges(t *testing.T) {
	p := parse(t, filepath.Join(wholeHF, "vocab", "ggml-vocab-llama-spm.gguf.gz"))
	files, err := written(p.Value, "llama")
	if err != nil {
		t.Fatal(err)
	}
	values := func(key string) (l []any) {
		for v := range p.Value(key).(tensorfs.Array).Values() {
			l = append(l, v)
		}
		return l
	}
	texts, scores, types := values("tokenizer.ggml.tokens"), values("tokenizer.ggml.scores"), values("tokenizer.ggml.token_type")
	ids := map[string]int{}
	for id, text := range texts {
		if kind := types[id].(int32); kind != 2 && kind != 3 && kind != 6 {
			ids[text.(string)] = id
		}
	}
	type merge struct {
		left, right string
		score       float32
	}
	var want []merge
	for id, v := range texts {
		text := v.(string)
		if _, ok := ids[text]; !ok {
			continue
		}
		for i := 1; i < len(text); i++ {
			_, left := ids[text[:i]]
			_, right := ids[text[i:]]
			if left && right {
				want = append(want, merge{text[:i], text[i:], scores[id].(float32)})
			}
		}
	}
	slices.SortStableFunc(want, func(a, b merge) int {
		return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(utf8.RuneCountInString(b.left), utf8.RuneCountInString(a.left)), cmp.Compare(utf8.RuneCountInString(b.right), utf8.RuneCountInString(a.right)))
	})
	var got struct{ Model struct{ Merges []string } }
	if err := json.Unmarshal(files["tokenizer.json"], &got); err != nil {
		t.Fatal(err)
	}
	lines := make([]string, len(want))
	for i, m := range want {
		lines[i] = m.left + " " + m.right
	}
	if len(lines) != 61249 || !reflect.DeepEqual(got.Model.Merges, lines) {
		t.Errorf("%d merges, want %d", len(got.Model.Merges), len(lines))
	}
}
