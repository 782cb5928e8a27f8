package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/tensorfs/tensorfs/views/measure"
)

// Finding is something that stands out. It is a size, and no verdict.
type Finding struct {
	Text string `json:"text"`
	Cell string `json:"cell"` // the name of the tensor that it is about, or the first of them
}

// What stands out.
const (
	mostFindings = 12
	farRMS       = 8    // times larger or smaller than the median of its kind
	farLine      = 8    // times larger than the median row or column
	farPeak      = 50   // largest number by RMS
	worseQ4      = 1.15 // than the median of its kind
	lowRank      = 20   // the sketch of a full difference of small matrices may be below measure.MaxRank
)

// collectFindings looks for all of it, the worst first.
func (r *Report) collectFindings() (list []Finding) {
	list = append(list, r.broken()...)
	list = append(list, r.changes()...)
	list = append(list, r.sizes()...)
	list = append(list, r.channels()...)
	list = append(list, r.peaks()...)
	if len(list) > mostFindings {
		list = list[:mostFindings]
	}
	return list
}

// broken are tensors with NaN or infinities, and constant tensors.
func (r *Report) broken() (list []Finding) {
	for i := range r.Cells {
		c := &r.Cells[i]
		switch {
		case c.Figures == nil || c.Count == 0:
		case c.NonFinite > 0:
			list = append(list, Finding{c.title() + " has " + oddNumbers(c.NonFinite), c.Name})
		case c.Change != nil && c.Change.NonFinite > 0:
			list = append(list, Finding{c.title() + " has " + oddNumbers(c.Change.NonFinite) + " in the other model", c.Name})
		case c.Zeros == c.Count:
			list = append(list, Finding{c.title() + " is zero throughout", c.Name})
		case c.Min == c.Max && c.Count > 1 && len(c.Shape) > 1:
			list = append(list, Finding{fmt.Sprintf("%s is %s throughout", c.title(), formatNumber(c.Min)), c.Name})
		}
	}
	return list
}

// oddNumbers counts numbers that are not finite.
func oddNumbers(n int64) string {
	return plural(n, "number that is NaN or infinite", "numbers that are NaN or infinite")
}

// title names a cell: "attention.q of layer 3".
func (c *Cell) title() string {
	if c.Layer < 0 {
		return c.Kind
	}
	return fmt.Sprintf("%s of layer %d", c.Kind, c.Layer)
}

// byKind groups the cells with numbers, in the order of the kinds.
func (r *Report) byKind() (kinds []string, of map[string][]*Cell) {
	of = map[string][]*Cell{}
	for i := range r.Cells {
		c := &r.Cells[i]
		if c.Figures == nil || c.Layer < 0 {
			continue
		}
		if of[c.Kind] == nil {
			kinds = append(kinds, c.Kind)
		}
		of[c.Kind] = append(of[c.Kind], c)
	}
	return kinds, of
}

func median(list []*Cell, value func(c *Cell) float64) float64 {
	var all []float64
	for _, c := range list {
		if v := value(c); v > 0 && !math.IsInf(v, 0) {
			all = append(all, v)
		}
	}
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return all[len(all)/2]
}

// sizes are tensors whose numbers differ in magnitude from others of their kind.
func (r *Report) sizes() (list []Finding) {
	kinds, of := r.byKind()
	for _, k := range kinds {
		m := median(of[k], func(c *Cell) float64 { return c.RMS })
		for _, c := range of[k] {
			if m == 0 || c.RMS == 0 || len(of[k]) < 3 {
				continue
			}
			switch ratio := c.RMS / m; {
			case ratio > farRMS:
				list = append(list, Finding{fmt.Sprintf("%s is %s times as large as the median of its kind", c.title(), formatNumber(ratio)), c.Name})
			case ratio < 1.0/farRMS:
				list = append(list, Finding{fmt.Sprintf("%s is %s times smaller than the median of its kind", c.title(), formatNumber(1/ratio)), c.Name})
			}
		}
	}
	return list
}

// channels are unusually large rows and columns, grouped by kind and number.
func (r *Report) channels() (list []Finding) {
	kinds, of := r.byKind()
	for _, k := range kinds {
		q4 := median(of[k], func(c *Cell) float64 { return value(c.Q4) })
		for _, what := range []struct {
			name  string
			lines func(c *Cell) []measure.Line
		}{{"column", func(c *Cell) []measure.Line { return c.Columns }}, {"row", func(c *Cell) []measure.Line { return c.Rows }}} {
			type far struct {
				layers     []int
				low, high  float64
				first      string
				worse      float64
				worseLayer []int
			}
			found := map[int64]*far{}
			var order []int64
			for _, c := range of[k] {
				for _, l := range what.lines(c) {
					if l.Ratio <= farLine {
						continue
					}
					f := found[l.Index]
					if f == nil {
						f = &far{low: l.Ratio, first: c.Name}
						found[l.Index] = f
						order = append(order, l.Index)
					}
					f.layers = append(f.layers, c.Layer)
					f.low, f.high = min(f.low, l.Ratio), max(f.high, l.Ratio)
					if q := value(c.Q4); q4 > 0 && q > worseQ4*q4 {
						f.worse = max(f.worse, q)
						f.worseLayer = append(f.worseLayer, c.Layer)
					}
				}
			}
			slices.SortStableFunc(order, func(a, b int64) int { return cmp.Compare(found[b].high, found[a].high) })
			for _, i := range order[:min(len(order), 3)] {
				f := found[i]
				size := formatNumber(f.high)
				if formatNumber(f.low) != size {
					size = formatNumber(f.low) + " to " + size
				}
				text := fmt.Sprintf("%s of %s: outlier %s %d, %s times the median", k, layersText(f.layers), what.name, i, size)
				if f.worse > 0 {
					text += fmt.Sprintf("; 4 bits lose %s of it there, and %s elsewhere", percent(f.worse), percent(q4))
				}
				list = append(list, Finding{text, f.first})
			}
		}
	}
	return list
}

// outlier reports whether a row or a column is an outlier, which is more significant than
// its largest number.
func (c *Cell) outlier() bool {
	return len(c.Columns) > 0 && c.Columns[0].Ratio > farLine || len(c.Rows) > 0 && c.Rows[0].Ratio > farLine
}

// peaks are tensors with a number far beyond their other numbers.
func (r *Report) peaks() (list []Finding) {
	var far []*Cell
	for i := range r.Cells {
		if c := &r.Cells[i]; c.Figures != nil && c.Peak > farPeak && !c.outlier() {
			far = append(far, c)
		}
	}
	slices.SortStableFunc(far, func(a, b *Cell) int { return cmp.Compare(b.Peak, a.Peak) })
	for _, c := range far[:min(len(far), 3)] {
		list = append(list, Finding{fmt.Sprintf("%s has a number %s times its RMS", c.title(), formatNumber(c.Peak)), c.Name})
	}
	return list
}

// changes say where the other model differs.
func (r *Report) changes() (list []Finding) {
	if r.Cells == nil || !slices.ContainsFunc(r.Cells, func(c Cell) bool { return c.Change != nil }) {
		return nil
	}
	count := map[string]int{}
	first := map[string]string{}
	type changed struct {
		kind       string
		cells      []*Cell
		low        bool // of all, the singular values above the noise are counted, and are few for the shape
		most, rank float64
		counted    int
	}
	var kinds []*changed
	of := map[string]*changed{}
	for i := range r.Cells {
		c := &r.Cells[i]
		if c.Change == nil {
			continue
		}
		count[c.Change.Status]++
		if first[c.Change.Status] == "" {
			first[c.Change.Status] = c.Name
		}
		if c.Change.Status != "changed" {
			continue
		}
		x := of[c.Kind]
		if x == nil {
			x = &changed{kind: c.Kind, low: true}
			of[c.Kind] = x
			kinds = append(kinds, x)
		}
		x.cells = append(x.cells, c)
		if v := c.Change.Relative; v != nil {
			x.most = max(x.most, *v)
		}
		if c.Change.Counted == 0 || c.Change.Rank >= lowRank || 2*int64(c.Change.Counted) > slices.Min(c.Shape) {
			x.low = false
		}
		x.rank, x.counted = max(x.rank, c.Change.Rank), max(x.counted, c.Change.Counted)
	}
	text := fmt.Sprintf("%d of %d tensors are equal", count["equal"], len(r.Cells))
	for _, s := range []struct{ status, words string }{{"changed", "differ"}, {"shape", "have another shape"}, {"only_this", "are only in the first model"}, {"only_other", "are only in the second model"}} {
		if n := count[s.status]; n > 0 {
			text += fmt.Sprintf(", %d %s", n, s.words)
		}
	}
	list = append(list, Finding{text, cmp.Or(first["changed"], first["shape"], first["only_this"], first["only_other"])})
	slices.SortStableFunc(kinds, func(a, b *changed) int { return cmp.Compare(b.most, a.most) })
	// Kinds that changed in the same layers by the same rank are one finding.
	type group struct {
		kinds []string
		most  float64
		first string
		how   string
	}
	groups := map[string]*group{}
	var order []string
	for _, x := range kinds {
		var layers []int
		for _, c := range x.cells {
			if c.Layer >= 0 {
				layers = append(layers, c.Layer)
			}
		}
		where := layersText(layers)
		how := ""
		switch {
		case x.low:
			how = "by " + RankText(x.counted, x.rank) + ": as a merged LoRA does"
		case x.rank >= lowRank:
			how = "by full rank"
		case x.rank > 0:
			how = "by " + RankText(0, x.rank)
		}
		key := where + "|" + how
		if x.low { // their effective ranks may differ
			key = fmt.Sprintf("%s|%d", where, x.counted)
		}
		if groups[key] == nil {
			groups[key] = &group{first: x.cells[0].Name, how: how}
			order = append(order, key)
		}
		g := groups[key]
		g.kinds, g.most = append(g.kinds, x.kind), max(g.most, x.most)
	}
	for _, key := range order[:min(len(order), 5)] {
		where, _, _ := strings.Cut(key, "|")
		g := groups[key]
		slices.SortFunc(g.kinds, func(a, b string) int { return cmp.Compare(slices.Index(r.Kinds, a), slices.Index(r.Kinds, b)) })
		text := strings.Join(g.kinds[:min(len(g.kinds), 6)], ", ")
		if more := len(g.kinds) - 6; more > 0 {
			text += fmt.Sprintf(" and %d more", more)
		}
		if where != "" {
			text += " of " + where
		}
		several := strings.ContainsAny(where, "-,") || len(g.kinds) > 1
		switch {
		case several && g.most > 0:
			text += " differ by up to " + percent(g.most)
		case several:
			text += " differ"
		case g.most > 0:
			text += " differs by " + percent(g.most)
		default:
			text += " differs"
		}
		if g.how != "" {
			text += ", " + g.how
		}
		list = append(list, Finding{text, g.first})
	}
	return list
}

// RankText writes the rank of a difference: "rank 8 (effective 6.6)", or "an effective rank of 6.6" if no rank is counted.
func RankText(counted int, effective float64) string {
	if counted == 0 {
		return fmt.Sprintf("an effective rank of %.1f", effective)
	}
	return fmt.Sprintf("rank %d (effective %.1f)", counted, effective)
}

// layersText names layers: "layers 4-10".
func layersText(layers []int) string {
	switch len(layers) {
	case 0:
		return ""
	case 1:
		return "layer " + strconv.Itoa(layers[0])
	}
	return "layers " + Span(layers)
}

func value(p *float64) float64 {
	if p == nil {
		return 0
	}
	return *p
}

func formatNumber(v float64) string { return strconv.FormatFloat(v, 'g', 3, 64) }

func percent(v float64) string { return strconv.FormatFloat(100*v, 'g', 3, 64) + " %" }

func plural(n int64, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
