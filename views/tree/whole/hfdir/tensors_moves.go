package hfdir

import (
	"fmt"
	"strings"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/architectures"
	"github.com/tensorfs/tensorfs/views/arrange"
)

// back makes the tensor that Hugging Face has of the weight or the bias of a module.
type back func(x *tensorMaker, r *module, t *tensorfs.Tensor, param string) (*tensorfs.Tensor, error)

// backMoves undo the moves of architectures.txt that are one tensor for one, and
// backAll make all tensors of a module, and of those that are made with it.
var (
	backMoves = map[string]back{"heads": headHalves, "+1": lessOne, "transpose": inOut, "thirds": bloomHeads, "groups": falconGroups, "row": oneRow}
	backAll   = map[string]func(x *tensorMaker, r *module) error{
		"stack": stackOrEach, "alternate": gptOSSExperts, "latent_k": latentKV, "latent_v": withAnother, "unless_mlx": unlessMLX,
	}
)

// withAnother is for a module that is made with another one.
func withAnother(*tensorMaker, *module) error { return nil }

const always, maybe, never = architectures.Always, architectures.Maybe, architectures.Never

// headHalves moves the rows of the heads of q, or of k, to the order of Hugging Face.
func headHalves(x *tensorMaker, r *module, t *tensorfs.Tensor, _ string) (*tensorfs.Tensor, error) {
	heads := "heads"
	if strings.HasSuffix(r.from, ".k") {
		heads = "kv_heads"
	}
	return arrange.Unpermute(t, x.dim(heads))
}

// lessOne takes away the one that Gemma's norms are stored without.
func lessOne(x *tensorMaker, _ *module, t *tensorfs.Tensor, _ string) (*tensorfs.Tensor, error) {
	t, err := x.numbers(t.Name, t, tensorfs.F32)
	if err != nil {
		return nil, err
	}
	return arrange.SubtractOne(t)
}

// inOut transposes the weights that GPT-2 stores as [in, out]; mlx-lm has them as
// GGUF does.
func inOut(x *tensorMaker, _ *module, t *tensorfs.Tensor, param string) (*tensorfs.Tensor, error) {
	if x.mlx || param != ".weight" {
		return t, nil
	}
	t, err := x.numbers(t.Name, t, plainType(t))
	if err != nil {
		return nil, err
	}
	return arrange.Transpose(t)
}

// unlessMLX is the output, which mlx-lm's class does not have: there it is the
// embedding, of which GGUF files have a copy.
func unlessMLX(x *tensorMaker, r *module) error {
	t, err := x.take(r.from+".weight", strings.Join(r.Shape, " "), maybe)
	if t == nil || err != nil || x.mlx {
		return err
	}
	return x.put(r.to+".weight", t, originOf(t), false)
}

// bloomHeads moves the rows of q, k and v, which GGUF has after each other, to
// where the three of a head are together.
func bloomHeads(x *tensorMaker, _ *module, t *tensorfs.Tensor, _ string) (*tensorfs.Tensor, error) {
	return arrange.Swap(t, 0, 3, x.dim("heads"))
}

// falconGroups moves the rows of q, k and v to where those of the heads that share
// k and v are together.
func falconGroups(x *tensorMaker, _ *module, t *tensorfs.Tensor, _ string) (*tensorfs.Tensor, error) {
	heads, groups, head, width := x.dim("heads"), x.dim("kv_heads"), x.dim("head"), x.dim("width")
	switch {
	case groups < 1 || heads%groups != 0 || groups != 1 && groups != heads && !falconNew(x):
		return nil, fmt.Errorf("%d heads that share %d of k and v are not a Hugging Face model of architecture falcon without attn_norm_2", heads, groups)
	case groups == 1:
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
func oneRow(x *tensorMaker, r *module, t *tensorfs.Tensor, _ string) (*tensorfs.Tensor, error) {
	if len(t.Shape) == 1 || r.Shape[0] == "1" {
		var err error
		if t, err = arrange.Reshape(t, 1, x.dim("width")); err != nil {
			return nil, err
		}
	}
	return t, x.sizes.Hold(tensorfs.Quote(t.Source), t.Numbers(), r.Shape)
}

// latentKV makes kv_b of attention through a latent vector: for each head the rows
// that make k, then those that make v. GGUF has the two apart, that of k
// transposed, or kv_b as it is, or all of them; then kv_b counts.
func latentKV(x *tensorMaker, r *module) error {
	from, to := strings.TrimSuffix(r.from, ".k_b"), r.to[:strings.LastIndexByte(r.to, '.')]
	kvb, err := x.take(from+".kv_b.weight", "kv_b kv_rank", maybe)
	if err != nil {
		return err
	}
	need := always
	if kvb != nil {
		need = maybe
	}
	k, err := x.take(from+".k_b.weight", "", need)
	if err != nil {
		return err
	}
	v, err := x.take(from+".v_b.weight", "", need)
	if err != nil {
		return err
	}
	heads, nope, rows, rank := x.dim("heads"), x.dim("nope"), x.dim("v_head"), x.dim("kv_rank")
	apart := x.mlx && deepseekV3(x)
	if kvb != nil {
		if !apart {
			return x.put(to+".kv_b_proj.weight", kvb, originOf(kvb), false)
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
		source := k.Source
		if k, err = arrange.Reshape(k, heads, rank, nope); err != nil { // some files have two dimensions
			return fmt.Errorf("%s: %w", tensorfs.Quote(source), err)
		}
		kvb = v
		if v, err = arrange.Reshape(v, heads, rows, rank); err != nil {
			return fmt.Errorf("%s: %w", tensorfs.Quote(kvb.Source), err)
		}
	}
	if apart {
		if err := x.put(to+".embed_q.weight", k, originOf(kvb), false); err != nil {
			return err
		}
		return x.put(to+".unembed_out.weight", v, originOf(kvb), false)
	}
	return x.joinKV(to+".kv_b_proj.weight", k, v, originOf(kvb))
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
