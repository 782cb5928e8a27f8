package library_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs/formats/library"
)

// TestPlace lays out models with colliding names, and checks why some are left out.
func TestPlace(t *testing.T) {
	dir := tempFiles(t, map[string]string{
		"a/x.gguf": "", "a--x.gguf": "", "b/y.gguf": "", "b/mmproj-y.gguf": "", "two/z.gguf": "", "two/mmproj-1.gguf": "", "two/mmproj-2.gguf": "",
		"alone.safetensors": "", "no-class/config.json": "{}", "no-class/model.safetensors": "", "no-tokens/config.json": `{"architectures": ["LlamaForCausalLM"]}`, "no-tokens/model.safetensors": "",
		"unknown/config.json": `{"architectures": ["NoSuchModel"]}`, "unknown/model.safetensors": "", "unknown/tokenizer.json": "",
		"typed/config.json": `{"model_type": "llama"}`, "typed/model.safetensors": "", "typed/tokenizer.json": "",
		"pieces/config.json": `{"architectures": [""], "model_type": "xlm-roberta"}`, "pieces/model.safetensors": "", "pieces/sentencepiece.bpe.model": "",
		"odd/config.json": `{"model_type": "odd_type"}`, "odd/model.safetensors": "", "odd/tokenizer.json": "",
		"llama/config.json": `{"architectures": ["LlamaForCausalLM"]}`, "llama/model.safetensors": "", "llama/tokenizer.json": "",
		"pipe/transformer/config.json": `{"_class_name": "FluxTransformer2DModel"}`, "pipe/transformer/diffusion_pytorch_model.safetensors": "",
		"pipe/unet/config.json": `{"_class_name": "UNet2DConditionModel"}`, "pipe/unet/diffusion_pytorch_model.safetensors": "",
		"pipe/vae/config.json": `{"_class_name": "AutoencoderKL"}`, "pipe/vae/diffusion_pytorch_model.safetensors": "",
		"pipe/text_encoder_2/config.json": `{"architectures": ["T5EncoderModel"]}`, "pipe/text_encoder_2/model.safetensors": "", "pipe/tokenizer_2/spiece.model": "",
	})
	l := []*library.Library{open(t, dir)}
	var seen library.Seen
	shown := map[string][]string{}
	for _, form := range library.Forms {
		for _, p := range library.Place(form, l, &seen) {
			line := strings.TrimPrefix(p.Call, dir+"/") + ": " + p.Reason
			if p.Reason == "" {
				line = p.At
				if p.Tower != "" {
					line += " " + p.Tower
				}
			}
			shown[form] = append(shown[form], line)
		}
	}
	for _, want := range []string{"b--y/b--y.gguf b--y/mmproj-b--y.gguf", "two--z.gguf", "llama.gguf",
		"alone.safetensors: a single safetensors file has no config.json, which describes the model", "no-class: its config.json names no class and no model_type", "typed.gguf", "pieces.gguf", "odd: no description is written of odd_type",
		"pipe--transformer.gguf", "pipe--unet.gguf", "pipe--text_encoder_2.gguf", "pipe/vae: no rules for a GGUF file of diffusers' AutoencoderKL are known",
		"no-tokens: it has no tokenizer", "unknown: no description is written of NoSuchModel"} {
		if !slices.Contains(shown["gguf"], want) {
			t.Errorf("%q is not among %q", want, shown["gguf"])
		}
	}
	same := 0
	for _, line := range shown["gguf"] {
		if strings.HasPrefix(line, "a--x~") && len(line) == len("a--x~123456.gguf") {
			same++
		}
	}
	if same != 2 {
		t.Errorf("two models called a--x.gguf: %q", shown["gguf"])
	}
	for _, want := range []string{"local/llama/llama.gguf", "local/b--y/b--y.gguf local/b--y/mmproj-b--y.gguf"} {
		if !slices.Contains(shown["lmstudio"], want) {
			t.Errorf("%q is not among %q", want, shown["lmstudio"])
		}
	}
	if !slices.Contains(shown["hf"], "local/unknown") || !slices.Contains(shown["hf"], "local/llama") {
		t.Errorf("%q", shown["hf"])
	}
}

// TestPlaceMany: of thousands of models nothing is read twice.
func TestPlaceMany(t *testing.T) {
	files := map[string]string{}
	for i := range 3000 {
		files[fmt.Sprintf("d%d/m%d.gguf", i%7, i)] = ""
	}
	l := []*library.Library{open(t, tempFiles(t, files))}
	var seen library.Seen
	if n := len(library.Place("gguf", l, &seen)); n != 3000 {
		t.Errorf("%d models", n)
	}
}
