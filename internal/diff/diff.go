package diff

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/cli"
	"github.com/tensorfs/tensorfs/internal/compare"
	"github.com/tensorfs/tensorfs/internal/conceal"
	"github.com/tensorfs/tensorfs/internal/describe"
	"github.com/tensorfs/tensorfs/internal/verify"
	"github.com/tensorfs/tensorfs/views"
	"github.com/tensorfs/tensorfs/views/measure"
	"github.com/tensorfs/tensorfs/views/tree"
)

// Encoded are the numbers of a tensor, nil if it has none.
func Encoded(t *tensorfs.Tensor, opts views.Options) tensorfs.Data {
	d, err := opts.Encode(t, tensorfs.F32)
	if err != nil {
		return nil
	}
	return d
}

// Report is two models, compared.
type Report struct {
	a, b    *tree.Tree
	config  []configDiff
	notes   []string
	results []compare.Result
	ranks   map[string]measure.DifferenceRank // of the differences of matrices
	width   int                               // of the terminal
}

// Compare compares the tensors that a glob selects in two models, a and b as the user has named them.
func Compare(ctx context.Context, stderr io.Writer, x, y *tree.Tree, a, b, glob string, o compare.Options) (*Report, error) {
	models := compare.Of(x.Model, y.Model)
	config := configs(x.Model, y.Model, slices.ContainsFunc(models.Pairs, func(p compare.Pair) bool {
		return slices.Contains(ropeTensors, p.Name) && p.A != nil && p.B != nil
	}))
	pairs := selected(models.Pairs, glob, x.Model, y.Model)
	if len(pairs) == 0 && glob != "*" {
		return nil, fmt.Errorf("no tensor of %s or %s matches %q; tensorfs stat %[1]s lists the first model's tensors", tensorfs.Printable(a), tensorfs.Printable(b), glob)
	}
	ctx, stop := cli.Interruptible(ctx)
	defer stop()
	var progress *cli.ProgressBar
	o.Progress = func(total int64) (add func(int64)) {
		progress = cli.ProgressLater(stderr, "diff", total)
		return progress.Add
	}
	results, err := compare.Compare(ctx, pairs, o)
	var ranks map[string]measure.DifferenceRank
	if err == nil {
		progress.Clear()
		ranks, err = rank(ctx, results, o, func(total int64) func(int64) {
			progress = cli.ProgressLater(stderr, "diff, ranks", total)
			return progress.Add
		})
	}
	if err := verify.FinishRead(ctx, progress, err, conceal.Printable(a)+" and "+conceal.Printable(b), "tensors", x.Model, y.Model); err != nil {
		return nil, err
	}
	return &Report{a: x, b: y, config: config, notes: models.Notes, results: results, ranks: ranks}, nil
}

// mostRanked bounds the numbers whose differences get a rank, which takes longer than
// comparing them: matrices that differ most come first.
const mostRanked = 1 << 28

// rank finds the ranks of the differences of matrices that are different.
func rank(ctx context.Context, results []compare.Result, o compare.Options, progress func(total int64) func(int64)) (map[string]measure.DifferenceRank, error) {
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
		if a, b := Encoded(x.A, o.A), Encoded(x.B, o.B); a != nil && b != nil {
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
		for _, t := range describe.Called(m, glob) {
			found[t.Weight()] = true
		}
	}
	return slices.DeleteFunc(slices.Clone(all), func(p compare.Pair) bool { return !found[p.Name] })
}

// Equal reports whether both models have the same tensors with the same values.
func (r *Report) Equal() bool {
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

// configs returns the fields that differ: the architecture, then the schema's. If both
// models have rotary factors as tensors, which are compared, a field about them in only one
// model is not a difference.
func configs(a, b *tensorfs.Model, ropeCompared bool) []configDiff {
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

// reportJSON is the report for programs.
type reportJSON struct {
	Equal   bool                   `json:"equal"`
	A       modelJSON              `json:"a"`
	B       modelJSON              `json:"b"`
	Summary map[compare.Status]int `json:"summary"`
	Config  []configDiff           `json:"config"`
	Notes   []string               `json:"notes"`
	Tensors []tensorJSON           `json:"tensors"`
}

type modelJSON struct {
	Path         string `json:"path"`
	Format       string `json:"format"`
	Architecture string `json:"architecture"`
	Layout       string `json:"layout"`
}

// tensorJSON is one name. Figures are absent if no numbers were compared.
type tensorJSON struct {
	Name      string               `json:"name"`
	Status    compare.Status       `json:"status"`
	A         *describe.TensorJSON `json:"a,omitempty"`
	B         *describe.TensorJSON `json:"b,omitempty"`
	Reason    string               `json:"reason,omitempty"`
	Tolerance float64              `json:"tolerance,omitempty"`
	*figures
}

type figures struct {
	Differ    int64              `json:"differing"`
	NonFinite int64              `json:"non_finite_differing"`
	Max       float64            `json:"max_abs_diff"`
	Mean      float64            `json:"mean_abs_diff"`
	NMSE      describe.JSONFloat `json:"nmse"`
	Cosine    describe.JSONFloat `json:"cosine"`
	Relative  describe.JSONFloat `json:"relative"`
	Rank      float64            `json:"rank,omitempty"` // effective
	Counted   int                `json:"counted_rank,omitempty"`
}

func (r *Report) JSON() reportJSON {
	model := func(t *tree.Tree) modelJSON {
		return modelJSON{describe.WithAdapters(t.Model.Path, t.Model), t.Model.Format, t.Model.Architecture, t.Model.Layout}
	}
	out := reportJSON{
		Equal: r.Equal(), A: model(r.a), B: model(r.b), Summary: map[compare.Status]int{}, Config: r.config,
		Notes: append([]string{}, r.notes...), Tensors: []tensorJSON{},
	}
	for _, status := range diffStatuses {
		out.Summary[status.is] = 0
	}
	for _, x := range r.results {
		out.Summary[x.Status]++
		t := tensorJSON{Name: x.Name, Status: x.Status, A: describe.Tensor(x.A), B: describe.Tensor(x.B), Reason: x.Reason, Tolerance: x.Tolerance}
		if d := x.Difference; d.Numbers {
			t.figures = &figures{d.Differ, d.Odd, d.Max, d.Mean, describe.JSONFloat(d.NMSE), describe.JSONFloat(d.Cosine), describe.JSONFloat(d.Relative()), r.ranks[x.Name].Effective, r.ranks[x.Name].Counted}
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
