package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats"
	"github.com/tensorfs/tensorfs/views/tree"
)

type verifyOptions struct {
	modelFlags
	json            bool
	manifest, check optionalFile
	in              []string
}

func verifyCommand() *cobra.Command {
	o := &verifyOptions{}
	c := &cobra.Command{
		Use:   "verify [flags] [--manifest [FILE] | --check FILE] MODEL",
		Short: "Read everything and report what is wrong",
		Long: `verify opens MODEL with all checks of its format, and then reads all of it. It
compares files with the digests that a store or a download noted for them
(Ollama, the Hugging Face cache, hf download --local-dir), and reads every
stored byte and every number that can be decoded. It reports NaN and infinity
for each tensor as soon as it finds them, and exits 1 if it found anything.

A download that reserves its space and ends early leaves zeros. So a weight or a
norm that is 0 throughout is a finding, and a hole of 1 MiB or more under a
tensor, which is space that was never written. Where the file's digest is known
that decides, and these are notes. They are notes too for tables of positions
and of token types, for the B of a LoRA and for norms that are stored without
the one that they add. Biases may be 0.

Two kinds of lines are not findings. An overflow says that finite numbers of a
tensor are too large for half precision and therefore infinite in f16/. Such a
model is sound, and f32/ and bf16/ have its numbers. A note is a warning about
the model, names symbolic links that a mount by root would refuse, or says that
no digest of the weights is known, so that nothing was compared, and how to get
one.

With --manifest verify only writes a list of SHA-256 digests to FILE (to
standard output without FILE, or if FILE is -). The list is of raw/, or of the
directories of the tree that --in names. It has the form of sha256sum: in a
mount of the model, sha256sum -c FILE checks it. FILE appears when the list is
complete.

With --check verify only compares the model with such a list, whoever wrote it
(- is standard input). It reports files that differ, files of the list that the
model does not have, and files in the directories of the list that the list does
not have. With --in only these directories are compared.

Ctrl-C ends verify with one line that says how far it got. What it found until
then has been printed.`,
		Example: `  tensorfs verify hf:Qwen/Qwen3-4B
  tensorfs verify --manifest model.sha256 model.gguf
  tensorfs verify --check model.sha256 /elsewhere/model.gguf
  tensorfs verify --manifest --in raw,f16 model.gguf | sort -k 2`,
		Args: o.arguments,
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.run(cmd.Context(), cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr(), append(args, o.manifest.model)[0])
		},
	}
	c.Flags().BoolVar(&o.json, "json", false, "print a JSON object: files, tensors, bytes, findings, overflows, notes, complete")
	c.Flags().Var(&o.manifest, "manifest", "write a list of SHA-256 digests as sha256sum does")
	c.Flags().Var(&o.check, "check", "compare with such a list")
	c.Flags().StringSliceVar(&o.in, "in", nil, "the directories `DIR,...` of the tree to list or to compare (default: raw, or those that the list names)")
	o.add(c)
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
	case len(args) != 1:
		return between(1, 1)(nil, args)
	case o.manifest.file != "" && o.check.file != "":
		return errors.New("--manifest and --check exclude each other")
	case o.manifest.file != "" && o.json:
		return errors.New("--manifest and --json exclude each other")
	case o.in != nil && !list:
		return errors.New("--in says what a list is of; add --manifest or --check")
	}
	return nil
}

func (o *verifyOptions) run(ctx context.Context, stdin io.Reader, stdout, stderr io.Writer, model string) error {
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
	ctx, stop := interruptible(ctx)
	defer stop()
	v := &verification{tree: t, model: model, notes: notes, stdin: stdin, stdout: stdout, stderr: stderr, json: o.json}
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
	if err := r.run(ctx, valueJobs(v.tree, o.tree.Views, r)); err != nil {
		return err
	}
	r.noteUncompared(v.tree.Model)
	return r.end(fmt.Sprintf("%s and %s read", plural(r.Tensors, "tensor"), plural(r.Files, "digest")))
}

// joinWords makes a list of names for a sentence.
func joinWords(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " and " + words[last]
}
