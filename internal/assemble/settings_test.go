package assemble

import (
	"testing"

	"github.com/tensorfs/tensorfs/internal/jsonobj"
)

// find returns the settings of a config.json, as parsers do.
func find(t *testing.T, text string) *Settings {
	t.Helper()
	config, err := jsonobj.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	for where, scope := range Scopes(config) {
		if s := FindSettings(where, scope); s != nil {
			return s
		}
	}
	return nil
}

func TestSettings(t *testing.T) {
	for _, c := range []struct {
		config string
		want   any // Params of module m, or the error
	}{
		{`{}`, nil},
		{`{"quantization":{"mode":"affine"}}`, nil},
		{`{"quantization":{"bits":4,"group_size":32,"quant_method":"gptq"}}`, nil},
		{`{"quantization":{"bits":4,"group_size":32,"load_in_4bit":true}}`, nil},
		{`{"quantization":{"bits":4,"group_size":32,"quant_method":null}}`, Params{Affine, 4, 32}},
		{`{"quantization":{},"quantization_config":{"bits":3,"group_size":128}}`, Params{Affine, 3, 128}},
		{`{"quantization":{"bits":2,"group_size":64},"text_config":{"quantization":{"bits":8,"group_size":64}}}`, Params{Affine, 2, 64}},
		{`{"text_config":{"quantization":{"bits":8,"group_size":64}}}`, Params{Affine, 8, 64}},
		{`{"llm_config":{"quantization":{"bits":8,"group_size":64}}}`, Params{Affine, 8, 64}},
		{`{"thinker_config":{"text_config":{"quantization":{"bits":8,"group_size":64,"m":false}}}}`, "config.json (thinker_config.text_config) marks it as not quantised, although it has scales"},
		{`{"quantization":{"bits":8,"group_size":64,"m":{"mode":"mxfp4"}}}`, Params{"mxfp4", 4, 32}},
		{`{"quantization":{"m":{"bits":8}}}`, Params{Affine, 8, 64}},
		{`{"quantization":{"other":{"bits":8}}}`, "config.json names no bits and group_size for it"},
		{`{"text_config":{"quantization":{"bits":8,"group_size":64,"m":false}}}`, "config.json (text_config) marks it as not quantised, although it has scales"},
		{`{"quantization":{"bits":8,"group_size":64,"m":null}}`, "config.json has \"null\" for it, which is not a setting"},
		{`{"quantization":{"bits":8,"group_size":64,"mode":5}}`, `the mode "" is not known`},
		{`{"quantization":{"bits":8,"group_size":16}}`, "affine with 8 bits in groups of 16 does not exist"},
		{`{"quantization":{"bits":8.5,"group_size":64}}`, "bits is not an integer"},
	} {
		s := find(t, c.config)
		if s == nil || c.want == nil {
			if s != nil || c.want != nil {
				t.Errorf("%s: %v, want %v", c.config, s, c.want)
			}
			continue
		}
		p, err := s.Of("m", false)
		if err != nil && err.Error() != c.want || err == nil && p != c.want {
			t.Errorf("%s: %v, %v, want %v", c.config, p, err, c.want)
		}
	}
}
