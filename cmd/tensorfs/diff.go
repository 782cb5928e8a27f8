package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/spf13/cobra"
	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/cli"
	"github.com/tensorfs/tensorfs/internal/compare"
	"github.com/tensorfs/tensorfs/views/measure"
	"github.com/tensorfs/tensorfs/views/tree"
)

type diffOptions struct {
	modelFlags
	json, all bool
	tolerance float64
	opened    func() // called with both models open; nil but for tests
}

func (s system) diff() *cobra.Command {
	o := &diffOptions{}
	c := s.command("diff", between(2, 3), flags{"json": &o.json, "all": &o.all, "tolerance": &o.tolerance}, o.run)
	o.addReading(s, c)
	return c
}

// run compares, and returns an error that determines the exit status.
func (o *diffOptions) run(cmd *cobra.Command, args []string) error {
	if cmd.Flags().Changed("tolerance") && !(o.tolerance > 0 && o.tolerance <= 1) {
		return cli.UsageError{Err: fmt.Errorf("--tolerance %v: want a number above 0 and at most 1", o.tolerance)}
	}
	glob := append(args[2:], "*")[0]
	if _, err := cli.MatchGlob(glob, ""); err != nil {
		return cli.UsageError{Err: err}
	}
	r, err := o.compare(cmd.Context(), cmd.ErrOrStderr(), args[0], args[1], glob)
	if err == nil && o.json {
		err = cli.PrintJSON(cmd.OutOrStdout(), r.json())
	} else if err == nil {
		err = cli.IgnorePipe(r.print(cmd.OutOrStdout(), o.all))
	}
	switch {
	case cli.IsA[cli.UsageError](err):
		return err
	case err != nil:
		return cli.TroubleError{Err: err}
	case !r.equal():
		return cli.Reported{Err: errors.New("the models differ")}
	}
	return nil
}

// diffReport is two models, compared.
type diffReport struct {
	a, b    *tree.Tree
	config  []configDiff
	notes   []string
	results []compare.Result
	ranks   map[string]measure.DifferenceRank // of the differences of matrices
	width   int                               // of the terminal
}

// compare opens both models and compares them. They are closed when it returns.
func (o *diffOptions) compare(ctx context.Context, stderr io.Writer, a, b, glob string) (*diffReport, error) {
	x, err := o.openPlain(a) // adapters are for the second model
	if err != nil {
		return nil, err
	}
	defer x.Model.Close()
	y, err := o.open(b)
	if err != nil {
		return nil, err
	}
	defer y.Model.Close()
	if o.opened != nil {
		o.opened()
	}
	models := compare.Of(x.Model, y.Model)
	config := diffConfig(x.Model, y.Model, slices.ContainsFunc(models.Pairs, func(p compare.Pair) bool {
		return slices.Contains(ropeTensors, p.Name) && p.A != nil && p.B != nil
	}))
	pairs := selected(models.Pairs, glob, x.Model, y.Model)
	if len(pairs) == 0 && glob != "*" {
		return nil, fmt.Errorf("no tensor of %s or %s matches %q; tensorfs stat %[1]s lists the first model's tensors", tensorfs.Printable(a), tensorfs.Printable(b), glob)
	}
	ctx, stop := cli.Interruptible(ctx)
	defer stop()
	var progress *cli.ProgressBar
	results, err := compare.Compare(ctx, pairs, compare.Options{
		A: o.checked.Tree.Views, B: o.checked.Tree.Views, Tolerance: o.tolerance,
		Progress: func(total int64) (add func(int64)) {
			progress = cli.ProgressLater(stderr, "diff", total)
			return progress.Add
		},
	})
	var ranks map[string]measure.DifferenceRank
	if err == nil {
		progress.Clear()
		ranks, err = o.ranks(ctx, results, func(total int64) func(int64) {
			progress = cli.ProgressLater(stderr, "diff, ranks", total)
			return progress.Add
		})
	}
	if err := finishRead(ctx, progress, err, cli.PrintableName(a)+" and "+cli.PrintableName(b), "tensors", x.Model, y.Model); err != nil {
		return nil, err
	}
	return &diffReport{a: x, b: y, config: config, notes: models.Notes, results: results, ranks: ranks}, nil
}

// mostRanked bounds the numbers whose differences get a rank, which takes longer than
// comparing them: matrices that differ most come first.
const mostRanked = 1 << 28

// ranks finds the ranks of the differences of matrices that are different.
func (o *diffOptions) ranks(ctx context.Context, results []compare.Result, progress func(total int64) func(int64)) (map[string]measure.DifferenceRank, error) {
	var list []compare.Result
	for _, x := range results {
		if x.Status == compare.Different && x.Difference.Numbers && x.Difference.Odd == 0 && len(x.A.Numbers()) == 2 && slices.Min(x.A.Numbers()) > 1 {
			list = append(list, x)
		}
	}
	slices.SortStableFunc(list, func(a, b compare.Result) int { return cmp.Compare(b.Difference.NMSE, a.Difference.NMSE) })
	left := int64(mostRanked)
	var ranked []measure.Ranked
	for _, x := range list {
		if left -= x.Difference.Count; left < 0 {
			break
		}
		if a, b := encoded(x.A, o.checked.Tree.Views), encoded(x.B, o.checked.Tree.Views); a != nil && b != nil {
			ranked = append(ranked, measure.Ranked{Pair: measure.Pair{Name: x.Name, A: a, B: b}, Cols: x.A.Numbers()[1]})
		}
	}
	total := int64(0)
	for _, x := range ranked {
		total += x.A.Size() + x.B.Size()
	}
	found, err := measure.Ranks(ctx, ranked, progress(total))
	ranks := map[string]measure.DifferenceRank{}
	for i, x := range ranked {
		ranks[x.Name] = found[i]
	}
	return ranks, err
}

// selected are the pairs whose name matches: the canonical one, one of the models' own or,
// where none of these does, another one that Hugging Face or GGUF has.
func selected(all []compare.Pair, glob string, models ...*tensorfs.Model) (pairs []compare.Pair) {
	for _, p := range all {
		ok, _ := cli.MatchGlob(glob, p.Name)
		for _, t := range []*tensorfs.Tensor{p.A, p.B} {
			if !ok && t != nil {
				ok, _ = cli.MatchGlob(glob, t.Source)
			}
		}
		if ok {
			pairs = append(pairs, p)
		}
	}
	if len(pairs) > 0 {
		return pairs
	}
	found := map[string]bool{}
	for _, m := range models {
		for _, t := range called(m, glob) {
			found[t.Weight()] = true
		}
	}
	return slices.DeleteFunc(slices.Clone(all), func(p compare.Pair) bool { return !found[p.Name] })
}

// equal reports whether both models have the same tensors with the same values.
func (r *diffReport) equal() bool {
	return !slices.ContainsFunc(r.results, func(x compare.Result) bool { return x.Status != compare.Equal })
}

// configDiff is a field that differs; a value is nil if a model lacks it.
type configDiff struct {
	Name string          `json:"name"`
	A    json.RawMessage `json:"a"`
	B    json.RawMessage `json:"b"`
}

// GGUF files have the factors of some rotary embeddings as tensors, and then nothing in
// the fields that config.json has for them.
var (
	ropeTensors = []string{"rope_freqs.weight", "rope_factors_long.weight", "rope_factors_short.weight"}
	ropeFields  = []string{"rope_scaling_type", "rope_scaling_factor", "rope_orig_ctx"}
)

// diffConfig returns the fields that differ: the architecture, then the schema's. If both
// models have rotary factors as tensors, which are compared, a field about them in only one
// model is not a difference.
func diffConfig(a, b *tensorfs.Model, ropeCompared bool) []configDiff {
	list := []configDiff{}
	fields := func(m *tensorfs.Model) []tensorfs.Field {
		return append([]tensorfs.Field{{Name: "architecture", Value: m.Architecture}}, m.Config...)
	}
	value := func(fields []tensorfs.Field, name string) (v json.RawMessage, said bool) {
		i := slices.IndexFunc(fields, func(f tensorfs.Field) bool { return f.Name == name })
		if i < 0 {
			return nil, false
		}
		text, err := json.Marshal(fields[i].Value)
		if err != nil { // a number that is not finite
			text, _ = json.Marshal(fmt.Sprint(fields[i].Value))
		}
		return text, !fields[i].Assumed
	}
	x, y := fields(a), fields(b)
	seen := map[string]bool{}
	for _, f := range slices.Concat(x, y) {
		va, inA := value(x, f.Name)
		vb, inB := value(y, f.Name)
		asTensor := ropeCompared && inA != inB && slices.Contains(ropeFields, f.Name)
		if !seen[f.Name] && string(va) != string(vb) && !asTensor {
			list = append(list, configDiff{f.Name, va, vb})
		}
		seen[f.Name] = true
	}
	return list
}

// diffJSON is the report for programs.
type diffJSON struct {
	Equal   bool                   `json:"equal"`
	A       diffModel              `json:"a"`
	B       diffModel              `json:"b"`
	Summary map[compare.Status]int `json:"summary"`
	Config  []configDiff           `json:"config"`
	Notes   []string               `json:"notes"`
	Tensors []diffTensor           `json:"tensors"`
}

type diffModel struct {
	Path         string `json:"path"`
	Format       string `json:"format"`
	Architecture string `json:"architecture"`
	Layout       string `json:"layout"`
}

// diffTensor is one name. Figures are absent if no numbers were compared.
type diffTensor struct {
	Name      string         `json:"name"`
	Status    compare.Status `json:"status"`
	A         *tensorJSON    `json:"a,omitempty"`
	B         *tensorJSON    `json:"b,omitempty"`
	Reason    string         `json:"reason,omitempty"`
	Tolerance float64        `json:"tolerance,omitempty"`
	*diffFigures
}

type diffFigures struct {
	Differ    int64     `json:"differing"`
	NonFinite int64     `json:"non_finite_differing"`
	Max       float64   `json:"max_abs_diff"`
	Mean      float64   `json:"mean_abs_diff"`
	NMSE      jsonFloat `json:"nmse"`
	Cosine    jsonFloat `json:"cosine"`
	Relative  jsonFloat `json:"relative"`
	Rank      float64   `json:"rank,omitempty"` // effective
	Counted   int       `json:"counted_rank,omitempty"`
}

type tensorJSON struct {
	SourceName json.RawMessage `json:"source_name"`
	DType      string          `json:"dtype"`
	Shape      []int64         `json:"shape"`
}

func tensorToJSON(t *tensorfs.Tensor) *tensorJSON {
	if t == nil {
		return nil
	}
	return &tensorJSON{tensorfs.AppendJSONString(nil, t.Source), t.DType.String(), append([]int64{}, t.Numbers()...)}
}

// jsonFloat is a number that may be NaN or infinite, which JSON has as texts.
type jsonFloat float64

func (f jsonFloat) MarshalJSON() ([]byte, error) {
	return tensorfs.Meta{Value: float64(f)}.AppendJSON(nil), nil
}

func (r *diffReport) json() diffJSON {
	model := func(t *tree.Tree) diffModel {
		return diffModel{withAdapters(t.Model.Path, t.Model), t.Model.Format, t.Model.Architecture, t.Model.Layout}
	}
	out := diffJSON{
		Equal: r.equal(), A: model(r.a), B: model(r.b), Summary: map[compare.Status]int{}, Config: r.config,
		Notes: append([]string{}, r.notes...), Tensors: []diffTensor{},
	}
	for _, status := range diffStatuses {
		out.Summary[status.is] = 0
	}
	for _, x := range r.results {
		out.Summary[x.Status]++
		t := diffTensor{Name: x.Name, Status: x.Status, A: tensorToJSON(x.A), B: tensorToJSON(x.B), Reason: x.Reason, Tolerance: x.Tolerance}
		if d := x.Difference; d.Numbers {
			t.diffFigures = &diffFigures{d.Differ, d.Odd, d.Max, d.Mean, jsonFloat(d.NMSE), jsonFloat(d.Cosine), jsonFloat(d.Relative()), r.ranks[x.Name].Effective, r.ranks[x.Name].Counted}
		}
		out.Tensors = append(out.Tensors, t)
	}
	return out
}

// badness orders results of numbers: the greater, the worse.
func badness(r compare.Result) float64 {
	switch d := r.Difference; {
	case !d.Numbers || d.Odd > 0 || math.IsNaN(d.NMSE):
		return math.Inf(1)
	default:
		return d.NMSE
	}
}
