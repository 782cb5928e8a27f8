package layout

import (
	"fmt"
	"strings"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/architectures"
)

// A model may have layers after the last one that predict further tokens. In GGUF they go
// on from the last, and so they do in directories of some classes; others have them
// apart, with names and numbers of their own. A second stack of layers is apart too.

// nextNames are the canonical names that modules around these layers have in a directory.
var nextNames = map[string]string{
	"nextn.eh_proj": "mtp.fc", "nextn.embedding_norm": "mtp.pre_fc_norm_embedding", "nextn.hidden_norm": "mtp.pre_fc_norm_hidden", "nextn.output_norm": "mtp.output_norm",
}

// next makes these layers.
func (w *Walk) next() error {
	if w.Arch.Again != "" {
		for i := range w.Layers {
			w.layer = w.Layers + i
			if err := w.modules(w.Arch.Layer, fmt.Sprintf("%d.", w.layer)); err != nil {
				return err
			}
		}
	}
	if len(w.Arch.Next) == 0 {
		return nil
	}
	n, _ := w.facts("n_nextn_layers").(int64)
	if w.To == GGUF {
		n = NextLayers(w.tensor, w.Layers)
	}
	for i := range n {
		if w.layer = w.Layers + i; w.To == MLX || w.To == HF && w.Arch.Next[0].Needs(".weight", architectures.FromGGUF) == architectures.Never {
			w.skip()
			continue
		}
		w.Sizes.Layer(w.layer)
		number := fmt.Sprintf("%d.", w.layer)
		if err := w.modules(w.Arch.Next, number); err != nil {
			return err
		}
		if err := w.modules(w.Arch.Layer, number); err != nil {
			return err
		}
	}
	return nil
}

// skip marks the tensors of a layer as used: mlx-lm and some classes have none of them.
func (w *Walk) skip() {
	prefix := w.inLayer("")
	for i := range w.Model.Tensors {
		if name := w.Model.Tensors[i].Name; len(name) > len(prefix) && name[:len(prefix)] == prefix {
			w.used[i] = true
		}
	}
}

// NextLayers counts the layers that predict further tokens of a model in the layout of
// Hugging Face, which has so many others.
func NextLayers(tensorOf func(canonical string) *tensorfs.Tensor, layers int64) (n int64) {
	for tensorOf(fmt.Sprintf("mtp.layers.%d.attention.output.weight", n)) != nil || tensorOf(fmt.Sprintf("layers.%d.nextn.eh_proj.weight", layers+n)) != nil {
		n++
	}
	return n
}

// isApart reports whether the layer that is made is one of these, and directories have
// it apart.
func (w *Walk) isApart() bool {
	return w.layer >= w.Layers && (w.Arch.Again != "" || len(w.Arch.Next) > 0 && strings.HasPrefix(w.Arch.Next[0].HF, "mtp."))
}

// nextIn returns the canonical name of a module of such a layer in a directory.
func (w *Walk) nextIn(module string) string {
	if w.Arch.Again != "" {
		return fmt.Sprintf("again.layers.%d.%s", w.layer-w.Layers, module)
	}
	if name := nextNames[module]; name != "" {
		return name
	}
	return fmt.Sprintf("mtp.layers.%d.%s", w.layer-w.Layers, module)
}

// nextSpelling returns what Hugging Face calls it.
func (w *Walk) nextSpelling(module, spelling string) string {
	if w.Arch.Again != "" {
		return fmt.Sprintf("%s%d.%s", w.Arch.Again, w.layer-w.Layers, spelling)
	}
	if nextNames[module] != "" {
		return spelling
	}
	return fmt.Sprintf("mtp.layers.%d.%s", w.layer-w.Layers, spelling)
}
