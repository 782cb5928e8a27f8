package layout

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/views/arrange"
)

// permuteHeads moves the rows of the heads of q, or of k, to GGUF's order.
func permuteHeads(w *Walk, p *part, t *tensorfs.Tensor) (*tensorfs.Tensor, error) {
	heads := w.Sizes.Len("heads")
	if !strings.HasSuffix(p.from, ".q") {
		head, shape := w.Sizes.Len("head"), t.Numbers()
		if len(shape) == 0 || head == 0 || shape[0]%head != 0 {
			return nil, fmt.Errorf("shape %v of %s does not divide into heads of %d", shape, tensorfs.Quote(t.Source), head)
		}
		heads = shape[0] / head
	}
	t, err := loose(t)
	if err != nil {
		return nil, err
	}
	if strings.Contains(t.Source, ".attention.w") || strings.Contains(t.Source, "_no_perm") {
		return nil, fmt.Errorf("%s is not a name of Hugging Face's, so the order of its rows is not known", tensorfs.Quote(t.Source))
	}
	return arrange.Permute(t, heads)
}

// unpermuteHeads moves the rows of the heads of q, or of k, to the order of Hugging Face.
func unpermuteHeads(w *Walk, p *part, t *tensorfs.Tensor) (*tensorfs.Tensor, error) {
	heads := "heads"
	if strings.HasSuffix(p.from, ".k") {
		heads = "kv_heads"
	}
	return arrange.Unpermute(t, w.Sizes.Len(heads))
}

// addOne adds the one that the weights of Gemma's norms are stored without.
func addOne(_ *Walk, p *part, t *tensorfs.Tensor) (*tensorfs.Tensor, error) {
	if p.param != ".weight" {
		return t, nil
	}
	return arrange.AddOne(t)
}

// subtractOne takes it away.
func subtractOne(w *Walk, p *part, t *tensorfs.Tensor) (*tensorfs.Tensor, error) {
	if p.param != ".weight" {
		return t, nil
	}
	t, err := w.Numbers(w.name(p), t, tensorfs.F32)
	if err != nil {
		return nil, err
	}
	return arrange.SubtractOne(t)
}

// outIn transposes the weights that GPT-2 stores as [in, out]. Which way they are
// shows in that of q, k and v, which is not square; MLX has them as GGUF does.
func outIn(w *Walk, p *part, t *tensorfs.Tensor) (*tensorfs.Tensor, error) {
	qkv := w.find(w.inLayer("attention.qkv.weight"))
	if qkv == nil || p.param != ".weight" || !slices.Equal(qkv.Numbers(), []int64{w.Sizes.Len("width"), w.Sizes.Len("qkv")}) {
		return t, nil
	}
	return arrange.Transpose(t)
}

// inOut transposes them again; mlx-lm has them as GGUF does.
func inOut(w *Walk, p *part, t *tensorfs.Tensor) (*tensorfs.Tensor, error) {
	if w.To == MLX || p.param != ".weight" {
		return t, nil
	}
	t, err := w.Numbers(w.name(p), t, PlainType(t))
	if err != nil {
		return nil, err
	}
	return arrange.Transpose(t)
}

// oneRow makes a matrix of one row of a vector. Some files have it so already.
func oneRow(w *Walk, p *part, t *tensorfs.Tensor) (*tensorfs.Tensor, error) {
	if len(t.Shape) == 1 || p.Shape[0] == "1" {
		var err error
		if t, err = arrange.Reshape(t, 1, w.Sizes.Len("width")); err != nil {
			return nil, err
		}
	}
	return t, w.shaped(t, p.Shape, p.param)
}
