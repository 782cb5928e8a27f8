package hf

import "github.com/tensorfs/tensorfs"

// mlx attaches scales and biases to the codes of a module P, or says why they do
// not belong together: P.weight, P.scales and P.biases. P.bias is something else.
func mlx(b *builder, q *quantConfig, m *module) (*tensorfs.Quant, error) {
	p, err := q.mlx.Of(m.stem, len(m.main.Shape) > 2)
	if err != nil {
		return nil, err
	}
	return p.Quant(m.main, m.parts[0], b.tensors.Source(m.stem+".biases"), nil)
}
