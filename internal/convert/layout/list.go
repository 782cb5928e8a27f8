package layout

import (
	"errors"
	"slices"
	"strings"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/names"
	"github.com/tensorfs/tensorfs/views"
)

// List is a sink that keeps tensors in the types that they are stored as.
type List struct {
	Tensors []tensorfs.Tensor
	Names   []names.Source // what the side calls them
}

// Put keeps a tensor.
func (l *List) Put(name string, t *tensorfs.Tensor, _ Origin, _ bool) error {
	l.Tensors = append(l.Tensors, *t)
	l.Names = append(l.Names, names.Source{Name: name, Shape: t.Numbers()})
	return nil
}

// Table keeps a table of integers.
func (l *List) Table(name string, t *tensorfs.Tensor, at Origin) error {
	return l.Put(name, t, at, false)
}

// Packed refuses codes.
func (l *List) Packed(string, *tensorfs.Tensor, Origin) error {
	return errors.New("its experts are not stored as tensors of numbers")
}

// Numbers returns a tensor as numbers of a type.
func (l *List) Numbers(_ string, t *tensorfs.Tensor, to tensorfs.DType) (*tensorfs.Tensor, error) {
	return Encoded(t, to)
}

// Encoded returns a tensor as plain numbers of a type.
func Encoded(t *tensorfs.Tensor, to tensorfs.DType) (*tensorfs.Tensor, error) {
	d, err := views.Encode(t, to)
	return &tensorfs.Tensor{Name: t.Weight(), Source: t.Source, DType: to, Shape: t.Numbers(), Data: d}, err
}

// Canonical gives the tensors their canonical names, in that order.
func (l *List) Canonical(in names.Layout, arch string) []tensorfs.Tensor {
	for i, r := range names.Map(in, arch, l.Names) {
		l.Tensors[i].Name = r.Name
	}
	slices.SortFunc(l.Tensors, func(a, b tensorfs.Tensor) int { return strings.Compare(a.Name, b.Name) })
	return l.Tensors
}
