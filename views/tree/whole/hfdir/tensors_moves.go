package hfdir

import (
	"fmt"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/views/arrange"
)

// headHalves moves the rows of so many heads, by the name of the dimension, to the
// order of Hugging Face.
func headHalves(heads string) func(x *tensorMaker, t *tensorfs.Tensor, param string) (*tensorfs.Tensor, error) {
	return func(x *tensorMaker, t *tensorfs.Tensor, _ string) (*tensorfs.Tensor, error) {
		return arrange.Unpermute(t, x.dim(heads))
	}
}

// lessOne takes away the one that Gemma's norms are stored without.
func lessOne(x *tensorMaker, t *tensorfs.Tensor, _ string) (*tensorfs.Tensor, error) {
	t, err := x.numbers(t.Name, t, tensorfs.F32)
	if err != nil {
		return nil, err
	}
	return arrange.SubtractOne(t)
}

// inOut transposes the weights that GPT-2 stores as [in, out]; mlx-lm has them as
// GGUF does.
func inOut(x *tensorMaker, t *tensorfs.Tensor, param string) (*tensorfs.Tensor, error) {
	if x.mlx || param != ".weight" {
		return t, nil
	}
	t, err := x.numbers(t.Name, t, plainType(t))
	if err != nil {
		return nil, err
	}
	return arrange.Transpose(t)
}

// gpt2Head is the output, which mlx-lm's class does not have: there it is the
// embedding, of which GGUF files have a copy.
func gpt2Head(x *tensorMaker, r *tensorRow) error {
	t, err := x.take(r.from+".weight", "vocab width", maybe)
	if t == nil || err != nil || x.mlx {
		return err
	}
	return x.put(r.to+".weight", t, originOf(t), false)
}

// bloomHeads moves the rows of q, k and v, which GGUF has after each other, to
// where the three of a head are together.
func bloomHeads(x *tensorMaker, t *tensorfs.Tensor, _ string) (*tensorfs.Tensor, error) {
	return arrange.Swap(t, 0, 3, x.dim("heads"))
}

// falconGroups moves the rows of q, k and v to where those of the heads that share
// k and v are together.
func falconGroups(x *tensorMaker, t *tensorfs.Tensor, _ string) (*tensorfs.Tensor, error) {
	heads, groups, head, width := x.dim("heads"), x.dim("kv_heads"), x.dim("head"), x.dim("width")
	if groups == 1 {
		return t, nil
	}
	parts := make([]*tensorfs.Tensor, 3)
	at := int64(0)
	for i, rows := range []int64{heads * head, groups * head, groups * head} {
		part, err := arrange.Slice(t, 0, at, rows)
		if err != nil {
			return nil, err
		}
		if parts[i], err = arrange.Reshape(part, groups, rows/groups, width); err != nil {
			return nil, err
		}
		at += rows
	}
	t, err := arrange.Join(1, parts...)
	if err != nil {
		return nil, err
	}
	return arrange.Reshape(t, at, width)
}

// oneRow makes a matrix of one row of a vector. Some files have it so already.
func oneRow(x *tensorMaker, t *tensorfs.Tensor, _ string) (*tensorfs.Tensor, error) {
	return arrange.Reshape(t, 1, x.dim("width"))
}

// tokenTypeRows is oneRow where a model has a single type of tokens.
func tokenTypeRows(x *tensorMaker, t *tensorfs.Tensor, param string) (*tensorfs.Tensor, error) {
	if len(t.Shape) == 1 {
		return oneRow(x, t, param)
	}
	return t, x.shaped(t, []string{"types", "width"})
}

// latentKV makes kv_b of attention through a latent vector: for each head the rows
// that make k, then those that make v. GGUF has the two apart, that of k
// transposed, or kv_b as it is, or all of them; then kv_b counts.
func latentKV(x *tensorMaker, r *tensorRow) error {
	kvb, err := x.take(r.from+".kv_b.weight", "kv_b kv_rank", maybe)
	if err != nil {
		return err
	}
	need := always
	if kvb != nil {
		need = maybe
	}
	k, err := x.take(r.from+".k_b.weight", "", need)
	if err != nil {
		return err
	}
	v, err := x.take(r.from+".v_b.weight", "", need)
	if err != nil {
		return err
	}
	heads, nope, rows, rank := x.dim("heads"), x.dim("nope"), x.dim("v_head"), x.dim("kv_rank")
	apart := x.mlx && deepseekV3(x)
	if kvb != nil {
		if !apart {
			return x.put(r.to+".kv_b_proj.weight", kvb, originOf(kvb), false)
		}
		t, err := arrange.Reshape(kvb, heads, nope+rows, rank)
		if err != nil {
			return fmt.Errorf("%s: %w", tensorfs.Quote(kvb.Source), err)
		}
		if k, err = arrange.Slice(t, 1, 0, nope); err != nil {
			return err
		}
		if k, err = x.numbers(k.Source, k, plainType(k)); err != nil {
			return err
		}
		if k, err = arrange.Transpose(k); err != nil {
			return err
		}
		if v, err = arrange.Slice(t, 1, nope, rows); err != nil {
			return err
		}
	} else {
		from := k
		if k, err = arrange.Reshape(k, heads, rank, nope); err != nil { // some files have two dimensions
			return fmt.Errorf("%s: %w", tensorfs.Quote(from.Source), err)
		}
		from = v
		if v, err = arrange.Reshape(v, heads, rows, rank); err != nil {
			return fmt.Errorf("%s: %w", tensorfs.Quote(from.Source), err)
		}
		kvb = from
	}
	if apart {
		if err := x.put(r.to+".embed_q.weight", k, originOf(kvb), false); err != nil {
			return err
		}
		return x.put(r.to+".unembed_out.weight", v, originOf(kvb), false)
	}
	return x.joinKV(r.to+".kv_b_proj.weight", k, v, originOf(kvb))
}

// joinKV puts kv_b into the directory: of k, [heads, rank, rows of k], and of v,
// [heads, rows of v, rank].
func (x *tensorMaker) joinKV(name string, k, v *tensorfs.Tensor, o origin) error {
	to := plainType(k, v)
	k, err := x.numbers(name, k, to)
	if err != nil {
		return err
	}
	if v, err = x.numbers(name, v, to); err != nil {
		return err
	}
	if k, err = arrange.Transpose(k); err != nil {
		return err
	}
	t, err := arrange.Join(1, k, v)
	if err != nil {
		return err
	}
	shape := t.Numbers()
	if t, err = arrange.Reshape(t, shape[0]*shape[1], shape[2]); err != nil {
		return err
	}
	return x.put(name, t, o, false)
}
