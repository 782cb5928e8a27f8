package settings

import (
	"fmt"
	"math"
	"strings"

	"github.com/tensorfs/tensorfs/formats/architectures"
)

// noteYarn notes config.json's settings of yarn that llama.cpp computes differently.
func (s *Model) noteYarn() {
	if s.ropeType() != "yarn" || s.failed != nil {
		return
	}
	var lost []string
	for _, x := range []struct {
		fact, field string
		constant    float64 // of llama.cpp
	}{{"yarn_beta_fast", "beta_fast", 32}, {"yarn_beta_slow", "beta_slow", 1}} {
		if v, ok := s.rope.Number(x.field); ok && v != x.constant && !s.readsYarn(x.fact) {
			lost = append(lost, fmt.Sprintf("%s %v (llama.cpp has %v)", x.field, v, x.constant))
		}
	}
	if truncate, ok := s.rope.Flag("truncate"); ok && !truncate && !s.yarnIs("untruncated") {
		lost = append(lost, "truncate false (llama.cpp rounds)")
	}
	if s.class != nil && !s.readsYarn("yarn_attn_factor") {
		wanted, computed := s.yarnScales()
		for i, what := range []string{"cosines and sines", "the scores of attention"} {
			if math.Abs(wanted[i]-computed[i]) > 1e-4 {
				lost = append(lost, fmt.Sprintf("what %s are multiplied by, %.4g (llama.cpp has %.4g)", what, wanted[i], computed[i]))
			}
		}
	}
	if lost != nil {
		s.notes = append(s.notes, fmt.Sprintf("config.json: llama.cpp does not obey all that is said of yarn, and answers differ: %s", strings.Join(lost, ", ")))
	}
}

// yarnIs reports what the architecture has of yarn besides facts.
func (s *Model) yarnIs(word string) bool { return architectures.Said(s.arch.GGUF, "yarn", word) }

// readsYarn reports whether llama.cpp reads a fact about yarn from the file.
func (s *Model) readsYarn(fact string) bool { return architectures.Said(s.arch.GGUF, "yarn", fact) }

// yarnScales returns what transformers and llama.cpp multiply cosines and sines by, and the scores of
// attention besides.
func (s *Model) yarnScales() (wanted, computed [2]float64) {
	factor, ok := s.rope.Number("factor")
	if !ok {
		factor = float64(s.count("max_seq_len")) / float64(s.originalContext())
	}
	scale := func(by float64) float64 { return 1 + 0.1*by*math.Log(max(factor, 1)) }
	mscale, _ := s.rope.Number("mscale")
	all, _ := s.rope.Number("mscale_all_dim")
	given, isGiven := s.rope.Number("attention_factor")
	wanted, computed = [2]float64{scale(1), 1}, [2]float64{scale(1), 1}
	switch {
	case isGiven:
		wanted[0] = given
	case mscale != 0 && all != 0:
		wanted[0] = scale(mscale) / scale(all)
	}
	log := 0.0
	if s.readsYarn("yarn_log") && s.has("yarn_log") {
		log = all
	}
	if log != 0 {
		one := 1.0
		if s.yarnIs("equal_scales") {
			one = log
		}
		computed[0] = scale(one) / scale(log)
	}
	if s.latent() {
		wanted[1], computed[1] = math.Pow(scale(all), 2), math.Pow(computed[0]*scale(log), 2)
	}
	return wanted, computed
}
