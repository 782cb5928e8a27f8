package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats"
	"github.com/tensorfs/tensorfs/internal/cli"
	"github.com/tensorfs/tensorfs/views/tree"
)

type verifyOptions struct {
	modelFlags
	json bool
}

func (s system) verify() *cobra.Command {
	o := &verifyOptions{}
	c := s.command("verify", between(1, maxModels), flags{"json": &o.json}, o.run)
	o.add(s, c)
	return c
}

func (o *verifyOptions) run(cmd *cobra.Command, args []string) error {
	list, notes, several, err := o.targets(args)
	if err != nil {
		return err
	}
	if several {
		ctx, stop := cli.Interruptible(cmd.Context())
		defer stop()
		return o.several(ctx, cmd, list, notes)
	}
	t, notes, err := o.openNoting(args[0])
	if err != nil {
		return err
	}
	defer t.Model.Close()
	ctx, stop := cli.Interruptible(cmd.Context())
	defer stop()
	return o.values(ctx, &verification{tree: t, model: args[0], notes: notes, stdout: cmd.OutOrStdout(), stderr: cmd.ErrOrStderr(), json: o.json})
}

// verification is one run of the command.
type verification struct {
	tree           *tree.Tree
	model          string // as it was asked for
	notes          []string
	stdout, stderr io.Writer
	json           bool
	quiet          bool // lines are kept for the end
}

// openNoting opens the model as a mount by root does, and notes what that leaves
// out. A model that such a mount refuses because of a link is opened nevertheless:
// verify shows its user no more than he may read.
func (o *verifyOptions) openNoting(model string) (t *tree.Tree, notes []string, err error) {
	o.keepInside = true
	t, err = o.open(model)
	if errors.Is(err, formats.ErrLink) {
		notes = append(notes, "a mount by root refuses this model: "+tensorfs.OneLine(err.Error()))
		o.keepInside = false
		t, err = o.open(model)
	}
	if err != nil {
		return nil, nil, err
	}
	return t, append(append([]string{}, notes...), t.Model.Warnings...), nil
}

// values reads all numbers of the model and compares its files with their digests.
func (o *verifyOptions) values(ctx context.Context, v *verification) error {
	r := v.report()
	if err := r.run(ctx, valueJobs(v.tree, o.checked.Tree.Views, r)); err != nil {
		return err
	}
	r.noteUncompared(v.tree.Model)
	return r.end(fmt.Sprintf("%s and %s read", cli.Plural(r.Tensors, "tensor"), cli.Plural(r.Files, "digest")))
}
