package hf

import (
	"fmt"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/images"
	"github.com/tensorfs/tensorfs/formats/safetensors"
	"github.com/tensorfs/tensorfs/internal/convert"
	"github.com/tensorfs/tensorfs/internal/convert/layout"
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
	f := &convert.Files{Tensors: len(m.Tensors), Types: map[string]int{}}
	x := &tensorMaker{m: m}
	var list []safetensors.Stored
	for i := range m.Tensors {
		t := &m.Tensors[i]
		made, err := x.Numbers(t.Source, t, layout.PlainType(t))
		if err != nil {
			return nil, err
		}
		f.Types[made.DType.String()]++
		list = append(list, safetensors.Stored{Name: t.Source, DType: made.DType, Shape: made.Shape, Data: made.Data})
	}
	f.Exact, f.Notes = len(x.rounded) == 0, convert.RoundedNotes(x.rounded)
	weights, err := safetensors.Compose([][2]string{{"format", "pt"}}, list)
	if err != nil {
		return nil, err
	}
	f.List = []convert.File{{Path: imageName, Data: weights}}
	return f, nil
}
