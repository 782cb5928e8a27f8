package diff

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/cli"
	"github.com/tensorfs/tensorfs/internal/compare"
	"github.com/tensorfs/tensorfs/internal/describe"
	"github.com/tensorfs/tensorfs/internal/near"
)

const (
	// Lines is how many tensors are listed by default.
	Lines = 40
	// configValue is how much of a value of the config is shown.
	configValue = 26
)

// diffStatuses are the sections of a report, the worst first, and equal, which has
// none.
var diffStatuses = []struct {
	is     compare.Status
	title  string
	colour cli.Colour
	head   []string
	row    func(d *Report, r compare.Result) cli.TableRow // without the name
}{
	{compare.Different, "different", cli.Warning, figureHead, (*Report).figures},
	{compare.Shape, "of another shape", cli.Warning, []string{"A", "B"}, func(_ *Report, r compare.Result) cli.TableRow {
		return cli.TableRow{Cells: []string{describe.Shape(r.A), describe.Shape(r.B)}}
	}},
	{compare.OnlyA, "only in A", cli.Warning, storedHead, func(_ *Report, r compare.Result) cli.TableRow { return storedAs(r.A) }},
	{compare.OnlyB, "only in B", cli.Warning, storedHead, func(_ *Report, r compare.Result) cli.TableRow { return storedAs(r.B) }},
	{compare.Close, "close", "", figureHead, (*Report).figures},
	{compare.Equal, "equal", cli.Good, nil, nil},
}

var (
	figureHead = []string{"type", "change", "numbers", "max diff", "rank"}
	storedHead = []string{"type", "shape"}
)

// Print writes the report for people.
func (r *Report) Print(stdout io.Writer, all bool) error {
	w, width, painter := bufio.NewWriter(stdout), cli.TableWidth(stdout), cli.PainterOf(stdout)
	r.width = width
	for i, t := range []*tensorfs.Model{r.a.Model, r.b.Model} {
		fmt.Fprintln(w, cli.Fold(fmt.Sprintf("%c  %s (%s, %s)", 'A'+i, tensorfs.Printable(describe.WithAdapters(t.Path, t)), t.Format, tensorfs.Printable(t.Architecture)), width, "   "))
	}
	for _, note := range r.notes {
		fmt.Fprintln(w, cli.Paragraph(width, "note: ", tensorfs.OneLine(note)))
	}
	if len(r.config) > 0 {
		fmt.Fprintln(w)
		t := cli.Table{Right: make([]bool, 3)}
		t.Add("config", "A", "B")
		for _, c := range r.config {
			t.Add("  "+c.Name, cli.Shorten(cmp.Or(string(c.A), "-"), configValue), cli.Shorten(cmp.Or(string(c.B), "-"), configValue))
		}
		t.Print(w, width)
	}
	r.grid(w, width, cli.UTF8())
	r.roles(w, width)
	sections := map[compare.Status][]compare.Result{}
	for _, x := range r.results {
		sections[x.Status] = append(sections[x.Status], x)
	}
	left, parts := Lines, 0
	for _, s := range diffStatuses {
		if s.row != nil && len(sections[s.is]) > 0 {
			parts++
		}
	}
	for _, s := range diffStatuses {
		list := sections[s.is]
		if s.row == nil || len(list) == 0 {
			continue
		}
		slices.SortFunc(list, func(a, b compare.Result) int {
			return cmp.Or(cmp.Compare(badness(b), badness(a)), near.Compare(a.Name, b.Name))
		})
		fmt.Fprintln(w)
		t := cli.Table{Right: make([]bool, len(s.head)+1)}
		for k, h := range s.head {
			t.Right[k+1] = slices.Contains(figureHead[1:], h)
		}
		t.Add(append([]string{painter.Paint(s.colour, fmt.Sprintf("%s (%d)", s.title, len(list)))}, s.head...)...)
		n := len(list)
		if !all {
			n = min(n, max(left/parts, 1)) // what a section does not need, those after it have
		}
		for _, x := range list[:n] {
			row := s.row(r, x)
			row.Cells = append([]string{"  " + tensorfs.Printable(x.Name)}, row.Cells...)
			t.Rows = append(t.Rows, row)
		}
		withoutLast(&t)
		t.Print(w, width)
		if more := len(list) - n; more > 0 {
			fmt.Fprintf(w, "  and %d more; --all lists them\n", more)
		}
		left, parts = left-n, parts-1
	}
	fmt.Fprintln(w)
	r.types(w, sections[compare.Equal])
	var counts []string
	for _, s := range slices.Backward(diffStatuses) {
		if n := len(sections[s.is]); n > 0 || s.is == compare.Equal {
			counts = append(counts, fmt.Sprintf("%d %s", n, s.title))
		}
	}
	last := cli.Paragraph(width, cli.Plural(len(r.results), "tensor")+": ", strings.Join(counts, ", "))
	if r.Equal() {
		last = painter.Paint(cli.Good, last)
	}
	fmt.Fprintln(w, last)
	return w.Flush()
}

// types notes tensors that are equal and of other types.
func (r *Report) types(w io.Writer, equal []compare.Result) {
	count := map[string]int{}
	for _, x := range equal {
		if a, b := describe.BriefType(x.A), describe.BriefType(x.B); a != b {
			count[a+" in A and "+b+" in B"]++
		}
	}
	for _, types := range slices.Sorted(maps.Keys(count)) {
		fmt.Fprintf(w, "note: equal values, stored as %s: %d\n", types, count[types])
	}
}

// figures is the row of a tensor whose values differ.
func (d *Report) figures(r compare.Result) cli.TableRow {
	types := describe.BriefType(r.A)
	if b := describe.BriefType(r.B); b != types {
		types += " " + b
	}
	x := r.Difference
	if !x.Numbers {
		why := "the stored bytes differ"
		if r.Reason != "" {
			why += "; " + r.Reason
		}
		return cli.TableRow{Cells: []string{types, "-", "-", "-", "-"}, Below: []string{cli.Paragraph(d.width, "    ", tensorfs.OneLine(why))}}
	}
	row := cli.TableRow{Cells: []string{types, inPercent(r.Difference.Relative()), inPercent(float64(x.Differ) / float64(max(x.Count, 1))), cli.Number(x.Max), rankText(d.ranks[r.Name])}}
	if x.Odd > 0 {
		row.Below = []string{fmt.Sprintf("    %d of %d numbers are NaN or infinite in one model only", x.Odd, x.Count)}
	}
	return row
}

// withoutLast leaves the last column out if no row has anything in it, such as a rank.
func withoutLast(t *cli.Table) {
	last := len(t.Right) - 1
	if slices.ContainsFunc(t.Rows[1:], func(r cli.TableRow) bool { return r.Cells[last] != "-" }) {
		return
	}
	t.Right = t.Right[:last]
	for i := range t.Rows {
		t.Rows[i].Cells = t.Rows[i].Cells[:last]
	}
}

func storedAs(t *tensorfs.Tensor) cli.TableRow {
	return cli.TableRow{Cells: []string{describe.BriefType(t), describe.Shape(t)}}
}
