package images_test

import (
	"fmt"
	"testing"

	"github.com/tensorfs/tensorfs/formats/images"
)

// TestPipeline holds which parts a model_index.json names.
func TestPipeline(t *testing.T) {
	for text, want := range map[string]string{
		`{"_class_name":"FluxPipeline","_diffusers_version":"0.36.0","vae":["diffusers","AutoencoderKL"],"scheduler":["diffusers","S"]}`: "FluxPipeline [{scheduler diffusers S} {vae diffusers AutoencoderKL}]",
		`{"_class_name":"P","image_encoder":[null,null],"safe":[true],"force_zeros":true,"unet":["a","B"],"x":["a","b","c"]}`:            "P [{unet a B}]",
		`{"_class_name":7}`: " []",
		`{"..":["a","B"],"../x":["a","B"],"/etc":["a","B"]}`: " []",
		`[]`: "model_index.json: it is not a JSON object",
		``:   "model_index.json: it is not a JSON object",
	} {
		p, err := images.ParsePipeline([]byte(text))
		got := fmt.Sprint(err)
		if err == nil {
			got = fmt.Sprint(p.Class, " ", p.Parts)
		}
		if got != want {
			t.Errorf("%s is %q, want %q", text, got, want)
		}
	}
}

// TestTokenizerOf holds where a pipeline keeps the tokenizers of its text encoders.
func TestTokenizerOf(t *testing.T) {
	for part, want := range map[string]string{
		"text_encoder": "tokenizer", "text_encoder_2": "tokenizer_2", "text_encoder_12": "tokenizer_12",
		"": "", ".": "", "unet": "", "text_encoders": "", "text_encoder_": "", "text_encoder_x": "", "text_encoder2": "",
	} {
		if got := images.TokenizerOf(part); got != want {
			t.Errorf("the tokenizer of %q is %q, want %q", part, got, want)
		}
	}
}
