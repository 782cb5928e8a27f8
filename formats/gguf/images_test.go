package gguf

import (
	"slices"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/testing/testmodel"
)

// TestUnfolded reads the shapes that keys give tensors of image models, and refuses others.
func TestUnfolded(t *testing.T) {
	stored := []int64{2, 256}
	for name, c := range map[string]struct {
		value any
		want  []int64 // nil is the stored shape and a warning
	}{
		"a convolution":  {[]int32{32, 16, 1, 1}, []int64{32, 16, 1, 1}},
		"six dimensions": {[]int32{2, 1, 1, 1, 1, 256}, []int64{2, 1, 1, 1, 1, 256}},
		"too few":        {[]int32{32, 15}, nil},
		"negative":       {[]int32{-2, -256}, nil},
		"no array":       {int32(512), nil},
		"of int64":       {[]int64{2, 256}, nil},
		"empty":          {[]int32{}, nil},
		"longer":         {make([]int32, maxDimensions+1), nil},
		"beyond 2^63":    {[]int32{1 << 30, 1 << 30, 1 << 30}, nil},
	} {
		g := testmodel.GGUF{
			Meta:    []tensorfs.Meta{{Key: "general.architecture", Value: "sdxl"}, {Key: KeyShape + "a.weight", Value: c.value}},
			Tensors: []testmodel.GGUFTensor{{Name: "a.weight", Shape: stored, Type: 1, Data: make([]byte, 1024)}},
		}
		m, err := Open(writeModel(t, g))
		if err != nil {
			t.Fatal(err)
		}
		got := &m.Tensors[0]
		if !slices.Equal(got.Shape, stored) || c.want != nil && !slices.Equal(got.Numbers(), c.want) ||
			c.want == nil && (!slices.Equal(got.Numbers(), stored) || len(m.Warnings) != 1 || !strings.Contains(m.Warnings[0], "has no shape of the 512 numbers")) {
			t.Errorf("%s: %v, %v; %q", name, got.Shape, got.Numbers(), m.Warnings)
		}
		m.Close()
	}
	m, err := Open(writeModel(t, testmodel.GGUF{Meta: []tensorfs.Meta{{Key: KeyShape + "none", Value: []int32{1}}}}))
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if len(m.Warnings) != 1 || !strings.Contains(m.Warnings[0], "a tensor that the file does not have") {
		t.Errorf("%q", m.Warnings)
	}
}

// TestImagesWithoutArchitecture recognises image models in files that do not say what they are.
func TestImagesWithoutArchitecture(t *testing.T) {
	const flux = "double_blocks.0.img_attn.proj.weight"
	for _, c := range []struct{ word, name, want, canonical string }{
		{"", flux, "flux", flux},
		{"pig", flux, "flux", flux},
		{"cow", "model.diffusion_model." + flux, "flux", flux},
		{"llama", flux, "llama", flux},
		{"pig", "a.weight", "pig", "a.weight"},
		{"", "a.weight", "unknown", "a.weight"},
	} {
		g := testmodel.GGUF{Tensors: []testmodel.GGUFTensor{{Name: c.name, Shape: []int64{2}, Type: 0, Data: make([]byte, 8)}}}
		if c.word != "" {
			g.Meta = []tensorfs.Meta{{Key: "general.architecture", Value: c.word}}
		}
		m, err := Open(writeModel(t, g))
		if err != nil {
			t.Fatal(err)
		}
		if got := &m.Tensors[0]; m.Architecture != c.want || got.Name != c.canonical || got.Source != c.name {
			t.Errorf("%q with %s: %s, %s of %s", c.word, c.name, m.Architecture, got.Name, got.Source)
		}
		if image := c.want == "flux"; image != (len(m.Config) == 0) {
			t.Errorf("%s: the config is %v", c.want, m.Config)
		}
		m.Close()
	}
}
