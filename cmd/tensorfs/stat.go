package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats"
	"github.com/tensorfs/tensorfs/internal/cli"
	"github.com/tensorfs/tensorfs/internal/conceal"
	"github.com/tensorfs/tensorfs/internal/convert/hf"
	"github.com/tensorfs/tensorfs/internal/near"
	"github.com/tensorfs/tensorfs/views"
	"github.com/tensorfs/tensorfs/views/measure"
)

type statOptions struct {
	modelFlags
	json   bool
	opened func() // called with the model open; nil but for tests
}

func (s system) stat() *cobra.Command {
	o := &statOptions{}
	args := between(1, maxModels)
	c := s.command("stat", args, flags{"json": &o.json}, o.run)
	o.addReading(s, c)
	return c
}

// statRow is a tensor, measured.
type statRow struct {
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
	statFirst = 8
	statBins  = 64
)

func (o *statOptions) run(cmd *cobra.Command, args []string) error {
	models, want, err := o.split(args)
	if err != nil {
		return err
	}
	if _, err := cli.MatchGlob(want, ""); err != nil {
		return cli.UsageError{Err: err}
	}
	if len(models) == 1 {
		list, err := o.one(cmd, models[0], want, nil)
		if err == nil && o.json {
			err = cli.PrintJSON(cmd.OutOrStdout(), list)
		}
		return err
	}
	failed := false
	all := []statModel{}
	for i, model := range models {
		list, err := o.one(cmd, model, want, func() { // as head and tail print several files
			if i > 0 {
				fmt.Fprintln(cmd.OutOrStdout())
			}
			fmt.Fprintf(cmd.OutOrStdout(), "==> %s <==\n", cli.PrintableName(model))
		})
		if err != nil { // the remaining models are still described
			failed = true
			cli.PrintError(cmd.ErrOrStderr(), err, args)
			continue
		}
		all = append(all, statModel{conceal.Name(model), list})
	}
	if o.json {
		if err := cli.PrintJSON(cmd.OutOrStdout(), all); err != nil {
			return err
		}
	}
	if failed {
		return cli.Reported{Err: errors.New("some models are not described")}
	}
	return nil
}

// statModel is one of several models.
type statModel struct {
	Model   string     `json:"model"`
	Tensors []statJSON `json:"tensors"`
}

// split tells models from the NAME or GLOB after them: what is there, or names one in a store,
// is a model. Of two words the second one is a NAME where the first has such a tensor.
func (o *statOptions) split(args []string) (models []string, want string, err error) {
	models = args[:1]
	for i, word := range args[1:] {
		_, missing := os.Lstat(word)
		isModel := missing == nil || formats.IsName(word)
		switch last := i == len(args)-2; {
		case isModel && len(args) == 2:
			t, err := o.open(args[0])
			if err != nil { // which is said when it is opened again
				return models, word, nil
			}
			_, one, err := statSelect(t.Model, args[0], word)
			t.Model.Close()
			if err == nil && one {
				return models, word, nil
			}
			models = args
		case isModel:
			models = args[:i+2]
		case last:
			want = word
		default:
			return nil, "", cli.UsageError{Err: fmt.Errorf("%s: no such model; stat takes models and then one NAME or GLOB: 'layers.0.*' in quotes selects several tensors", tensorfs.Quote(word))}
		}
	}
	return models, want, nil
}

// one describes the tensors of a model. head runs before anything is printed; may be nil.
func (o *statOptions) one(cmd *cobra.Command, model, want string, head func()) ([]statJSON, error) {
	t, err := o.open(model)
	if err != nil {
		return nil, err
	}
	defer t.Model.Close()
	if o.opened != nil {
		o.opened()
	}
	rows, one, err := statSelect(t.Model, model, want)
	if err != nil {
		return nil, err
	}
	ctx, stop := cli.Interruptible(cmd.Context())
	defer stop()
	progress, err := o.measure(ctx, cmd.ErrOrStderr(), rows, one)
	if err := finishRead(ctx, progress, err, cli.PrintableName(model), "numbers", t.Model); err != nil {
		return nil, err
	}
	if o.json {
		list := []statJSON{}
		for _, r := range rows {
			list = append(list, r.json())
		}
		return list, nil
	}
	if head != nil {
		head()
	}
	if one {
		return nil, cli.IgnorePipe(rows[0].print(cmd.OutOrStdout()))
	}
	return nil, cli.IgnorePipe(printStats(cmd.OutOrStdout(), rows))
}

// statSelect returns the rows that a NAME or a GLOB selects, and whether it is a
// NAME. Only a name selects companions.
func statSelect(m *tensorfs.Model, model, want string) (rows []*statRow, one bool, err error) {
	add := func(t *tensorfs.Tensor) { rows = append(rows, &statRow{tensor: t, name: t.Weight()}) }
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
		return nil, false, fmt.Errorf("%s: no such tensor in %s; %s", tensorfs.Printable(name), cli.PrintableName(model), near.Question(close))
	}
	return nil, false, fmt.Errorf("%s: no such tensor in %s; tensorfs ls %[2]s 'raw/*' shows the names", tensorfs.Printable(name), cli.PrintableName(model))
}

// statOfHF returns the rows that a NAME or a GLOB of Hugging Face's names selects in a
// model in GGUF's layout, and these names: none where its Hugging Face form is not
// known.
func statOfHF(m *tensorfs.Model, want string) (rows []*statRow, one bool, all []string) {
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
			rows = append(rows, &statRow{tensor: &list[i], name: of[i].Name, asHF: true})
			one = one || of[i].Name == want
		}
	}
	return rows, one && len(rows) == 1, all
}

// measure reads the tensors.
func (o *statOptions) measure(ctx context.Context, stderr io.Writer, rows []*statRow, one bool) (*cli.ProgressBar, error) {
	var list []measure.Numbers
	total := int64(0)
	for _, r := range rows {
		n, err := statNumbers(r.tensor, o.checked.Tree.Views)
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
		if r.first, err = r.numbers.Head(statFirst); err != nil {
			return progress, err
		}
		if s := r.stats; one && s.Finite > 0 {
			from, to := max(s.Min, s.Mean-4*s.Std), min(s.Max, s.Mean+4*s.Std)
			if from > to { // of numbers so large that Mean is rounded
				from, to = s.Min, s.Max
			}
			bins, err := measure.Histogram(ctx, *r.numbers, from, to, statBins, progress.Add)
			if err != nil {
				return progress, err
			}
			r.bins = &bins
		}
	}
	return progress, nil
}

// statNumbers returns the numbers of a tensor, or why it has none.
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

// statJSON is a tensor for programs. Figures are absent without numbers, and figures of
// finite numbers if none is finite.
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
