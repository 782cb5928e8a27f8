package main

import (
	"io"
	"strings"

	"github.com/tensorfs/tensorfs/formats/architectures"
	"github.com/tensorfs/tensorfs/internal/cli"
)

// classRow is a class in the output of `info --architectures --json`.
type classRow struct {
	Class        string              `json:"class"`
	Architecture string              `json:"architecture,omitempty"`
	Made         map[string]bool     `json:"made"`
	Reasons      map[string][]string `json:"reasons,omitempty"` // by unsupported column
}

// printArchitectures prints the classes of config.json, and the supported conversions of
// their models.
func printArchitectures(w io.Writer, asJSON bool) error {
	if asJSON {
		rows := []classRow{}
		for _, s := range architectures.Support() {
			r := classRow{s.Class, s.Architecture, map[string]bool{}, map[string][]string{}}
			for _, c := range architectures.SupportColumns {
				if g, ok := s.Columns[c]; ok {
					r.Made[c] = g.Made
					if !g.Made {
						r.Reasons[g.Reason] = append(r.Reasons[g.Reason], c)
					}
				}
			}
			rows = append(rows, r)
		}
		return cli.PrintJSON(w, rows)
	}
	t := cli.Table{Right: make([]bool, 3+len(architectures.SupportColumns))}
	t.Add(append(append([]string{"class", "architecture"}, architectures.SupportColumns...), "why not")...)
	for _, s := range architectures.Support() {
		cells := []string{s.Class, s.Architecture}
		for _, c := range architectures.SupportColumns {
			cells = append(cells, mark(&s, c))
		}
		t.Add(append(cells, strings.Join(s.Reasons(), "; "))...)
	}
	t.Print(w, cli.TableWidth(w))
	return nil
}

// mark is a cell of the table: "-" where a class has nothing of the kind.
func mark(s *architectures.Supported, column string) string {
	switch g, ok := s.Columns[column]; {
	case !ok:
		return "-"
	case g.Made:
		return "yes"
	}
	return "no"
}
