package settings

import (
	"encoding/binary"
	"fmt"
	"iter"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/architectures"
	"github.com/tensorfs/tensorfs/formats/tokenizer"
	"github.com/tensorfs/tensorfs/internal/convert/layout"
)

// GenerationName is the file of how a model generates texts.
const GenerationName = "generation_config.json"

// sampling are rows: how the author of a model wants tokens to be chosen, in
// generation_config.json and in GGUF, after general.sampling.: i32, or f32 of the range
// that generation_config.json takes.
var sampling = []struct {
	field, key  string
	whole       bool
	least, most float64
}{
	{"temperature", "temp", false, 0, math.MaxFloat32},
	{"top_k", "top_k", true, 0, math.MaxInt32},
	{"top_p", "top_p", false, math.SmallestNonzeroFloat32, 1},
	{"min_p", "min_p", false, 0, 1},
	{"repetition_penalty", "penalty_repeat", false, math.SmallestNonzeroFloat32, math.MaxFloat32},
}

// samplingKeys returns how the model's makers want tokens to be chosen. They are hints: one that
// cannot be read is noted and left out.
func (s *Model) samplingKeys() []tensorfs.Meta {
	generation, err := s.generation()
	if err != nil {
		s.notes = append(s.notes, tensorfs.OneLine(err.Error())+": nothing of it is in the file")
		return nil
	}
	var meta []tensorfs.Meta
	var lost []string
	for _, row := range sampling {
		key := generalKeys + "sampling." + row.key
		if n, ok := generation.Integer(row.field); row.whole && ok && n == int64(int32(n)) {
			meta = append(meta, tensorfs.Meta{Key: key, Value: int32(n)})
		} else if x, ok := generation.Number(row.field); !row.whole && ok {
			if v, _, ok := toKind(architectures.Real, x); ok {
				meta = append(meta, tensorfs.Meta{Key: key, Value: v})
			}
		} else if v := generation.Value(row.field); v != nil {
			lost = append(lost, row.field+" "+Shown(v))
		}
	}
	s.noteGeneration(generation, lost)
	return meta
}

// unsaid are the fields of generation_config.json that change which tokens transformers chooses,
// and that no GGUF key states, with the number at which each changes nothing.
var unsaid = map[string]float64{
	"bad_words_ids": 0, "begin_suppress_tokens": 0, "diversity_penalty": 0, "dola_layers": 0, "encoder_no_repeat_ngram_size": 0,
	"encoder_repetition_penalty": 1, "epsilon_cutoff": 0, "eta_cutoff": 0, "exponential_decay_length_penalty": 0, "force_words_ids": 0,
	"forced_bos_token_id": -1, "forced_eos_token_id": -1, "guidance_scale": 1, "min_length": 0, "min_new_tokens": 0, "no_repeat_ngram_size": 0,
	"num_beams": 1, "penalty_alpha": 0, "sequence_bias": 0, "stop_strings": 0, "suppress_tokens": 0, "top_h": 1, "typical_p": 1, "watermarking_config": 0,
}

// noteGeneration notes the fields of generation_config.json that transformers obeys and that the
// file loses. Other fields change nothing: transformers does not declare them.
func (s *Model) noteGeneration(generation Fields, lost []string) {
	for _, name := range slices.Sorted(maps.Keys(unsaid)) {
		v := generation.Value(name)
		x, isNumber := finite(v)
		if isNumber && x == unsaid[name] || !isNumber && saysNothing("type", v) || name == "suppress_tokens" && s.known["suppressed_tokens"] != nil {
			continue
		}
		lost = append(lost, name+" "+Shown(v))
	}
	if samples, ok := generation.Flag("do_sample"); ok && !samples {
		if x, ok := generation.Number("temperature"); !ok || x != 0 {
			lost = append(lost, "do_sample false")
		}
	}
	if len(lost) > 0 {
		s.notes = append(s.notes, fmt.Sprintf("%s: a GGUF file does not say %s: set it where you run the model", GenerationName, strings.Join(lost, ", ")))
	}
}

// LostEnds is a note about the tokens at which transformers ends an answer and llama.cpp, by the
// keys of the file, does not; it is "" without any.
func (s *Model) LostEnds(tokens []string, keys []tensorfs.Meta) string {
	generation, err := s.generation()
	if err != nil {
		return ""
	}
	said := generation.plain("eos_token_id")
	list, ok := said.([]any)
	if !ok {
		list = []any{said}
	}
	at := ByKey(keys)
	ends := tokenizer.Ends(func(key string) any {
		if list, ok := at[key].([]string); ok {
			return texts(list)
		}
		return at[key]
	})
	var lost []string
	for _, v := range list {
		if id, ok := v.(int64); ok && id >= 0 && id < int64(len(tokens)) && !slices.Contains(ends, int(id)) {
			lost = append(lost, fmt.Sprintf("%d (%s)", id, tensorfs.Quote(tokens[id])))
		}
	}
	if len(lost) == 0 {
		return ""
	}
	if len(lost) > maxNamed {
		lost = append(lost[:maxNamed:maxNamed], fmt.Sprintf("%d more", len(lost)-maxNamed))
	}
	return fmt.Sprintf("%s: llama.cpp does not end an answer at %s: stop there where you run the model", GenerationName, strings.Join(lost, ", "))
}

// texts is a list of metadata.
type texts []string

func (t texts) Len() int { return len(t) }

func (t texts) Values() iter.Seq[any] {
	return func(yield func(any) bool) {
		for _, text := range t {
			if !yield(text) {
				return
			}
		}
	}
}

// generationMeanings are about the file of how a model generates texts.
var generationMeanings = map[string]meaning{
	// The tokens that are never chosen. Any other value is noted as lost.
	"suppressed": {toGGUF: func(c call) any {
		generation, err := c.generation()
		if err != nil {
			return nil
		}
		list, _ := generation.plain("suppress_tokens").([]any)
		if len(list) == 0 || slices.ContainsFunc(list, func(id any) bool { n, ok := id.(int64); return !ok || n < 0 || n >= c.given.Rows }) {
			return nil
		}
		return list
	}},
	// The tokens after the tokenizer's own whose rows of the embedding are zeros.
	"zero_rows": {toGGUF: func(c call) any {
		t := c.tensor("token_embedding.weight")
		if t == nil || !c.given.Tokenizer {
			return nil
		}
		list, err := zeroRows(t, c.given.Own)
		if err != nil {
			c.refuse("tokens without an embedding are not known: %v", err)
		}
		if list == nil {
			return nil
		}
		return list
	}},
}

// maxZeroRows bounds how many rows of an embedding are read.
const maxZeroRows = 1 << 14

// zeroRows returns the rows of a matrix that are zeros, from a row on.
func zeroRows(t *tensorfs.Tensor, first int64) (list []any, err error) {
	shape := t.Numbers()
	if len(shape) != 2 || first == 0 || shape[0]-first > maxZeroRows {
		return nil, fmt.Errorf("%s of shape %v has %d rows of tokens that tokenizer.json does not add", tensorfs.Quote(t.Source), shape, first)
	}
	numbers, err := layout.Encoded(t, tensorfs.F32)
	if err != nil {
		return nil, err
	}
	row := make([]byte, 4*shape[1])
	for i := first; i < shape[0]; i++ {
		if err := tensorfs.ReadFull(numbers.Data, row, i*int64(len(row))); err != nil {
			return nil, err
		}
		isZero := true
		for at := 0; at < len(row) && isZero; at += 4 {
			isZero = binary.LittleEndian.Uint32(row[at:])<<1 == 0 // whatever its sign
		}
		if isZero {
			list = append(list, i)
		}
	}
	return list, nil
}

// sampled returns settings of sampling in the form of generation_config.json; false if that
// is not possible. llama.cpp's further settings (xtc, mirostat, how far back a penalty
// looks) have no name there.
func sampled(v any, asWhole bool, least, most float64) (any, bool) {
	if asWhole { // 0 and less: as many as there are
		n, ok := wholeNumber(v)
		return max(n, 0), ok && float64(n) <= most
	}
	switch v.(type) {
	case float32, float64:
		x := double(v)
		return v, x >= least && x <= most
	}
	return v, false
}

// Generation returns generation_config.json, with notes for the user. Models like BERT, which generate nothing, have none:
// nil.
func (s *Model) Generation() (text []byte, notes []string) {
	if s.arch.Has("traits", architectures.Silent) {
		return nil, nil
	}
	var o, chosen Object
	greedy := false
	for _, row := range sampling {
		key := generalKeys + "sampling." + row.key
		v := s.keys.value(key)
		if v == nil {
			continue
		}
		value, ok := sampled(v, row.whole, row.least, row.most)
		if !ok {
			notes = append(notes, fmt.Sprintf("%s has no %s: %s is %s, which it cannot say", GenerationName, row.field, key, Shown(v)))
			continue
		}
		chosen = append(chosen, Member{row.field, value})
		greedy = greedy || row.field == "temperature" && double(value) == 0
	}
	if chosen == nil {
		o = Object{{"_from_model_config", true}}
	} else {
		o = Object{{"do_sample", !greedy}}
	}
	o = o.With("bos_token_id", s.tokenID("bos_token_id")).With("eos_token_id", s.allEnds()).With("pad_token_id", s.tokenID("padding_token_id"))
	if list, ok := s.raw("suppressed_tokens").([]any); ok {
		o = append(o, Member{"suppress_tokens", list})
	}
	return append(o, chosen...).Text(), notes
}
