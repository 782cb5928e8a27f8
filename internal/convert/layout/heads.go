package layout

import (
	"fmt"
	"slices"
	"strconv"
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
	if strings.Contains(t.Source, ".attention.w") && !strings.Contains(t.Source, ".attention.wqkv") || strings.Contains(t.Source, "_no_perm") {
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

// permuteColumns moves the numbers of the norms of heads to GGUF's order of the rows of q and k.
func permuteColumns(w *Walk, p *part, t *tensorfs.Tensor) (*tensorfs.Tensor, error) {
	t, err := loose(t)
	if err != nil {
		return nil, err
	}
	half, err := w.halfOfNorms(p, t)
	if err != nil {
		return nil, err
	}
	return arrange.Swap(t, 1, 2, half)
}

// unpermuteColumns moves them back.
func unpermuteColumns(w *Walk, p *part, t *tensorfs.Tensor) (*tensorfs.Tensor, error) {
	half, err := w.halfOfNorms(p, t)
	if err != nil {
		return nil, err
	}
	return arrange.Swap(t, 1, half, 2)
}

// halfOfNorms returns half the length of a head, for norms of heads of the described shape.
func (w *Walk) halfOfNorms(p *part, t *tensorfs.Tensor) (int64, error) {
	if err := w.Sizes.Hold(tensorfs.Quote(t.Source), t.Numbers(), p.Shape); err != nil {
		return 0, err
	}
	head := w.Sizes.Len("head")
	if head%2 != 0 {
		return 0, fmt.Errorf("the norms of %s do not divide into two halves", tensorfs.Quote(t.Source))
	}
	return head / 2, nil
}

// headsOf returns a matrix, or a bias, of heads of q or k with the heads as dimension 0,
// and each head's rows in two: rows that rotate, and rows that do not. It is nil if the
// model's rotary embeddings have no sections.
func (w *Walk) headsOf(t *tensorfs.Tensor) (turned, still *tensorfs.Tensor, err error) {
	if w.facts("rope.mrope_section") == nil && w.facts("rope_sections") == nil {
		return nil, nil, nil
	}
	if err := w.Sizes.Need("head", "turned"); err != nil {
		return nil, nil, err
	}
	if t, err = loose(t); err != nil {
		return nil, nil, err
	}
	head, rows, shape := w.Sizes.Len("head"), w.Sizes.Len("turned"), t.Numbers()
	if len(shape) == 0 || shape[0]%head != 0 || rows > head || rows%2 != 0 {
		return nil, nil, fmt.Errorf("shape %v of %s does not divide into heads of %d rows, %d of them rotated", shape, tensorfs.Quote(t.Source), head, rows)
	}
	if t, err = arrange.Reshape(t, append([]int64{shape[0] / head, head}, shape[1:]...)...); err != nil {
		return nil, nil, err
	}
	if turned, err = arrange.Slice(t, 1, 0, rows); err == nil && rows < head {
		still, err = arrange.Slice(t, 1, rows, head-rows)
	}
	return turned, still, err
}

// joinHeads is the other way, of parts of heads in their order.
func joinHeads(shape []int64, parts ...*tensorfs.Tensor) (*tensorfs.Tensor, error) {
	t, err := arrange.Join(1, slices.DeleteFunc(parts, func(t *tensorfs.Tensor) bool { return t == nil })...)
	if err != nil {
		return nil, err
	}
	return arrange.Reshape(t, shape...)
}

// pairsApart puts the first of each pair of rows that turn together before all second ones.
func pairsApart(w *Walk, _ *part, t *tensorfs.Tensor) (*tensorfs.Tensor, error) {
	turned, still, err := w.headsOf(t)
	if turned == nil || err != nil {
		return t, err
	}
	first, err := arrange.EveryOther(turned, 1, 0)
	if err != nil {
		return nil, err
	}
	second, err := arrange.EveryOther(turned, 1, 1)
	if err != nil {
		return nil, err
	}
	return joinHeads(t.Numbers(), first, second, still)
}

// pairsTogether puts them after each other again.
func pairsTogether(w *Walk, _ *part, t *tensorfs.Tensor) (*tensorfs.Tensor, error) {
	turned, still, err := w.headsOf(t)
	if turned == nil || err != nil {
		return t, err
	}
	if turned, err = arrange.Swap(turned, 1, 2, turned.Numbers()[1]/2); err != nil {
		return nil, err
	}
	return joinHeads(t.Numbers(), turned, still)
}

// AddOne returns a tensor whose numbers are larger by one, as F32.
func AddOne(t *tensorfs.Tensor) (*tensorfs.Tensor, error) { return arrange.Add(t, 1) }

// addend is the number that a move adds.
func (p *part) addend() float32 {
	x, _ := strconv.ParseFloat(p.args[0], 64) // the description's
	return float32(x)
}

// plus adds the number that the weights of norms are stored without: one for Gemma.
func plus(_ *Walk, p *part, t *tensorfs.Tensor) (*tensorfs.Tensor, error) {
	if p.param != ".weight" {
		return t, nil
	}
	return arrange.Add(t, p.addend())
}

// minus takes it away.
func minus(w *Walk, p *part, t *tensorfs.Tensor) (*tensorfs.Tensor, error) {
	if p.param != ".weight" {
		return t, nil
	}
	t, err := w.Numbers(w.name(p), t, tensorfs.F32)
	if err != nil {
		return nil, err
	}
	return arrange.Subtract(t, p.addend())
}

// minusUnlessMLX is minus where mlx-lm has the norms as GGUF has them.
func minusUnlessMLX(w *Walk, p *part, t *tensorfs.Tensor) (*tensorfs.Tensor, error) {
	if w.To == MLX {
		return t, nil
	}
	return minus(w, p, t)
}

// outIn transposes the weights that GPT-2 stores as [in, out]. The matrix of q, k and v,
// which is not square, shows their orientation; MLX has them as GGUF does.
func outIn(w *Walk, p *part, t *tensorfs.Tensor) (*tensorfs.Tensor, error) {
	qkv := w.tensor(w.inLayer("attention.qkv.weight"))
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

// halfNegative negates the second half of the rows of each head.
func halfNegative(w *Walk, p *part, t *tensorfs.Tensor) (*tensorfs.Tensor, error) {
	t, err := w.Numbers(w.name(p), t, PlainType(t))
	if err != nil {
		return nil, err
	}
	head, shape := w.Sizes.Len("head"), t.Numbers()
	if len(shape) != 2 || head < 2 || head%2 != 0 || shape[0]%head != 0 {
		return nil, fmt.Errorf("shape %v of %s does not divide into heads of %d rows", shape, tensorfs.Quote(t.Source), head)
	}
	heads, err := arrange.Reshape(t, shape[0]/head, head, shape[1])
	if err != nil {
		return nil, err
	}
	first, err := arrange.Slice(heads, 1, 0, head/2)
	if err != nil {
		return nil, err
	}
	second, err := arrange.Slice(heads, 1, head/2, head/2)
	if err == nil {
		second, err = arrange.Multiply(second, -1)
	}
	if err == nil {
		heads, err = arrange.Join(1, first, second)
	}
	if err != nil {
		return nil, err
	}
	return arrange.Reshape(heads, shape...)
}
