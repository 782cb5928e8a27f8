package lora

import (
	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/adapter"
	"github.com/tensorfs/tensorfs/formats/architectures"
	"github.com/tensorfs/tensorfs/views/arrange"
)

// mlxFormat is the format of models that mlx-lm quantised, in its form.
const mlxFormat = "mlx"

// orient gives A and B of mlx-lm's modules PEFT's shapes.
func orient(a *adapter.Adapter) error {
	for i := range a.Modules {
		m := &a.Modules[i]
		if !m.Transposed {
			continue
		}
		for _, t := range []**tensorfs.Tensor{&m.A, &m.B} {
			turned, err := arrange.Transpose(*t)
			if err != nil {
				return &tensorfs.FormatError{File: a.Path, Tensor: (*t).Source, Offset: -1, Problem: err.Error(), Kind: tensorfs.ErrUnsupported}
			}
			*t = turned
		}
		m.Transposed = false
	}
	return nil
}

// wholeOfMLX returns an error if an adapter of mlx-lm has whole weights and mlx-lm stores some of
// the base's in another form than the base.
func (x *applied) wholeOfMLX() error {
	if !x.a.MLX || x.a.Kind != "full" || x.m.Format == mlxFormat {
		return nil
	}
	about := &x.a.Modules[0]
	if x.m.Layout != "hf" {
		return x.refuse(anyOf(about), "\"fine_tune_type\": \"full\": an adapter with whole weights is for a directory in the format of MLX or Hugging Face, and the base is a GGUF file; name the directory")
	}
	modelType, _ := x.m.Meta("config.model_type").(string)
	if class := architectures.MLXClassOf(modelType); class == nil || !class.Has("converts") || class.Has("moves") {
		return x.refuse(anyOf(about), "\"fine_tune_type\": \"full\": mlx-lm stores weights of %s in another form than Hugging Face; name the model in MLX's format as the base", tensorfs.Quote(modelType))
	}
	return nil
}
