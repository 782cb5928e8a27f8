package convert

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/near"
)

// Change sets a key of a model's GGUF file, or removes it. In hf/ and mlx/ only
// [TemplateKey] has an effect.
type Change struct {
	Key   string
	Unset bool
	// Text is the value as it is written. A key that the file has, or that is in the table of
	// known ones, has its type; any other wants one in front, such as "u32:7".
	Text string
	// Plain marks Text as an unquoted string, such as a file's content.
	Plain bool
}

// TemplateKey is the key of the chat template.
const TemplateKey = "tokenizer.chat_template"

// Limits of what is set.
const (
	MaxChangedKey   = 64 << 10
	MaxChangedValue = 16 << 20
)

// String is the change as a command line has it, for notes.
func (c Change) String() string {
	if c.Unset {
		return c.Key + " is left out (--unset)"
	}
	if text := tensorfs.Quote(c.Text); len(text) < 60 {
		return c.Key + " is " + text + " (--set)"
	}
	return fmt.Sprintf("%s is a text of %d bytes (--set)", c.Key, len(c.Text))
}

// CheckChanges refuses changes that cannot be made to any file: of keys that shapes, types or the
// layout of the file follow from, of a key twice, and of what is too large.
func CheckChanges(list []Change) error {
	seen := map[string]bool{}
	for _, c := range list {
		if err := c.check(); err != nil {
			return err
		}
		if seen[c.Key] {
			return fmt.Errorf("the key %s is given twice", tensorfs.Printable(c.Key))
		}
		seen[c.Key] = true
	}
	return nil
}

func (c *Change) check() error {
	switch {
	case c.Key == "" || len(c.Key) > MaxChangedKey:
		return fmt.Errorf("a key has 1 to %d bytes, and this one has %d", MaxChangedKey, len(c.Key))
	case !utf8.ValidString(c.Key) || strings.ContainsFunc(c.Key, func(r rune) bool { return r <= ' ' || r == 0x7f }):
		return fmt.Errorf("the key %s has characters that no key has", tensorfs.Quote(c.Key))
	case len(c.Text) > MaxChangedValue:
		return fmt.Errorf("the value of %s has %d bytes, and at most %d are set", tensorfs.Printable(c.Key), len(c.Text), MaxChangedValue)
	case !utf8.ValidString(c.Text):
		return fmt.Errorf("the value of %s is not UTF-8", tensorfs.Printable(c.Key))
	}
	if why := fixed(c.Key); why != "" {
		return fmt.Errorf("%s is not changed here: %s", tensorfs.Printable(c.Key), why)
	}
	return nil
}

// fixed explains why a key cannot be changed, "" if it can.
func fixed(key string) string {
	for _, f := range fixedKeys {
		if key == f.key || strings.HasPrefix(f.key, "*") && strings.HasSuffix(key, f.key[1:]) || strings.HasSuffix(f.key, "*") && strings.HasPrefix(key, f.key[:len(f.key)-1]) {
			return f.why
		}
	}
	return ""
}

const (
	shapes = "the shapes of tensors follow from it"
	tokens = "it belongs to the tokens, whose numbers are rows of tensors"
	file   = "the layout of the file follows from it"
)

// fixedKeys are the keys that cannot be changed; * matches anything.
var fixedKeys = []struct{ key, why string }{
	{"general.architecture", shapes}, {"general.alignment", file}, {"general.file_type", "the types of tensors are said by it"}, {"general.quantization_version", "the types of tensors are said by it"},
	{"split.*", file}, {"*_count", shapes}, {"*_length", shapes}, {"*.vocab_size", shapes}, {"*_size", shapes}, {"*.head_count_kv", shapes}, {"*_rank", shapes}, {"*_lora", shapes},
	{"tokenizer.ggml.tokens", tokens}, {"tokenizer.ggml.scores", tokens}, {"tokenizer.ggml.token_type", tokens}, {"tokenizer.ggml.merges", tokens}, {"tokenizer.ggml.added_tokens", tokens},
	{"tokenizer.ggml.precompiled_charsmap", tokens},
}

// knownKeys have a type even if the file lacks them; * matches an architecture.
var knownKeys = map[string]string{
	"general.name": "str", "general.author": "str", "general.version": "str", "general.organization": "str", "general.finetune": "str", "general.basename": "str",
	"general.description": "str", "general.quantized_by": "str", "general.size_label": "str", "general.license": "str", "general.license.name": "str", "general.license.link": "str",
	"general.url": "str", "general.doi": "str", "general.uuid": "str", "general.repo_url": "str", "general.source.url": "str", "general.type": "str",
	"general.sampling.temp": "f32", "general.sampling.top_k": "i32", "general.sampling.top_p": "f32", "general.sampling.min_p": "f32", "general.sampling.penalty_repeat": "f32",
	TemplateKey: "str", "tokenizer.ggml.model": "str", "tokenizer.ggml.pre": "str",
	"tokenizer.ggml.bos_token_id": "u32", "tokenizer.ggml.eos_token_id": "u32", "tokenizer.ggml.eot_token_id": "u32", "tokenizer.ggml.eom_token_id": "u32",
	"tokenizer.ggml.unknown_token_id": "u32", "tokenizer.ggml.padding_token_id": "u32", "tokenizer.ggml.seperator_token_id": "u32", "tokenizer.ggml.mask_token_id": "u32",
	"tokenizer.ggml.add_bos_token": "bool", "tokenizer.ggml.add_eos_token": "bool", "tokenizer.ggml.add_sep_token": "bool", "tokenizer.ggml.add_space_prefix": "bool",
	"tokenizer.ggml.remove_extra_whitespaces": "bool",
	"*.rope.freq_base":                        "f32", "*.rope.scaling.type": "str", "*.rope.scaling.factor": "f32", "*.rope.scaling.attn_factor": "f32", "*.attention.sliding_window": "u32",
	"*.expert_weights_scale": "f32", "*.expert_weights_norm": "bool", "*.pooling_type": "u32", "*.attention.causal": "bool", "*.logit_scale": "f32",
}

// newTypes are the types that a new key may have.
var newTypes = []string{"u32", "i32", "f32", "bool", "str"}

// apply returns the keys of a file after the changes, which [CheckChanges] has accepted.
// The error names the impossible value or key.
func apply(changes []Change, meta []tensorfs.Meta) ([]tensorfs.Meta, error) {
	if len(changes) == 0 {
		return meta, nil
	}
	meta = slices.Clone(meta)
	for i := range changes {
		c := &changes[i]
		at := slices.IndexFunc(meta, func(e tensorfs.Meta) bool { return e.Key == c.Key })
		if c.Unset {
			if at < 0 {
				return nil, fmt.Errorf("--unset %s: there is no such key%s", tensorfs.Printable(c.Key), nearKey(c.Key, meta))
			}
			meta = slices.Delete(meta, at, at+1)
			continue
		}
		var old any
		if at >= 0 {
			old = meta[at].Value
		}
		value, err := c.value(old, meta)
		if err != nil {
			return nil, fmt.Errorf("--set %s: %w", tensorfs.Printable(c.Key), err)
		}
		if at >= 0 {
			meta[at].Value = value
		} else {
			meta = append(meta, tensorfs.Meta{Key: c.Key, Value: value})
		}
	}
	return meta, nil
}

// nearKey asks whether another key of the file was meant.
func nearKey(key string, meta []tensorfs.Meta) string {
	var keys []string
	for _, e := range meta {
		keys = append(keys, e.Key)
	}
	if close := near.Names(key, keys, 3); len(close) > 0 {
		return "; " + near.Question(close)
	}
	return ""
}

// value is the new value of a key; old is its present value, nil if the key is new.
func (c *Change) value(old any, meta []tensorfs.Meta) (any, error) {
	if _, isList := old.(tensorfs.Array); isList {
		return nil, errors.New("it is a list, and lists are not set")
	}
	kind, text := kindOf(old), c.Text
	if kind == "" {
		kind = knownKeys[c.Key]
	}
	if arch, rest, ok := strings.Cut(c.Key, "."); ok && kind == "" && arch != "general" && arch != "tokenizer" {
		kind = knownKeys["*."+rest]
	}
	if kind == "" && !c.Plain {
		word, rest, ok := strings.Cut(text, ":")
		if !ok || !slices.Contains(newTypes, word) {
			return nil, fmt.Errorf("neither the file nor its format knows the key%s; a new one wants its type in front, such as --set %s=u32:7 (%s)",
				nearKey(c.Key, meta), tensorfs.Printable(c.Key), strings.Join(newTypes, ", "))
		}
		kind, text = word, rest
	}
	if c.Plain && kind != "str" {
		if kind != "" {
			return nil, fmt.Errorf("it is a value of type %s, and a file has a text", kind)
		}
		kind = "str"
	}
	v, err := parse(kind, text)
	if err != nil {
		return nil, fmt.Errorf("%s is not a value of type %s", tensorfs.Quote(shortened(text)), kind)
	}
	return v, nil
}

func shortened(text string) string {
	if len(text) > 80 {
		return strings.ToValidUTF8(text[:80], "") + "..."
	}
	return text
}

// kindOf names the type of a value.
func kindOf(v any) string {
	switch v.(type) {
	case string:
		return "str"
	case bool:
		return "bool"
	case float32:
		return "f32"
	case float64:
		return "f64"
	case uint8:
		return "u8"
	case int8:
		return "i8"
	case uint16:
		return "u16"
	case int16:
		return "i16"
	case uint32:
		return "u32"
	case int32:
		return "i32"
	case uint64:
		return "u64"
	case int64:
		return "i64"
	}
	return ""
}

// parse reads a value of a type. Numbers are finite.
func parse(kind, text string) (any, error) {
	switch kind {
	case "str":
		return text, nil
	case "bool":
		if text != "true" && text != "false" {
			return nil, strconv.ErrSyntax
		}
		return text == "true", nil
	}
	width, err := strconv.Atoi(kind[1:])
	if err != nil {
		return nil, err
	}
	switch kind[0] {
	case 'f':
		x, err := strconv.ParseFloat(text, width)
		if err != nil || math.IsNaN(x) || math.IsInf(x, 0) {
			return nil, strconv.ErrRange
		}
		if width == 32 {
			return float32(x), nil
		}
		return x, nil
	case 'u':
		n, err := strconv.ParseUint(text, 10, width)
		return map[int]any{8: uint8(n), 16: uint16(n), 32: uint32(n), 64: n}[width], err
	}
	n, err := strconv.ParseInt(text, 10, width)
	return map[int]any{8: int8(n), 16: int16(n), 32: int32(n), 64: n}[width], err
}

// noteChanges lists the changes.
func (f *Files) noteChanges(changes []Change) {
	for _, c := range changes {
		f.Notes = append(f.Notes, c.String())
	}
}

// CheckChangesOf is [CheckChanges] for a model that is a GGUF file, whose keys are known.
func CheckChangesOf(m *tensorfs.Model, changes []Change) error {
	if m.Layout != "gguf" || m.Format != "gguf" {
		return nil
	}
	_, err := apply(changes, m.Metadata)
	return err
}

// Template returns what the changes make of a chat template: its text, or nothing. ok is
// whether they say anything of it.
func Template(changes []Change) (text []byte, ok bool) {
	for _, c := range changes {
		if c.Key == TemplateKey {
			if c.Unset {
				return nil, true
			}
			return bytes.Clone([]byte(c.Text)), true
		}
	}
	return nil, false
}
