package hf

import (
	"fmt"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/assemble"
)

// mlx attaches scales and biases to the codes of a module P, or explains why they do not
// belong together: P.weight, P.scales and P.biases. P.bias is something else.
func mlx(b *builder, q *quantConfig, m *module) (*tensorfs.Quant, error) {
	biases := b.tensors.Source(m.stem + ".biases")
	p, err := q.mlx.Fit(m.stem, m.main, m.parts[0], biases, func() (int64, bool) {
		i, ok := b.tensors.Find(m.main.Source)
		if !ok || !b.tensors.Names[i].Mapped {
			return 0, false
		}
		return b.tensors.Columns(b.config.Lookup, b.tensors.Names[i].Stem)
	})
	if err != nil {
		return nil, err
	}
	if p.Mode == assemble.Affine && biases == nil && m.parts[0].DType.Kind() == tensorfs.KindFloat {
		return nil, fmt.Errorf("%s needs biases, and %s is missing", p.Mode, tensorfs.Quote(m.stem+".biases"))
	}
	return p.Quant(m.main, m.parts[0], biases, nil)
}
