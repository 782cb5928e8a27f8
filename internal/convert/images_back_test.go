package convert_test

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats"
	"github.com/tensorfs/tensorfs/formats/safetensors"
	"github.com/tensorfs/tensorfs/internal/convert"
	"github.com/tensorfs/tensorfs/internal/convert/hf"
	"github.com/tensorfs/tensorfs/internal/convert/preset"
	"github.com/tensorfs/tensorfs/internal/testing/testwhole"
	"github.com/tensorfs/tensorfs/views"
)

// TestImagesBack makes safetensors files of the GGUF files of image models: with the names and
// shapes of the first source, and with its numbers as the GGUF file has them.
func TestImagesBack(t *testing.T) {
	for _, name := range []string{"flux", "sdxl", "sd1", "wan", "hyvid", "ltxv-diffusers/transformer"} {
		t.Run(name, func(t *testing.T) {
			m, err := formats.Open(filepath.Join(imageData, name))
			if err != nil {
				t.Fatal(err)
			}
			defer m.Close()
			path := filepath.Join(t.TempDir(), "m.gguf")
			if err := os.WriteFile(path, one(t, convert.GGUF(m, convert.Options{})), 0o666); err != nil {
				t.Fatal(err)
			}
			file, err := formats.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			defer file.Close()
			if file.Architecture != m.Architecture {
				t.Errorf("the architecture is %s", file.Architecture)
			}
			made, err := safetensors.Parse(tensorfs.Bytes(testwhole.Read(t, hf.HF(file, convert.Options{}).List[0].Data)))
			if err != nil {
				t.Fatal(err)
			}
			list, _, err := convert.Denoiser(m)
			if err != nil || len(list) != len(made.Tensors) {
				t.Fatalf("%d of %d tensors, %v", len(made.Tensors), len(list), err)
			}
			for _, e := range made.Tensors {
				i := slices.IndexFunc(list, func(t tensorfs.Tensor) bool { return t.Name == e.Name })
				if i < 0 {
					t.Fatalf("%s is new", e.Name)
				}
				if !slices.Equal(e.Shape, list[i].Numbers()) || !bytes.Equal(testwhole.Read(t, e.Data), in(t, e.DType, &list[i])) {
					t.Errorf("%s: %s of shape %v, want shape %v", e.Name, e.DType, e.Shape, list[i].Numbers())
				}
			}
		})
	}
}

// in returns the numbers of a tensor in a type.
func in(t *testing.T, to tensorfs.DType, of *tensorfs.Tensor) []byte {
	t.Helper()
	d, err := views.Encode(of, to)
	if err != nil {
		t.Fatal(err)
	}
	return testwhole.Read(t, d)
}

// TestImagesRefused holds that what the programs for image models do not make is absent with a reason.
func TestImagesRefused(t *testing.T) {
	iq4, err := preset.Named("iq4_xs")
	if err != nil {
		t.Fatal(err)
	}
	rule, err := preset.RuleOf(".=iq2_xs")
	if err != nil {
		t.Fatal(err)
	}
	q8, err := preset.Named("q8_0")
	if err != nil {
		t.Fatal(err)
	}
	m, err := formats.Open(filepath.Join(imageData, "flux"))
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	for want, f := range map[string]*convert.Files{
		"makes no IQ4_XS of image models": convert.GGUF(m, convert.Options{Quantise: &preset.Options{Preset: iq4}}),
		"this is a denoiser of FLUX":      hf.MLX(m, convert.Options{}),
		"would be IQ2_XS, which is made":  convert.GGUF(m, convert.Options{Quantise: &preset.Options{Preset: q8, Rules: []preset.Rule{rule}}}),
	} {
		if !strings.Contains(f.Reason, want) {
			t.Errorf("%q, want %q", f.Reason, want)
		}
	}
}
