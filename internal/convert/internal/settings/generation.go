package settings

import (
	"fmt"
	"math"
	"slices"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/architectures"
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

// samplingKeys returns what the model's makers want to be drawn with. They are
// hints: one that cannot be read is left out.
func samplingKeys(m *tensorfs.Model) []tensorfs.Meta {
	generation, err := Read(m, GenerationName)
	if err != nil {
		return nil
	}
	var meta []tensorfs.Meta
	for _, s := range sampling {
		key := "general.sampling." + s.key
		if s.whole {
			if n, ok := generation.Integer(s.field); ok && n == int64(int32(n)) {
				meta = append(meta, tensorfs.Meta{Key: key, Value: int32(n)})
			}
			continue
		}
		if x, ok := generation.Number(s.field); ok {
			if v, _, ok := fits(architectures.Real, x); ok {
				meta = append(meta, tensorfs.Meta{Key: key, Value: v})
			}
		}
	}
	return meta
}

// generationMeanings are about the file of how a model generates texts.
var generationMeanings = map[string]meaning{
	// The tokens that are never chosen. Unlike hints, a list that cannot be read is an error.
	"suppressed": {toGGUF: func(c call) any {
		generation, err := Read(c.m, GenerationName)
		if err != nil {
			c.fail(err)
			return nil
		}
		v := generation.plain("suppress_tokens")
		list, ok := v.([]any)
		switch {
		case v == nil || ok && len(list) == 0:
			return nil
		case !ok || slices.ContainsFunc(list, func(id any) bool { n, ok := id.(int64); return !ok || n < 0 || n >= c.given.Rows }):
			c.fail(fmt.Errorf("%s: suppress_tokens is %s, and no list of the model's tokens", GenerationName, Shown(generation.Value("suppress_tokens"))))
			return nil
		}
		return list
	}},
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
	if s.modelType() == "bert" {
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
