package settings

import (
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs"
)

// TestUnknownRope: an unknown setting of rotary embeddings is refused by its name if the model's
// own code may read it, unless its value is neutral. If no program reads it, it gets a note.
func TestUnknownRope(t *testing.T) {
	for rope, want := range map[string]string{
		`"rope_scaling":{"rope_type":"llama3","factor":8.0,"low_freq_factor":1.0,"high_freq_factor":4.0,"original_max_position_embeddings":8192}`: "",
		`"rope_parameters":{"rope_type":"default","rope_theta":5e5,"partial_rotary_factor":1.0}`:                                                  "",
		`"rope_parameters":{"rope_type":"default","rope_theta":5e5,"wobble":0,"note":null}`:                                                       "",
		`"rope_parameters":{"rope_type":"default","wobble":0.5}`:                                                                                  `"rope_parameters.wobble" is 0.5`,
		`"rope_scaling":{"type":"dynamic","factor":2.0,"alpha":1000.0}`:                                                                           `"rope_scaling.alpha" is 1000.0`,
		`"rope_parameters":{"full_attention":{"rope_theta":1e6,"wobble":[1]}}`:                                                                    `"rope_parameters.full_attention.wobble" is a list of 1`,
		`"rope_parameters":{"sliding_attention":{"rope_theta":1e4,"wobble":2}}`:                                                                   `"rope_parameters.sliding_attention.wobble" is 2`,
	} {
		for own, class := range map[bool]string{true: `"auto_map":{"AutoConfig":"own.Config"},`, false: ""} {
			cfg, err := ParseFields("config.json", []byte(`{"architectures":["LlamaForCausalLM"],"model_type":"llama",`+class+rope+`}`))
			if err != nil {
				t.Fatal(err)
			}
			s, err := ToGGUF(&tensorfs.Model{}, cfg)
			if err != nil {
				t.Fatal(rope, err)
			}
			s.checkUnknown()
			name, _, _ := strings.Cut(want, " is ")
			switch said := strings.Join(s.notes, " "); {
			case own && want != "":
				if s.failed == nil || !strings.Contains(s.failed.Error(), want) {
					t.Errorf("%s: %v, want %q", rope, s.failed, want)
				}
			case s.failed != nil || !strings.Contains(said, name):
				t.Errorf("%s: %v, noted %q, want %q", rope, s.failed, said, name)
			}
		}
	}
}
