package hfdir

import (
	"fmt"

	"github.com/tensorfs/tensorfs/views/tree/whole"
)

// sampled returns how tokens are to be chosen as generation_config.json has it; false
// where it cannot. What llama.cpp has besides (xtc, mirostat, how far back a penalty
// looks) has no name there.
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

// generation returns generation_config.json, and what a user should know of it. It
// is nil for models like BERT, which generate nothing.
func (c *configMaker) generation() (text []byte, notes []string) {
	if c.model() == "bert" {
		return nil, nil
	}
	var o, chosen jsonObject
	greedy := false
	for _, row := range whole.Sampling {
		key := generalKeys + "sampling." + row.Key
		v := c.keys.value(key)
		if v == nil {
			continue
		}
		value, ok := sampled(v, row.Whole, row.Least, row.Most)
		if !ok {
			notes = append(notes, fmt.Sprintf("%s has no %s: %s is %s, which it cannot say", generationName, row.Field, key, whole.Shown(v)))
			continue
		}
		chosen = append(chosen, jsonMember{row.Field, value})
		greedy = greedy || row.Field == "temperature" && double(value) == 0
	}
	if chosen == nil {
		o = jsonObject{{"_from_model_config", true}}
	} else {
		o = jsonObject{{"do_sample", !greedy}}
	}
	o = o.with("bos_token_id", c.tokenID("bos_token_id")).with("eos_token_id", c.allEnds()).with("pad_token_id", c.tokenID("padding_token_id"))
	return append(o, chosen...).text(), notes
}
