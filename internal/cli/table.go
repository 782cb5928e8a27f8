package cli

import (
	"fmt"
	"io"
	"math"
	"strings"
)

// Table is rows of cells in columns as wide as their texts. The first cell of a row is
// a name, which is never shortened: if it is too long for its column, it gets a line
// of its own. No row is wider than the terminal, unless a name is.
type Table struct {
	Right    []bool // by column: numbers are on the right of theirs
	NameLast bool   // the name is the last cell, not the first
	Spare    []int  // columns that are left out, in this order, if rows take a second line below the name
	Widest   int    // of a column; a longer text moves what follows. 0: as wide as it takes
	Rows     []TableRow
}

// TableRow is a row, and the lines that follow it. A table's first row is its head.
type TableRow struct {
	Cells []string
	Below []string
}

// Add adds a row of cells.
func (t *Table) Add(cells ...string) { t.Rows = append(t.Rows, TableRow{Cells: cells}) }

// TableWidth is how wide tables may be that are written to w. Programs that read them
// get a line for each row, however long.
func TableWidth(w io.Writer) int {
	if IsTerminal(w) {
		return Width(w)
	}
	return math.MaxInt
}

const (
	// narrowestName is the least that the column of names takes beside others.
	narrowestName = 16
	columnGap     = 2
	// leftOut is the width of a column of Table.Spare that is not printed.
	leftOut = -1
)

// Print writes the table in lines of at most width columns.
func (t *Table) Print(w io.Writer, width int) {
	widths := make([]int, len(t.Right))
	for _, r := range t.Rows {
		for k, text := range r.Cells {
			n := Cells(text)
			if t.Widest > 0 {
				n = min(n, t.Widest)
			}
			widths[k] = max(widths[k], n)
		}
	}
	if len(t.Rows) == 0 {
		return
	}
	indent := 0
	if !t.NameLast {
		others := 0
		for _, n := range widths[1:] {
			others += columnGap + n
		}
		for _, k := range t.Spare {
			if others <= width {
				break
			}
			others -= columnGap + widths[k]
			widths[k] = leftOut
		}
		if widths[0] = min(widths[0], max(width-others, narrowestName)); widths[0]+others > width {
			widths[0] = 0 // all names have lines of their own
		}
		name := t.Rows[len(t.Rows)-1].Cells[0]
		indent = len(name) - len(strings.TrimLeft(name, " "))
		widths[0] = max(widths[0], indent)
	}
	for _, r := range t.Rows {
		t.row(w, r.Cells, widths, indent, width)
		for _, line := range r.Below {
			fmt.Fprintln(w, line)
		}
	}
}

// row writes a row, broken between cells where it does not fit.
func (t *Table) row(w io.Writer, cells []string, widths []int, indent, width int) {
	var line strings.Builder
	length := 0 // in columns
	put := func(text string) {
		line.WriteString(text)
		length += Cells(text)
	}
	end := func() {
		fmt.Fprintln(w, strings.TrimRight(line.String(), " "))
		line.Reset()
		length = 0
	}
	if t.Right[0] {
		put(strings.Repeat(" ", max(widths[0]-Cells(cells[0]), 0)))
	}
	put(cells[0])
	if len(cells) > 1 && length > widths[0] {
		end()
	}
	at := widths[0] // where the column before ends
	for k, text := range cells[1:] {
		if widths[k+1] == leftOut {
			continue
		}
		n, last := widths[k+1], k+2 == len(widths) && !t.Right[k+1]
		if last {
			n = Cells(text)
		}
		if at > indent && max(at, length)+columnGap+n > width {
			end()
			at = indent
		}
		pad := at + columnGap - length
		if t.Right[k+1] {
			pad += n - Cells(text)
		}
		pad = max(pad, columnGap)
		if last && !t.NameLast {
			text = Fold(text, width-pad, strings.Repeat(" ", pad))
		}
		put(strings.Repeat(" ", pad) + text)
		at += columnGap + n
	}
	end()
}

// Size prints bytes with a unit of powers of 1024.
func Size(n int64) string {
	if n < 1024 {
		return fmt.Sprintf("%d B", n)
	}
	f, unit := float64(n)/1024, 0
	for f >= 1024 && unit < 3 {
		f, unit = f/1024, unit+1
	}
	return fmt.Sprintf("%.1f %ciB", f, "KMGT"[unit])
}
