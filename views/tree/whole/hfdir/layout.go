package hfdir

import (
	"errors"
	"slices"
	"strings"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/names"
)

// InLayoutOfHF returns the tensors of a model in GGUF's layout as a directory of
// Hugging Face has them: rows moved, experts one by one, under canonical names in
// that order. They keep the types that they are stored as. The error says why the
// tensors of such a directory are not known.
func InLayoutOfHF(m *tensorfs.Model) (list []tensorfs.Tensor, err error) {
	list, of, err := NamedByHF(m)
	if err != nil {
		return nil, err
	}
	for i, r := range names.Map(names.HF, m.Architecture, of) {
		list[i].Name = r.Name
	}
	slices.SortFunc(list, func(a, b tensorfs.Tensor) int { return strings.Compare(a.Name, b.Name) })
	return list, nil
}

// NamedByHF is InLayoutOfHF without an order, and with the names of Hugging Face beside
// the tensors.
func NamedByHF(m *tensorfs.Model) (list []tensorfs.Tensor, of []names.Source, err error) {
	x, err := makeTensors(m, false, func(name string, t *tensorfs.Tensor) {
		list = append(list, *t)
		of = append(of, names.Source{Name: name, Shape: t.Numbers()})
	})
	switch {
	case err != nil:
		return nil, nil, err
	case len(x.list) > 0:
		return nil, nil, errors.New("its experts are not stored as tensors of numbers")
	}
	return list, of, nil
}
