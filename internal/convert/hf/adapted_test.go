package hf

import (
	"encoding/json"
	"github.com/tensorfs/tensorfs/internal/convert/internal/settings"
	"github.com/tensorfs/tensorfs/internal/testing/testwhole"
	"strings"
	"testing"
)

const quantized = `{"quantization":{"group_size":32,"bits":4,"mode":"mxfp4"},"quantization_config":{"group_size":32,"bits":4,"mode":"mxfp4"}}`

// TestAdapted holds which fields of a stored config.json change, and that all other fields stay as
// and where they were.
func TestAdapted(t *testing.T) {
	for _, c := range []struct {
		stored string
		facts  settings.Given
		mlx    bool
		want   string // without white space between the outer members
	}{
		{`{}`, settings.Given{Torch: "float16"}, false, `{"torch_dtype":"float16"}`},
		{`{}`, settings.Given{}, false, `{}`},
		{`{"b": [1,  2.50], "torch_dtype": "bfloat16", "a":1e-5 }`, settings.Given{Torch: "float16"}, false, `{"b":[1,  2.50],"torch_dtype":"float16","a":1e-5}`},
		{`{"b":1,"quantization":{"bits":4},"quantization_config":{"bits":4}}`, settings.Given{Torch: "float32"}, false, `{"b":1,"torch_dtype":"float32"}`},
		{`{"dtype":"bfloat16","b":1}`, settings.Given{Torch: "float16"}, false, `{"torch_dtype":"float16","b":1}`},
		{`{"dtype":"bfloat16","b":1,"torch_dtype":"bfloat16"}`, settings.Given{Torch: "float16"}, false, `{"torch_dtype":"float16","b":1}`},
		{`{"text_config":{"hidden_size":8,"dtype":"bfloat16","quantization":{}},"b":NaN}`, settings.Given{Torch: "float16"}, false,
			`{"text_config":{"hidden_size":8,"torch_dtype":"float16"},"b":NaN,"torch_dtype":"float16"}`},
		{`{"limits":[0.0, Infinity,-Infinity, NaN],"NaN":{"Infinity" : "x\"NaN"}}`, settings.Given{Torch: "float16"}, false,
			`{"limits":[0.0, Infinity,-Infinity, NaN],"NaN":{"Infinity" : "x\"NaN"},"torch_dtype":"float16"}`},
		{`{"limits":["Infinity"]}`, settings.Given{Torch: "float16"}, false, `{"limits":["Infinity"],"torch_dtype":"float16"}`},
		{`{"text_config":{ "hidden_size":8 }}`, settings.Given{Torch: "float16"}, false, `{"text_config":{ "hidden_size":8 },"torch_dtype":"float16"}`},
		{`{"text_config":"x","vision_config":{"dtype":"float32"}}`, settings.Given{Torch: "float16"}, false, `{"text_config":"x","vision_config":{"dtype":"float32"},"torch_dtype":"float16"}`},
		{`{"quantization":{"bits":8},"b":"\u00e9\n"}`, settings.Given{Torch: "float16", Quantization: []byte(quantized)}, true,
			`{"b":"\u00e9\n","torch_dtype":"float16","quantization":{"group_size":32,"bits":4,"mode":"mxfp4"},"quantization_config":{"group_size":32,"bits":4,"mode":"mxfp4"}}`},
		{`{"quantization":{"bits":8},"b":1}`, settings.Given{Torch: "float16"}, true, `{"b":1,"torch_dtype":"float16"}`},
		{`{"b":1,"quantization_config":{"bits":8}}`, settings.Given{Torch: "float16", Experts: true}, false,
			`{"b":1,"torch_dtype":"float16","quantization_config":{"quant_method":"mxfp4","modules_to_not_convert":["model.layers.*.self_attn","model.layers.*.mlp.router","model.embed_tokens","lm_head"]}}`},
		{`{"b":1}`, settings.Given{Torch: "float16", Experts: true}, true, `{"b":1,"torch_dtype":"float16"}`},
	} {
		got, err := adapted([]byte(c.stored), c.facts, c.mlx)
		if err != nil {
			t.Errorf("%s: %v", c.stored, err)
			continue
		}
		text := strings.ReplaceAll(string(got), "\n    ", "")
		text = strings.ReplaceAll(strings.TrimSuffix(text, "\n}\n")+"}", `": `, `":`)
		if text != c.want {
			t.Errorf("%s: %s, want %s", c.stored, text, c.want)
		}
		if valid := json.Valid(got); valid == strings.Contains(c.stored, "NaN") {
			t.Errorf("%s", got)
		}
	}
}

// TestAdaptedMalformed holds that a malformed config.json gives an error of one line.
func TestAdaptedMalformed(t *testing.T) {
	for _, text := range []string{"", "[]", "{", `{"a":}`, "null", "\x00", `{"a":1}{`, "{\"a\":\"\xff\"}"} {
		if got, err := adapted([]byte(text), settings.Given{Torch: "float16"}, false); err == nil || strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), "config.json") {
			t.Errorf("%q: %s, %v", text, got, err)
		}
	}
}

// TestConfigDirectories holds where config.json of hf/ and of mlx/ differ.
func TestConfigDirectories(t *testing.T) {
	s := newSample("gpt2", nil)
	s.shapes["output.weight"] = s.shapes["token_embedding.weight"]
	for mlx, want := range map[bool]bool{false: false, true: true} {
		text, err := s.config(mlx)
		if err != nil || readJSON(t, text)["tie_word_embeddings"] != want {
			t.Errorf("gpt2, mlx %v: %s, %v", mlx, text, err)
		}
	}
	s = newSample("qwen2moe", nil)
	s.shapes["output.weight"] = s.shapes["token_embedding.weight"]
	if text, err := s.config(true); err != nil || readJSON(t, text)["tie_word_embeddings"] != false {
		t.Errorf("%s, %v", text, err)
	}
	m := testwhole.Golden(t, "gpt-oss.mxfp4")
	defer m.Close()
	f := givenOf(m, map[string]any{"torch_dtype": "float16"})
	for _, c := range []struct{ experts, mlx, want bool }{{true, false, true}, {true, true, false}, {false, false, false}} {
		f.Experts = c.experts
		text, err := config(m, f, c.mlx)
		if err != nil || (readJSON(t, text)["quantization_config"] != nil) != c.want {
			t.Errorf("%v: %s, %v", c, text, err)
		}
	}
}

func FuzzAdapted(f *testing.F) {
	f.Add([]byte(`{"text_config":{"dtype":"bfloat16"},"quantization":{"bits":4}}`), true)
	f.Add([]byte(`{"torch_dtype":"x","torch_dtype":"y","dtype":null}`), false)
	f.Fuzz(func(t *testing.T, stored []byte, mlx bool) {
		got, err := adapted(stored, settings.Given{Torch: "float16", Quantization: []byte(quantized), Experts: true}, mlx)
		if err != nil {
			if strings.ContainsAny(err.Error(), "\n\x00") {
				t.Errorf("%q", err)
			}
			return
		}
		again, err := adapted(got, settings.Given{Torch: "float16", Quantization: []byte(quantized), Experts: true}, mlx)
		if err != nil {
			t.Fatalf("%v in %s", err, got)
		}
		if json.Valid(stored) && string(readJSONObject(t, again)) != string(readJSONObject(t, got)) {
			t.Errorf("%s, then %s", got, again)
		}
	})
}

func readJSONObject(t *testing.T, text []byte) []byte {
	b, err := json.Marshal(readJSON(t, text))
	if err != nil {
		t.Fatal(err)
	}
	return b
}
