package hf

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/convert/layout"
)

// runStored makes the tensors of a model that has Hugging Face's names: they keep
// them, but for what mlx-lm stores in another form than the release.
func (x *tensorMaker) runStored() error {
	switch {
	case x.m.Format == "ollama" && x.mlx:
		return x.eachStored(x.renamed)
	case x.m.Format == "ollama":
		return x.eachStored(x.asStored)
	case x.m.Format == "mlx" && !x.mlx:
		return layout.Released(x.m, x, x.asStored)
	}
	return fmt.Errorf("the files of a model of format %s are shown as they are", x.m.Format)
}

// eachStored calls fn with every tensor that is not part of another, and its name.
func (x *tensorMaker) eachStored(fn func(t *tensorfs.Tensor, name string) error) error {
	for i := range x.m.Tensors {
		if t := &x.m.Tensors[i]; t.Owner == "" {
			if err := fn(t, t.Source); err != nil {
				return err
			}
		}
	}
	return nil
}

// asStored puts a tensor into the directory as numbers. Integers are no numbers of
// a model, but tables beside them.
func (x *tensorMaker) asStored(t *tensorfs.Tensor, name string) error {
	if t.Quant == nil && t.DType.Kind() == tensorfs.KindInteger && t.DType.Safetensors() && !t.BigEndian {
		x.store(name, t, layout.OriginOf(t))
		return nil
	}
	return x.Put(name, t, layout.OriginOf(t), true)
}

// renamed puts a tensor of Ollama's into the directory as mlx-lm has it: what is
// quantised is a module of MLX already, whose scales have other names. mlx-lm does
// not know factors for whole tensors.
func (x *tensorMaker) renamed(t *tensorfs.Tensor, name string) error {
	module, ok := strings.CutSuffix(name, ".weight")
	if q := t.Quant; !ok || q == nil || q.GroupSize == 0 || q.Scales == nil {
		return x.asStored(t, name)
	}
	if g := t.Quant.Global; g != nil {
		if one, err := allOnes(g); err != nil || !one {
			if err != nil {
				return err
			}
			return x.asStored(t, name)
		}
	}
	words, ok := asWords(t)
	if !ok {
		return x.asStored(t, name)
	}
	return x.putModule(module, words, layout.OriginOf(t))
}

// asWords returns codes that lie as MLX's do as the words that MLX takes them for; false
// where rows are not whole words.
func asWords(t *tensorfs.Tensor) (*tensorfs.Tensor, bool) {
	words := *t
	words.DType, words.Shape = tensorfs.U32, slices.Clone(t.Quant.Shape)
	last := len(words.Shape) - 1
	bits := words.Shape[last] * int64(t.Quant.Bits)
	words.Shape[last] = bits / 32
	size, ok := tensorfs.U32.Size(words.Shape)
	return &words, bits%32 == 0 && ok && size == t.Data.Size()
}

// allOnes reports whether every factor is 1.
func allOnes(t *tensorfs.Tensor) (bool, error) {
	const most = 1 << 20
	if t.DType != tensorfs.F32 || t.BigEndian || t.Data.Size() > most {
		return false, nil
	}
	b := make([]byte, t.Data.Size())
	if err := tensorfs.ReadFull(t.Data, b, 0); err != nil {
		return false, err
	}
	for ; len(b) >= 4; b = b[4:] {
		if math.Float32frombits(binary.LittleEndian.Uint32(b)) != 1 {
			return false, nil
		}
	}
	return true, nil
}
