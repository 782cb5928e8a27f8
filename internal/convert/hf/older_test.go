package hf

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
)

// TestOlderConfig holds what transformers 4 is told besides.
func TestOlderConfig(t *testing.T) {
	for name, c := range map[string]struct{ stored, added string }{
		"stale theta":    {`{"rope_theta":1e4,"partial_rotary_factor":1.0,"rope_parameters":{"rope_theta":1e6,"partial_rotary_factor":0.5}}`, `{"rope_theta":1e6,"partial_rotary_factor":0.5,"rope_scaling":null}`},
		"scaled besides": {`{"rope_theta":1e6,"rope_scaling":{"type":"yarn","factor":4.0},"rope_parameters":{"rope_theta":5e5}}`, `{}`},
		"theta inside":   {`{"rope_theta":1e4,"rope_scaling":{"type":"yarn","factor":4.0,"rope_theta":1e6}}`, `{"rope_theta":1e6}`},
		"empty scaling":  {`{"rope_scaling":{},"rope_parameters":{"rope_theta":1e6,"rope_type":"linear"}}`, `{"rope_theta":1e6,"rope_scaling":{"rope_theta":1e6,"rope_type":"linear","type":"linear"}}`},
		"both objects": {`{"rope_scaling":{"type":"linear","factor":2.0},"rope_parameters":{"full_attention":{"rope_theta":1e6,"factor":3.0},"sliding_attention":{"rope_theta":1e4}}}`,
			`{"rope_theta":1e6,"rope_scaling":{"rope_theta":1e6,"factor":2.0,"type":"linear"},"rope_local_base_freq":1e4}`},
		"both types": {`{"torch_dtype":"bfloat16","dtype":"float16"}`, `{"torch_dtype":"float16"}`},
		"no type":    {`{"torch_dtype":"bfloat16","dtype":null}`, `{}`},
		"older":      {`{"rope_theta":1e6,"rope_scaling":{"rope_type":"llama3","factor":8.0},"torch_dtype":"float16"}`, `{}`},
		"plain":      {`{"rope_parameters":{"rope_theta":1e6,"rope_type":"default"}}`, `{"rope_theta":1e6,"rope_scaling":null}`},
		"scaled":     {`{"rope_parameters":{"rope_theta":1e6,"rope_type":"llama3","factor":8.0}}`, `{"rope_theta":1e6,"rope_scaling":{"rope_theta":1e6,"rope_type":"llama3","factor":8.0,"type":"llama3"}}`},
		"gemma 3":    {`{"rope_parameters":{"full_attention":{"rope_theta":1e6},"sliding_attention":{"rope_theta":1e4}}}`, `{"rope_theta":1e6,"rope_scaling":null,"rope_local_base_freq":1e4}`},
		"phi 3": {`{"rope_parameters":{"rope_theta":1e4,"rope_type":"longrope","type":"longrope","short_factor":[1],"long_factor":[2],"original_max_position_embeddings":16}}`,
			`{"rope_theta":1e4,"rope_scaling":{"type":"longrope","short_factor":[1],"long_factor":[2]}}`},
		"phi 3, older":  {`{"rope_scaling":{"type":"longrope","short_factor":[1],"long_factor":[2]},"rope_parameters":{"rope_type":"longrope","short_factor":[3]}}`, `{}`},
		"without mlx's": {`{"model_type":"qwen3_moe","num_local_experts":4}`, `{}`},
		"inner":         {`{"text_config":{"rope_parameters":{"rope_theta":1e6}}}`, `{"text_config":{"rope_parameters":{"rope_theta":1e6},"rope_theta":1e6,"rope_scaling":null}}`},
		"not a number":  {`{"rope_parameters":{"rope_theta":"x"},"a":NaN}`, `{"rope_scaling":null}`},
	} {
		got, err := olderConfig([]byte(c.stored))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		plain := func(text string) string { return strings.ReplaceAll(text, "NaN", `"NaN"`) }
		have, want := readJSON(t, []byte(plain(string(got)))), readJSON(t, []byte(plain(c.stored)))
		for k, v := range readJSON(t, []byte(c.added)) {
			want[k] = v
		}
		if !reflect.DeepEqual(have, want) {
			t.Errorf("%s: %s", name, got)
		}
	}
	for _, text := range []string{"", "[]", `{"a":`} {
		if got, err := olderConfig([]byte(text)); err == nil || !strings.Contains(err.Error(), configName) {
			t.Errorf("%q: %s, %v", text, got, err)
		}
	}
}

// TestOlderNames holds which names of a tokenizer_config.json change.
func TestOlderNames(t *testing.T) {
	for _, c := range []struct{ stored, want string }{ // without white space; "": as stored
		{`{"tokenizer_class":"TokenizersBackend","b":1.50}`, `{"tokenizer_class":"PreTrainedTokenizerFast","b":1.50}`},
		{`{"tokenizer_class":"Qwen2Tokenizer","b":1}`, ""},
		{`{"tokenizer_class":["TokenizersBackend"]}`, ""},
		{`{"extra_special_tokens":["<a>"]}`, `{"additional_special_tokens":["<a>"]}`},
		{`{"extra_special_tokens":{"image_token":"<a>"}}`, ""},
		{`{"extra_special_tokens":["<a>"],"additional_special_tokens":["<b>"]}`, ""},
		{`{"model_max_length":1e30,"x":Infinity,"tokenizer_class":"TokenizersBackend"}`, `{"model_max_length":1e30,"x":Infinity,"tokenizer_class":"PreTrainedTokenizerFast"}`},
		{`[]`, ""}, {``, ""}, {`{"tokenizer_class":"TokenizersBackend"`, ""},
	} {
		got := olderNames([]byte(c.stored))
		text := strings.NewReplacer("\n", "", "    ", "", `": `, `":`).Replace(string(got))
		if text != c.want {
			t.Errorf("%s: %s, want %s", c.stored, text, c.want)
		}
		if got != nil && json.Valid(got) == strings.Contains(c.stored, "Infinity") {
			t.Errorf("%s", got)
		}
	}
}
