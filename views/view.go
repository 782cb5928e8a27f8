package views

import (
	"sync"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/views/kernel"
)

// View is one way to see a model's tensors.
type View struct {
	Name string // of the directory
	// Make returns the view's tensors and what it leaves out, sorted by name.
	Make func(b *basis) (Tensors, []Absent)
}

// basis is what views are made of: the model's tensors, sorted by name, and the
// results shared by several views, made once.
type basis struct {
	tensors []tensorfs.Tensor
	packed  func() (*derived, []Absent)
	f16     func() (*derived, []Absent)
	groups  func() *candidates
}

// Absent is a tensor that a view cannot show.
type Absent struct {
	Name   string
	Reason string
	// Lost reports whether the model has the numbers and the view does not show them.
	// It is false for what the model does not have either, such as a part of a group,
	// and for companions, which are shown with their codes.
	Lost bool
}

// Lost counts what the model has and the view cannot give.
func (b *Built) Lost() (n int) {
	for i := range b.Absent {
		if b.Absent[i].Lost {
			n++
		}
	}
	return n
}

// Options choose between interpretations of a model that its bytes leave open.
// The zero value is the default.
type Options struct {
	I2S string // layout of I2_S codes: one of I2SLayouts, "" to go by the size
}

// I2SLayouts are the layouts of I2_S codes, which kernel.I2S draws.
var I2SLayouts = kernel.I2SLayouts

// All is the table of views, in the order of index.json.
var All = []View{
	{"raw", raw},
	{"packed", func(b *basis) (Tensors, []Absent) { return b.packed() }},
	{"f16", func(b *basis) (Tensors, []Absent) { return b.f16() }},
	{"fused", fused},
	{"fused-f16", fusedF16},
	{"npy", npy},
}

// Built is a view of one model.
type Built struct {
	Name    string
	Tensors Tensors
	Absent  []Absent // sorted by name
}

// Build makes every view of m. The tensors share m's data: they live as long as
// m does.
func Build(m *tensorfs.Model, opts Options) []Built {
	b := &basis{
		tensors: m.Tensors,
		packed:  sync.OnceValues(func() (*derived, []Absent) { return derive(m.Tensors, opts, pack) }),
		f16:     sync.OnceValues(func() (*derived, []Absent) { return derive(m.Tensors, opts, half) }),
		groups:  sync.OnceValue(func() *candidates { return findCandidates(m.Tensors) }),
	}
	built := make([]Built, len(All))
	var wg sync.WaitGroup
	for i, v := range All {
		wg.Go(func() {
			ts, absent := v.Make(b)
			built[i] = Built{v.Name, ts, absent}
		})
	}
	wg.Wait()
	return built
}

// raw shows the stored bytes.
func raw(b *basis) (Tensors, []Absent) { return stored(b.tensors), nil }
