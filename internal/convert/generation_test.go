package convert

import (
	"bytes"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs/formats"
	"github.com/tensorfs/tensorfs/internal/testing/memory"
)

// TestGenerationFields holds which fields of generation_config.json are noted: what transformers obeys and the GGUF
// file does not state. No field is a reason for no file.
func TestGenerationFields(t *testing.T) {
	const told = "generation_config.json: a GGUF file does not say "
	for text, want := range map[string]string{
		`{}`: "", `{"wobble":2,"wobbles":[1],"repetition":{"a":1},"foo":null}`: "", // which transformers does not declare
		`{"max_new_tokens":2048,"max_length":4096,"use_cache":false,"cache_implementation":"hybrid","transformers_version":"4.1"}`: "", // which choose no token
		`{"do_sample":true,"temperature":0.7,"top_k":20,"top_p":0.8,"min_p":0,"repetition_penalty":1.1}`:                           "",
		`{"num_beams":1,"typical_p":1.0,"no_repeat_ngram_size":0,"bad_words_ids":null,"stop_strings":[],"suppress_tokens":[]}`:     "",
		`{"no_repeat_ngram_size":3}`:                   told + "no_repeat_ngram_size 3:",
		`{"num_beams":4,"length_penalty":2.0}`:         told + "num_beams 4:",
		`{"bad_words_ids":[[1]]}`:                      told + "bad_words_ids a list of 1:",
		`{"suppress_tokens":[1,2]}`:                    told + "suppress_tokens a list of 2:",
		`{"stop_strings":"END"}`:                       told + `stop_strings "END":`,
		`{"sequence_bias":{"a":1}}`:                    told + "sequence_bias",
		`{"forced_bos_token_id":0}`:                    told + "forced_bos_token_id 0:",
		`{"guidance_scale":1.5,"typical_p":0.9}`:       told + "guidance_scale 1.5, typical_p 0.9:",
		`{"do_sample":false}`:                          told + "do_sample false:",
		`{"do_sample":false,"temperature":0}`:          "",
		`{"temperature":"0.7","top_k":50.5}`:           told + `temperature "0.7", top_k 50.5:`,
		`{"temperature":1e400}`:                        told + "temperature 1e400:",
		`[1]`:                                          "generation_config.json: ",
		`{"do_sample": true. "top_k": 2}`:              "generation_config.json: ",
		`{"eos_token_id":[367,370]}`:                   "",
		`{"eos_token_id":[370,5],"foo":1}`:             "generation_config.json: llama.cpp does not end an answer at 5 (",
		`{"eos_token_id":7}`:                           "generation_config.json: llama.cpp does not end an answer at 7 (",
		`{"eos_token_id":["x",99999999999999,-1,1.5]}`: "",
	} {
		files, err := memory.Load(testdata + "/whole-gguf/llama3")
		if err != nil {
			t.Fatal(err)
		}
		files.Files["generation_config.json"] = []byte(text)
		m, err := formats.OpenFS(files, ".")
		if err != nil {
			t.Fatal(err)
		}
		f := GGUF(m, Options{})
		if m.Close(); f.Reason != "" || !strings.Contains(strings.Join(f.Notes, "\n"), want) || want == "" && len(f.Notes) > 0 {
			t.Errorf("%s: %q, noted %q, want %q", text, f.Reason, f.Notes, want)
		}
	}
}

// TestConfigsAreReadOnce holds that gguf/ reads each file of settings once, even with a vision tower.
// The file is larger than everything else that gguf/ reads.
func TestConfigsAreReadOnce(t *testing.T) {
	const large = 4 << 20
	for _, name := range []string{"config.json", "generation_config.json", "preprocessor_config.json"} {
		files, err := memory.Load(testdata + "/architectures/gemma3-vl")
		if err != nil {
			t.Fatal(err)
		}
		if files.Files[name] == nil {
			files.Files[name] = []byte(`{"temperature":0.7,"eos_token_id":5}`)
		}
		files.Files[name] = append(bytes.TrimSpace(files.Files[name]), bytes.Repeat([]byte("\n"), large)...)
		m, err := formats.OpenFS(files, ".")
		if err != nil {
			t.Fatal(err)
		}
		before := files.Bytes.Load()
		f := GGUF(m, Options{})
		if m.Close(); f.Reason != "" || len(f.List) != 2 {
			t.Fatal(f.Reason, f.Notes)
		}
		if n := files.Bytes.Load() - before; n < large || n >= 2*large {
			t.Errorf("%s of %d bytes: gguf/ reads %d bytes", name, large, n)
		}
	}
}
