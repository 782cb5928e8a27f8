package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/near"
	"github.com/tensorfs/tensorfs/views"
	"github.com/tensorfs/tensorfs/views/measure"
	"github.com/tensorfs/tensorfs/views/tree/whole/hfdir"
)

type statOptions struct {
	modelFlags
	json   bool
	opened func() // called with the model open; nil but for tests
}

func (s system) stat() *cobra.Command {
	o := &statOptions{}
	args := between(1, 2, "stat takes one NAME or GLOB: 'layers.0.*' in quotes selects several tensors")
	c := s.command("stat", args, flags{"json": &o.json}, o.run)
	o.addReading(s, c)
	return c
}

// statRow is a tensor, measured.
type statRow struct {
	tensor  *tensorfs.Tensor
	name    string
	numbers *measure.Numbers // nil where there are none
	reason  string           // why
	asHF    bool             // the tensor is as Hugging Face has it
	stats   measure.Stats
	first   []float64
	bins    *measure.Bins // of a single tensor
}

// statFirst is how many numbers are shown, and statBins how many intervals.
const (
	statFirst = 8
	statBins  = 64
)

func (o *statOptions) run(cmd *cobra.Command, args []string) error {
	model, want, stdout := args[0], append(args[1:], "")[0], cmd.OutOrStdout()
	if _, err := matchGlob(want, ""); err != nil {
		return usageError{err}
	}
	t, err := o.open(model)
	if err != nil {
		return err
	}
	defer t.Model.Close()
	if o.opened != nil {
		o.opened()
	}
	rows, one, err := statSelect(t.Model, model, want)
	if err != nil {
		return err
	}
	ctx, stop := interruptible(cmd.Context())
	defer stop()
	progress, err := o.measure(ctx, cmd.ErrOrStderr(), rows, one)
	if err := progress.finish(ctx, err, printableName(model), "numbers", t.Model); err != nil {
		return err
	}
	switch {
	case o.json:
		list := []statJSON{}
		for _, r := range rows {
			list = append(list, r.json())
		}
		return printJSON(stdout, list)
	case one:
		return ignorePipe(rows[0].print(stdout))
	}
	return ignorePipe(printStats(stdout, rows))
}

// statSelect returns the rows that a NAME or a GLOB selects, and whether it is a
// NAME. Only a name selects companions.
func statSelect(m *tensorfs.Model, model, want string) (rows []*statRow, one bool, err error) {
	add := func(t *tensorfs.Tensor) { rows = append(rows, &statRow{tensor: t, name: t.Weight()}) }
	name := want
	if shown, err := strconv.Unquote(want); err == nil { // as ls prints what is not printable
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
		canonical, _ := matchGlob(want, t.Weight())
		source, _ := matchGlob(want, t.Source)
		if want == "" || canonical || source {
			add(t)
		}
	}
	if len(rows) > 0 || want == "" {
		return rows, false, nil
	}
	rows, one, hf := statOfHF(m, want)
	if len(rows) > 0 {
		return rows, one, nil
	}
	for _, t := range called(m, name) {
		add(t)
	}
	if len(rows) > 0 {
		return rows, len(rows) == 1 && !strings.ContainsAny(want, `*?[`), nil
	}
	names = append(names, hf...)
	if close := near.Names(name, names, 3); len(close) > 0 {
		return nil, false, fmt.Errorf("%s: no such tensor in %s; %s", tensorfs.Printable(name), printableName(model), near.Question(close))
	}
	return nil, false, fmt.Errorf("%s: no such tensor in %s; tensorfs ls %[2]s 'raw/*' shows the names", tensorfs.Printable(name), printableName(model))
}

// statOfHF returns the rows that a NAME or a GLOB of Hugging Face's names selects in a
// model in GGUF's layout, and these names: none where its Hugging Face form is not
// known.
func statOfHF(m *tensorfs.Model, want string) (rows []*statRow, one bool, all []string) {
	if m.Layout != "gguf" {
		return nil, false, nil
	}
	list, of, err := hfdir.NamedByHF(m)
	if err != nil {
		return nil, false, nil
	}
	for i := range list {
		all = append(all, of[i].Name)
		if ok, _ := matchGlob(want, of[i].Name); ok {
			rows = append(rows, &statRow{tensor: &list[i], name: of[i].Name, asHF: true})
			one = one || of[i].Name == want
		}
	}
	return rows, one && len(rows) == 1, all
}

// measure reads the tensors.
func (o *statOptions) measure(ctx context.Context, stderr io.Writer, rows []*statRow, one bool) (*bar, error) {
	var list []measure.Numbers
	total := int64(0)
	for _, r := range rows {
		n, err := statNumbers(r.tensor, o.tree.Views)
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
	progress := progressLater(stderr, "stat", total)
	defer progress.clear()
	found, err := measure.Describe(ctx, list, progress.add)
	if err != nil {
		return progress, err
	}
	for _, r := range rows {
		if r.numbers == nil {
			continue
		}
		r.stats, found = found[0], found[1:]
		if r.first, err = r.numbers.Head(statFirst); err != nil {
			return progress, err
		}
		if s := r.stats; one && s.Finite > 0 {
			from, to := max(s.Min, s.Mean-4*s.Std), min(s.Max, s.Mean+4*s.Std)
			if from > to { // of numbers so large that Mean is rounded
				from, to = s.Min, s.Max
			}
			bins, err := measure.Histogram(ctx, *r.numbers, from, to, statBins, progress.add)
			if err != nil {
				return progress, err
			}
			r.bins = &bins
		}
	}
	return progress, nil
}

// statNumbers returns the numbers of a tensor, or why there are none.
func statNumbers(t *tensorfs.Tensor, opts views.Options) (measure.Numbers, error) {
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

// statJSON is a tensor for programs. Figures are absent where there are no numbers,
// and those of finite numbers where none is.
type statJSON struct {
	Name string `json:"name"`
	*tensorJSON
	Bytes  int64  `json:"bytes"`
	Reason string `json:"reason,omitempty"`
	*statFigures
	*statFinite
	Histogram *statHistogram `json:"histogram,omitempty"`
}

type statFigures struct {
	Count  int64       `json:"count"`
	Zeros  int64       `json:"zeros"`
	NaN    int64       `json:"nan"`
	PosInf int64       `json:"infinity"`
	NegInf int64       `json:"negative_infinity"`
	First  []jsonFloat `json:"first"`
}

type statFinite struct {
	Min  float64 `json:"min"`
	Max  float64 `json:"max"`
	Mean float64 `json:"mean"`
	Std  float64 `json:"std"`
}

type statHistogram struct {
	From   float64 `json:"from"`
	To     float64 `json:"to"`
	Below  int64   `json:"below"`
	Above  int64   `json:"above"`
	Counts []int64 `json:"counts"`
}

func (r *statRow) json() statJSON {
	j := statJSON{Name: r.name, tensorJSON: tensorToJSON(r.tensor), Bytes: r.tensor.Data.Size(), Reason: r.reason}
	if r.numbers == nil {
		return j
	}
	s := r.stats
	j.statFigures = &statFigures{s.Count, s.Zeros, s.NaN, s.PosInf, s.NegInf, []jsonFloat{}}
	for _, v := range r.first {
		j.First = append(j.First, jsonFloat(v))
	}
	if s.Finite > 0 {
		j.statFinite = &statFinite{s.Min, s.Max, s.Mean, s.Std}
	}
	if b := r.bins; b != nil {
		j.Histogram = &statHistogram{b.From, b.To, b.Below, b.Above, b.Counts}
	}
	return j
}

// shortest prints a number of a tensor with as few digits as say which it is.
func (r *statRow) shortest(v float64) string {
	switch {
	case r.numbers.DType != tensorfs.F32 && v == math.Trunc(v):
		return strconv.FormatFloat(v, 'f', -1, 64)
	case math.IsInf(v, 0):
		return strconv.FormatFloat(v, 'g', -1, 32)[:1] + "infinity"
	}
	return strconv.FormatFloat(v, 'g', -1, 32)
}
