package layout

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/architectures"
	"github.com/tensorfs/tensorfs/views/arrange"
)

// Several modules of GGUF may be one for Hugging Face: all rows of the first, then all of
// the next, in the order of the description.

// siblings are the modules that are parts of one joined module with m.
func (w *Walk) siblings(m *module) (all []*module) {
	for _, list := range [][]architectures.Tensor{w.Arch.First, w.Arch.Layer, w.Arch.Last} {
		if !slices.ContainsFunc(list, func(t architectures.Tensor) bool { return t.Module == m.Module }) {
			continue
		}
		for i := range list {
			if list[i].Joined() != m.Joined() {
				continue
			}
			if s := w.module(&list[i], m.layer); s != nil {
				all = append(all, s)
			}
		}
	}
	return all
}

// rowsOf is the dimension that has the rows of a part.
func (p *part) rowsOf() int {
	if p.param == ".bias" {
		return max(len(p.Shape)-2, 0)
	}
	return len(p.Shape) - 2
}

// partOfJoined finds a module that is part of a joined one, or exists separately, or as one
// tensor for each expert.
func partOfJoined(w *Walk, p *part) (*tensorfs.Tensor, error) {
	if t := w.take(p.canonical()); t != nil {
		return t, nil
	}
	t, err := loose(w.take(strings.TrimSuffix(p.from, p.Module) + p.args[0] + p.param))
	if t == nil && err == nil {
		return w.eachExpert(p)
	}
	if err != nil {
		return nil, err
	}
	shape, dim := t.Numbers(), p.rowsOf()
	if dim < 0 || dim >= len(shape) {
		return nil, fmt.Errorf("shape %v of %s has no rows", shape, tensorfs.Quote(t.Source))
	}
	all := w.siblings(p.module)
	var at, first, rows int64
	for _, s := range all {
		n := w.Sizes.Len(s.Shape[dim])
		if n == 0 { // the parts are of one size, which the tensor tells
			n = shape[dim] / int64(len(all))
		}
		if s.Module == p.Module {
			first, rows = at, n
		}
		at += n
	}
	if at != shape[dim] {
		return nil, fmt.Errorf("shape %v of %s does not divide into parts, which have %d rows together", shape, tensorfs.Quote(t.Source), at)
	}
	return arrange.Slice(t, dim, first, rows)
}

// joinParts puts the modules that have one name on the side as one tensor, with the first
// of them.
func joinParts(w *Walk, m *module) error {
	all := slices.DeleteFunc(w.siblings(m), func(s *module) bool { return s.to != m.to })
	if all[0].Module != m.Module {
		return nil
	}
	for i, p := range m.parts() {
		var list []*tensorfs.Tensor
		var at Origin
		for _, s := range all {
			sp := s.parts()[i]
			need := s.Needs(p.param, architectures.FromGGUF)
			if need == architectures.Never {
				continue
			}
			t, err := w.taken(sp.canonical(), s.Shape, need)
			if err != nil {
				return err
			}
			if t == nil {
				continue
			}
			if len(list) == 0 {
				at = OriginOf(t)
			}
			if t, err = w.undone(sp, t); err != nil {
				return err
			}
			list = append(list, t)
		}
		switch len(list) {
		case 0:
			continue
		case len(all):
		default:
			return fmt.Errorf("%s needs %d tensors, but the model has %d of them", w.name(p), len(all), len(list))
		}
		t, err := w.joined(w.name(p), p.rowsOf(), list)
		if err != nil {
			return err
		}
		if err := w.Put(w.name(p), t, at, p.Plain); err != nil {
			return err
		}
	}
	return nil
}

// joined joins tensors. If their types differ, they become numbers of one type.
func (w *Walk) joined(name string, dim int, list []*tensorfs.Tensor) (*tensorfs.Tensor, error) {
	if len(list) == 1 {
		return list[0], nil
	}
	if t, err := arrange.Join(dim, list...); err == nil {
		return t, nil
	}
	to := PlainType(list...)
	for i, t := range list {
		var err error
		if list[i], err = w.Numbers(name, t, to); err != nil {
			return nil, err
		}
	}
	return arrange.Join(dim, list...)
}

// rowsOfJoined puts the rows of a joined module of GGUF that are the module's.
func rowsOfJoined(w *Walk, m *module) error {
	for _, p := range m.parts() {
		name := strings.TrimSuffix(m.from, m.Module) + m.Joined() + p.param
		t := w.take(name)
		if t == nil {
			continue
		}
		var at, first, rows int64
		dim := p.rowsOf()
		for _, s := range w.siblings(m) {
			n := w.Sizes.Len(s.Shape[dim])
			if s.Module == m.Module {
				first, rows = at, n
			}
			at += n
		}
		if shape := t.Numbers(); len(shape) <= dim || shape[dim] != at || rows == 0 {
			return fmt.Errorf("shape %v of %s does not divide into parts, which have %d rows together", shape, tensorfs.Quote(t.Source), at)
		}
		origin := OriginOf(t)
		t, err := arrange.Slice(t, dim, first, rows)
		if err != nil {
			return fmt.Errorf("%s: %w", tensorfs.Quote(name), err)
		}
		if err := w.Put(w.name(p), t, origin, p.Plain); err != nil {
			return err
		}
	}
	return nil
}

// joinedModules joins modules that GGUF has as one, unless the model has that one.
func joinedModules(w *Walk, p *part) (*tensorfs.Tensor, error) {
	if t := w.take(p.canonical()); t != nil {
		return t, nil
	}
	var list []*tensorfs.Tensor
	for _, module := range p.args {
		t, err := loose(w.take(w.inLayer(module) + p.param))
		if err != nil {
			return nil, err
		}
		if t != nil {
			list = append(list, t)
		}
	}
	if len(list) == 0 {
		return nil, nil
	}
	if len(list) < len(p.args) {
		return nil, fmt.Errorf("it needs %d tensors (%s), but the model has %d of them", len(p.args), strings.Join(p.args, ", "), len(list))
	}
	return w.joined(w.name(p), 0, list)
}

// splitModules puts each of these modules, whose name ends with what the module's has after the last "_",
// or the joined one if the side has it too.
func splitModules(w *Walk, m *module) error {
	if !strings.Contains(m.to, "{e}") {
		for _, p := range m.parts() {
			if err := w.fromGGUF(p); err != nil {
				return err
			}
		}
		return nil
	}
	t, err := w.taken(m.from+".weight", m.Shape, architectures.Always)
	if err != nil {
		return err
	}
	at, shape, list := OriginOf(t), t.Numbers(), m.Moves[0].Args
	each := t.Data.Size() / max(shape[0], 1)
	for i, module := range list {
		one, err := arrange.Slice(t, 0, int64(i), 1)
		if err == nil {
			one, err = arrange.Reshape(one, shape[1:]...)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", tensorfs.Quote(t.Source), err)
		}
		name := strings.Replace(m.to, "{e}", module[strings.LastIndexByte(module, '_')+1:], 1)
		if err := w.Put(m.HFPart(name, ".weight"), one, Origin{at.File, at.Offset + int64(i)*each}, false); err != nil {
			return err
		}
	}
	return nil
}

// groups is into how many groups exchanged divides rows.
const groups = 5

// exchanged exchanges two groups of rows.
func exchanged(_ *Walk, p *part, t *tensorfs.Tensor) (*tensorfs.Tensor, error) {
	a, errA := strconv.ParseInt(p.args[0], 10, 64)
	b, errB := strconv.ParseInt(p.args[1], 10, 64)
	rows := t.Numbers()[0]
	if errA != nil || errB != nil || rows%groups != 0 {
		return nil, fmt.Errorf("%d rows of %s do not divide into %d groups", rows, tensorfs.Quote(t.Source), groups)
	}
	list := make([]*tensorfs.Tensor, groups)
	for i := range int64(groups) {
		of := i
		switch i {
		case a:
			of = b
		case b:
			of = a
		}
		var err error
		if list[i], err = arrange.Slice(t, 0, of*rows/groups, rows/groups); err != nil {
			return nil, err
		}
	}
	return arrange.Join(0, list...)
}

// copied finds the module that GGUF has again.
func copied(w *Walk, p *part) (*tensorfs.Tensor, error) {
	return w.take(w.inLayer(p.args[0]) + p.param), nil
}

// once finds a module of a layer that a directory has outside of the layers.
func once(w *Walk, p *part) (*tensorfs.Tensor, error) {
	return w.take(p.args[0] + p.param), nil
}

// leftOut leaves the copy out.
func leftOut(w *Walk, m *module) error {
	w.take(m.from + ".weight")
	return nil
}
