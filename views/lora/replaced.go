package lora

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/adapter"
)

// replaceWeight puts a weight into the place of the base's.
func (x *applied) replaceWeight(m *adapter.Module) error {
	to, canonical := x.baseTensor(x.weightName(m))
	if canonical == outputName && (to == nil || x.isTied()) {
		if same, err := x.sameAsEmbedding(m); err != nil || same && to == nil {
			return err
		} else if !same {
			return x.noOutput(m.Weight, canonical)
		}
	}
	if to == nil {
		return x.missing(m.Weight, canonical)
	}
	t, err := x.inOrder(canonical, m.Weight, true)
	if err != nil {
		return err
	}
	return x.replace(to, t)
}

// bias puts a bias into the place of the base's.
func (x *applied) bias(m *adapter.Module) error {
	to, canonical := x.baseTensor(m.Name + ".bias")
	if to == nil {
		return x.missing(m.WholeBias, canonical)
	}
	t, err := x.inOrder(canonical, m.WholeBias, true)
	if err != nil {
		return err
	}
	return x.replace(to, t)
}

// tokens puts rows into the place of the base's.
func (x *applied) tokens(m *adapter.Module) error {
	to, canonical := x.baseTensor(x.weightName(m))
	if canonical == outputName && (to == nil || x.isTied()) {
		if same, err := x.sameAsEmbedding(m); err != nil || same && to == nil {
			return err
		} else if !same {
			return x.noOutput(m.Tokens, canonical)
		}
	}
	switch {
	case to == nil:
		return x.missing(m.Tokens, canonical)
	case canonical != embeddingName && canonical != outputName:
		return x.refuse(m.Tokens, "only the embedding and the output have rows of tokens, and %s is neither", canonical)
	}
	shape := to.Numbers()
	if len(shape) != 2 || m.Tokens.Shape[1] != shape[1] {
		return x.another(m.Tokens, "shape %v, and %s of the base has %v", m.Tokens.Shape, to.Weight(), shape)
	}
	for _, n := range m.Indices {
		if n >= shape[0] {
			return x.another(m.Tokens, "it has token %d, and %s of the base has %d rows", n, to.Weight(), shape[0])
		}
	}
	if x.by.Scale == 0 {
		return nil
	}
	c := x.changeOf(to)
	c.rows = append(c.rows, rowsOfTokens{m.Tokens, m.Indices})
	c.from = append(c.from, m.Tokens.Data)
	return nil
}

// rowsOfTokens are rows that take the place of others.
type rowsOfTokens struct {
	base *tensorfs.Tensor // [tokens, columns]
	at   []int64
}

// withRows returns numbers of F32 with other rows.
func (b *builder) withRows(base tensorfs.Data, list []rowsOfTokens, rows, columns int64) (tensorfs.Data, error) {
	for _, r := range list {
		d, err := b.opts.Encode(r.base, tensorfs.F32)
		if err != nil {
			return nil, err
		}
		order := make([]int, len(r.at))
		for i := range order {
			order[i] = i
		}
		slices.SortFunc(order, func(i, k int) int { return cmp.Compare(r.at[i], r.at[k]) })
		var parts []tensorfs.Data
		row, next := 4*columns, int64(0)
		for _, i := range order {
			if at := r.at[i]; at > next {
				parts = append(parts, tensorfs.Section(base, next*row, (at-next)*row))
			}
			parts = append(parts, tensorfs.Section(d, int64(i)*row, row))
			next = r.at[i] + 1
		}
		if next < rows {
			parts = append(parts, tensorfs.Section(base, next*row, (rows-next)*row))
		}
		base = tensorfs.Concat(parts...)
	}
	return base, nil
}

// sameAsEmbedding reports whether the adapter has for the output what it has for the
// embedding, bit for bit: then a base that ties the two stays tied.
func (x *applied) sameAsEmbedding(m *adapter.Module) (bool, error) {
	for i := range x.a.Modules {
		e := &x.a.Modules[i]
		if _, canonical := x.baseTensor(x.weightName(e)); canonical != embeddingName {
			continue
		}
		switch {
		case m.Weight != nil && e.Weight != nil:
			return sameBytes(m.Weight, e.Weight)
		case m.Tokens != nil && e.Tokens != nil && slices.Equal(m.Indices, e.Indices):
			return sameBytes(m.Tokens, e.Tokens)
		}
	}
	return false, nil
}

// sameBytes reports whether two tensors have the same bytes.
func sameBytes(a, b *tensorfs.Tensor) (bool, error) {
	if a.DType != b.DType || !slices.Equal(a.Shape, b.Shape) || a.BigEndian != b.BigEndian {
		return false, nil
	}
	const piece = 1 << 20
	p, q := make([]byte, min(piece, a.Data.Size())), make([]byte, min(piece, a.Data.Size()))
	for at := int64(0); at < a.Data.Size(); at += piece {
		n := min(piece, a.Data.Size()-at)
		if err := tensorfs.ReadFull(a.Data, p[:n], at); err != nil {
			return false, err
		}
		if err := tensorfs.ReadFull(b.Data, q[:n], at); err != nil {
			return false, err
		}
		if !bytes.Equal(p[:n], q[:n]) {
			return false, nil
		}
	}
	return true, nil
}

// missing is the error about a target that the base does not have.
func (x *applied) missing(about *tensorfs.Tensor, canonical string) error {
	if canonical == outputName && x.weights[embeddingName] != nil {
		return x.tied(about)
	}
	return x.another(about, "the base has no %s", tensorfs.Printable(canonical))
}

// another is the error about a tensor of the adapter that is for another model, with both
// bases: the one that its config names, and the one that was given.
func (x *applied) another(about *tensorfs.Tensor, problem string, args ...any) error {
	given := cmp.Or(x.m.Name, x.m.Path)
	made := "the adapter is for another model than " + tensorfs.Printable(given)
	if x.a.Base != "" {
		made = fmt.Sprintf("the adapter was made for %s, and the model is %s", tensorfs.Quote(x.a.Base), tensorfs.Printable(given))
	}
	return x.refuse(about, "%s: %s", fmt.Sprintf(problem, args...), made)
}

func (x *applied) tied(about *tensorfs.Tensor) error {
	return x.refuse(about, "the base ties lm_head to embed_tokens; merging one would change both")
}

// isTied reports whether the base declares one tensor for embedding and output.
func (x *applied) isTied() bool { return x.m.Meta("config.tie_word_embeddings") == true }

// noOutput is the error about an output that is not there, or is the embedding.
func (x *applied) noOutput(about *tensorfs.Tensor, canonical string) error {
	if x.isTied() {
		return x.tied(about)
	}
	return x.missing(about, canonical)
}
