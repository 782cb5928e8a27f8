package layout

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/architectures"
)

// Reorder moves rows, or columns, of what belongs to a tensor of the walk's model but is in the
// order of the walk's side, to the model's order: a weight, or a factor of a change of it. Of
// other moves of the tensor nothing is made.
func (w *Walk) Reorder(canonical string, axis architectures.Effect, t *tensorfs.Tensor) (*tensorfs.Tensor, error) {
	stem, param := canonical, ""
	for _, end := range []string{".weight", ".bias"} {
		if rest, ok := strings.CutSuffix(canonical, end); ok {
			stem, param = rest, end
		}
	}
	list, layer := slices.Concat(w.Arch.First, w.Arch.Last), int64(-1)
	name := stem
	if rest, ok := strings.CutPrefix(stem, "layers."); ok {
		if _, err := fmt.Sscanf(rest, "%d.", &layer); err == nil {
			_, name, _ = strings.Cut(rest, ".")
			list = w.Arch.Layer
		}
	}
	w.Sizes.Layer(layer)
	w.layer = max(layer, 0)
	for i := range list {
		of := &list[i]
		if of.Module != name || !of.When.Holds(w.Fact) {
			continue
		}
		p := &part{module: &module{Tensor: of, from: stem}, param: param}
		order := slices.Clone(of.Moves)
		if w.To == GGUF {
			slices.Reverse(order)
		}
		for _, move := range order {
			m := w.moves[move.Name]
			half := m.To
			if w.To == GGUF {
				half = m.From
			}
			if move.Effect() != axis {
				continue
			}
			var err error
			p.args = move.Args
			if t, err = half(w, p, t); err != nil {
				return nil, err
			}
		}
		return t, nil
	}
	return nil, fmt.Errorf("the architecture %s does not say in which order %s is", w.Arch.Name, tensorfs.Printable(canonical))
}
