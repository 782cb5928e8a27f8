package hf

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"
)

// TestMLXConfigTransformers5 holds what is added to the config.json of each kind of
// model that transformers 5 writes, and that all else stays.
func TestMLXConfigTransformers5(t *testing.T) {
	text, err := os.ReadFile("testdata/transformers5.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for line := range bytes.Lines(text) {
		var c struct {
			Kind   string
			Config json.RawMessage
			Added  map[string]any
		}
		if err := json.Unmarshal(line, &c); err != nil {
			t.Fatal(err)
		}
		n++
		config, err := forMLX(c.Config, true, nil)
		got, notes := config.text, config.notes
		if err != nil {
			t.Errorf("%s: %v", c.Kind, err)
			continue
		}
		want, have := readJSON(t, c.Config), readJSON(t, got)
		for k, v := range c.Added {
			want[k] = v
		}
		for k := range want {
			if v, ok := have[k]; !ok || !reflect.DeepEqual(v, want[k]) {
				t.Errorf("%s: %s is %v, want %v", c.Kind, k, v, want[k])
			}
		}
		if len(have) != len(want) {
			t.Errorf("%s: %s", c.Kind, got)
		}
		if wrong := c.Kind == "glm"; (len(notes) > 0) != wrong {
			t.Errorf("%s: %q", c.Kind, notes)
		}
		again, err := forMLX(got, true, nil)
		if err != nil || !bytes.Equal(again.text, got) {
			t.Errorf("%s: %s, then %s, %v", c.Kind, got, again.text, err)
		}
		if config.lacks != "" {
			t.Errorf("%s: %s", c.Kind, config.lacks)
		}
	}
	if n < 50 {
		t.Errorf("only %d kinds", n)
	}
}

// TestMLXConfig holds what is added and what is said of single fields.
func TestMLXConfig(t *testing.T) {
	for name, c := range map[string]struct {
		stored string
		want   string // without white space; "": the stored text itself
		note   string // "" for no note
	}{
		"older names":        {`{"model_type":"llama", "rope_theta":500000.0,"torch_dtype":"bfloat16"}`, "", ""},
		"nothing":            {`{ }`, "", ""},
		"both names":         {`{"model_type":"llama","rope_theta":1.0,"rope_parameters":{"rope_theta":2.0},"rope_scaling":null}`, `{"model_type":"llama","rope_theta":2.0,"rope_parameters":{"rope_theta":2.0},"rope_scaling":null}`, ""},
		"scaled besides":     {`{"model_type":"ministral3","rope_theta":1.0,"rope_parameters":{"rope_theta":2.0},"rope_scaling":{"type":"linear","factor":2.0}}`, `{"model_type":"ministral3","rope_theta":1.0,"rope_parameters":{"type":"linear","factor":2.0,"rope_theta":1.0,"rope_type":"linear"},"rope_scaling":{"type":"linear","factor":2.0}}`, ""},
		"null":               {`{"model_type":"llama","rope_theta":null,"rope_parameters":{"rope_theta":2e5,"rope_type":"default"}}`, `{"model_type":"llama","rope_theta":2e5,"rope_parameters":{"rope_theta":2e5,"rope_type":"default"},"rope_scaling":null}`, ""},
		"no object":          {`{"model_type":"llama","rope_parameters":[1]}`, "", ""},
		"no numbers":         {`{"model_type":"llama","rope_scaling":null,"rope_parameters":{"rope_theta":"x","partial_rotary_factor":{}}}`, "", ""},
		"unknown class":      {`{"model_type":"new","sliding_window":8,"rope_parameters":{"rope_theta":5,"rope_type":"x"}}`, `{"model_type":"new","sliding_window":8,"rope_parameters":{"rope_theta":5,"rope_type":"x"},"rope_theta":5,"rope_scaling":{"rope_theta":5,"rope_type":"x","type":"x"}}`, ""},
		"infinite":           {`{"a":[Infinity],"dtype":"float32"}`, `{"a":[Infinity],"dtype":"float32","torch_dtype":"float32"}`, ""},
		"inside":             {`{"text_config":{"a":1,"dtype":"float16"},"dtype":"float16"}`, `{"text_config":{"a":1,"dtype":"float16","torch_dtype":"float16"},"dtype":"float16","torch_dtype":"float16"}`, ""},
		"MLX":                {`{"quantization_config":{"group_size":64,"bits":4}}`, `{"quantization_config":{"group_size":64,"bits":4},"quantization":{"group_size":64,"bits":4}}`, ""},
		"MLX, both":          {`{"quantization_config":{"bits":4},"quantization":{"bits":4}}`, "", ""},
		"not MLX":            {`{"quantization_config":{"bits":4,"quant_method":"awq"}}`, "", ""},
		"letters":            {`{"model_type":"exaone4","layer_types":["sliding_attention","full_attention"],"sliding_window":8,"sliding_window_pattern":2}`, `{"model_type":"exaone4","layer_types":["sliding_attention","full_attention"],"sliding_window":8,"sliding_window_pattern":"LG"}`, ""},
		"letters are there":  {`{"model_type":"exaone4","layer_types":["sliding_attention","full_attention"],"sliding_window":8,"sliding_window_pattern":"LG"}`, "", ""},
		"a period":           {`{"model_type":"gemma3_text","layer_types":["sliding_attention","full_attention","sliding_attention"]}`, `{"model_type":"gemma3_text","layer_types":["sliding_attention","full_attention","sliding_attention"],"sliding_window_pattern":2}`, ""},
		"windows alone":      {`{"model_type":"cohere2","layer_types":["sliding_attention","sliding_attention"]}`, `{"model_type":"cohere2","layer_types":["sliding_attention","sliding_attention"],"sliding_window_pattern":3}`, ""},
		"no period":          {`{"model_type":"gemma3_text","layer_types":["full_attention","sliding_attention"]}`, "", "mlx-lm's gemma3_text knows no such order"},
		"another period":     {`{"model_type":"gemma3_text","layer_types":["sliding_attention","full_attention"],"sliding_window_pattern":6}`, "", "knows no such order"},
		"layers of no kind":  {`{"model_type":"gemma3_text","layer_types":["x"]}`, "", ""},
		"a window":           {`{"model_type":"gemma2","sliding_window":4096,"max_position_embeddings":8192}`, "", "mlx-lm's gemma2 has no sliding window: texts of more than 4096 tokens are computed"},
		"as long a window":   {`{"model_type":"gemma2","sliding_window":4096,"max_position_embeddings":4096}`, "", ""},
		"a window not used":  {`{"model_type":"qwen2","sliding_window":4096,"use_sliding_window":false}`, "", ""},
		"a window, no layer": {`{"model_type":"dots1","sliding_window":4096,"layer_types":["full_attention"]}`, "", ""},
		"a window known":     {`{"model_type":"gpt_oss","sliding_window":128}`, "", ""},
		"not scaled":         {`{"model_type":"mixtral","rope_scaling":{"type":"yarn","factor":4.0}}`, "", `mlx-lm's mixtral does not scale rotary embeddings by "yarn"`},
		"not so scaled":      {`{"model_type":"nemotron","rope_scaling":{"rope_type":"dynamic","factor":4.0}}`, "", `by "dynamic"`},
		"so scaled":          {`{"model_type":"nemotron","rope_scaling":{"rope_type":"linear","factor":4.0}}`, "", ""},
		"truncated":          {`{"model_type":"gpt_oss","rope_scaling":{"type":"yarn","truncate":false}}`, "", "ignores truncate"},
		"attention":          {`{"model_type":"llama","rope_scaling":{"type":"yarn","attention_factor":1.5}}`, "", "ignores attention_factor"},
		"two lists":          {`{"model_type":"phi3","rope_scaling":{"type":"longrope","short_factor":[1.0],"long_factor":[2.0]}}`, "", "for short ones too"},
		"one list":           {`{"model_type":"phi3","rope_scaling":{"type":"longrope","short_factor":[1.0,2],"long_factor":[1.0, 2]}}`, "", ""},
		"a part of heads":    {`{"model_type":"glm","partial_rotary_factor":0.5}`, "", "rotates whole heads"},
		"both ways":          {`{"model_type":"qwen2","is_causal":false}`, "", "mlx-lm's qwen2 does not read is_causal"},
		"one way":            {`{"model_type":"qwen2","is_causal":true}`, "", ""},
		"rounded norms":      {`{"model_type":"qwen3_next","torch_dtype":"bfloat16"}`, "", "adds one to the norms in BF16"},
		"images":             {`{"model_type":"gemma3","vocab_size":8,"vision_config":{}}`, "", "mlx-lm loads only the language model, without vision"},
		"sounds":             {`{"model_type":"gemma3n","audio_config":{}}`, "", "without audio"},
		"no images":          {`{"model_type":"gemma3","vocab_size":8,"vision_config":null}`, "", ""},
		"a vast part":        {`{"model_type":"minimax_m2","head_dim":1e300,"partial_rotary_factor":1e300,"shared_intermediate_size":0}`, "", ""},
	} {
		config, err := forMLX([]byte(c.stored), true, nil)
		got, notes := config.text, config.notes
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if c.want == "" && string(got) != c.stored || c.want != "" && strings.NewReplacer("\n", "", " ", "").Replace(string(got)) != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
		if said := strings.Join(notes, "; "); !strings.Contains(said, c.note) || c.note == "" && said != "" {
			t.Errorf("%s: %q, want %q", name, said, c.note)
		}
	}
	if config, _ := forMLX([]byte(`{"model_type":"qwen3_next","torch_dtype":"bfloat16"}`), false, nil); len(config.notes) > 0 {
		t.Errorf("a model that mlx-lm converted: %q", config.notes)
	}
}

// TestMLXConfigHostile holds that a config.json made to cost much is refused.
func TestMLXConfigHostile(t *testing.T) {
	var many strings.Builder
	for i := range 20000 {
		fmt.Fprintf(&many, `"%d":0,`, i)
	}
	for _, text := range []string{"", "[]", "null", "{\"a\":", `{"text_config":{` + many.String() + `"a":0}}`} {
		if got, err := forMLX([]byte(text), true, nil); err == nil || strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), configName) {
			t.Errorf("%.40q: %.100s, %v", text, got.text, err)
		}
	}
}

func FuzzMLXConfig(f *testing.F) {
	f.Add([]byte(`{"model_type":"gemma3","text_config":{"model_type":"gemma3_text","layer_types":["full_attention"],"rope_parameters":{"full_attention":{"rope_theta":1},"sliding_attention":{"rope_theta":2}}}}`), true)
	f.Add([]byte(`{"model_type":"exaone4","layer_types":["sliding_attention"],"sliding_window":NaN,"quantization_config":{"bits":4}}`), false)
	f.Add([]byte(`{"model_type":"minimax_m2","head_dim":1e9,"partial_rotary_factor":0.5,"rope_parameters":{"rope_type":"yarn"}}`), false)
	f.Fuzz(func(t *testing.T, stored []byte, released bool) {
		config, err := forMLX(stored, released, nil)
		got, notes := config.text, append(config.notes, config.lacks)
		if err != nil {
			if strings.ContainsAny(err.Error(), "\n\x00") {
				t.Errorf("%q", err)
			}
			return
		}
		if strings.ContainsAny(strings.Join(notes, ""), "\n\x00") {
			t.Errorf("%q", notes)
		}
		if older, err := olderConfig(stored); err != nil {
			t.Errorf("%v in %s", err, stored)
		} else if again, err := olderConfig(older); err != nil || !bytes.Equal(again, older) {
			t.Errorf("%s, then %s, %v", older, again, err)
		}
		again, err := forMLX(got, released, nil)
		if err != nil {
			t.Fatalf("%v in %s", err, got)
		}
		if !bytes.Equal(again.text, got) {
			t.Errorf("%s, then %s", got, again.text)
		}
	})
}
