package views

import (
	"sync"

	"github.com/tensorfs/tensorfs"
)

// View is one way to see a model's tensors.
type View struct {
	Name string // of the directory
	// Make returns the view of tensors that are sorted by name, and what it
	// leaves out, sorted too.
	Make func(ts []tensorfs.Tensor, opts Options) (Tensors, []Absent)
}

// Absent is a tensor that a view cannot give.
type Absent struct {
	Name   string
	Reason string
}

// Options choose between readings of a model that its bytes leave open. The zero
// value is the default.
type Options struct {
	I2S string // layout of I2_S codes: "" or "128", "64", "rows4", "trinity"
}

// All is the table of views, in the order of index.json.
var All = []View{
	{"raw", raw},
	{"packed", packed},
	{"f16", f16},
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
	built := make([]Built, len(All))
	var wg sync.WaitGroup
	for i, v := range All {
		wg.Go(func() {
			ts, absent := v.Make(m.Tensors, opts)
			built[i] = Built{v.Name, ts, absent}
		})
	}
	wg.Wait()
	return built
}

// raw shows the stored bytes.
func raw(ts []tensorfs.Tensor, _ Options) (Tensors, []Absent) { return stored(ts), nil }
