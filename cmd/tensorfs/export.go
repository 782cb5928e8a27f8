package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/cli"
	"github.com/tensorfs/tensorfs/internal/conceal"
	"github.com/tensorfs/tensorfs/internal/convert"
	"github.com/tensorfs/tensorfs/internal/convert/preset"
	"github.com/tensorfs/tensorfs/internal/describe"
	"github.com/tensorfs/tensorfs/internal/export"
	"github.com/tensorfs/tensorfs/internal/verify"
	"github.com/tensorfs/tensorfs/views/tree"
	"golang.org/x/sys/unix"
)

type exportOptions struct {
	modelFlags
	jobs  int
	force bool
	json  bool
	to    exportTo
	free  func(dir string) (int64, error) // nil but for tests
}

// maxJobs is how many workers there are by default at most: more do not fill a
// disk faster, and decoding leaves other programs some processors.
const maxJobs = 4

func (s system) export() *cobra.Command {
	o := &exportOptions{}
	c := s.command("export", o.to.arguments, flags{"jobs": &o.jobs, "force": &o.force, "json": &o.json,
		"to-ollama": &o.to.ollama, "to-lmstudio": &o.to.lmstudio, "to-hf-cache": &o.to.hfCache, "as": &o.to.as, "copy": &o.to.copy, "adapter": &o.to.adapter}, o.run)
	o.add(s, c)
	return c
}

// exportReport is the summary for programs.
type exportReport struct {
	Directory string `json:"directory"`
	Files     int    `json:"files"`   // that there are now
	Bytes     int64  `json:"bytes"`   // of these
	Written   int    `json:"written"` // by this command; the rest existed
	Links     int    `json:"links"`   // that were selected and left out
	// Unverified is what of the model was not compared with its digest.
	Unverified *verify.Unverified `json:"unverified,omitempty"`
}

func (o *exportOptions) run(cmd *cobra.Command, args []string) error {
	if o.jobs < 0 {
		return cli.UsageError{Err: fmt.Errorf("--jobs %d: want a number of workers", o.jobs)}
	}
	if o.jobs == 0 {
		o.jobs = min(runtime.GOMAXPROCS(0), maxJobs)
	}
	switch store, err := o.to.asked(); {
	case err != nil:
		return err
	case store >= 0:
		return o.toStore(cmd, store, args)
	case o.to.adapter != "":
		return o.exportAdapter(cmd, args)
	}
	model, stdout := args[0], cmd.OutOrStdout()
	dir, err := filepath.Abs(args[1])
	if err != nil {
		return err
	}
	sel, err := newSelection(args[2:])
	if err != nil {
		return err
	}
	t, err := o.open(model)
	if err != nil {
		return err
	}
	defer t.Model.Close()
	facts, never, err := o.facts(t)
	if err != nil {
		return exportAdvice(err)
	}
	if err := sel.from(t, model); err != nil {
		if len(args) == 3 && isPathOf(t, args[1]) && !isPathOf(t, args[2]) {
			return cli.UsageError{Err: fmt.Errorf("the directory comes before the patterns; did you mean %s %s %s %s?", cmd.CommandPath(), conceal.Printable(model), tensorfs.Printable(args[2]), tensorfs.Printable(args[1]))}
		}
		for _, word := range args[2:] {
			if slices.ContainsFunc(preset.All, func(p preset.Preset) bool { return strings.EqualFold(p.Name, word) }) {
				return cli.UsageError{Err: fmt.Errorf("%s is a type; did you mean %s --gguf-type %[1]s %[3]s %s gguf?", word, cmd.CommandPath(), conceal.Printable(model), tensorfs.Printable(args[1]))}
			}
		}
		return err
	}
	ctx, stop := cli.Interruptible(cmd.Context())
	defer stop()
	end := func() {}
	done, err := export.Run(ctx, dir, sel.files, export.Options{
		Facts:   facts,
		ModTime: t.Model.ModTime,
		Jobs:    o.jobs,
		Force:   o.force,
		Never:   never,
		Check:   t.Model.Check,
		Progress: func(total int64) (add func(int64)) {
			bar := cli.Progress(cmd.ErrOrStderr(), "export", total)
			end = bar.Clear
			return bar.Add
		},
		Free: o.free,
	})
	end()
	var left *verify.Unverified
	if err == nil {
		left, err = confirmExport(ctx, t.Model, dir, sel.files)
	}
	wrong, ok := errors.AsType[verify.WrongBytes](err)
	if !ok {
		wrong = verify.WrongBytes{Err: o.remote.wrong()}
	}
	if wrong.Err != nil {
		return distrust(dir, wrong)
	}
	if err != nil {
		if ctx.Err() != nil {
			return errors.New("interrupted; the same command goes on where this one stopped")
		}
		return exportAdvice(err)
	}
	if o.json {
		return cli.PrintJSON(stdout, exportReport{dir, done.Files, done.Bytes, done.Written, sel.links, left})
	}
	text := cli.Plural(done.Files, "file") + ", " + cli.Size(done.Bytes)
	if left != nil {
		text += ", " + left.String()
	}
	_, err = fmt.Fprintln(stdout, text)
	return err
}

// isPathOf reports whether a tree has a path that a user wrote.
func isPathOf(t *tree.Tree, path string) bool {
	_, err := tensorfs.Find(t.Root, cli.TreePath(path))
	return err == nil
}

// confirmExport is confirm for files that were exported to a directory. Whole files
// of the model are compared there: the cache may be too small to have all of them.
func confirmExport(ctx context.Context, m *tensorfs.Model, dir string, files []export.File) (*verify.Unverified, error) {
	left, err := verify.Confirm(ctx, m)
	if left == nil || err != nil {
		return nil, err
	}
	for _, f := range files {
		name, ok := strings.CutPrefix(f.Path, "source/")
		if !ok {
			continue
		}
		want, u := verify.UnverifiedSource(m, name)
		if want == "" {
			continue
		}
		if err := want.Compare(ctx, filepath.Join(dir, f.Path)); err != nil {
			return nil, err
		}
		left.Files, left.Here, left.Bytes = left.Files-u.Files, left.Here-u.Here, left.Bytes-u.Bytes
	}
	if left.Files == 0 {
		return nil, nil
	}
	return left, nil
}

// distrust makes the next export to a directory compare all of its files with the
// model again: bytes that were exported there proved to be wrong.
func distrust(dir string, wrong error) error {
	if err := export.Forget(dir, indexName); err != nil {
		return fmt.Errorf("%w; remove what was exported to %s, which may be wrong and cannot be marked so: %w", wrong, tensorfs.Printable(dir), err)
	}
	return fmt.Errorf("%w; what was exported to %s may be wrong: export it again with --force", wrong, tensorfs.Printable(dir))
}

// factModel is the fact that names the model of an export, factVersion the one that names this program.
const (
	factModel   = "model"
	factVersion = "version of tensorfs"
)

// facts are what all files of a tree have in common, and the files that an export
// must never replace. They are of the files that the model has open, so that they
// hold for its bytes.
func (o *modelFlags) facts(t *tree.Tree) (facts []export.Fact, never []os.FileInfo, err error) {
	facts = []export.Fact{
		{What: factModel, Is: tensorfs.Printable(t.Model.Path)},
		{What: factVersion, Is: version()},
		{What: "--gguf-type", Is: o.Types()},
		{What: "--tensor-types-from", Is: mixFact(o.checked.Tree.Whole.Quantise)},
		{What: "--set, --unset", Is: changesFact(o.checked.Tree.Whole.Changes)},
		{What: "--mmproj", Is: cmp.Or(o.Mmproj, "the default")},
		{What: "--lora", Is: cmp.Or(describe.WithAdapters("", t.Model), "none")},
		{What: "--i2s", Is: cmp.Or(o.checked.Tree.Views.I2S, "the default")},
		{What: "--views", Is: viewNames(t)},
		{What: "--dequantise", Is: fmt.Sprint(o.Dequantise)},
	}
	if m := t.Model.Merge; m != nil {
		facts = append(facts, export.Fact{What: "recipe", Is: fmt.Sprintf("sha256:%x", sha256.Sum256(m.Recipe))})
		for i, input := range m.Models {
			of, own, err := sourceFacts(input, fmt.Sprintf("file of model %d, ", i+1))
			if err != nil {
				return nil, nil, err
			}
			facts, never = append(facts, export.Fact{What: fmt.Sprintf("model %d", i+1), Is: tensorfs.Printable(describe.WithAdapters(input.Path, input))}), append(never, own...)
			facts = append(facts, of...)
		}
	}
	of, own, err := sourceFacts(t.Model, "file ")
	if err == nil {
		err = t.Model.Check()
	}
	return append(facts, of...), append(never, own...), err
}

// mixFact tells the types of another file from others: its path may have another file later.
func mixFact(q *preset.Options) string {
	if q == nil || q.From == nil {
		return "none"
	}
	return q.From.Digest()
}

// changesFact tells changes of keys from others: texts of files may be long.
func changesFact(list []convert.Change) string {
	if len(list) == 0 {
		return "none"
	}
	h := sha256.New()
	for _, x := range list {
		fmt.Fprintf(h, "%q %v %v %q\n", x.Key, x.Unset, x.Plain, x.Text)
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// sourceFacts are the facts about a model's files. called comes before the name of each.
func sourceFacts(m *tensorfs.Model, called string) (facts []export.Fact, never []os.FileInfo, err error) {
	for _, s := range m.Sources {
		if !s.Local() { // its version is part of the model's name, or of these
			d, err := m.File(s.Name)
			if err != nil {
				return nil, nil, err
			}
			when := m.ModTime
			if f, ok := d.(interface{ ModTime() time.Time }); ok {
				when = f.ModTime()
			}
			facts = append(facts, export.Fact{What: called + tensorfs.Printable(s.Name), Is: fileState(d.Size(), when)})
			continue
		}
		st, err := os.Stat(s.Path)
		if err == nil {
			never = append(never, st)
		}
		what := ""
		if digest := verify.DigestOf(s.Path); digest != "" { // its owner touches it
			what = string(digest)
		} else if d, derr := m.File(s.Name); derr == nil {
			if f, ok := d.(interface{ Descriptor() int }); ok {
				what, err = stateOf(f.Descriptor())
			}
		}
		if err != nil {
			return nil, nil, tensorfs.PathError(s.Path, err)
		}
		if what == "" {
			what = fileState(st.Size(), st.ModTime())
		}
		facts = append(facts, export.Fact{What: called + tensorfs.Printable(s.Name), Is: what})
	}
	return facts, never, nil
}

// viewNames names the views that index.json describes.
func viewNames(t *tree.Tree) string {
	var names []string
	for _, v := range t.Views {
		names = append(names, v.Name)
	}
	return strings.Join(names, ",")
}

func stateOf(fd int) (string, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return "", err
	}
	return fileState(st.Size, time.Unix(st.Mtim.Unix())), nil
}

func fileState(size int64, modTime time.Time) string {
	return fmt.Sprintf("%d bytes of %s", size, modTime.UTC().Format(time.RFC3339Nano))
}

// exportAdvices say what to do about errors of exports.
var exportAdvices = []struct {
	is     error
	advice string
}{
	{export.ErrOther, "choose another directory, or --force to remove those files and start again"},
	{export.ErrExists, "choose another directory, or --force to replace it"},
	{export.ErrBusy, "wait until it ends"},
	{syscall.ENOSPC, "free some space, and the same command goes on where this one stopped"},
}

// exportAdvice adds advice to an error.
func exportAdvice(err error) error {
	if c, ok := errors.AsType[*tensorfs.ChangedError](err); ok {
		why := ""
		if c.Why != "" {
			why = " (" + c.Why + ")"
		}
		return reworded{err, fmt.Sprintf("%s: the file changed while the model was exported%s; export it to another directory, or again with --force",
			tensorfs.Printable(c.File), why)}
	}
	for _, a := range exportAdvices {
		if errors.Is(err, a.is) {
			return fmt.Errorf("%w; %s", err, a.advice)
		}
	}
	return err
}

// reworded is an error in other words.
type reworded struct {
	error
	text string
}

func (r reworded) Error() string { return r.text }
func (r reworded) Unwrap() error { return r.error }
