package main

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/fs/tree/whole/pair"
	"github.com/tensorfs/tensorfs/internal/term"
)

const (
	// diffLines is how many tensors are listed by default.
	diffLines = 40
)

// diffStatuses are the sections of a report, the worst first, and equal, which has
// none.
var diffStatuses = []struct {
	is    pair.Status
	title string
	line  func(w io.Writer, r pair.Result)
}{
	{pair.Different, "different", printFigures},
	{pair.Shape, "of another shape", printShapes},
	{pair.OnlyA, "only in A", func(w io.Writer, r pair.Result) { printOne(w, r.Name, r.A) }},
	{pair.OnlyB, "only in B", func(w io.Writer, r pair.Result) { printOne(w, r.Name, r.B) }},
	{pair.Close, "close", printFigures},
	{pair.Equal, "equal", nil},
}

// print writes the report for people.
func (r *diffReport) print(stdout io.Writer, all bool) error {
	w := bufio.NewWriter(stdout)
	for i, t := range []*tensorfs.Model{r.a.Model, r.b.Model} {
		fmt.Fprintf(w, "%c  %s (%s, %s)\n", 'A'+i, tensorfs.Printable(t.Path), t.Format, tensorfs.Printable(t.Architecture))
	}
	for _, note := range r.notes {
		fmt.Fprintln(w, paragraph("note: ", tensorfs.OneLine(note)))
	}
	if len(r.config) > 0 {
		fmt.Fprintf(w, "\n%-24s  %-25s  %s\n", "config", "A", "B")
		for _, c := range r.config {
			fmt.Fprintf(w, "  %-22s  %-25s  %s\n", term.Shorten(c.Name, 22), term.Shorten(cmp.Or(string(c.A), "-"), 25), term.Shorten(cmp.Or(string(c.B), "-"), 27))
		}
	}
	sections := map[pair.Status][]pair.Result{}
	for _, x := range r.results {
		sections[x.Status] = append(sections[x.Status], x)
	}
	left, parts := diffLines, 0
	for _, s := range diffStatuses {
		if s.line != nil && len(sections[s.is]) > 0 {
			parts++
		}
	}
	for _, s := range diffStatuses {
		list := sections[s.is]
		if s.line == nil || len(list) == 0 {
			continue
		}
		slices.SortStableFunc(list, func(a, b pair.Result) int { return cmp.Compare(badness(b), badness(a)) })
		fmt.Fprintln(w)
		title := fmt.Sprintf("%s (%d)", s.title, len(list))
		if s.is == pair.Different || s.is == pair.Close {
			title = fmt.Sprintf(figures, title, "type", "max diff", "mean diff", "cosine")
		}
		fmt.Fprintln(w, title)
		n := len(list)
		if !all {
			n = min(n, max(left/parts, 1)) // what a section does not need, those after it have
		}
		for _, x := range list[:n] {
			s.line(w, x)
		}
		if more := len(list) - n; more > 0 {
			fmt.Fprintf(w, "  and %d more; --all lists them\n", more)
		}
		left, parts = left-n, parts-1
	}
	fmt.Fprintln(w)
	r.types(w, sections[pair.Equal])
	var counts []string
	for _, s := range slices.Backward(diffStatuses) {
		if n := len(sections[s.is]); n > 0 || s.is == pair.Equal {
			counts = append(counts, fmt.Sprintf("%d %s", n, s.title))
		}
	}
	fmt.Fprintln(w, paragraph(plural(len(r.results), "tensor")+": ", strings.Join(counts, ", ")))
	return w.Flush()
}

// types notes tensors that are equal and of other types.
func (r *diffReport) types(w io.Writer, equal []pair.Result) {
	count := map[string]int{}
	for _, x := range equal {
		if a, b := briefType(x.A), briefType(x.B); a != b {
			count[a+" in A and "+b+" in B"]++
		}
	}
	for _, types := range sortedKeys(count) {
		fmt.Fprintf(w, "note: equal values, stored as %s: %d\n", types, count[types])
	}
}

func sortedKeys(m map[string]int) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// figures is a line of a tensor whose values differ, 80 columns at most.
const figures = "%-34s  %-14s %9s %9s  %7s"

func printFigures(w io.Writer, r pair.Result) {
	types := briefType(r.A)
	if b := briefType(r.B); b != types {
		types += " " + b
	}
	name := "  " + term.Shorten(tensorfs.Printable(r.Name), 32)
	d := r.Difference
	if !d.Numbers {
		fmt.Fprintf(w, figures+"\n", name, term.Shorten(types, 14), "-", "-", "-")
		why := "the stored bytes differ"
		if r.Reason != "" {
			why += "; " + r.Reason
		}
		fmt.Fprintln(w, paragraph("    ", tensorfs.OneLine(why)))
		return
	}
	fmt.Fprintf(w, figures+"\n", name, term.Shorten(types, 14), number(d.Max), number(d.Mean), cosine(d.Cosine))
	if d.Odd > 0 {
		fmt.Fprintf(w, "    %d of %d numbers are NaN or infinite in one model only\n", d.Odd, d.Count)
	}
}

func printShapes(w io.Writer, r pair.Result) {
	fmt.Fprintf(w, "%-34s  %s, in B %s\n", "  "+term.Shorten(tensorfs.Printable(r.Name), 32), shape(r.A), shape(r.B))
}

func printOne(w io.Writer, name string, t *tensorfs.Tensor) {
	fmt.Fprintf(w, "%-34s  %-14s %s\n", "  "+term.Shorten(tensorfs.Printable(name), 32), term.Shorten(briefType(t), 14), shape(t))
}

// shape is as in numpy and index.json.
func shape(t *tensorfs.Tensor) string {
	return strings.ReplaceAll(fmt.Sprint(t.Numbers()), " ", ", ")
}

// briefType names what a tensor is stored as in one word.
func briefType(t *tensorfs.Tensor) string {
	switch q := t.Quant; {
	case q != nil && q.Mode == "affine":
		return fmt.Sprintf("affine%d", q.Bits)
	case q != nil && q.GroupSize > 0:
		return q.Mode
	}
	return t.DType.String()
}

// number prints a figure in at most 8 columns, and a sign.
func number(v float64) string { return fmt.Sprintf("%.3g", v) }

func cosine(v float64) string {
	if math.IsNaN(v) {
		return "-"
	}
	return fmt.Sprintf("%.5f", v)
}

// paragraph is a text in lines of 80 columns. The first begins with other words, and
// the others are indented by as much.
func paragraph(first, text string) string {
	indent := strings.Repeat(" ", utf8.RuneCountInString(first))
	return first + strings.Join(term.Wrap(text, term.Columns-len(indent), 0), "\n"+indent)
}
