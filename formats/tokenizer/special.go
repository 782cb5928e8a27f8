package tokenizer

import (
	"fmt"
	"strings"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/jsonobj"
)

// flags say which special tokens are put around a text. All are always written:
// what llama.cpp does without them depends on the model and the pre-tokenizer.
type flags struct{ bos, eos, sep bool }

// roles are what special tokens are for: the name in Hugging Face's files, and
// the one in GGUF's, which has its own spelling. There is no key for cls.
var roles = []struct{ name, key string }{
	{"bos", "bos"}, {"eos", "eos"}, {"unk", "unknown"}, {"sep", "seperator"}, {"pad", "padding"}, {"cls", ""}, {"mask", "mask"}, {"eot", "eot"}, {"eom", "eom"},
}

// specials are the texts of special tokens by their role, and the flags.
type specials struct {
	texts map[string]string
	flags flags
	notes []string
	moved int // tokens that a template moved from eos to another role
}

// llamaFlags are what a source does whose files do not say it: tokenizers of
// Llama and Gemma begin a text with bos. One of another class does what its
// tokenizer.json says.
func (s *source) llamaFlags() flags {
	ours := s.class == "" || strings.HasPrefix(s.class, "Llama") || strings.HasPrefix(s.class, "CodeLlama") || strings.HasPrefix(s.class, "Gemma")
	return flags{bos: ours || s.document == nil}
}

// special returns the keys of special tokens, of n tokens in all.
func (s *source) special(f flags, n int) (meta []tensorfs.Meta, notes []string, err error) {
	p := &specials{map[string]string{}, f, nil, 0}
	for _, role := range roles[:len(roles)-2] { // not those that templates alone make
		r := s.settings.Raw(role.name + "_token")
		if r.Kind() == '{' {
			r = r.Member("content")
		}
		p.texts[role.name] = r.Text()
	}
	if s.document != nil {
		p.default_("bos", "cls")
		p.default_("eos", "sep")
		if err := p.process(s.document); err != nil {
			return nil, nil, err
		}
	}
	for _, role := range roles {
		if role.key == "" || role.name == "eom" && p.moved < 2 || role.name == "eot" && p.moved < 1 {
			continue
		}
		if id, ok := s.specialID(role.name, p.texts[role.name], n); ok {
			meta = append(meta, tensorfs.Meta{Key: "tokenizer.ggml." + role.key + "_token_id", Value: uint32(id)})
		}
	}
	for _, flag := range []struct {
		name  string
		value *bool
	}{{"bos", &p.flags.bos}, {"eos", &p.flags.eos}, {"sep", &p.flags.sep}} {
		if said, ok := boolean(s.settings.Raw("add_" + flag.name + "_token")); ok {
			*flag.value = said
		}
	}
	if s.Architecture == "llama" {
		switch size, _ := s.config("vocab_size").Int(); {
		case size == 32016 && n == size: // Code Llama
			for i, name := range []string{"prefix", "suffix", "middle", "eot"} {
				key := "tokenizer.ggml." + name + "_token_id"
				if name != "eot" || p.moved == 0 {
					meta = append(meta, tensorfs.Meta{Key: key, Value: uint32(32007 + i)})
				}
			}
		case size == 49152: // small models of Granite
			p.flags.bos = false
		}
	}
	return append(meta,
		tensorfs.Meta{Key: "tokenizer.ggml.add_bos_token", Value: p.flags.bos},
		tensorfs.Meta{Key: "tokenizer.ggml.add_eos_token", Value: p.flags.eos},
		tensorfs.Meta{Key: "tokenizer.ggml.add_sep_token", Value: p.flags.sep}), p.notes, nil
}

// specialID returns the id of a special token: of its text among the added tokens
// of tokenizer.json, otherwise that of config.json.
func (s *source) specialID(role, text string, n int) (int, bool) {
	if text != "" && s.document != nil {
		for _, a := range s.document.added {
			if a.content == text {
				if a.id < n {
					return a.id, true
				}
				break // only the first counts
			}
		}
	}
	r := s.config(role + "_token_id")
	id, ok := r.Int()
	return id, ok && id >= 0 && id < n && !strings.ContainsAny(r.String(), ".eE")
}

// default_ gives a role that no token has the token of another.
func (p *specials) default_(role, other string) {
	if p.texts[role] == "" {
		p.texts[role] = p.texts[other]
	}
}

// process takes from a post-processor what it puts around a text.
func (p *specials) process(d *document) error {
	list, ok := flatten(d.postProcessor, "processors")
	if !ok {
		return d.problem("its post_processor is not a list of steps")
	}
	for _, r := range list {
		switch r.Member("type").Text() {
		case "ByteLevel": // offsets alone
		case "RobertaProcessing":
			p.flags = flags{true, true, true}
			p.take("cls", r)
			p.take("sep", r)
		case "BertProcessing":
			p.flags = flags{bos: true, eos: true}
		case "TemplateProcessing":
			if err := p.template(d, r); err != nil {
				return err
			}
		default:
			return d.problem("its post_processor %s is not known", typeOf(r))
		}
	}
	return nil
}

// take gives a role that no token has the token of a post-processor: a text and
// its id.
func (p *specials) take(role string, r jsonobj.Raw) {
	if p.texts[role] != "" {
		return
	}
	for e := range r.Member(role).Elements() {
		p.texts[role] = e.Text()
		return
	}
}

// entry is one of a template: a special token, or where one of its texts goes.
type entry struct{ special, sequence string }

// entries reads a list of a template.
func entries(r jsonobj.Raw) ([]entry, error) {
	const most = 64
	var list []entry
	if k := r.Kind(); k != '[' && k != 0 && k != 'n' {
		return nil, fmt.Errorf("is not a list")
	}
	for e := range r.Elements() {
		one := entry{e.Member("SpecialToken").Member("id").Text(), e.Member("Sequence").Member("id").Text()}
		if (one.special == "") == (one.sequence == "") || len(list) == most {
			return nil, fmt.Errorf("is of another form, or has more than %d entries", most)
		}
		list = append(list, one)
	}
	return list, nil
}

// template reads what a TemplateProcessing puts around one text and between two,
// as far as GGUF has flags for it. The rules are those of llama.cpp's converter.
func (p *specials) template(d *document, r jsonobj.Raw) error {
	single, err := entries(r.Member("single"))
	if err != nil {
		return d.problem("its post_processor's single %w", err)
	}
	pair, err := entries(r.Member("pair"))
	if err != nil {
		return d.problem("its post_processor's pair %w", err)
	}
	first, last := "", ""
	if len(single) > 1 {
		first, last = single[0].special, single[len(single)-1].special
	}
	if first != "" {
		if p.texts["bos"] == "" && first != p.texts["cls"] {
			p.texts["bos"] = first
		}
		p.flags.bos = first == p.texts["bos"] || first == p.texts["cls"]
		if !p.flags.bos {
			p.notes = append(p.notes, "llama.cpp does not begin a text with "+tensorfs.Quote(first)+" as the source does")
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
		p.flags.eos = true
	}
	between, ok := middle(pair, first, last)
	if !ok || len(between) == 0 {
		return nil
	}
	ends := func(e entry) bool {
		return e.special != "" && (e.special == p.texts["sep"] || e.special == p.texts["eos"])
	}
	p.flags.sep = ends(between[0]) && last == "" || len(between) == 2 && ends(between[1])
	if p.flags.sep {
		p.default_("sep", "eos")
	}
	return nil
}

// middle returns what a template has between two texts, after what it has around
// a single one was taken away.
func middle(pair []entry, first, last string) ([]entry, bool) {
	if first != "" && len(pair) > 0 && pair[0].special == first {
		pair = pair[1:]
	}
	if n := len(pair); last != "" && n > 0 && pair[n-1].special == last {
		pair = pair[:n-1]
	}
	if n := len(pair); n > 1 && pair[0].sequence == "A" && pair[n-1].sequence == "B" {
		return pair[1 : n-1], true
	}
	return nil, false
}
