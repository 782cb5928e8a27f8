package tokenizer

import (
	"slices"
	"strconv"
	"strings"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/jsonobj"
)

// fileRoles are what special tokens are for in Hugging Face's files, in their
// order.
var fileRoles = []string{"bos", "eos", "unk", "pad", "sep", "cls", "mask"}

// specials are the texts of special tokens by their role, while they are read.
type specials struct {
	*Vocabulary
	*document
	texts map[string]string
	moved int  // tokens that a template moved from eos to another role
	says  bool // the post-processor defines the beginning and end of a text
}

// beginLlama sets the flags of a source whose files lack them: tokenizers of some classes
// begin a text with bos. For other classes tokenizer.json decides.
func (s *source) beginLlama(v *Vocabulary) {
	v.Flags[flagBOS] = s.class.begins || s.document == nil
}

// special reads the special tokens, and which of them are put around a text. That
// is always said: what llama.cpp does otherwise depends on the model and the
// pre-tokenizer.
func (s *source) special(v *Vocabulary) {
	p := &specials{v, s.document, map[string]string{}, 0, false}
	for _, role := range fileRoles {
		r := s.settings.Raw(role + "_token")
		if r.Kind() == '{' {
			r = r.Member("content")
		}
		p.texts[role] = r.Text()
	}
	if s.document != nil {
		p.default_("bos", "cls")
		p.default_("eos", "sep")
		p.process()
	}
	for _, role := range []string{"bos", "eos", "unk", "sep", "pad", "mask", "eot", "eom"} {
		text := p.texts[role]
		if moves := role == "eot" || role == "eom"; moves && text == "" { // which only templates produce
			continue
		}
		if _, said := v.Special[role]; said { // by a complete file
			continue
		}
		if id, ok := s.specialID(role, text, len(v.Tokens)); ok {
			v.Special[role] = id
		}
	}
	for _, flag := range flagsAfter {
		said, ok := boolean(s.settings.Raw(flag))
		if !ok || p.says && flag != flagSEP { // the library follows the post-processor and ignores the flags
			said = v.Flags[flag]
		}
		v.Flags[flag] = said // false too: GGUF files say each
	}
	for role, token := range s.habit.Roles {
		id, err := strconv.Atoi(token)
		if err != nil {
			id = s.addedID(token)
		}
		if _, ok := v.Special[role]; !ok && id >= 0 && id < len(v.Tokens) {
			v.Special[role] = id
		}
	}
	if s.habit.End != "" {
		s.decoder(len(v.Tokens), func(a addedToken) {
			if a.content == s.habit.End {
				v.Special["eos"] = a.id
			}
		})
	}
	if s.habit.NoBOS {
		v.Flags[flagBOS] = false
	}
}

// addedID returns the id of a token that tokenizer.json adds, -1 for any other text. Of
// several with one text only the first counts.
func (s *source) addedID(text string) int {
	if s.document != nil {
		for _, a := range s.document.added {
			if a.content == text && text != "" {
				return a.id
			}
		}
	}
	return -1
}

// specialID returns the id of a special token: the one that tokenizer.json states for its
// text among the added tokens, otherwise the one in config.json. Its post-processor and
// generation_config.json state ids in the same numbering.
func (s *source) specialID(role, text string, n int) (int, bool) {
	if s.document != nil && text != "" {
		for _, a := range s.document.added {
			if a.content == text && !a.aside && a.statedID < n {
				return a.statedID, true
			}
		}
	}
	r := s.Config.Raw(role + "_token_id")
	if r.Kind() == 0 || r.Kind() == 'n' {
		r = s.Config.Object("text_config").Raw(role + "_token_id")
	}
	id, ok := r.Int()
	return id, ok && id >= 0 && id < n && !strings.ContainsAny(r.String(), ".eE")
}

// segments reads how many kinds of text the model tells apart. If the config is silent, its
// description has the class's default.
func (s *source) segments(v *Vocabulary) {
	v.Segments = s.habit.Segments
	if r := s.config("type_vocab_size"); r.Kind() != 0 && r.Kind() != 'n' {
		var ok bool
		if v.Segments, ok = r.Int(); !ok || v.Segments <= 0 {
			s.fail("config.json: type_vocab_size is %s, which is not a number of token types", tensorfs.Quote(r.String()))
		}
	}
}

// default_ gives a role that no token has the token of another.
func (p *specials) default_(role, other string) {
	if p.texts[role] == "" {
		p.texts[role] = p.texts[other]
	}
}

// process takes from a post-processor what it puts around a text.
func (p *specials) process() {
	list, ok := flatten(p.document.postProcessor, "processors")
	if !ok {
		p.fail("its post_processor is not a list of steps")
	}
	p.says = slices.ContainsFunc(list, func(r jsonobj.Raw) bool {
		return slices.Contains([]string{"RobertaProcessing", "BertProcessing", "TemplateProcessing"}, r.Member("type").Text())
	})
	if p.says {
		p.Flags[flagBOS], p.Flags[flagEOS] = false, false
	}
	for _, r := range list {
		switch r.Member("type").Text() {
		case "ByteLevel": // only offsets
		case "RobertaProcessing":
			p.Flags[flagBOS], p.Flags[flagEOS], p.Flags[flagSEP] = true, true, true
			p.take("cls", r)
			p.take("sep", r)
		case "BertProcessing":
			p.Flags[flagBOS], p.Flags[flagEOS], p.Flags[flagSEP] = true, true, false
		case "TemplateProcessing":
			p.template(r)
		default:
			p.fail("its post_processor %s is not known", typeOf(r))
		}
	}
}

// take gives a role that no token has the token of a post-processor: a text and
// its id.
func (p *specials) take(role string, r jsonobj.Raw) {
	for e := range r.Member(role).Elements() {
		if p.texts[role] == "" {
			p.texts[role] = e.Text()
		}
		return
	}
}

// slot is one place of a template: a special token, or one of its texts.
type slot struct{ special, sequence string }

// slots reads one of the lists of a template.
func (p *specials) slots(r jsonobj.Raw, name string) (list []slot) {
	const most = 64
	r = r.Member(name)
	if k := r.Kind(); k != '[' && k != 0 && k != 'n' {
		p.fail("its post_processor's %s is not a list", name)
	}
	for e := range r.Elements() {
		one := slot{e.Member("SpecialToken").Member("id").Text(), e.Member("Sequence").Member("id").Text()}
		if (one.special == "") == (one.sequence == "") || len(list) == most {
			p.fail("its post_processor's %s is of another form, or has more than %d entries", name, most)
			return nil
		}
		list = append(list, one)
	}
	return list
}

// template reads a TemplateProcessing, the tokens around one text and between two, as far
// as GGUF has flags for them. The rules are llama.cpp's converter's.
func (p *specials) template(r jsonobj.Raw) {
	single, pair := p.slots(r, "single"), p.slots(r, "pair")
	first, last := "", ""
	if len(single) > 1 {
		first, last = single[0].special, single[len(single)-1].special
		for _, s := range single[1 : len(single)-1] {
			if s.special != "" {
				p.Notes = append(p.Notes, "llama.cpp puts at most one token before a text and one behind it: "+tensorfs.Quote(s.special)+" of the source is left out")
				break
			}
		}
	}
	if first != "" {
		if p.texts["bos"] == "" && first != p.texts["cls"] {
			p.texts["bos"] = first
		}
		p.Flags[flagBOS] = first == p.texts["bos"] || first == p.texts["cls"]
		if !p.Flags[flagBOS] {
			p.Notes = append(p.Notes, "llama.cpp does not begin a text with "+tensorfs.Quote(first)+" as the source does")
		}
	}
	if last != "" {
		if eos := p.texts["eos"]; last != eos {
			if eos != "" && p.moved < 2 {
				p.texts[[]string{"eot", "eom"}[p.moved]] = eos
				p.moved++
			}
			p.texts["eos"] = last
		}
		p.Flags[flagEOS] = true
	}
	between := middle(pair, first, last)
	if len(between) == 0 {
		return
	}
	ends := func(s slot) bool {
		return s.special != "" && (s.special == p.texts["sep"] || s.special == p.texts["eos"])
	}
	p.Flags[flagSEP] = ends(between[0]) && last == "" || len(between) == 2 && ends(between[1])
	if p.Flags[flagSEP] {
		p.default_("sep", "eos")
	}
}

// middle returns what a template has between two texts, after what it has around
// a single one was taken away.
func middle(pair []slot, first, last string) []slot {
	if first != "" && len(pair) > 0 && pair[0].special == first {
		pair = pair[1:]
	}
	if n := len(pair); last != "" && n > 0 && pair[n-1].special == last {
		pair = pair[:n-1]
	}
	if n := len(pair); n > 1 && pair[0].sequence == "A" && pair[n-1].sequence == "B" {
		return pair[1 : n-1]
	}
	return nil
}
