package report

import (
	"context"
	"math"
	"slices"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/views/measure"
)

// Tensor is a tensor to be looked at.
type Tensor struct {
	Name  string // canonical
	Type  string // as it is stored
	Shape []int64
	Data  tensorfs.Data // F32; nil if the tensor has no numbers
	Why   string        // why

	Other     tensorfs.Data       // the same tensor of the other model, as F32; nil without one
	Compared  bool                // with the other model's
	Changed   *measure.Difference // nil if nothing was compared
	OnlyOther bool                // only the other model has it
	OnlyThis  bool
}

// Cell is a tensor in the map.
type Cell struct {
	Name  string  `json:"name"`
	Kind  string  `json:"kind"`
	Layer int     `json:"layer"` // -1 outside of the layers
	Type  string  `json:"type"`
	Shape []int64 `json:"shape"`
	Why   string  `json:"why,omitempty"` // there are no numbers
	*Figures
	Change *Change `json:"change,omitempty"` // against the other model
}

// Figures describe a tensor's numbers. Ratios without a meaning are null.
type Figures struct {
	Count     int64          `json:"count"`
	NonFinite int64          `json:"non_finite,omitempty"`
	Zeros     int64          `json:"zeros"`
	Min       float64        `json:"min"`
	Max       float64        `json:"max"`
	Mean      float64        `json:"mean"`
	RMS       float64        `json:"rms"`
	Peak      float64        `json:"peak"` // the largest |x| by RMS
	Kurtosis  float64        `json:"kurtosis"`
	Q4        *float64       `json:"q4,omitempty"` // what Q4_0 changes, by RMS
	Q8        *float64       `json:"q8,omitempty"`
	Bins      []int64        `json:"bins,omitempty"` // from -6 to 6 RMS
	Columns   []measure.Line `json:"columns,omitempty"`
	Rows      []measure.Line `json:"rows,omitempty"`
}

// Change is how a tensor differs from the other model's.
type Change struct {
	Status   string   `json:"status"`             // equal, changed, only_this, only_other, shape
	Relative *float64 `json:"relative,omitempty"` // nil if the tensor is all zeros, or only numbers that are not finite differ
	Part     float64  `json:"part"`               // of the numbers that are not equal
	Largest  float64  `json:"largest"`
	Cosine   *float64 `json:"cosine,omitempty"`
	Rank     float64  `json:"rank,omitempty"` // effective, of the difference; measure.MaxRank for that and above
	Counted  int      `json:"counted_rank,omitempty"`
	// NonFinite is how many numbers are NaN or infinite in one model only, or infinite with another sign.
	NonFinite int64 `json:"non_finite,omitempty"`
}

// Report is what is known of a model, and of another beside it.
type Report struct {
	Model    string    `json:"model"`
	Other    string    `json:"other,omitempty"`
	Facts    []string  `json:"facts"`
	Metadata []Meta    `json:"metadata,omitempty"` // of the model, as far as it fits on a line
	Layers   int       `json:"layers"`
	Kinds    []string  `json:"kinds"`
	Outside  []string  `json:"outside"`
	Findings []Finding `json:"findings"`
	Cells    []Cell    `json:"cells"`
}

// Meta is an entry of a model's metadata.
type Meta struct {
	Key    string `json:"key"`
	Type   string `json:"type"`
	Length int    `json:"length,omitempty"` // of an array
	Value  string `json:"value"`            // in a line, perhaps only its beginning
	Cut    bool   `json:"cut,omitempty"`    // whether it is only its beginning
}

// brief is the number of tensors above which a page has no histograms: it would become too
// large to open.
const brief = 4000

// Make looks at all tensors. add is told how many bytes were read; it may be nil.
func Make(ctx context.Context, list []Tensor, add func(int64)) (*Report, error) {
	r := &Report{Facts: []string{}, Findings: []Finding{}, Cells: []Cell{}, Kinds: []string{}, Outside: []string{}}
	list = slices.Clone(list)
	slices.SortStableFunc(list, func(a, b Tensor) int { return PlaceOf(a.Name).Layer - PlaceOf(b.Name).Layer })
	var names []string
	var surveyed []measure.Surveyed
	var of []int
	for i := range list {
		t := &list[i]
		names = append(names, t.Name)
		p := PlaceOf(t.Name)
		c := Cell{Name: t.Name, Kind: p.Kind, Layer: p.Layer, Type: t.Type, Shape: append([]int64{}, t.Shape...), Why: t.Why, Change: t.change()}
		r.Cells = append(r.Cells, c)
		if t.Data == nil {
			continue
		}
		s := measure.Surveyed{Numbers: measure.Numbers{Name: t.Name, DType: tensorfs.F32, Data: t.Data}}
		if n := len(t.Shape); n >= 2 {
			s.Cols = t.Shape[n-1]
			s.Rows, _ = tensorfs.Elements(t.Shape[:n-1])
		}
		surveyed, of = append(surveyed, s), append(of, i)
	}
	profiles, err := measure.Survey(ctx, surveyed, add)
	if err != nil {
		return nil, err
	}
	for k, p := range profiles {
		r.Cells[of[k]].Figures = figures(&p, len(list) <= brief)
	}
	if err := r.ranks(ctx, list, add); err != nil {
		return nil, err
	}
	g := NewGrid(names)
	r.Layers, r.Kinds, r.Outside = g.Layers, append(r.Kinds, g.Kinds...), append(r.Outside, g.Outside...)
	r.Findings = append(r.Findings, r.collectFindings()...)
	return r, nil
}

func figures(p *measure.Profile, whole bool) *Figures {
	f := &Figures{Count: p.Count, NonFinite: p.NonFinite, Zeros: p.Zeros, Min: p.Min, Max: p.Max, Mean: p.Mean, RMS: p.RMS, Kurtosis: p.Kurtosis}
	if p.RMS > 0 {
		f.Peak = max(p.Max, -p.Min) / p.RMS
	}
	for _, q := range []struct {
		v  float64
		to **float64
	}{{p.Q4, &f.Q4}, {p.Q8, &f.Q8}} {
		if !math.IsNaN(q.v) {
			*q.to = &q.v
		}
	}
	keep := func(all []measure.Line) []measure.Line {
		if whole {
			return all
		}
		return all[:min(1, len(all))]
	}
	f.Columns, f.Rows = keep(p.Columns), keep(p.Rows)
	if whole {
		f.Bins = p.Bins[:]
	}
	return f
}

// change is what was found of the other model's tensor; nil without another model.
func (t *Tensor) change() *Change {
	switch d := t.Changed; {
	case !t.Compared:
		return nil
	case t.OnlyThis:
		return &Change{Status: "only_this"}
	case t.OnlyOther:
		return &Change{Status: "only_other"}
	case d == nil:
		return &Change{Status: "shape"}
	case d.Equal || d.Numbers && d.Differ == 0:
		return &Change{Status: "equal"}
	default:
		c := &Change{Status: "changed"}
		if d.Numbers && d.Count > 0 {
			c.Part, c.Largest, c.NonFinite = float64(d.Differ)/float64(d.Count), d.Max, d.Odd
			if r := d.Relative(); r > 0 && !math.IsInf(r, 0) {
				c.Relative = &r
			}
			if !math.IsNaN(d.Cosine) {
				c.Cosine = &d.Cosine
			}
		}
		return c
	}
}

// ranks computes the ranks of the changes, for matrices that changed.
func (r *Report) ranks(ctx context.Context, list []Tensor, add func(int64)) error {
	var ranked []measure.Ranked
	var of []*Change
	for i := range list {
		t, c := &list[i], r.Cells[i].Change
		if c == nil || c.Status != "changed" || t.Data == nil || t.Other == nil || len(t.Shape) != 2 || slices.Min(t.Shape) < 2 {
			continue
		}
		ranked = append(ranked, measure.Ranked{Pair: measure.Pair{Name: t.Name, A: t.Data, B: t.Other}, Cols: t.Shape[1]})
		of = append(of, c)
	}
	ranks, err := measure.Ranks(ctx, ranked, add)
	for k, c := range of {
		c.Rank, c.Counted = ranks[k].Effective, ranks[k].Counted
	}
	return err
}
