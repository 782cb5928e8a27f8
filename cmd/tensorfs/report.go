package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	iofs "io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/cli"
	"github.com/tensorfs/tensorfs/internal/compare"
	"github.com/tensorfs/tensorfs/internal/conceal"
	"github.com/tensorfs/tensorfs/internal/describe"
	"github.com/tensorfs/tensorfs/internal/diff"
	"github.com/tensorfs/tensorfs/internal/report"
	"github.com/tensorfs/tensorfs/internal/verify"
	"github.com/tensorfs/tensorfs/views/tree"
)

type reportOptions struct {
	modelFlags
	json, force bool
	output      string
}

func (s system) report() *cobra.Command {
	o := &reportOptions{}
	c := s.command("report", between(1, 2), flags{"json": &o.json, "output": &o.output, "force": &o.force}, o.run)
	o.addReading(s, c)
	return c
}

// toStdout is the output that is standard output.
const toStdout = "-"

func (o *reportOptions) run(cmd *cobra.Command, args []string) error {
	stdout := cmd.OutOrStdout()
	if o.json && o.output == "" {
		o.output = toStdout
	}
	t, err := o.open(args[0])
	if err != nil {
		return err
	}
	defer t.Model.Close()
	var other *tree.Tree
	if len(args) > 1 {
		if other, err = o.open(args[1]); err != nil {
			if errors.Is(err, iofs.ErrNotExist) && (strings.HasSuffix(args[1], ".html") || strings.HasSuffix(args[1], ".json")) {
				return cli.UsageError{Err: fmt.Errorf("%s is not a model; -o %s names the file of the report", conceal.Printable(args[1]), conceal.Printable(args[1]))}
			}
			return err
		}
		defer other.Model.Close()
	}
	name := o.output
	if name == "" {
		name = safeBase(describe.NameOf(t.Model, conceal.Name(args[0]))) + ".report.html"
	}
	if name == toStdout && !o.json && cli.IsTerminal(stdout) {
		return errors.New("the report is a page, and this is a terminal; name a file with -o, or leave -o out")
	}
	if _, err := os.Lstat(name); name != toStdout && !o.force && err == nil {
		return fmt.Errorf("%s exists; --force replaces it, -o names another file", tensorfs.Printable(name))
	}
	r, err := o.make(cmd, args, t, other)
	if err != nil {
		return err
	}
	title := "Weights of " + describe.NameOf(t.Model, conceal.Name(args[0]))
	if other != nil {
		title += ", and " + describe.NameOf(other.Model, conceal.Name(args[1]))
	}
	write := func(w io.Writer) error { return r.WritePage(w, title) }
	if o.json {
		write = func(w io.Writer) error { return cli.PrintJSON(w, r) }
	}
	if name == toStdout {
		return cli.IgnorePipe(write(stdout))
	}
	if err := writeWhole(name, write); err != nil {
		return err
	}
	_, err = fmt.Fprintln(stdout, tensorfs.Printable(name))
	return err
}

// safeBase turns a name into a file name in the working directory.
func safeBase(name string) string {
	name = strings.Map(func(r rune) rune {
		if r <= ' ' || strings.ContainsRune(`/\:*?"<>|`, r) || r == 0x7f {
			return '-'
		}
		return r
	}, name)
	if name = strings.TrimLeft(name, ".-"); name == "" || len(name) > 100 {
		return "model"
	}
	return name
}

// writeWhole writes a file that is either all there or as it was. One that was there keeps who may read it.
func writeWhole(name string, write func(io.Writer) error) error {
	f, err := os.OpenFile(filepath.Join(filepath.Dir(name), ".tensorfs-"+rand.Text()), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		dir := filepath.Dir(name)
		if errors.Is(err, iofs.ErrNotExist) && !isPath(dir) {
			return fmt.Errorf("%s: there is no directory %s; mkdir -p %s makes it", tensorfs.Printable(name), tensorfs.Printable(dir), tensorfs.Printable(dir))
		}
		return tensorfs.NoDirectory(dir, cli.SystemError(err))
	}
	defer os.Remove(f.Name())
	if st, serr := os.Stat(name); serr == nil && st.Mode().IsRegular() {
		err = f.Chmod(st.Mode().Perm())
	}
	if err == nil {
		err = write(f)
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), name); err != nil {
		return fmt.Errorf("%s: %w", tensorfs.Printable(name), cli.SystemError(err))
	}
	return nil
}

// make looks at the tensors, with progress.
func (o *reportOptions) make(cmd *cobra.Command, args []string, t, other *tree.Tree) (*report.Report, error) {
	ctx, stop := cli.Interruptible(cmd.Context())
	defer stop()
	named := conceal.Printable(args[0])
	models := []*tensorfs.Model{t.Model}
	if other != nil {
		named += " and " + conceal.Printable(args[1])
		models = append(models, other.Model)
	}
	var progress *cli.ProgressBar
	r, err := o.look(ctx, t, other, func(total int64) func(int64) {
		progress = cli.ProgressLater(cmd.ErrOrStderr(), "report", total)
		return progress.Add
	})
	if err := verify.FinishRead(ctx, progress, err, named, "tensors", models...); err != nil {
		return nil, err
	}
	r.Model = conceal.Name(args[0])
	r.Metadata, _ = describe.Metadata(t.Model, "*") // which is a glob
	r.Facts = append(r.Facts, factsOf(t, conceal.Name(args[0])))
	if other != nil {
		r.Other = conceal.Name(args[1])
		r.Facts = append(r.Facts, "against "+factsOf(other, conceal.Name(args[1])))
	}
	return r, nil
}

// factsOf is a model in a line.
func factsOf(t *tree.Tree, named string) string {
	info := describe.Model(t.Model, named)
	parts := []string{info.Format, info.Architecture}
	if info.Parameters != nil {
		parts = append(parts, cli.Count(*info.Parameters)+" parameters")
	}
	parts = append(parts, fmt.Sprintf("%d tensors", info.Tensors), cli.Size(info.Bytes))
	if info.Quant != "" {
		parts = append(parts, info.Quant)
	}
	return named + ": " + strings.Join(parts, ", ")
}

// look measures the tensors of a model, and compares them with another model's.
func (o *reportOptions) look(ctx context.Context, t, other *tree.Tree, progress func(total int64) func(int64)) (*report.Report, error) {
	var list []report.Tensor
	total := int64(0)
	add := func(x *tensorfs.Tensor, name string) *report.Tensor {
		n := report.Tensor{Name: name, Type: describe.BriefType(x), Shape: x.Numbers()}
		d, err := o.checked.Tree.Views.Encode(x, tensorfs.F32)
		if err != nil {
			n.Why = tensorfs.OneLine(err.Error())
		} else {
			n.Data = d
			total += 2 * d.Size()
		}
		list = append(list, n)
		return &list[len(list)-1]
	}
	if other == nil {
		for i := range t.Model.Tensors {
			if x := &t.Model.Tensors[i]; x.Owner == "" {
				add(x, x.Weight())
			}
		}
		return report.Make(ctx, list, progress(total))
	}
	models := compare.Of(t.Model, other.Model)
	results, err := compare.Compare(ctx, models.Pairs, compare.Options{A: o.checked.Tree.Views, B: o.checked.Tree.Views, Progress: progress})
	if err != nil {
		return nil, err
	}
	for i := range results {
		x := &results[i]
		first := x.A
		if first == nil {
			first = x.B
		}
		n := add(first, x.Name)
		n.Compared, n.OnlyThis, n.OnlyOther = true, x.Status == compare.OnlyA, x.Status == compare.OnlyB
		if x.Status == compare.Equal || x.Status == compare.Close || x.Status == compare.Different {
			n.Changed = &x.Difference
			n.Other = diff.Encoded(x.B, o.checked.Tree.Views)
		}
	}
	return report.Make(ctx, list, progress(total))
}
