package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/tensorfs/tensorfs/internal/cli"
	"github.com/tensorfs/tensorfs/internal/conceal"
)

// modelOutcome is what a command found out about one of several models, or did to it.
type modelOutcome struct {
	row   any      // in the list that --json prints
	lines []string // for people
	kind  int      // the index of its count in the summary
}

// maxKinds is how many kinds of outcomes a command has at most.
const maxKinds = 3

// eachModel runs a command for n models, one after another, and prints a line or more for each, and a summary. An error of do ends it only
// if the command is interrupted.
func eachModel(ctx context.Context, stdout io.Writer, asJSON bool, n int, do func(i int) (modelOutcome, error), summary func(counts [maxKinds]int) string) (counts [maxKinds]int, err error) {
	rows := []any{}
	for i := range n {
		o, err := do(i)
		if ctx.Err() != nil {
			err = fmt.Errorf("interrupted after %d of %s; %w", i, cli.Plural(n, "model"), err)
		}
		if err != nil {
			return counts, err
		}
		counts[o.kind]++
		rows = append(rows, o.row)
		if !asJSON {
			if err := printLines(stdout, o.lines); err != nil {
				return counts, err
			}
		}
	}
	if asJSON {
		return counts, cli.PrintJSON(stdout, rows)
	}
	return counts, printLines(stdout, []string{cli.Plural(n, "model") + ": " + summary(counts)})
}

// printLines prints lines for people.
func printLines(stdout io.Writer, lines []string) error {
	for _, line := range lines {
		if _, err := fmt.Fprintln(stdout, cli.Folded(stdout, line)); err != nil {
			return err
		}
	}
	return nil
}

// modelFailed returns the text of an error about one of several models, and the line about it. ending is how the command ended.
func modelFailed(name string, err error, ending string) (text, line string) {
	text, name = cli.ErrorLine(err, nil), conceal.Printable(name)
	return text, fmt.Sprintf("%s: %s: %s", name, ending, strings.TrimPrefix(text, name+": "))
}
