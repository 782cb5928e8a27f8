package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats"
	"github.com/tensorfs/tensorfs/formats/library"
	"github.com/tensorfs/tensorfs/internal/cli"
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
	stdout := cmd.OutOrStdout()
	painter := cli.PainterOf(stdout)
	all := []verifiedModel{}
	sound, found, failed := 0, 0, 0
	for _, note := range notes {
		if !o.json {
			if _, err := fmt.Fprintln(stdout, cli.Folded(stdout, "note: "+tensorfs.OneLine(note))); err != nil {
				return err
			}
		}
	}
	for i, target := range list {
		if ctx.Err() != nil {
			return fmt.Errorf("interrupted after %d of %s", i, cli.Plural(len(list), "model"))
		}
		r, err := o.verifyOne(ctx, cmd, target)
		if err != nil && ctx.Err() != nil {
			return fmt.Errorf("interrupted after %d of %s; %w", i, cli.Plural(len(list), "model"), err)
		}
		name := cli.PrintableName(target.name)
		one := verifiedModel{Model: name}
		var lines []string
		switch {
		case err != nil:
			failed++
			one.Error = cli.ErrorLine(err, nil)
			lines = []string{fmt.Sprintf("%s: %s: %s", name, painter.Paint(cli.Warning, "not verified"), strings.TrimPrefix(one.Error, name+": "))}
		case len(r.Findings) > 0:
			found++
			one.Report = &r.Report
			lines = append([]string{fmt.Sprintf("%s: %s; %s", name, painter.Paint(cli.Bad, cli.Plural(len(r.Findings), "finding")), r.Advice())}, r.Lines...)
		default:
			sound++
			one.Report = &r.Report
			lines = []string{fmt.Sprintf("%s: %s, %s and %s read, %s", name, painter.Paint(cli.Good, "ok"), cli.Plural(r.Tensors, "tensor"), cli.Plural(r.Files, "digest"), cli.Size(r.Bytes))}
		}
		all = append(all, one)
		if o.json {
			continue
		}
		for _, line := range lines {
			if _, err := fmt.Fprintln(stdout, cli.Folded(stdout, line)); err != nil {
				return err
			}
		}
	}
	if o.json {
		if err := cli.PrintJSON(stdout, all); err != nil {
			return err
		}
	} else if _, err := fmt.Fprintln(stdout, cli.Folded(stdout, fmt.Sprintf("%s: %d ok, %d with findings, %d not verified", cli.Plural(len(list), "model"), sound, found, failed))); err != nil {
		return err
	}
	if found+failed > 0 {
		return cli.Reported{Err: errors.New("not all models are sound")}
	}
	return nil
}

// verifyOne verifies one of several models and returns what was found.
func (o *verifyOptions) verifyOne(ctx context.Context, cmd *cobra.Command, target verifyTarget) (r *verify.Reporter, err error) {
	defer rescue.To(&err, cli.PrintableName(target.name))
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
