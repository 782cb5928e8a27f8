package views

import (
	"fmt"
	"slices"
	"sort"
	"strings"
	"sync"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/views/kernel"
)

// Version is the version of the views' bytes: it is raised with every change that gives a
// model's tensor other bytes. Bytes kept under another version are computed again.
const Version = 3

// View is one way to see a model's tensors.
type View struct {
	Name string // of the directory
	// Make returns the view's tensors and what it leaves out, sorted by name.
	Make func(b *basis) (Tensors, Absent)

	OnRequest  bool // made only where [Options] name it
	ForKernels bool // its files are what engines' kernels take
}

// basis is the input of the views: the model's tensors, sorted by name, and the results
// shared by several views, computed once.
type basis struct {
	tensors []tensorfs.Tensor
	packed  func() *derived
	f16     func() *derived // see floats
	groups  func() *candidates
}

// Absent are the tensors that a view cannot show, sorted by name. What is known of one is found
// again when it is asked for: half of a model's tensors may be companions.
type Absent struct{ absent }

type absent interface {
	Len() int
	Name(i int) string
	// Lost reports whether the model has the numbers and the view does not show them.
	// It is false for what the model does not have either, such as a part of a group,
	// and for companions, which are shown with their codes.
	Lost(i int) bool
	// Reason explains it, in a line.
	Reason(i int) string
}

// Len returns how many there are: 0 for the zero value.
func (a Absent) Len() int {
	if a.absent == nil {
		return 0
	}
	return a.absent.Len()
}

// Lost counts what the model has and the view cannot give.
func (b *Built) Lost() (n int) {
	for i := range b.Absent.Len() {
		if b.Absent.Lost(i) {
			n++
		}
	}
	return n
}

// WhyAbsent returns why the view cannot show a tensor, and whether it is one of Absent.
func (b *Built) WhyAbsent(name string) (reason string, ok bool) {
	i := sort.Search(b.Absent.Len(), func(i int) bool { return b.Absent.Name(i) >= name })
	if i == b.Absent.Len() || b.Absent.Name(i) != name {
		return "", false
	}
	return b.Absent.Reason(i), true
}

// Options choose between interpretations of a model that its bytes leave open, and
// between views. The zero value is the default.
type Options struct {
	I2S   string // layout of I2_S codes: one of I2SLayouts, "" to go by the size
	Views []View // rows of All that [Choose] returned; nil means all default ones

	by Importance // of Weighted
}

// I2SLayouts are the layouts of I2_S codes, which kernel.I2S draws.
var I2SLayouts = kernel.I2SLayouts

// All is the table of views, in the order of index.json.
var All = []View{
	{Name: "raw", Make: raw},
	{Name: "packed", Make: func(b *basis) (Tensors, Absent) { return b.packed().all() }, ForKernels: true},
	{Name: "f16", Make: func(b *basis) (Tensors, Absent) { return b.floats(tensorfs.F16).all() }, ForKernels: true},
	{Name: "bf16", Make: func(b *basis) (Tensors, Absent) { return b.floats(tensorfs.BF16).all() }, ForKernels: true},
	{Name: "f32", Make: func(b *basis) (Tensors, Absent) { return b.floats(tensorfs.F32).all() }, ForKernels: true},
	{Name: "fused", Make: fused, ForKernels: true},
	{Name: "fused-f16", Make: fusedF16, ForKernels: true},
	{Name: "npy", Make: npy("f16", tensorfs.F16)},
	{Name: "npy-f32", Make: npy("f32", tensorfs.F32), OnRequest: true},
}

// Default is how [Choose] calls the views that are not only made on request.
const Default = "default"

// Choose returns the views of those names in the order of All, each once. The name
// [Default] selects all views that need not be asked for. An unknown name is an error that
// lists the known ones.
func Choose(names []string) ([]View, error) {
	known := []string{Default}
	chosen := []View{}
	for _, v := range All {
		known = append(known, v.Name)
		if slices.Contains(names, v.Name) || !v.OnRequest && slices.Contains(names, Default) {
			chosen = append(chosen, v)
		}
	}
	for _, name := range names {
		if lower := strings.ToLower(name); lower != name && slices.Contains(known, lower) {
			return nil, fmt.Errorf("%q is not a view; did you mean %s?", name, lower)
		}
		if !slices.Contains(known, name) {
			return nil, fmt.Errorf("%q is not a view; the views are %s; %s means all views that need not be named", name, strings.Join(known[1:], ", "), Default)
		}
	}
	return chosen, nil
}

// Built is a view of one model.
type Built struct {
	Name    string
	Tensors Tensors
	Absent  Absent
}

// Build makes the chosen views of m. The tensors share m's data: they live as long
// as m does.
func Build(m *tensorfs.Model, opts Options) []Built {
	chosen := opts.Views
	if chosen == nil {
		chosen, _ = Choose([]string{Default}) // which is known
	}
	b := &basis{
		tensors: m.Tensors,
		packed:  sync.OnceValue(func() *derived { return derive(m.Tensors, opts, pack) }),
		f16:     sync.OnceValue(func() *derived { return derive(m.Tensors, opts, half) }),
		groups:  sync.OnceValue(func() *candidates { return findCandidates(m.Tensors) }),
	}
	built := make([]Built, len(chosen))
	var wg sync.WaitGroup
	for i, v := range chosen {
		wg.Go(func() {
			ts, absent := v.Make(b)
			built[i] = Built{v.Name, ts, absent}
		})
	}
	wg.Wait()
	return built
}

// raw shows the stored bytes. A tensor that an adapter changes has none: of floats it is
// shown as they would be stored.
func raw(b *basis) (Tensors, Absent) {
	if !slices.ContainsFunc(b.tensors, func(t tensorfs.Tensor) bool { return t.Change != nil }) {
		return stored(b.tensors), Absent{}
	}
	left := &hidden{listed: listed{from: b.tensors}, why: func(t *tensorfs.Tensor) (reason string, lost bool) {
		_, reason = asIfStored(t)
		return reason, true
	}}
	var list stored
	for i := range b.tensors {
		t, reason := asIfStored(&b.tensors[i])
		if reason != "" {
			left.index = append(left.index, int32(i))
			continue
		}
		list = append(list, t)
	}
	return list, Absent{left}
}

// asIfStored is a tensor of raw/.
func asIfStored(t *tensorfs.Tensor) (tensorfs.Tensor, string) {
	if t.Change == nil || t.Float == tensorfs.Unknown {
		return *t, ""
	}
	if of := t.Change.Of; of.Quant != nil || of.DType != t.Float {
		return *t, "changed by an adapter (--lora), so it has no bytes of " + typeName(of) + "; see f16/ or gguf/"
	}
	made := *t
	d, err := Encode(t, t.Float)
	if err != nil {
		return made, err.Error()
	}
	made.DType, made.Data, made.Float = t.Float, d, tensorfs.Unknown
	return made, ""
}
