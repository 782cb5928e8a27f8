package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats"
	"github.com/tensorfs/tensorfs/views/tree"
)

type verifyOptions struct {
	modelFlags
	json            bool
	manifest, check optionalFile
	in              wordList
}

func (s system) verify() *cobra.Command {
	o := &verifyOptions{}
	c := s.command("verify", o.arguments, flags{"json": &o.json, "manifest": &o.manifest, "check": &o.check, "in": &o.in}, o.run)
	o.add(s, c)
	return c
}

// optionalFile is the value of a flag that names a file, or, where nothing else
// follows it on the command line, the model.
type optionalFile struct{ file, model string }

// String returns the file.
func (f *optionalFile) String() string { return f.file }

// Type names the value in help texts.
func (f *optionalFile) Type() string { return "FILE" }

// Set takes the file. An option in its place means that it was forgotten.
func (f *optionalFile) Set(s string) error {
	switch {
	case s == "":
		return errors.New("the name is empty")
	case len(s) > 1 && s[0] == '-':
		return fmt.Errorf("want a FILE and not an option; write ./%s if the file has that name", s)
	}
	f.file = s
	return nil
}

// arguments takes "--manifest MODEL" for a list on standard output: pflag has taken
// the model for the file then.
func (o *verifyOptions) arguments(_ *cobra.Command, args []string) error {
	if o.manifest.file != "" && len(args) == 0 {
		o.manifest = optionalFile{file: "-", model: o.manifest.file}
		args = []string{o.manifest.model}
	}
	switch list := o.manifest.file != "" || o.check.file != ""; {
	case o.check.file != "" && len(args) == 0:
		return errors.New("--check takes a FILE before the MODEL")
	case list && len(args) > 1:
		return errors.New("too many arguments: --manifest and --check are for one model")
	case len(args) == 0 || len(args) > maxModels:
		return between(1, maxModels)(nil, args)
	case o.in != nil && !list:
		return errors.New("--in says what a list is of; add --manifest or --check")
	}
	return nil
}

func (o *verifyOptions) run(cmd *cobra.Command, args []string) error {
	if o.manifest.file == "" && o.check.file == "" {
		list, notes, several, err := o.targets(args)
		if err != nil {
			return err
		}
		if several {
			ctx, stop := interruptible(cmd.Context())
			defer stop()
			return o.several(ctx, cmd, list, notes)
		}
	}
	model := append(args, o.manifest.model)[0]
	work := o.values
	switch {
	case o.manifest.file != "":
		work = o.writeList
	case o.check.file != "":
		work = o.checkList
	}
	t, notes, err := o.openNoting(model)
	if err != nil {
		return err
	}
	defer t.Model.Close()
	ctx, stop := interruptible(cmd.Context())
	defer stop()
	v := &verification{tree: t, model: model, notes: notes, stdin: cmd.InOrStdin(), stdout: cmd.OutOrStdout(), stderr: cmd.ErrOrStderr(), json: o.json}
	return work(ctx, v)
}

// verification is one run of the command.
type verification struct {
	tree           *tree.Tree
	model          string // as it was asked for
	notes          []string
	stdin          io.Reader
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
	return r.end(fmt.Sprintf("%s and %s read", plural(r.Tensors, "tensor"), plural(r.Files, "digest")))
}
