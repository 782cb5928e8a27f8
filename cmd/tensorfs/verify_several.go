package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats"
	"github.com/tensorfs/tensorfs/formats/library"
	"github.com/tensorfs/tensorfs/internal/cli"
	"github.com/tensorfs/tensorfs/internal/conceal"
	"github.com/tensorfs/tensorfs/internal/rescue"
	"github.com/tensorfs/tensorfs/internal/source"
	"github.com/tensorfs/tensorfs/internal/verify"
	"github.com/tensorfs/tensorfs/views/tree"
)

// verifyTarget is a model that verify was asked for, perhaps as one of a library.
type verifyTarget struct {
	name   string
	listed *library.Model // nil if it has a name of its own
}

// verifiedModel is a model in the output of --json for several models.
type verifiedModel struct {
	Model string `json:"model"`
	Error string `json:"error,omitempty"` // why it was not verified
	*verify.Report
}

// targets returns the models that arguments name. several means that there may be more than
// one: each is reported in a line then.
func (o *verifyOptions) targets(args []string) (list []verifyTarget, notes []string, several bool, err error) {
	for _, arg := range args {
		if !isLibrary(arg) {
			list = append(list, verifyTarget{name: arg})
			continue
		}
		l, err := library.Open(arg, library.Options{Skip: isOurs})
		if err != nil {
			return nil, nil, false, err
		}
		now := l.Now()
		if len(now.Models) == 0 && !slices.Contains(library.Stores, arg) { // opening it as a model reports what it is
			list = append(list, verifyTarget{name: arg})
			continue
		}
		several = true
		for _, m := range now.Models {
			list = append(list, verifyTarget{m.Call, m})
		}
		notes = append(notes, now.Warnings...)
		if len(now.Models) == 0 {
			notes = append(notes, "no models in "+tensorfs.Printable(arg))
		}
	}
	return list, notes, several || len(args) > 1, nil
}

// isLibrary reports whether an argument names a store, or a folder of several models.
func isLibrary(name string) bool {
	if slices.Contains(library.Stores, name) {
		return true
	}
	return !formats.IsName(name) && source.HasDir(name) && !library.Single(name, library.Options{Skip: isOurs})
}

// several verifies models one after another. One that cannot be opened, or has findings, does not end it.
func (o *verifyOptions) several(ctx context.Context, cmd *cobra.Command, list []verifyTarget, notes []string) error {
	stdout, painter := cmd.OutOrStdout(), cli.PainterOf(cmd.OutOrStdout())
	if !o.json {
		for i, note := range notes {
			notes[i] = "note: " + tensorfs.OneLine(note)
		}
		if err := printLines(stdout, notes); err != nil {
			return err
		}
	}
	const sound, found, failed = 0, 1, 2
	counts, err := eachModel(ctx, stdout, o.json, len(list), func(i int) (modelOutcome, error) {
		if ctx.Err() != nil {
			return modelOutcome{}, errors.New("the same command begins again")
		}
		r, err := o.verifyOne(ctx, cmd, list[i])
		if err != nil && ctx.Err() != nil {
			return modelOutcome{}, err
		}
		name := conceal.Printable(list[i].name)
		row := verifiedModel{Model: name}
		if err != nil {
			var line string
			row.Error, line = modelFailed(list[i].name, err, painter.Paint(cli.Warning, "not verified"))
			return modelOutcome{row, []string{line}, failed}, nil
		}
		row.Report = &r.Report
		if len(r.Findings) > 0 {
			line := fmt.Sprintf("%s: %s; %s", name, painter.Paint(cli.Bad, cli.Plural(len(r.Findings), "finding")), r.Advice())
			return modelOutcome{row, append([]string{line}, r.Lines...), found}, nil
		}
		line := fmt.Sprintf("%s: %s, %s and %s read, %s", name, painter.Paint(cli.Good, "ok"), cli.Plural(r.Tensors, "tensor"), cli.Plural(r.Files, "digest"), cli.Size(r.Bytes))
		return modelOutcome{row, []string{line}, sound}, nil
	}, func(n [maxKinds]int) string {
		return fmt.Sprintf("%d ok, %d with findings, %d not verified", n[sound], n[found], n[failed])
	})
	if err == nil && counts[found]+counts[failed] > 0 {
		return cli.Reported{Err: errors.New("not all models are sound")}
	}
	return err
}

// verifyOne verifies one of several models and returns what was found.
func (o *verifyOptions) verifyOne(ctx context.Context, cmd *cobra.Command, target verifyTarget) (r *verify.Reporter, err error) {
	defer rescue.To(&err, conceal.Printable(target.name))
	var t *tree.Tree
	var notes []string
	if target.listed == nil {
		t, notes, err = o.openNoting(target.name)
	} else { // never from elsewhere
		o.keepInside = true
		t, err = o.openListed(target.listed)
	}
	if err != nil {
		return nil, err
	}
	defer t.Model.Close()
	v := &verify.Verification{Tree: t, Model: target.name, Warnings: append([]string{}, notes...), Stdout: cmd.OutOrStdout(), Stderr: cmd.ErrOrStderr(), Quiet: true}
	return v.Read(ctx, o.checked.Tree.Views)
}
