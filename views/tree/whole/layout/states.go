package layout

import (
	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/views/arrange"
)

// negativeExp and logarithm are the halves of what becomes of A_log of state spaces.
func negativeExp(_ *Walk, _ *part, t *tensorfs.Tensor) (*tensorfs.Tensor, error) {
	return arrange.NegativeExp(t)
}

func logarithm(w *Walk, p *part, t *tensorfs.Tensor) (*tensorfs.Tensor, error) {
	t, err := w.Numbers(w.name(p), t, tensorfs.F32)
	if err != nil {
		return nil, err
	}
	return arrange.LogOfNegative(t)
}
