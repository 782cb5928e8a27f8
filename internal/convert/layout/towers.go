package layout

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/architectures"
	"github.com/tensorfs/tensorfs/views/arrange"
)

// Vision towers have moves of their own (formats/architectures/towers.txt).

// frame finds the patches of one of two pictures that follow each other, in a tensor
// [D, C, 2, P, P] of both.
func frame(w *Walk, p *part) (*tensorfs.Tensor, error) {
	module, isSecond := strings.CutSuffix(p.from, ".2")
	t, err := loose(w.take(module + p.param))
	if t == nil || err != nil || p.param != ".weight" {
		return t, err
	}
	s, second := t.Numbers(), int64(0)
	if len(s) != 5 || s[2] != 2 {
		return nil, fmt.Errorf("shape %v of %s does not fit patches of two pictures", s, tensorfs.Quote(t.Source))
	}
	if isSecond {
		second = 1
	}
	if t, err = arrange.Slice(t, 2, second, 1); err != nil {
		return nil, err
	}
	return arrange.Reshape(t, s[0], s[1], s[3], s[4])
}

// frames makes the tensor of both with the first.
func frames(w *Walk, m *module) error {
	if strings.HasSuffix(m.from, ".2") {
		return nil
	}
	if bias := (&part{module: m, param: ".bias"}); m.Needs(bias.param, architectures.FromGGUF) != architectures.Never {
		t, err := w.taken(bias.canonical(), m.Shape, m.Needs(bias.param, architectures.FromGGUF))
		if err == nil && t != nil {
			err = w.Put(w.name(bias), t, OriginOf(t), m.Plain)
		}
		if err != nil {
			return err
		}
	}
	var parts [2]*tensorfs.Tensor
	var at Origin
	name := w.name(&part{module: m, param: ".weight"})
	for i, module := range []string{m.from, m.from + ".2"} {
		t, err := w.taken(module+".weight", m.Shape, architectures.Always)
		if err != nil {
			return err
		}
		if i == 0 {
			at = OriginOf(t)
		}
		if t, err = w.Numbers(name, t, PlainType(t)); err != nil {
			return err
		}
		s := t.Numbers()
		if parts[i], err = arrange.Reshape(t, s[0]*s[1], 1, s[2]*s[3]); err != nil {
			return err
		}
	}
	t, err := arrange.Join(1, parts[:]...)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	d, patch := w.Sizes.Len("width"), w.Sizes.Len("patch")
	if t, err = arrange.Reshape(t, d, t.Numbers()[0]/d, 2, patch, patch); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return w.Put(name, t, at, m.Plain)
}

// byColours moves the numbers of patches, [D, P*P*C], to [D, C, P, P].
func byColours(w *Walk, p *part, t *tensorfs.Tensor) (*tensorfs.Tensor, error) {
	s, patch := t.Numbers(), w.Sizes.Len("patch")
	if p.param != ".weight" {
		return t, nil
	}
	if len(s) != 2 || patch < 1 || s[1]%(patch*patch) != 0 {
		return nil, fmt.Errorf("shape %v of %s does not fit patches of %d by %d", s, tensorfs.Quote(t.Source), patch, patch)
	}
	return swapped(t, []int64{s[0], patch * patch, s[1] / (patch * patch)}, []int64{s[0], s[1] / (patch * patch), patch, patch})
}

// byPixels moves them back.
func byPixels(_ *Walk, p *part, t *tensorfs.Tensor) (*tensorfs.Tensor, error) {
	s := t.Numbers()
	if p.param != ".weight" {
		return t, nil
	}
	return swapped(t, []int64{s[0], s[1], s[2] * s[3]}, []int64{s[0], s[1] * s[2] * s[3]})
}

// swapped returns a tensor in a shape, with the last two dimensions in the other order,
// in another shape.
func swapped(t *tensorfs.Tensor, in, out []int64) (*tensorfs.Tensor, error) {
	t, err := plain(t)
	if err == nil {
		t, err = arrange.Reshape(t, in...)
	}
	if err == nil {
		t, err = arrange.Transpose(t)
	}
	if err != nil {
		return nil, err
	}
	return arrange.Reshape(t, out...)
}

// listed makes a list of a table of positions, [H, W, D].
func listed(_ *Walk, _ *part, t *tensorfs.Tensor) (*tensorfs.Tensor, error) {
	s := t.Numbers()
	if len(s) != 3 {
		return nil, fmt.Errorf("shape %v of %s does not fit a table of positions", s, tensorfs.Quote(t.Source))
	}
	return arrange.Reshape(t, s[0]*s[1], s[2])
}

// squared makes a table of a list, which has as many rows as columns.
func squared(_ *Walk, _ *part, t *tensorfs.Tensor) (*tensorfs.Tensor, error) {
	s := t.Numbers()
	side := int64(1)
	for side*side < s[0] {
		side++
	}
	if side*side != s[0] {
		return nil, fmt.Errorf("%d positions are not a square", s[0])
	}
	return arrange.Reshape(t, side, side, s[1])
}

// colourByColour moves the numbers of patches, P*P*C in the last dimension, to C*P*P.
func colourByColour(_ *Walk, p *part, t *tensorfs.Tensor) (*tensorfs.Tensor, error) {
	return swappedColours(p, t, func(pixels int64) (outer, inner int64) { return pixels, colours })
}

// pixelByPixel moves them back.
func pixelByPixel(_ *Walk, p *part, t *tensorfs.Tensor) (*tensorfs.Tensor, error) {
	return swappedColours(p, t, func(pixels int64) (outer, inner int64) { return colours, pixels })
}

func swappedColours(p *part, t *tensorfs.Tensor, runs func(pixels int64) (outer, inner int64)) (*tensorfs.Tensor, error) {
	s := t.Numbers()
	if p.param == ".bias" && len(p.Shape) > 1 { // a number for each row
		return t, nil
	}
	if len(s) == 0 || s[len(s)-1]%colours != 0 {
		return nil, fmt.Errorf("shape %v of %s does not fit patches of %d colours", s, tensorfs.Quote(t.Source), colours)
	}
	outer, inner := runs(s[len(s)-1] / colours)
	return swapped(t, []int64{rowsBefore(s), outer, inner}, s)
}

// colours of a pixel.
const colours = 3

// rowsBefore is the product of all dimensions but the last.
func rowsBefore(shape []int64) int64 {
	n := int64(1)
	for _, d := range shape[:len(shape)-1] {
		n *= d
	}
	return n
}

// otherAxisFirst exchanges the first two of three dimensions.
func otherAxisFirst(_ *Walk, _ *part, t *tensorfs.Tensor) (*tensorfs.Tensor, error) {
	s := t.Numbers()
	if len(s) != 3 {
		return nil, fmt.Errorf("shape %v of %s does not fit positions of two axes", s, tensorfs.Quote(t.Source))
	}
	t, err := plain(t)
	if err == nil {
		t, err = arrange.Reshape(t, s[0]*s[1], s[2])
	}
	if err == nil {
		t, err = arrange.Swap(t, 0, s[0], s[1])
	}
	if err != nil {
		return nil, err
	}
	return arrange.Reshape(t, s[1], s[0], s[2])
}

// pairsByAxis moves the rows of each head of q and k, which precede the rows of v: from pairs of both axes in turn to all
// pairs of the first axis and then of the second.
func pairsByAxis(w *Walk, _ *part, t *tensorfs.Tensor) (*tensorfs.Tensor, error) {
	return turnsOfAxes(w, t, func(pairs int64) (outer, inner int64) { return pairs, 2 })
}

// axesByPair moves them back.
func axesByPair(w *Walk, _ *part, t *tensorfs.Tensor) (*tensorfs.Tensor, error) {
	return turnsOfAxes(w, t, func(pairs int64) (outer, inner int64) { return 2, pairs })
}

func turnsOfAxes(w *Walk, t *tensorfs.Tensor, runs func(pairs int64) (outer, inner int64)) (*tensorfs.Tensor, error) {
	shape, head := t.Numbers(), w.Sizes.Len("head")
	if len(shape) == 0 || head < 4 || head%4 != 0 || shape[0]%(3*head) != 0 {
		return nil, fmt.Errorf("shape %v of %s does not divide into heads of %d rows with pairs of two axes", shape, tensorfs.Quote(t.Source), head)
	}
	heads := shape[0] / head
	t, err := plain(t)
	if err == nil {
		t, err = arrange.Reshape(t, append([]int64{heads, head}, shape[1:]...)...)
	}
	if err != nil {
		return nil, err
	}
	turned, err := arrange.Slice(t, 0, 0, heads/3*2)
	if err == nil {
		outer, inner := runs(head / 4)
		turned, err = arrange.Swap(turned, 1, outer, inner)
	}
	if err != nil {
		return nil, err
	}
	still, err := arrange.Slice(t, 0, heads/3*2, heads/3)
	if err == nil {
		t, err = arrange.Join(0, turned, still)
	}
	if err != nil {
		return nil, err
	}
	return arrange.Reshape(t, shape...)
}

// butFirst cuts the first row of a table.
func butFirst(_ *Walk, _ *part, t *tensorfs.Tensor) (*tensorfs.Tensor, error) {
	s := t.Numbers()
	if len(s) != 2 || s[0] < 2 {
		return nil, fmt.Errorf("shape %v of %s does not fit a row before others", s, tensorfs.Quote(t.Source))
	}
	return arrange.Slice(t, 0, 1, s[0]-1)
}

// noFirst refuses the way back.
func noFirst(_ *Walk, p *part, _ *tensorfs.Tensor) (*tensorfs.Tensor, error) {
	return nil, fmt.Errorf("%s has a row before the positions, which no GGUF file has", tensorfs.Quote(p.canonical()))
}

// summed adds the frames of patches, [D, F*C*P*P], to one, [D, C, P, P].
func summed(w *Walk, p *part, t *tensorfs.Tensor) (*tensorfs.Tensor, error) {
	s, patch := t.Numbers(), w.Sizes.Len("patch")
	frame := colours * patch * patch
	if p.param != ".weight" {
		return t, nil
	}
	if len(s) != 2 || frame < 1 || s[1]%frame != 0 {
		return nil, fmt.Errorf("shape %v of %s does not fit frames of %d by %d", s, tensorfs.Quote(t.Source), patch, patch)
	}
	t, err := plain(t)
	if err == nil {
		t, err = arrange.Reshape(t, s[0], s[1]/frame, colours, patch, patch)
	}
	if err != nil {
		return nil, err
	}
	return arrange.Sum(t, 1)
}

// noFrames refuses the way back.
func noFrames(_ *Walk, p *part, _ *tensorfs.Tensor) (*tensorfs.Tensor, error) {
	return nil, fmt.Errorf("%s is the sum of frames, which no GGUF file has", tensorfs.Quote(p.canonical()))
}

// axesTogether moves the rows of each head that turn from (time, height, width) of the first halves of pairs and then of the second
// to both halves of time, of height and of width. What does not divide into axes is at the end and stays there.
func axesTogether(w *Walk, _ *part, t *tensorfs.Tensor) (*tensorfs.Tensor, error) {
	return swapAxes(w, t, 2, axesOfHead)
}

// axesApart moves them back.
func axesApart(w *Walk, _ *part, t *tensorfs.Tensor) (*tensorfs.Tensor, error) {
	return swapAxes(w, t, axesOfHead, 2)
}

// axesOfHead are time, height and width.
const axesOfHead = 3

func swapAxes(w *Walk, t *tensorfs.Tensor, outer, inner int64) (*tensorfs.Tensor, error) {
	t, err := loose(t)
	if err != nil {
		return nil, err
	}
	head, shape := w.Sizes.Len("head"), t.Numbers()
	rows := 2 * axesOfHead * (head / axesOfHead / 2)
	if len(shape) == 0 || rows == 0 || shape[0]%head != 0 {
		return nil, fmt.Errorf("shape %v of %s does not divide into heads of %d rows with three axes", shape, tensorfs.Quote(t.Source), head)
	}
	var turned, still *tensorfs.Tensor
	if t, err = arrange.Reshape(t, append([]int64{shape[0] / head, head}, shape[1:]...)...); err == nil {
		turned, err = arrange.Slice(t, 1, 0, rows)
	}
	if err == nil {
		turned, err = arrange.Swap(turned, 1, outer, inner)
	}
	if err == nil && rows < head {
		still, err = arrange.Slice(t, 1, rows, head-rows)
	}
	if err != nil {
		return nil, err
	}
	return joinHeads(shape, turned, still)
}

// JoinRows returns one tensor of the rows of several. Rows of different types are F32, which
// holds the numbers of each.
func JoinRows(list []tensorfs.Tensor) (*tensorfs.Tensor, error) {
	if len(list) == 1 {
		return &list[0], nil
	}
	differ := slices.ContainsFunc(list, func(t tensorfs.Tensor) bool { return t.DType != list[0].DType || t.Change != nil })
	rows := make([]*tensorfs.Tensor, len(list))
	for i := range list {
		rows[i] = &list[i]
		if differ {
			var err error
			if rows[i], err = Encoded(rows[i], tensorfs.F32); err != nil {
				return nil, err
			}
		}
	}
	return arrange.Join(0, rows...)
}
