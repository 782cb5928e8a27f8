package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	iofs "io/fs"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/library"
	"github.com/tensorfs/tensorfs/internal/cli"
	"github.com/tensorfs/tensorfs/internal/conceal"
	"github.com/tensorfs/tensorfs/internal/describe"
	"github.com/tensorfs/tensorfs/internal/near"
	"github.com/tensorfs/tensorfs/views/tree"
)

type lsOptions struct {
	modelFlags
	long, human, json bool
}

func (s system) ls() *cobra.Command {
	o := &lsOptions{}
	c := s.command("ls", func(cmd *cobra.Command, args []string) error {
		if o.human && len(args) == 0 {
			return nil // a single -h is a question
		}
		return between(1, 2)(cmd, args)
	}, flags{"long": &o.long, "human-readable": &o.human, "json": &o.json, "help": new(bool), "all": new(bool)}, o.run)
	o.add(s, c)
	return c
}

// lsRow is one line of the listing.
type lsRow struct {
	Path  string          `json:"path"`
	Bytes *int64          `json:"bytes,omitempty"`
	DType string          `json:"dtype,omitempty"`
	Shape json.RawMessage `json:"shape,omitempty"`
	Link  string          `json:"link,omitempty"`
}

func (o *lsOptions) run(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return cmd.Help()
	}
	model, glob := args[0], append(args[1:], "")[0]
	p, err := cli.NewPathPattern(glob)
	if err != nil {
		return err
	}
	l := &listing{opts: o, w: bufio.NewWriter(cmd.OutOrStdout()), width: cli.TableWidth(cmd.OutOrStdout())}
	if parts := pipelineOf(model); parts != nil {
		return o.listParts(cmd, l, parts, args, glob, &p)
	}
	t, err := o.open(model)
	if err != nil {
		return err
	}
	defer t.Model.Close()
	err = l.walk(t.Root, p.MayMatchBelow, p.Matches)
	if err == nil && l.n == 0 {
		err = l.walkTensors(t, &p)
	}
	if err != nil {
		return err
	}
	if l.n == 0 && glob != "" && !o.json {
		if why := t.WhyAbsent(glob); why != "" {
			return fmt.Errorf("no path of the tree matches %q: %s", glob, tensorfs.OneLine(why))
		}
		if paths := t.Near(glob); len(paths) > 0 {
			return fmt.Errorf("no path of the tree matches %q; %s", glob, near.Question(paths))
		}
		return fmt.Errorf("no path of the tree matches %q; tensorfs ls %s shows all", glob, conceal.Printable(model))
	}
	l.end()
	return l.w.Flush()
}

// listParts lists the tree of a pipeline of diffusers, which has a tree for each part.
func (o *lsOptions) listParts(cmd *cobra.Command, l *listing, parts *library.Pipeline, args []string, glob string, p *cli.PathPattern) error {
	root, failed := treesOf(parts.Library, "library", o.openListed).Root(), false
	for i := range root.Len() {
		e := root.Entry(i)
		if e.Lazy != nil && !p.MayMatchBelow(e.Name) {
			continue
		}
		if err := l.walkLazy(e, p); err != nil { // the other parts are still listed
			failed = true
			cli.PrintError(cmd.ErrOrStderr(), err, args)
		}
	}
	if l.n == 0 && glob != "" && !o.json && !failed {
		return fmt.Errorf("no path of the tree matches %q; tensorfs ls %s shows all", glob, conceal.Printable(args[0]))
	}
	l.end()
	if err := l.w.Flush(); err != nil || !failed {
		return err
	}
	return cli.Reported{Err: errors.New("some parts are not listed")}
}

// walkLazy adds what matches of an entry, and opens it if it is a model.
func (l *listing) walkLazy(e tensorfs.Entry, p *cli.PathPattern) (err error) {
	if e.Lazy != nil {
		dir, model, err := e.Lazy.Open()
		if err != nil {
			return err
		}
		defer model.Close()
		e = tensorfs.Entry{Name: e.Name, Dir: dir}
	}
	return l.walk(tensorfs.Entries{e}, p.MayMatchBelow, p.Matches)
}

// listing prints entries of a tree.
type listing struct {
	opts  *lsOptions
	w     *bufio.Writer
	width int
	n     int
	rows  []lsRow // for people, who get them in another order
}

// walk adds the entries that match, of the directories in which some may.
func (l *listing) walk(root tensorfs.Dir, below, matches func(path string) bool) error {
	return tensorfs.Walk(root, func(path string, e tensorfs.Entry) error {
		switch {
		case e.Dir != nil && !below(path):
			return iofs.SkipDir
		case e.Dir != nil || !matches(path):
			return nil
		}
		return l.add(path, e)
	})
}

// walkTensors adds the files of the tensors whose name matches: that in the views, that in
// the model's files, or another one that Hugging Face or GGUF has for it. The pattern may
// begin with a view.
func (l *listing) walkTensors(t *tree.Tree, p *cli.PathPattern) error {
	in, of := "", *p
	if view, name, ok := strings.Cut(p.Text, "/"); ok && isView(t, view) {
		in, of.Text = view, name
	}
	found := map[string]bool{}
	note := func(x *tensorfs.Tensor) { found[x.Name], found[x.Weight()] = true, true }
	for i := range t.Model.Tensors {
		if x := &t.Model.Tensors[i]; of.Matches(x.Source) {
			note(x)
		}
	}
	if len(found) == 0 {
		for _, x := range describe.Called(t.Model, of.Text) {
			note(x)
		}
	}
	return l.walk(t.Root, func(dir string) bool { return isView(t, dir) && (in == "" || in == dir) }, func(path string) bool {
		view, name, ok := strings.Cut(path, "/")
		if strings.HasPrefix(view, "npy") {
			name = strings.TrimSuffix(name, ".npy")
		}
		return ok && isView(t, view) && (in == "" || in == view) && (found[name] || of.Matches(name))
	})
}

func (l *listing) add(path string, e tensorfs.Entry) error {
	l.n++
	switch {
	case l.opts.json:
		b, err := json.Marshal(row(path, e))
		if err != nil {
			return err
		}
		open := ",\n"
		if l.n == 1 {
			open = "[\n"
		}
		_, err = fmt.Fprintf(l.w, "%s%s", open, cli.EscapeJSON(b))
		return err
	case l.opts.long:
		l.rows = append(l.rows, row(path, e))
	default:
		l.rows = append(l.rows, lsRow{Path: path})
	}
	return nil
}

// end prints what could not be printed before the last entry was known.
func (l *listing) end() {
	if l.opts.json {
		if l.n == 0 {
			fmt.Fprint(l.w, "[")
		}
		fmt.Fprint(l.w, "\n]\n")
	}
	slices.SortFunc(l.rows, func(a, b lsRow) int { return near.Compare(a.Path, b.Path) })
	if !l.opts.long {
		for i := range l.rows {
			fmt.Fprintln(l.w, tensorfs.Printable(l.rows[i].Path))
		}
		return
	}
	rows := cli.Table{Right: []bool{true, false, false, false}, NameLast: true, Widest: widest}
	for i := range l.rows {
		r := &l.rows[i]
		bytes := int64(0)
		if r.Bytes != nil {
			bytes = *r.Bytes
		}
		text := strconv.FormatInt(bytes, 10)
		if l.opts.human {
			text = cli.Size(bytes)
		}
		path := tensorfs.Printable(r.Path)
		var below []string
		if r.Link != "" {
			if link := " -> " + tensorfs.Printable(r.Link); cli.Cells(path+link) > l.width-lsIndent {
				below = []string{strings.Repeat(" ", lsIndent) + link}
			} else {
				path += link
			}
		}
		rows.Rows = append(rows.Rows, cli.TableRow{Cells: []string{text, cmp.Or(r.DType, "-"), cmp.Or(string(r.Shape), "-"), path}, Below: below})
	}
	rows.Print(l.w, l.width)
}

// widest is how wide a column of -l becomes; a longer text moves what follows.
const widest = 24

// lsIndent is before a path that has a line of its own.
const lsIndent = 2

// row describes an entry. Only here are sizes asked for, because the size of a
// text takes rendering it.
func row(path string, e tensorfs.Entry) lsRow {
	r := lsRow{Path: path}
	if e.Link != "" {
		r.Link = e.Link
		return r
	}
	size := e.Data.Size()
	r.Bytes = &size
	if e.Attrs != nil {
		for _, a := range e.Attrs() {
			switch a.Name {
			case "user.tensorfs.dtype":
				r.DType = string(a.Value)
			case "user.tensorfs.shape":
				r.Shape = a.Value
			}
		}
	}
	return r
}
