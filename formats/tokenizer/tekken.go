package tokenizer

import (
	"cmp"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/jsonobj"
)

const tekkenName = "tekken.json"

// tekkenSpecial are the first special tokens of a tekken.json that lists none, such as the
// versions in tekkenUnlisted.
const (
	tekkenSpecial = "<unk> <s> </s> [INST] [/INST] [AVAILABLE_TOOLS] [/AVAILABLE_TOOLS] [TOOL_RESULTS] [/TOOL_RESULTS] [TOOL_CALLS] [IMG] <pad> " +
		"[IMG_BREAK] [IMG_END] [PREFIX] [MIDDLE] [SUFFIX] [SYSTEM_PROMPT] [/SYSTEM_PROMPT] [TOOL_CONTENT]"
	tekkenUnlisted = "v1 v2 v3 v7"
)

// tekkenRoles are what tokens of a tekken.json are for.
var tekkenRoles = [][2]string{{"bos", "<s>"}, {"eos", "</s>"}, {"unk", "<unk>"}, {"pad", "<pad>"}}

// letters are the characters for bytes in GPT-2's alphabet: printable bytes are themselves,
// and the rest follow in order from 256 on.
var letters = sync.OnceValue(func() *[256]string {
	var list [256]string
	next := rune(256)
	for c := range rune(256) {
		if c > ' ' && c < 0x7f || c > 0xa0 && c != 0xad {
			list[c] = string(c)
		} else {
			list[c] = string(next)
			next++
		}
	}
	return &list
})

// inLetters returns bytes in GPT-2's alphabet.
func inLetters(b []byte) string {
	var text strings.Builder
	list := letters()
	for _, c := range b {
		text.WriteString(list[c])
	}
	return text.String()
}

// tekken reads a tekken.json, in which Mistral publishes tokenizers of bytes: an expression
// that cuts texts, the bytes of tokens by their rank, and special tokens, whose ids come
// first. Only as many tokens count as its config declares.
func (s *source) tekken(v *Vocabulary, text []byte) {
	d := &document{failure: &s.failure, file: tekkenName, rows: s.Rows}
	parts := map[string]jsonobj.Raw{}
	for name, r := range d.want(d.parse(text), "{", "it").Members() {
		parts[name] = r
	}
	config := d.want(parts["config"], "{", "its config")
	size, ok := config.Member("default_vocab_size").Int()
	special, ok2 := config.Member("default_num_special_tokens").Int()
	if !ok || !ok2 || special < 0 || size < special || size > s.Rows {
		d.fail("its config has default_vocab_size %s and default_num_special_tokens %s, which do not fit an embedding of %d rows", tensorfs.Quote(config.Member("default_vocab_size").String()),
			tensorfs.Quote(config.Member("default_num_special_tokens").String()), s.Rows)
	}
	v.Model, v.Flags[flagBOS] = BytesModel, true
	if v.Pre = findPre([]string{config.Member("pattern").Text(), bytesStep}, true, false, true, false); v.Pre == "" {
		d.fail("llama.cpp has no name for how its pattern cuts texts")
	}
	if s.tables(v, s.Rows, max(size, 0)); s.err != nil {
		return
	}
	names := strings.Fields(tekkenSpecial)
	if list := parts["special_tokens"]; list.Kind() != 0 && list.Kind() != 'n' {
		names = nil
		for r := range d.want(list, "[", "its special_tokens").Elements() {
			if rank, ok := r.Member("rank").Int(); !ok || rank != len(names) || r.Member("token_str").Kind() != '"' {
				d.fail("its special token %d has no text, or another rank", len(names))
				return
			}
			names = append(names, r.Member("token_str").Text())
		}
	} else if version := config.Member("version").Text(); !slices.Contains(strings.Fields(tekkenUnlisted), version) {
		d.fail("it is of version %s and has no special_tokens", tensorfs.Quote(version))
	}
	if len(names) > special {
		d.fail("it has %d special_tokens instead of the %d in its config", len(names), special)
		return
	}
	for id := range special {
		if v.Tokens[id], v.Types[id] = fmt.Sprintf("<SPECIAL_%d>", id), control; id < len(names) {
			v.Tokens[id] = names[id]
		}
	}
	for _, role := range tekkenRoles {
		if v.Special[role[0]] = slices.Index(names, role[1]); v.Special[role[0]] < 0 {
			d.fail("it has no token %s", role[1])
		}
	}
	rank, most := 0, size-special
	for r := range d.want(parts["vocab"], "[", "its vocab").Elements() {
		if rank == most || s.err != nil {
			break
		}
		b, err := base64.StdEncoding.DecodeString(r.Member("token_bytes").Text())
		if n, ok := r.Member("rank").Int(); !ok || n != rank || err != nil || len(b) == 0 || rank < 256 && (len(b) != 1 || int(b[0]) != rank) {
			d.fail("its token %d has no bytes, or others than its rank, or another rank", rank)
		}
		v.Tokens[special+rank], v.Types[special+rank] = inLetters(b), normal
		rank++
	}
	if rank < most {
		d.fail("it has %d tokens instead of the %d in its config", rank, most)
	}
	v.Merges = d.rankedMerges(v.Tokens[special:size])
	v.Notes = append(v.Notes, "llama.cpp's converter gives models with a tekken.json a chat template of its own; here they have what their files say")
}

// rankedMerges returns the merges that are equivalent to ranks: of all pairs, the one whose
// token has the lowest rank is merged. Every way to cut a token in two is a merge, parts of
// low ranks first.
func (d *document) rankedMerges(texts []string) (merges []Merge) {
	if d.err != nil {
		return nil
	}
	x, work := d.distinct(texts, "a token has one rank"), 0
	for rank := 256; rank < len(texts) && d.err == nil; rank++ {
		text := texts[rank]
		if work += len(text) * (len(text) + 64); work > maxWork {
			d.fail("its tokens are too many or too long to find their merges from their ranks")
		}
		var cuts [][2]int32
		for at := range text {
			if left, right := x.indexOfText(text[:at]), x.indexOfText(text[at:]); left >= 0 && right >= 0 {
				cuts = append(cuts, [2]int32{left, right})
			}
		}
		if cuts == nil {
			d.fail("its token %d is not the union of two other tokens", rank)
		}
		slices.SortFunc(cuts, func(a, b [2]int32) int { return cmp.Or(cmp.Compare(a[0], b[0]), cmp.Compare(a[1], b[1])) })
		for _, cut := range cuts {
			merges = append(merges, Merge{texts[cut[0]], texts[cut[1]]})
		}
		if len(merges) > maxMerges {
			d.fail("its ranks make more than %d merges", maxMerges)
		}
	}
	return merges
}
