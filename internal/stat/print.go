package stat

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/cli"
	"github.com/tensorfs/tensorfs/internal/describe"
	"github.com/tensorfs/tensorfs/internal/near"
)

// Print writes the screen of one tensor.
func (r *Row) Print(stdout io.Writer) error {
	w, width := bufio.NewWriter(stdout), cli.Width(stdout)
	row := func(key, format string, args ...any) {
		fmt.Fprintln(w, cli.Paragraph(width, fmt.Sprintf("%-10s", key), fmt.Sprintf(format, args...)))
	}
	named := func(key, name string) { fmt.Fprintf(w, "%-10s%s\n", key, tensorfs.Printable(name)) } // it may have any blanks
	t := r.tensor
	named("tensor", r.name)
	if t.Source != r.name {
		named("source", t.Source)
	}
	if r.asHF {
		row("layout", "as Hugging Face has it")
	}
	row("type", "%s, %s", describe.StoredType(t), cli.Size(t.Data.Size()))
	n, _ := tensorfs.Elements(t.Numbers())
	row("shape", "%s, %s", describe.Shape(t), cli.Plural(n, "number"))
	if t.Factor != "" {
		row("factor", "%s, by which programs, hf/ and mlx/ multiply these numbers", tensorfs.Printable(t.Factor))
	}
	if r.numbers == nil {
		row("numbers", "none: %s", tensorfs.OneLine(r.reason))
		return w.Flush()
	}
	s := r.stats
	if s.Finite > 0 {
		row("min", "%s", r.shortest(s.Min))
		row("max", "%s", r.shortest(s.Max))
		row("mean", "%.6g", s.Mean)
		row("std", "%.6g", s.Std)
	}
	row("zeros", "%d%s", s.Zeros, share(s.Zeros, s.Count))
	row("infinite", "%d%s", s.PosInf+s.NegInf, share(s.PosInf+s.NegInf, s.Count))
	row("NaN", "%d%s", s.NaN, share(s.NaN, s.Count))
	if len(r.first) > 0 {
		var texts []string
		for _, v := range r.first {
			texts = append(texts, r.shortest(v))
		}
		if s.Count > int64(len(texts)) {
			texts = append(texts, "...")
		}
		row("first", "%s", strings.Join(texts, " "))
	}
	if r.bins != nil {
		r.histogram(w, width)
	}
	return w.Flush()
}

// share prints a part of a whole, "" for nothing.
func share(n, of int64) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(" (%.3g %%)", 100*float64(n)/float64(of))
}

// chartLines is how many lines the highest bar has.
const chartLines = 8

// bars are the parts of a line that a bar can fill: none first, all last.
var (
	unicodeBars = []rune(" ▁▂▃▄▅▆▇█")
	asciiBars   = []rune(" .:#")
)

// histogram draws the intervals as columns, several of them as one if the terminal is narrow.
func (r *Row) histogram(w io.Writer, width int) {
	bars := asciiBars
	if cli.UTF8() {
		bars = unicodeBars
	}
	b := r.bins
	counts := addedUp(b.Counts, max(width, cli.Narrowest)-2)
	fmt.Fprintln(w)
	for _, line := range chart(counts, bars) {
		fmt.Fprintln(w, strings.TrimRight("  "+line, " "))
	}
	from, to := fmt.Sprintf("%.4g", b.From), fmt.Sprintf("%.4g", b.To)
	fmt.Fprintf(w, "  %s%*s\n", from, max(len(counts)-len(from), len(to)+1), to)
	if b.Below+b.Above > 0 {
		fmt.Fprintf(w, "  beyond: %d to the left, %d to the right\n", b.Below, b.Above)
	}
}

// addedUp adds up neighbouring counts, so that at most so many are left.
func addedUp(counts []int64, most int) (list []int64) {
	for part := range slices.Chunk(counts, (len(counts)+most-1)/most) {
		sum := int64(0)
		for _, n := range part {
			sum += n
		}
		list = append(list, sum)
	}
	return list
}

// chart draws counts as lines of text, the highest one first. A count that is not
// 0 has a bar.
func chart(counts []int64, bars []rune) (lines []string) {
	highest := max(slices.Max(counts), 1)
	full := len(bars) - 1
	for line := chartLines - 1; line >= 0; line-- {
		var s strings.Builder
		for _, n := range counts {
			height := int(float64(n)/float64(highest)*float64(chartLines*full) + 0.5)
			if n > 0 {
				height = max(height, 1)
			}
			s.WriteRune(bars[min(max(height-line*full, 0), full)])
		}
		lines = append(lines, s.String())
	}
	return lines
}

// Print writes a table of several tensors.
func Print(stdout io.Writer, rows []*Row) error {
	w := bufio.NewWriter(stdout)
	rows = slices.SortedStableFunc(slices.Values(rows), func(a, b *Row) int { return near.Compare(a.name, b.name) })
	t := cli.Table{Right: []bool{2: true, 3: true, 4: true, 5: true}}
	t.Add("tensor", "type", "min", "max", "mean", "std")
	numbers, odd := int64(0), false
	for _, r := range rows {
		cells := [4]string{"-", "-", "-", "-"}
		if s := r.stats; s.Finite > 0 {
			cells = [4]string{cli.Number(s.Min), cli.Number(s.Max), cli.Number(s.Mean), cli.Number(s.Std)}
		}
		numbers += r.stats.Count
		t.Add(tensorfs.Printable(r.name), describe.BriefType(r.tensor), cells[0], cells[1], cells[2], cells[3])
		odd = odd || r.notes() != ""
	}
	t.Print(w, cli.TableWidth(stdout))
	if odd {
		fmt.Fprintln(w)
	}
	for _, r := range rows {
		if note := r.notes(); note != "" {
			fmt.Fprintln(w, cli.Paragraph(cli.Width(stdout), "note: ", fmt.Sprintf("%s: %s", tensorfs.Printable(r.name), note)))
		}
	}
	fmt.Fprintf(w, "\n%s, %s numbers\n", cli.Plural(len(rows), "tensor"), cli.Count(numbers))
	return w.Flush()
}

// notes adds what a line of the table cannot show.
func (r *Row) notes() string {
	if r.numbers == nil {
		return tensorfs.OneLine(r.reason)
	}
	var parts []string
	for _, p := range []struct {
		n    int64
		what string
	}{{r.stats.NaN, "NaN"}, {r.stats.PosInf, "+infinity"}, {r.stats.NegInf, "-infinity"}} {
		if p.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", p.n, p.what))
		}
	}
	return strings.Join(parts, ", ")
}
