package tensorfs

import (
	"fmt"
	"slices"
	"strings"
)

// Change says how the numbers of a tensor come to differ from those in the model's
// files. The tensor that has it holds the numbers after the change.
type Change struct {
	Of   *Tensor   // the tensor before it, as the files have it
	By   []Adapter // what changes it, in the order in which it does
	From []Data    // what is read for the change besides Of
}

// Adapter is what changes tensors of a model when they are read.
type Adapter struct {
	Source string  // as it was named: a path or a name in a store
	Scale  float64 // by which its changes are multiplied
}

// String is the adapter as one writes it.
func (a Adapter) String() string { return fmt.Sprintf("%s:%v", a.Source, a.Scale) }

// Stored returns the tensor as the model's files have it: itself where nothing changes it.
func (t *Tensor) Stored() *Tensor {
	if t.Change == nil {
		return t
	}
	return t.Change.Of.Stored()
}

// Origin returns where the numbers of a tensor are in the model's files: its own bytes,
// or, where a change makes them, those of the tensor before it.
func (t *Tensor) Origin() []Extent {
	if e := Extents(t.Data); e != nil || t.Change == nil {
		return e
	}
	return t.Change.Of.Origin()
}

// origins yields all that a tensor is made of in files.
func (t *Tensor) origins(yield func(Extent)) {
	for _, x := range Extents(t.Data) {
		yield(x)
	}
	c := t.Change
	if c == nil {
		return
	}
	c.Of.origins(yield)
	for _, d := range c.From {
		for _, x := range Extents(d) {
			yield(x)
		}
	}
	if q := c.Of.Quant; q != nil { // companions of a changed module are no tensors of the model any more
		for _, p := range append([]*Tensor{q.Scales, q.Biases, q.Global}, q.Companions...) {
			if p != nil {
				p.origins(yield)
			}
		}
	}
}

// Rewrite puts changed tensors into the place of those that their changes are of, before
// anything is made of the model. Companions of replaced modules leave the model, which
// goes on to read them. sources are the files that the changes need besides, of models that
// m owns: see [Model.Own]. By are the adapters that make the changes, in order.
func (m *Model) Rewrite(changed []Tensor, sources []Source, by []Adapter) error {
	place := make(map[string]*Tensor, len(changed))
	for i := range changed {
		place[changed[i].Change.Of.Name] = &changed[i]
	}
	owners := map[string]bool{}
	list := make([]Tensor, 0, len(m.Tensors))
	at := map[string]*Tensor{} // copies: the list that modules point into is about to be another
	for _, t := range m.Tensors {
		if c := place[t.Name]; c != nil {
			if t.Quant != nil && c.Quant == nil {
				owners[t.Name] = true
			}
			list = append(list, *c)
			delete(place, t.Name)
			continue
		}
		list = append(list, t)
	}
	for name := range place {
		return fmt.Errorf("%s: the model has no %s to change", m.Path, name)
	}
	list = slices.DeleteFunc(list, func(t Tensor) bool { return owners[t.Owner] })
	slices.SortFunc(list, func(a, b Tensor) int { return strings.Compare(a.Name, b.Name) })
	for i := range list {
		at[list[i].Name] = &list[i]
	}
	for i := range list {
		if q := list[i].Quant; q != nil {
			repoint(q, list[i].Name, at)
		}
	}
	m.Tensors = list
	m.Shown = nil // files of what views make were made without the change
	m.Sources = slices.Clone(m.Sources)
	for _, s := range sources {
		s.Adapter = true
		m.Sources = append(m.Sources, s)
	}
	slices.SortFunc(m.Sources, func(a, b Source) int { return strings.Compare(a.Name, b.Name) })
	m.Adapters = append(m.Adapters, by...)
	if err := m.checkTensors(); err != nil {
		return err
	}
	return m.checkSources()
}

// repoint makes a module refer to its companions where they are now.
func repoint(q *Quant, owner string, at map[string]*Tensor) {
	move := func(c **Tensor) {
		if *c != nil && (*c).Owner == owner && at[(*c).Name] != nil {
			*c = at[(*c).Name]
		}
	}
	move(&q.Scales)
	move(&q.Biases)
	move(&q.Global)
	for i := range q.Companions {
		move(&q.Companions[i])
	}
}
