package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"github.com/tensorfs/tensorfs/internal/cli"
	"github.com/tensorfs/tensorfs/internal/compare"
	"github.com/tensorfs/tensorfs/internal/diff"
)

type diffOptions struct {
	modelFlags
	json, all bool
	tolerance float64
	opened    func() // called with both models open; nil but for tests
}

func (s system) diff() *cobra.Command {
	o := &diffOptions{}
	c := s.command("diff", between(2, 3), flags{"json": &o.json, "all": &o.all, "tolerance": &o.tolerance}, o.run)
	o.addReading(s, c)
	return c
}

// run compares, and returns an error that determines the exit status.
func (o *diffOptions) run(cmd *cobra.Command, args []string) error {
	if cmd.Flags().Changed("tolerance") && !(o.tolerance > 0 && o.tolerance <= 1) {
		return cli.UsageError{Err: fmt.Errorf("--tolerance %v: want a number above 0 and at most 1", o.tolerance)}
	}
	glob := append(args[2:], "*")[0]
	if _, err := cli.MatchGlob(glob, ""); err != nil {
		return cli.UsageError{Err: err}
	}
	if a, b := pipelineOf(args[0]), pipelineOf(args[1]); a != nil && b != nil {
		return o.parts(cmd, a, b, glob)
	}
	r, err := o.compare(cmd.Context(), cmd.ErrOrStderr(), args[0], args[1], glob)
	if err == nil && o.json {
		err = cli.PrintJSON(cmd.OutOrStdout(), r.JSON())
	} else if err == nil {
		err = cli.IgnorePipe(r.Print(cmd.OutOrStdout(), o.all))
	}
	return outcome(err, err != nil || r.Equal())
}

// outcome returns the error that determines the exit status.
func outcome(err error, equal bool) error {
	switch {
	case cli.IsA[cli.UsageError](err):
		return err
	case err != nil:
		return cli.TroubleError{Err: err}
	case !equal:
		return cli.Reported{Err: errors.New("the models differ")}
	}
	return nil
}

// compare opens both models and compares them. They are closed when it returns.
func (o *diffOptions) compare(ctx context.Context, stderr io.Writer, a, b, glob string) (*diff.Report, error) {
	x, err := o.openPlain(a) // adapters are for the second model
	if err != nil {
		return nil, err
	}
	defer x.Model.Close()
	y, err := o.open(b)
	if err != nil {
		return nil, err
	}
	defer y.Model.Close()
	if o.opened != nil {
		o.opened()
	}
	return diff.Compare(ctx, stderr, x, y, a, b, glob, compare.Options{A: o.checked.Tree.Views, B: o.checked.Tree.Views, Tolerance: o.tolerance})
}
