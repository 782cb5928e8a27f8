package main

import (
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/tensorfs/tensorfs/internal/cli"
)

// table is rows of cells in columns as wide as their texts. The first cell of a row is a
// name, which is never shortened: if it is too long for its column, it has a line of its
// own. No row is wider than the terminal, if that can be.
type table struct {
	right  []bool // by column: numbers are on the right of theirs
	widest int    // of a column; a longer text moves what follows. 0: as wide as it takes
	rows   []tableRow
}

// tableRow is a row, and the lines that follow it. The first row is the head.
type tableRow struct {
	cells []string
	below []string
}

func (t *table) add(cells ...string) { t.rows = append(t.rows, tableRow{cells: cells}) }

// tableWidth is how wide tables may be that are written to w. Programs that read them
// get a line for each row, however long.
func tableWidth(w io.Writer) int {
	if cli.IsTerminal(w) {
		return cli.Width(w)
	}
	return math.MaxInt
}

const (
	// narrowestName is the least that the column of names takes beside others.
	narrowestName = 16
	columnGap     = 2
)

// print writes the table in lines of at most width columns.
func (t *table) print(w io.Writer, width int) {
	widths := make([]int, len(t.right))
	for _, r := range t.rows {
		for k, text := range r.cells {
			n := cli.Cells(text)
			if t.widest > 0 {
				n = min(n, t.widest)
			}
			widths[k] = max(widths[k], n)
		}
	}
	if len(t.rows) == 0 {
		return
	}
	others := 0
	for _, n := range widths[1:] {
		others += columnGap + n
	}
	if widths[0] = min(widths[0], max(width-others, narrowestName)); widths[0]+others > width {
		widths[0] = 0 // all names have lines of their own
	}
	name := t.rows[len(t.rows)-1].cells[0]
	indent := len(name) - len(strings.TrimLeft(name, " "))
	widths[0] = max(widths[0], indent)
	for _, r := range t.rows {
		t.row(w, r.cells, widths, indent, width)
		for _, line := range r.below {
			fmt.Fprintln(w, line)
		}
	}
}

// row writes a row, broken between cells where it does not fit.
func (t *table) row(w io.Writer, cells []string, widths []int, indent, width int) {
	var line strings.Builder
	length := 0 // in columns
	put := func(text string) {
		line.WriteString(text)
		length += cli.Cells(text)
	}
	end := func() {
		fmt.Fprintln(w, strings.TrimRight(line.String(), " "))
		line.Reset()
		length = 0
	}
	if t.right[0] {
		put(strings.Repeat(" ", max(widths[0]-cli.Cells(cells[0]), 0)))
	}
	put(cells[0])
	if len(cells) > 1 && length > widths[0] {
		end()
	}
	at := widths[0] // where the column before ends
	for k, text := range cells[1:] {
		n := widths[k+1]
		if at > indent && at+columnGap+n > width {
			end()
			at = indent
		}
		pad := at + columnGap - length
		if t.right[k+1] {
			pad += n - cli.Cells(text)
		}
		put(strings.Repeat(" ", max(pad, columnGap)) + text)
		at += columnGap + n
	}
	end()
}

// size prints bytes with a unit of powers of 1024.
func size(n int64) string {
	if n < 1024 {
		return fmt.Sprintf("%d B", n)
	}
	f, unit := float64(n)/1024, 0
	for f >= 1024 && unit < 3 {
		f, unit = f/1024, unit+1
	}
	return fmt.Sprintf("%.1f %ciB", f, "KMGT"[unit])
}
