package stat

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/cli"
	"github.com/tensorfs/tensorfs/internal/conceal"
	"github.com/tensorfs/tensorfs/internal/convert/hf"
	"github.com/tensorfs/tensorfs/internal/describe"
	"github.com/tensorfs/tensorfs/internal/near"
	"github.com/tensorfs/tensorfs/views"
	"github.com/tensorfs/tensorfs/views/measure"
)

// Row is a tensor, measured.
type Row struct {
	tensor  *tensorfs.Tensor
	name    string
	numbers *measure.Numbers // nil without numbers
	reason  string           // why
	asHF    bool             // the tensor is as Hugging Face has it
	stats   measure.Stats
	first   []float64
	bins    *measure.Bins // of a single tensor
}

// statFirst is how many numbers are shown, and statBins how many intervals.
const (
	first = 8
	bins  = 64
)

// Select returns the rows that a NAME or a GLOB selects, and whether it is a
// NAME. Only a name selects companions.
func Select(m *tensorfs.Model, model, want string) (rows []*Row, one bool, err error) {
	add := func(t *tensorfs.Tensor) { rows = append(rows, &Row{tensor: t, name: t.Weight()}) }
	name := want
	if shown, err := strconv.Unquote(want); err == nil { // unprintable paths, as ls prints them
		name = shown
	}
	for _, is := range []func(t *tensorfs.Tensor) bool{
		func(t *tensorfs.Tensor) bool { return t.Weight() == name },
		func(t *tensorfs.Tensor) bool { return t.Source == name },
	} {
		for i := range m.Tensors {
			if t := &m.Tensors[i]; want != "" && is(t) {
				add(t)
				return rows, true, nil
			}
		}
	}
	var names []string
	for i := range m.Tensors {
		t := &m.Tensors[i]
		if names = append(names, t.Weight(), t.Source); t.Owner != "" {
			continue
		}
		canonical, _ := cli.MatchGlob(want, t.Weight())
		source, _ := cli.MatchGlob(want, t.Source)
		if want == "" || canonical || source {
			add(t)
		}
	}
	if len(rows) > 0 || want == "" {
		return rows, false, nil
	}
	rows, one, hf := ofHF(m, want)
	if len(rows) > 0 {
		return rows, one, nil
	}
	for _, t := range describe.Called(m, name) {
		add(t)
	}
	if len(rows) > 0 {
		return rows, len(rows) == 1 && !strings.ContainsAny(want, `*?[`), nil
	}
	names = append(names, hf...)
	if close := near.Names(name, names, 3); len(close) > 0 {
		return nil, false, fmt.Errorf("%s: no such tensor in %s; %s", tensorfs.Printable(name), conceal.Printable(model), near.Question(close))
	}
	return nil, false, fmt.Errorf("%s: no such tensor in %s; tensorfs ls %[2]s 'raw/*' shows the names", tensorfs.Printable(name), conceal.Printable(model))
}

// ofHF returns the rows that a NAME or a GLOB of Hugging Face's names selects in a
// model in GGUF's layout, and these names: none where its Hugging Face form is not
// known.
func ofHF(m *tensorfs.Model, want string) (rows []*Row, one bool, all []string) {
	if m.Layout != "gguf" {
		return nil, false, nil
	}
	list, of, err := hf.NamedByHF(m)
	if err != nil {
		return nil, false, nil
	}
	for i := range list {
		all = append(all, of[i].Name)
		if ok, _ := cli.MatchGlob(want, of[i].Name); ok {
			rows = append(rows, &Row{tensor: &list[i], name: of[i].Name, asHF: true})
			one = one || of[i].Name == want
		}
	}
	return rows, one && len(rows) == 1, all
}

// Measure reads the tensors. A single one gets a histogram.
func Measure(ctx context.Context, stderr io.Writer, rows []*Row, one bool, opts views.Options) (*cli.ProgressBar, error) {
	var list []measure.Numbers
	total := int64(0)
	for _, r := range rows {
		n, err := numbersOf(r.tensor, opts)
		if err != nil {
			r.reason = err.Error()
			continue
		}
		n.Name = r.name
		r.numbers = &n
		list = append(list, n)
		total += n.Data.Size()
	}
	if one {
		total *= 2 // the histogram needs to know how far the numbers reach
	}
	progress := cli.ProgressLater(stderr, "stat", total)
	defer progress.Clear()
	found, err := measure.Describe(ctx, list, progress.Add)
	if err != nil {
		return progress, err
	}
	for _, r := range rows {
		if r.numbers == nil {
			continue
		}
		r.stats, found = found[0], found[1:]
		if r.first, err = r.numbers.Head(first); err != nil {
			return progress, err
		}
		if s := r.stats; one && s.Finite > 0 {
			from, to := max(s.Min, s.Mean-4*s.Std), min(s.Max, s.Mean+4*s.Std)
			if from > to { // of numbers so large that Mean is rounded
				from, to = s.Min, s.Max
			}
			bins, err := measure.Histogram(ctx, *r.numbers, from, to, bins, progress.Add)
			if err != nil {
				return progress, err
			}
			r.bins = &bins
		}
	}
	return progress, nil
}

// numbersOf returns the numbers of a tensor, or why it has none.
func numbersOf(t *tensorfs.Tensor, opts views.Options) (measure.Numbers, error) {
	of := *t
	of.Owner = "" // companions are plain numbers too
	_, isInteger := measure.Integers[t.DType]
	if _, width := t.DType.Block(); isInteger && t.Quant == nil {
		switch {
		case t.Opaque != "":
			return measure.Numbers{}, errors.New(t.Opaque)
		case t.BigEndian && width > 1:
			return measure.Numbers{}, errors.New("big-endian integers are not decoded")
		}
		return measure.Numbers{DType: t.DType, Data: t.Data}, nil
	}
	d, err := opts.Encode(&of, tensorfs.F32)
	return measure.Numbers{DType: tensorfs.F32, Data: d}, err
}

// RowJSON is a tensor for programs. Figures are absent without numbers, and figures of
// finite numbers if none is finite.
type RowJSON struct {
	Name string `json:"name"`
	*describe.TensorJSON
	Bytes  int64  `json:"bytes"`
	Factor string `json:"factor,omitempty"` // the tensor that multiplies the numbers
	Reason string `json:"reason,omitempty"`
	*figures
	*finite
	Histogram *histogramJSON `json:"histogram,omitempty"`
}

type figures struct {
	Count  int64                `json:"count"`
	Zeros  int64                `json:"zeros"`
	NaN    int64                `json:"nan"`
	PosInf int64                `json:"infinity"`
	NegInf int64                `json:"negative_infinity"`
	First  []describe.JSONFloat `json:"first"`
}

type finite struct {
	Min  float64 `json:"min"`
	Max  float64 `json:"max"`
	Mean float64 `json:"mean"`
	Std  float64 `json:"std"`
}

type histogramJSON struct {
	From   float64 `json:"from"`
	To     float64 `json:"to"`
	Below  int64   `json:"below"`
	Above  int64   `json:"above"`
	Counts []int64 `json:"counts"`
}

func (r *Row) JSON() RowJSON {
	j := RowJSON{Name: r.name, TensorJSON: describe.Tensor(r.tensor), Bytes: r.tensor.Data.Size(), Factor: r.tensor.Factor, Reason: r.reason}
	if r.numbers == nil {
		return j
	}
	s := r.stats
	j.figures = &figures{s.Count, s.Zeros, s.NaN, s.PosInf, s.NegInf, []describe.JSONFloat{}}
	for _, v := range r.first {
		j.First = append(j.First, describe.JSONFloat(v))
	}
	if s.Finite > 0 {
		j.finite = &finite{s.Min, s.Max, s.Mean, s.Std}
	}
	if b := r.bins; b != nil {
		j.Histogram = &histogramJSON{b.From, b.To, b.Below, b.Above, b.Counts}
	}
	return j
}

// shortest prints a number of a tensor with as few digits as say which it is.
func (r *Row) shortest(v float64) string {
	switch {
	case r.numbers.DType != tensorfs.F32 && v == math.Trunc(v):
		return strconv.FormatFloat(v, 'f', -1, 64)
	case math.IsInf(v, 0):
		return strconv.FormatFloat(v, 'g', -1, 32)[:1] + "infinity"
	}
	return strconv.FormatFloat(v, 'g', -1, 32)
}
