package hf

import (
	"fmt"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/images"
	"github.com/tensorfs/tensorfs/formats/safetensors"
	"github.com/tensorfs/tensorfs/internal/convert"
	"github.com/tensorfs/tensorfs/internal/convert/layout"
	"github.com/tensorfs/tensorfs/views"
)

// imageName is what diffusers calls the weights of an image model.
const imageName = "diffusion_pytorch_model.safetensors"

// image returns the file of an image model that ComfyUI and diffusers' from_single_file load. It is
// the model's own or, for a GGUF file, has the names and, unfolded, the shapes of that.
func (k *kind) image(m *tensorfs.Model, a *images.Architecture) (*convert.Files, error) {
	if k == mlx {
		return nil, fmt.Errorf("mlx-lm loads language models, and this is a denoiser of %s", a.Title)
	}
	if m.Format == "safetensors" && !isAdapted(m) {
		f, err := asStored(m)
		if err == nil && len(f.List) == 1 {
			f.List[0].Path = imageName
		}
		return f, err
	}
	f := &convert.Files{Types: map[string]int{}}
	rounded := map[string][]string{}
	var list []safetensors.Stored
	for i := range m.Tensors {
		t := &m.Tensors[i]
		to := layout.PlainType(t)
		d, err := views.Encode(t, to)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", tensorfs.Quote(t.Source), err)
		}
		if f.Types[to.String()]++; t.DType != to && to != tensorfs.F32 {
			rounded[to.String()] = append(rounded[to.String()], t.Source)
		}
		list = append(list, safetensors.Stored{Name: t.Source, DType: to, Shape: t.Numbers(), Data: d})
	}
	f.Exact, f.Notes = len(rounded) == 0, convert.RoundedNotes(rounded)
	weights, err := safetensors.Compose([][2]string{{"format", "pt"}}, list)
	if err != nil {
		return nil, err
	}
	f.Tensors, f.List = len(list), []convert.File{{Path: imageName, Data: weights}}
	return f, nil
}
