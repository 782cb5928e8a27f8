package whole

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/views"
	"github.com/tensorfs/tensorfs/views/arrange"
)

// move makes a tensor of GGUF of those of the model: of from, a canonical name
// without its last part, and of that part. It returns nil where the model does not
// have it.
type move func(x *maker, from, param string) (*tensorfs.Tensor, error)

// moves are what becomes of tensors towards GGUF, by the names in architectures.txt.
var moves = map[string]move{
	"keep": keptTokens, "tokens": outputOrTokens, "heads": permuteHeads, "+1": plusOne, "transpose": conv1D, "groups": ungroup,
	"latent_k": latentK, "latent_v": latentV, "positions": bertPositions, "stack": stacked, "alternate": alternating,
	"divisors": ropeFreqs, "long_factor": ropeFactors("long_factor"), "short_factor": ropeFactors("short_factor"),
}

// asStored is the tensor as it is.
func asStored(x *maker, from, param string) (*tensorfs.Tensor, error) {
	return x.take(from + param), nil
}

// loose returns a tensor whose rows can be moved: 8-bit floats become plain
// numbers, because their scales belong to blocks of rows.
func (x *maker) loose(t *tensorfs.Tensor) (*tensorfs.Tensor, error) {
	if t == nil || t.Quant == nil || t.Quant.GroupSize > 0 {
		return t, nil
	}
	return x.plain(t)
}

// plain returns a tensor as plain numbers, of the type that holds them exactly or,
// where that has blocks, as F16.
func (x *maker) plain(t *tensorfs.Tensor) (*tensorfs.Tensor, error) {
	if t.Quant == nil {
		return t, nil
	}
	to, _, err := views.Exact(t)
	if err != nil {
		return nil, err
	}
	if to.Kind() != tensorfs.KindFloat {
		to = tensorfs.F16
	}
	d, err := views.Encode(t, to)
	return &tensorfs.Tensor{Name: t.Weight(), Source: t.Source, DType: to, Shape: t.Numbers(), Data: d}, err
}

// keptTokens is the token embedding, cut to the rows that are kept.
func keptTokens(x *maker, from, param string) (*tensorfs.Tensor, error) {
	t := x.take(from + param)
	if t == nil || x.rows == 0 || len(t.Numbers()) == 0 {
		return t, nil
	}
	if have := t.Numbers()[0]; have < x.rows {
		return nil, fmt.Errorf("the vocabulary has %d tokens, and the embedding has %d rows", x.rows, have)
	}
	t, err := x.loose(t)
	if err != nil {
		return nil, err
	}
	return arrange.Slice(t, 0, 0, x.rows)
}

// outputOrTokens is the output, or the embedding again where both are one.
func outputOrTokens(x *maker, from, param string) (*tensorfs.Tensor, error) {
	if t := x.take(from + param); t != nil {
		return t, nil
	}
	return keptTokens(x, embedding, param)
}

// permuteHeads moves the rows of the heads of q, or of k, to GGUF's order.
func permuteHeads(x *maker, from, param string) (*tensorfs.Tensor, error) {
	if strings.HasSuffix(from, ".q") {
		return x.permute(from+param, x.sizes.Len("heads"))
	}
	t, head := x.find(from+param), x.sizes.Len("head")
	if t == nil {
		return nil, nil
	}
	if rows := t.Numbers()[:min(1, len(t.Numbers()))]; len(rows) == 0 || head == 0 || rows[0]%head != 0 {
		return nil, fmt.Errorf("shape %v of %s does not divide into heads of %d", t.Numbers(), tensorfs.Quote(t.Source), head)
	}
	return x.permute(from+param, t.Numbers()[0]/head)
}

func (x *maker) permute(name string, heads int64) (*tensorfs.Tensor, error) {
	t, err := x.loose(x.take(name))
	if t == nil || err != nil {
		return nil, err
	}
	if strings.Contains(t.Source, ".attention.w") || strings.Contains(t.Source, "_no_perm") {
		return nil, fmt.Errorf("%s is not a name of Hugging Face's, so the order of its rows is not known", tensorfs.Quote(t.Source))
	}
	return arrange.Permute(t, heads)
}

// plusOne adds the one that Gemma's norms are stored without.
func plusOne(x *maker, from, param string) (*tensorfs.Tensor, error) {
	t := x.take(from + param)
	if t == nil {
		return nil, nil
	}
	return arrange.AddOne(t)
}

// conv1D transposes the weights that GPT-2 stores as [in, out]. Which way they are
// shows in that of q, k and v, which is not square; MLX has them as GGUF does.
func conv1D(x *maker, from, param string) (*tensorfs.Tensor, error) {
	t, qkv := x.take(from+param), x.find(x.inLayer("attention.qkv.weight"))
	if t == nil || qkv == nil || param != ".weight" || !slices.Equal(qkv.Numbers(), []int64{x.sizes.Len("width"), x.sizes.Len("qkv")}) {
		return t, nil
	}
	return arrange.Transpose(t)
}

// ungroup puts all rows of q before those of k and of v. Falcon stores them by
// groups of heads that share k and v.
func ungroup(x *maker, from, param string) (*tensorfs.Tensor, error) {
	t, err := x.loose(x.take(from + param))
	if t == nil || err != nil {
		return nil, err
	}
	heads, head, groups := x.sizes.Len("heads"), x.sizes.Len("head"), x.sizes.Len("kv_heads")
	shape := t.Numbers()
	if len(shape) != 2 || shape[0] != x.sizes.Len("qkv") || heads%groups != 0 {
		return nil, fmt.Errorf("shape %v of %s does not divide into %d groups of %d heads of %d", shape, tensorfs.Quote(t.Source), groups, heads, head)
	}
	q := heads / groups * head
	grouped, err := arrange.Reshape(t, groups, q+2*head, shape[1])
	if err != nil {
		return nil, err
	}
	parts := make([]*tensorfs.Tensor, 3)
	for i, p := range [][2]int64{{0, q}, {q, head}, {q + head, head}} {
		if parts[i], err = arrange.Slice(grouped, 1, p[0], p[1]); err != nil {
			return nil, err
		}
		if parts[i], err = arrange.Reshape(parts[i], groups*p[1], shape[1]); err != nil {
			return nil, err
		}
	}
	return arrange.Join(0, parts...)
}

// latentK and latentV are the two parts of kv_b: for each head the rows that make
// k, transposed, and those that make v. MLX stores them apart.
func latentK(x *maker, from, param string) (*tensorfs.Tensor, error) {
	t, err := x.latent(from+param, 0, x.sizes.Len("nope"))
	if t == nil || err != nil || x.find(from+param) != nil {
		return t, err
	}
	if t, err = x.plain(t); err != nil { // blocks cannot be transposed
		return nil, err
	}
	return arrange.Transpose(t)
}

func latentV(x *maker, from, param string) (*tensorfs.Tensor, error) {
	return x.latent(from+param, x.sizes.Len("nope"), x.sizes.Len("v_head"))
}

// latent returns a tensor of that name, or else some rows of every head of kv_b.
func (x *maker) latent(name string, first, n int64) (*tensorfs.Tensor, error) {
	whole := x.inLayer("attention.kv_b.weight")
	if t := x.take(name); t != nil {
		if x.find(whole) != nil {
			return nil, fmt.Errorf("the model has %s and %s, which are the same", name, whole)
		}
		return t, nil
	}
	t, err := x.loose(x.take(whole))
	if t == nil || err != nil {
		return nil, err
	}
	if err := x.sizes.Need("nope", "v_head", "kv_rank"); err != nil {
		return nil, err
	}
	heads, rows, shape := x.sizes.Len("heads"), x.sizes.Len("nope")+x.sizes.Len("v_head"), t.Numbers()
	if len(shape) != 2 || shape[0] != heads*rows {
		return nil, fmt.Errorf("shape %v of %s is not that of %d heads of %d rows", shape, tensorfs.Quote(t.Source), heads, rows)
	}
	if t, err = arrange.Reshape(t, heads, rows, shape[1]); err != nil {
		return nil, err
	}
	return arrange.Slice(t, 1, first, n)
}

// bertPositions are the positions; RoBERTa's table begins with rows that no
// position has.
func bertPositions(x *maker, from, param string) (*tensorfs.Tensor, error) {
	t := x.take(from + param)
	if t == nil || !slices.Contains([]string{"roberta", "xlm-roberta", "camembert"}, x.cfg.word("model_type")) {
		return t, nil
	}
	pad, ok := x.cfg.integer("pad_token_id")
	if !ok {
		pad = 1
	}
	if len(t.Numbers()) == 0 || pad < 0 || pad >= t.Numbers()[0] {
		return nil, errors.New("pad_token_id is not one of its rows")
	}
	return arrange.Slice(t, 0, pad+1, t.Numbers()[0]-pad-1)
}
