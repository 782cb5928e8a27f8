package whole

import (
	"slices"
	"strings"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/names"
)

// InLayoutOfGGUF returns the tensors of a model in the layout of Hugging Face as a
// GGUF file of it has them: rows moved, experts stacked, under canonical names in
// that order. They keep the types that they are stored as, unlike in the file that
// [GGUF] makes. left are those that GGUF files do not have, as they are stored.
//
// rows is how many rows of the embedding are kept, 0 for all of them. The error says
// why the tensors of such a file are not known.
func InLayoutOfGGUF(m *tensorfs.Model, rows int64) (list, left []tensorfs.Tensor, err error) {
	cfg, err := readSettings(m, "config.json")
	if err != nil {
		return nil, nil, err
	}
	arch, err := architecture(m, cfg)
	if err != nil {
		return nil, nil, err
	}
	x, err := newMaker(m, cfg, arch, Options{}, rows)
	if err != nil {
		return nil, nil, err
	}
	var of []names.Source
	x.put = func(name string, t *tensorfs.Tensor) error {
		list = append(list, *t)
		of = append(of, names.Source{Name: name, Shape: t.Numbers()})
		return nil
	}
	if err := x.run(); err != nil {
		return nil, nil, err
	}
	for i := range m.Tensors {
		if x.dropped[i] {
			left = append(left, m.Tensors[i])
		}
	}
	for i, r := range names.Map(names.GGUF, arch, of) {
		list[i].Name = r.Name
	}
	slices.SortFunc(list, func(a, b tensorfs.Tensor) int { return strings.Compare(a.Name, b.Name) })
	return list, left, nil
}
