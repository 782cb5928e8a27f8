package hfdir

import (
	"fmt"
	"math"

	"github.com/tensorfs/tensorfs/views/tree/whole"
)

// sampling are rows: how the author of a model wants tokens to be chosen, in GGUF
// (after general.sampling.) and in generation_config.json. What llama.cpp has
// besides (xtc, mirostat, how far back a penalty looks) has no name there.
var sampling = []struct {
	key, name string
	takes     func(v any) (any, bool) // as generation_config.json has it; false where it cannot
}{
	{"temp", "temperature", fraction(0, math.MaxFloat32)},
	{"top_k", "top_k", func(v any) (any, bool) {
		n, ok := wholeNumber(v)
		return max(n, 0), ok && n <= math.MaxInt32 // 0 and less: as many as there are
	}},
	{"top_p", "top_p", fraction(math.SmallestNonzeroFloat32, 1)},
	{"min_p", "min_p", fraction(0, 1)},
	{"penalty_repeat", "repetition_penalty", fraction(math.SmallestNonzeroFloat32, math.MaxFloat32)},
}

// fraction takes floats of a range.
func fraction(least, most float64) func(v any) (any, bool) {
	return func(v any) (any, bool) {
		x := math.NaN()
		switch f := v.(type) {
		case float32:
			x = float64(f)
		case float64:
			x = f
		}
		return v, x >= least && x <= most
	}
}

// generation returns generation_config.json, and what a user should know of it. It
// is nil for models like BERT, which generate nothing.
func (c *configMaker) generation() (text []byte, notes []string) {
	if c.model() == "bert" {
		return nil, nil
	}
	var o, chosen jsonObject
	greedy := false
	for _, row := range sampling {
		key := generalKeys + "sampling." + row.key
		v := c.keys.value(key)
		if v == nil {
			continue
		}
		value, ok := row.takes(v)
		if !ok {
			notes = append(notes, fmt.Sprintf("%s has no %s: %s is %s, which it cannot say", generationName, row.name, key, whole.Shown(v)))
			continue
		}
		chosen = append(chosen, jsonMember{row.name, value})
		greedy = greedy || row.name == "temperature" && double(value) == 0
	}
	if chosen == nil {
		o = jsonObject{{"_from_model_config", true}}
	} else {
		o = jsonObject{{"do_sample", !greedy}}
	}
	o = o.with("bos_token_id", c.tokenID("bos_token_id")).with("eos_token_id", c.allEnds()).with("pad_token_id", c.tokenID("padding_token_id"))
	return append(o, chosen...).text(), notes
}
