package layout

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/architectures"
	"github.com/tensorfs/tensorfs/views/arrange"
)

// Embedding is the canonical name of the token embedding, without its last part.
const Embedding = "token_embedding"

// keepTokens cuts the token embedding to the rows that are kept.
func keepTokens(w *Walk, _ *part, t *tensorfs.Tensor) (*tensorfs.Tensor, error) {
	if w.Rows == 0 || len(t.Numbers()) == 0 {
		return t, nil
	}
	if have := t.Numbers()[0]; have < w.Rows {
		return nil, fmt.Errorf("the vocabulary has %d tokens, and the embedding has %d rows", w.Rows, have)
	}
	t, err := loose(t)
	if err != nil {
		return nil, err
	}
	return arrange.Slice(t, 0, 0, w.Rows)
}

// maxPadded bounds how many rows of zeros are appended to an embedding.
const maxPadded = 1 << 16

// padTokens appends rows of zeros to an embedding, up to vocab_size.
func padTokens(w *Walk, p *part, t *tensorfs.Tensor) (*tensorfs.Tensor, error) {
	want, ok := w.facts("config.vocab_size").(int64)
	shape := t.Numbers()
	if !ok || len(shape) != 2 || shape[0] >= want {
		return t, nil
	}
	if want-shape[0] > maxPadded {
		return nil, fmt.Errorf("vocab_size is %d, and %s has %d rows", want, tensorfs.Quote(t.Source), shape[0])
	}
	t, err := plain(t)
	if err != nil {
		return nil, err
	}
	zeros := tensorfs.Bytes(make([]byte, t.Data.Size()/max(shape[0], 1)*(want-shape[0])))
	return arrange.Join(0, t, &tensorfs.Tensor{Name: t.Name, Source: t.Source, DType: t.DType, Shape: []int64{want - shape[0], shape[1]}, Data: zeros})
}

// outputOrTokens is the output, or the embedding again where both are one.
func outputOrTokens(w *Walk, p *part) (*tensorfs.Tensor, error) {
	if t := w.take(p.canonical()); t != nil {
		return t, nil
	}
	t := w.take(Embedding + p.param)
	if t == nil {
		return nil, nil
	}
	return keepTokens(w, p, t)
}

// outputUnlessTied is the output, nil if it has the numbers of the embedding, stored twice.
func outputUnlessTied(w *Walk, p *part) (*tensorfs.Tensor, error) {
	t, tokens := w.take(p.canonical()), w.tensor(Embedding+p.param)
	same, err := Same(t, tokens)
	if same || err != nil {
		return nil, err
	}
	return t, nil
}

// answers are the rows of the output for the tokens that are the model's possible answers,
// nil if it answers with text.
func answers(w *Walk, p *part) (*tensorfs.Tensor, error) {
	if w.Answers == nil || p.param != ".weight" {
		return nil, nil
	}
	of := w.tensor("output.weight")
	if of == nil {
		of = w.tensor(Embedding + ".weight")
	}
	if of == nil || len(of.Numbers()) != 2 {
		return nil, errors.New("there is no output")
	}
	of, err := loose(of)
	if err != nil {
		return nil, err
	}
	var rows []*tensorfs.Tensor
	for _, row := range w.Answers {
		t, err := arrange.Slice(of, 0, row, 1)
		if err != nil {
			return nil, err
		}
		rows = append(rows, t)
	}
	return arrange.Join(0, rows...)
}

// unanswered is the output of a model that answers with text.
func unanswered(w *Walk, p *part) (*tensorfs.Tensor, error) {
	t := w.take(p.canonical())
	if w.Answers != nil {
		return nil, nil
	}
	return t, nil
}

// Same reports whether two tensors are stored alike, with the same numbers.
func Same(t, other *tensorfs.Tensor) (bool, error) {
	if t == nil || other == nil || t.Quant != nil || other.Quant != nil || t.DType != other.DType || !slices.Equal(t.Shape, other.Shape) {
		return false, nil
	}
	return sameBytes(t.Data, other.Data)
}

// sameBytes compares data of one size, up to the first difference.
func sameBytes(a, b tensorfs.Data) (bool, error) {
	x, y := make([]byte, 1<<20), make([]byte, 1<<20)
	for at := int64(0); at < a.Size(); at += int64(len(x)) {
		n := min(int64(len(x)), a.Size()-at)
		if err := tensorfs.ReadFull(a, x[:n], at); err != nil {
			return false, err
		}
		if err := tensorfs.ReadFull(b, y[:n], at); err != nil {
			return false, err
		}
		if !bytes.Equal(x[:n], y[:n]) {
			return false, nil
		}
	}
	return true, nil
}

// unlessMLX is the output, which mlx-lm's class does not have: it uses the embedding, and
// GGUF files have a copy of that.
func unlessMLX(w *Walk, m *module) error {
	t, err := w.taken(m.from+".weight", m.Shape, architectures.Maybe)
	if t == nil || err != nil || w.To == MLX {
		return err
	}
	return w.Put(m.to+".weight", t, OriginOf(t), false)
}

// unusedPositions is how many rows of positions there are that no position has, with which RoBERTa's
// table begins.
func (w *Walk) unusedPositions() int64 { return w.Sizes.Len("unused_positions") }

// cutPositions cuts those rows.
func cutPositions(w *Walk, _ *part, t *tensorfs.Tensor) (*tensorfs.Tensor, error) {
	n := w.unusedPositions()
	if n == 0 {
		return t, nil
	}
	if len(t.Numbers()) == 0 || n < 0 || n >= t.Numbers()[0] {
		return nil, errors.New("pad_token_id is not one of its rows")
	}
	return arrange.Slice(t, 0, n, t.Numbers()[0]-n)
}

// Row returns a row of a matrix as a list of plain numbers.
func Row(t *tensorfs.Tensor, row int64) (*tensorfs.Tensor, error) {
	source := t.Source
	t, err := plain(t)
	if err == nil {
		t, err = arrange.Slice(t, 0, row, 1)
	}
	if err == nil {
		t, err = arrange.Reshape(t, t.Numbers()[1])
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", tensorfs.Quote(source), err)
	}
	list := *t
	list.Source = source
	return &list, nil
}

// addPositions puts rows of zeros in their place, which no token but that for padding asks for.
func addPositions(w *Walk, p *part, t *tensorfs.Tensor) (*tensorfs.Tensor, error) {
	n := w.unusedPositions()
	if n == 0 {
		return t, nil
	}
	t, err := w.Numbers(w.name(p), t, PlainType(t))
	if err != nil {
		return nil, err
	}
	shape := t.Numbers()
	if len(shape) != 2 || n < 0 || n > maxUnused {
		return nil, fmt.Errorf("the token for padding has the number %d", n-1)
	}
	zeros := tensorfs.Bytes(make([]byte, t.Data.Size()/max(shape[0], 1)*n))
	return arrange.Join(0, &tensorfs.Tensor{Name: t.Name, Source: t.Source, DType: t.DType, Shape: []int64{n, shape[1]}, Data: zeros}, t)
}

// maxUnused bounds the number of the token for padding, which a file may say as it likes.
const maxUnused = 64
