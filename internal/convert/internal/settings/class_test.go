package settings

import (
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs"
)

// TestNoClass: for a class without a description, the reason tells whether it is a limit of this program.
func TestNoClass(t *testing.T) {
	for config, want := range map[string]string{
		`{"architectures":["WobbleForCausalLM"]}`:                   `"WobbleForCausalLM" cannot be converted to GGUF: llama.cpp's converter does not have it`,
		`{"architectures":["MllamaForConditionalGeneration"]}`:      "llama.cpp's converter does not have it",
		`{"architectures":["XverseForCausalLM"]}`:                   `"XverseForCausalLM" cannot be converted to GGUF: the converter writes a vocabulary of pieces without scores`,
		`{"architectures":["QWenLMHeadModel"],"model_type":"qwen"}`: "llama.cpp loads no such file",
		`{"model_type":"wobble"}`:                                   `the architecture "wobble"`,
		`{"architectures":["KimiK3ForConditionalGeneration"],"text_config":{"architectures":["KimiLinearForCausalLM"],"model_type":"kimi_linear"}}`: `"KimiK3ForConditionalGeneration" cannot be converted to GGUF: the converter packs`,
	} {
		cfg, err := ParseFields("config.json", []byte(config))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ToGGUF(&tensorfs.Model{}, cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", config, err, want)
		}
	}
}
