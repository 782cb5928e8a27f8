package layout

import (
	"fmt"
	"strings"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/architectures"
	"github.com/tensorfs/tensorfs/views/arrange"
)

// Attention through a latent vector computes k and v from one vector: for each head, kv_b
// has the rows for k, then the rows for v. GGUF has the two apart, with k's transposed.

// latentK and latentV are the two parts of kv_b. MLX stores them apart, too.
func latentK(w *Walk, p *part) (*tensorfs.Tensor, error) {
	t, err := w.latent(p.canonical(), 0, w.Sizes.Len("nope"))
	if t == nil || err != nil || w.tensor(p.canonical()) != nil {
		return t, err
	}
	if t, err = plain(t); err != nil { // blocks cannot be transposed
		return nil, err
	}
	return arrange.Transpose(t)
}

func latentV(w *Walk, p *part) (*tensorfs.Tensor, error) {
	return w.latent(p.canonical(), w.Sizes.Len("nope"), w.Sizes.Len("v_head"))
}

// latent returns a tensor of that name, or else some rows of every head of kv_b.
func (w *Walk) latent(name string, first, n int64) (*tensorfs.Tensor, error) {
	whole := w.inLayer("attention.kv_b.weight")
	if t := w.take(name); t != nil {
		if w.tensor(whole) != nil {
			return nil, fmt.Errorf("the model has %s and %s, which are the same", name, whole)
		}
		return t, nil
	}
	t, err := loose(w.take(whole))
	if t == nil || err != nil {
		return nil, err
	}
	if err := w.Sizes.Need("nope", "v_head", "kv_rank"); err != nil {
		return nil, err
	}
	heads, rows, shape := w.Sizes.Len("heads"), w.Sizes.Len("nope")+w.Sizes.Len("v_head"), t.Numbers()
	if len(shape) != 2 || shape[0] != heads*rows {
		return nil, fmt.Errorf("shape %v of %s does not fit %d heads of %d rows", shape, tensorfs.Quote(t.Source), heads, rows)
	}
	if t, err = arrange.Reshape(t, heads, rows, shape[1]); err != nil {
		return nil, err
	}
	return arrange.Slice(t, 1, first, n)
}

// joinLatent makes kv_b of its two parts, or the two for the classes of mlx-lm that have
// them. Some GGUF files have kv_b as it is, or all three; then kv_b counts.
func joinLatent(w *Walk, m *module) error {
	from, to := strings.TrimSuffix(m.from, ".k_b"), m.to[:strings.LastIndexByte(m.to, '.')]
	kvb, err := w.taken(from+".kv_b.weight", []string{"kv_b", "kv_rank"}, architectures.Maybe)
	if err != nil {
		return err
	}
	need := architectures.Always
	if kvb != nil {
		need = architectures.Maybe
	}
	k, err := w.taken(from+".k_b.weight", nil, need)
	if err != nil {
		return err
	}
	v, err := w.taken(from+".v_b.weight", nil, need)
	if err != nil {
		return err
	}
	apart, at := w.To == MLX && w.deepseekV3(), Origin{}
	switch {
	case kvb != nil && !apart:
		return w.Put(to+".kv_b_proj.weight", kvb, OriginOf(kvb), false)
	case kvb != nil:
		at = OriginOf(kvb)
		k, v, err = w.splitLatent(to+".embed_q.weight", kvb)
	default:
		at = OriginOf(v)
		k, v, err = w.partsOfLatent(k, v)
	}
	switch {
	case err != nil:
		return err
	case !apart:
		return w.joinKV(to+".kv_b_proj.weight", k, v, at)
	}
	if err := w.Put(to+".embed_q.weight", k, at, false); err != nil {
		return err
	}
	return w.Put(to+".unembed_out.weight", v, at, false)
}

// splitLatent cuts kv_b into its parts.
func (w *Walk) splitLatent(name string, kvb *tensorfs.Tensor) (k, v *tensorfs.Tensor, err error) {
	nope, rows := w.Sizes.Len("nope"), w.Sizes.Len("v_head")
	t, err := arrange.Reshape(kvb, w.Sizes.Len("heads"), nope+rows, w.Sizes.Len("kv_rank"))
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", tensorfs.Quote(kvb.Source), err)
	}
	if k, err = arrange.Slice(t, 1, 0, nope); err != nil {
		return nil, nil, err
	}
	if k, err = w.Numbers(name, k, PlainType(k)); err != nil {
		return nil, nil, err
	}
	if k, err = arrange.Transpose(k); err != nil {
		return nil, nil, err
	}
	v, err = arrange.Slice(t, 1, nope, rows)
	return k, v, err
}

// partsOfLatent gives the parts three dimensions; some files have two.
func (w *Walk) partsOfLatent(k, v *tensorfs.Tensor) (*tensorfs.Tensor, *tensorfs.Tensor, error) {
	heads, rank := w.Sizes.Len("heads"), w.Sizes.Len("kv_rank")
	first, err := arrange.Reshape(k, heads, rank, w.Sizes.Len("nope"))
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", tensorfs.Quote(k.Source), err)
	}
	second, err := arrange.Reshape(v, heads, w.Sizes.Len("v_head"), rank)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", tensorfs.Quote(v.Source), err)
	}
	return first, second, nil
}

// deepseekV3 reports whether the model is one of DeepSeek's third version, whose class in
// mlx-lm has the parts of kv_b.
func (w *Walk) deepseekV3() bool {
	if n, _ := w.facts("expert_gating").(int64); n == 2 {
		return true
	}
	for n := range w.Layers {
		if w.tensor(fmt.Sprintf("layers.%d.ffn.router.correction.bias", n)) != nil {
			return true
		}
	}
	return false
}

// joinKV puts kv_b into a directory: of k, [heads, rank, rows of k], and of v,
// [heads, rows of v, rank].
func (w *Walk) joinKV(name string, k, v *tensorfs.Tensor, at Origin) error {
	to := PlainType(k, v)
	k, err := w.Numbers(name, k, to)
	if err != nil {
		return err
	}
	if v, err = w.Numbers(name, v, to); err != nil {
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
	return w.Put(name, t, at, false)
}
