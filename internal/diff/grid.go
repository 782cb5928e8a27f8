package diff

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/cli"
	"github.com/tensorfs/tensorfs/internal/compare"
	"github.com/tensorfs/tensorfs/internal/report"
	"github.com/tensorfs/tensorfs/views/measure"
)

// gridStep is a character of the grid, for relative changes up to a size.
type gridStep struct {
	most       float64
	plain, bar string // ASCII, and Unicode
}

var gridSteps = []gridStep{{0, ".", "·"}, {1e-4, "-", "▁"}, {1e-3, "-", "▂"}, {1e-2, "=", "▄"}, {1e-1, "#", "▆"}, {math.Inf(1), "@", "█"}}

// gridOdd marks what is no number: another shape, or in one model only.
const gridOdd = "?"

// grid prints where the models differ: kinds of tensors by layers, as the map of a report. It
// prints nothing of models that have no layers, or do not differ in them.
func (r *Report) grid(w io.Writer, width int, unicode bool) {
	var names []string
	cells := map[report.Place]compare.Result{}
	differs := false
	for _, x := range r.results {
		names = append(names, x.Name)
		p := report.PlaceOf(x.Name)
		cells[p] = x
		differs = differs || p.Layer >= 0 && x.Status != compare.Equal
	}
	g := report.NewGrid(names)
	widest := 0
	for _, k := range g.Kinds {
		widest = max(widest, cli.Cells(tensorfs.Printable(k)))
	}
	widest = min(widest, 28)
	if !differs || g.Layers < 2 || widest+4+g.Layers > max(width, 40) || len(g.Kinds) > 40 {
		return
	}
	mark := func(s gridStep) string {
		if unicode {
			return s.bar
		}
		return s.plain
	}
	// Kinds that are equal throughout are counted, so that what differs is seen.
	equal := 0
	say := func(indent, format string, args ...any) {
		for _, line := range cli.Wrap(fmt.Sprintf(format, args...), max(width, 40)-len(indent), 0) {
			fmt.Fprintln(w, indent+line)
		}
	}
	fmt.Fprintln(w)
	say("", "relative change, layers 0 to %d from left to right", g.Layers-1)
	for _, k := range g.Kinds {
		var row strings.Builder
		all := true
		for l := range g.Layers {
			x, ok := cells[report.Place{Kind: k, Layer: l}]
			switch v := x.Difference.Relative(); {
			case !ok:
				row.WriteByte(' ')
			case x.Status == compare.Equal:
				row.WriteString(mark(gridSteps[0]))
			case math.IsNaN(v):
				row.WriteString(gridOdd)
			default:
				i, _ := slices.BinarySearchFunc(gridSteps, v, func(s gridStep, v float64) int { return cmp.Compare(s.most, v) })
				row.WriteString(mark(gridSteps[min(max(i, 1), len(gridSteps)-1)]))
			}
			all = all && (!ok || x.Status == compare.Equal)
		}
		if all {
			equal++
			continue
		}
		name := cli.Shorten(tensorfs.Printable(k), widest)
		fmt.Fprintf(w, "  %s%s  %s\n", name, strings.Repeat(" ", widest-cli.Cells(name)), row.String())
	}
	if equal > 0 {
		say("  ", "and %s that are equal in all layers", cli.Plural(equal, "kind"))
	}
	say("  ", "(%s equal, %s up to 0.01 %%, %s 0.1 %%, %s 1 %%, %s 10 %%, %s above, %s not compared)",
		mark(gridSteps[0]), mark(gridSteps[1]), mark(gridSteps[2]), mark(gridSteps[3]), mark(gridSteps[4]), mark(gridSteps[5]), gridOdd)
}

// roles prints what differs of a kind in all its layers.
func (r *Report) roles(w io.Writer, width int) {
	type role struct {
		name         string
		layers       []int
		most, sum, n float64
		part         float64
		rank         measure.DifferenceRank // the largest
	}
	var list []*role
	of := map[string]*role{}
	for _, x := range r.results {
		p := report.PlaceOf(x.Name)
		if p.Layer < 0 || x.Status == compare.Equal || !x.Difference.Numbers {
			continue
		}
		y := of[p.Kind]
		if y == nil {
			y = &role{name: p.Kind}
			of[p.Kind] = y
			list = append(list, y)
		}
		y.layers = append(y.layers, p.Layer)
		v := x.Difference.Relative()
		y.most, y.sum, y.n = max(y.most, v), y.sum+v, y.n+1
		y.part = max(y.part, float64(x.Difference.Differ)/float64(max(x.Difference.Count, 1)))
		if rank := r.ranks[x.Name]; rank.Effective > y.rank.Effective {
			y.rank = rank
		}
	}
	if !slices.ContainsFunc(list, func(x *role) bool { return x.n > 1 }) {
		return // the lines below say all of it
	}
	slices.SortStableFunc(list, func(a, b *role) int { return cmp.Compare(b.most, a.most) })
	fmt.Fprintln(w)
	t := cli.Table{Right: []bool{2: true, 3: true, 4: true, 5: true}}
	t.Add("by role", "layers", "change", "mean", "numbers", "rank")
	for _, x := range list[:min(len(list), 16)] {
		t.Add("  "+tensorfs.Printable(x.name), cli.Shorten(report.Span(x.layers), 24), inPercent(x.most), inPercent(x.sum/x.n), inPercent(x.part), rankText(x.rank))
	}
	withoutLast(&t)
	t.Print(w, width)
	r.layers(w, width)
}

// layers names the layers that differ most.
func (r *Report) layers(w io.Writer, width int) {
	most := map[int]float64{}
	for _, x := range r.results {
		if p := report.PlaceOf(x.Name); p.Layer >= 0 && x.Status != compare.Equal && x.Difference.Numbers {
			most[p.Layer] = max(most[p.Layer], x.Difference.Relative())
		}
	}
	order := slices.SortedFunc(maps.Keys(most), func(a, b int) int { return cmp.Or(cmp.Compare(most[b], most[a]), a-b) })
	if len(order) < 2 {
		return
	}
	var parts []string
	for _, l := range order[:min(len(order), 6)] {
		parts = append(parts, fmt.Sprintf("%d (%s)", l, inPercent(most[l])))
	}
	text := strings.Join(parts, ", ")
	if more := len(order) - len(parts); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	fmt.Fprintln(w, cli.Paragraph(width, "by layer: ", text))
}

// inPercent is a part in per cent.
func inPercent(v float64) string {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return "-"
	}
	return fmt.Sprintf("%.3g %%", 100*v)
}

// rankText is the rank of a difference in few columns: "8 (6.6)" is rank 8 (effective 6.6), and
// "~6.6" only an effective rank.
func rankText(r measure.DifferenceRank) string {
	switch {
	case r.Effective == 0:
		return "-"
	case r.Effective >= measure.MaxRank:
		return fmt.Sprintf(">=%d", measure.MaxRank)
	case r.Counted == 0:
		return fmt.Sprintf("~%.1f", r.Effective)
	}
	return fmt.Sprintf("%d (%.1f)", r.Counted, r.Effective)
}
