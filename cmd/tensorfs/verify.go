package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats"
	"github.com/tensorfs/tensorfs/internal/cli"
	"github.com/tensorfs/tensorfs/internal/verify"
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
	return o.values(ctx, &verify.Verification{Tree: t, Model: args[0], Warnings: notes, Stdout: cmd.OutOrStdout(), Stderr: cmd.ErrOrStderr(), JSON: o.json})
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

// values verifies one model and prints what is found.
func (o *verifyOptions) values(ctx context.Context, v *verify.Verification) error {
	r, err := v.Read(ctx, o.checked.Tree.Views)
	if err != nil {
		return err
	}
	return r.End(fmt.Sprintf("%s and %s read", cli.Plural(r.Tensors, "tensor"), cli.Plural(r.Files, "digest")))
}
