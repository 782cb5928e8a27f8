package deps

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestGuaranteesAreTested holds that every test which docs/guarantees.md names
// exists.
func TestGuaranteesAreTested(t *testing.T) {
	root := filepath.Join("..", "..")
	have := map[string]bool{}
	for _, dir := range packages(t, root) {
		files, err := filepath.Glob(filepath.Join(root, dir, "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			b, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`).FindAllSubmatch(b, -1) {
				have[string(m[1])] = true
			}
		}
	}
	doc, err := os.ReadFile(filepath.Join(root, "docs", "guarantees.md"))
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile(`\b(?:Test|Fuzz)[A-Z]\w+`).FindAllString(string(doc), -1)
	if len(named) < 30 {
		t.Errorf("only %d tests are named", len(named))
	}
	for _, name := range named {
		if !have[name] {
			t.Errorf("there is no test %s", name)
		}
	}
}

// TestReadmeFigures holds that each row of figures in README.md has the figures of one row
// of BENCHMARKS.md, by unit, so that a new measurement reaches both.
func TestReadmeFigures(t *testing.T) {
	read := func(name string) string {
		b, err := os.ReadFile(filepath.Join("..", "..", name))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	var measured []map[string]bool // the cells of each row
	for line := range strings.Lines(read("BENCHMARKS.md")) {
		cells := map[string]bool{}
		for cell := range strings.SplitSeq(line, "|") {
			cells[strings.TrimSpace(cell)] = true
		}
		measured = append(measured, cells)
	}
	_, table, ok := strings.Cut(read("README.md"), "| with tensorfs | without |\n|---|---|---|\n")
	if !ok {
		t.Fatal("README.md has no table of figures")
	}
	table, _, _ = strings.Cut(table, "\n\n")
	figures := 0
	for row := range strings.SplitSeq(table, "\n") {
		for _, unit := range []string{"s", "MB"} {
			var want []string
			for _, m := range regexp.MustCompile(`([\d.]+) (\w+)`).FindAllStringSubmatch(row, -1) {
				if m[2] == unit {
					want = append(want, m[1])
				}
			}
			figures += len(want)
			if !slices.ContainsFunc(measured, func(cells map[string]bool) bool {
				return !slices.ContainsFunc(want, func(figure string) bool { return !cells[figure] })
			}) {
				t.Errorf("no row of BENCHMARKS.md has the figures %q of: %s", want, row)
			}
		}
	}
	if figures < 6 {
		t.Errorf("only %d figures", figures)
	}
}
