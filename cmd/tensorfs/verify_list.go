package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/cli"
	"github.com/tensorfs/tensorfs/internal/near"
	"github.com/tensorfs/tensorfs/internal/source"

	"github.com/tensorfs/tensorfs/internal/sums"
	"github.com/tensorfs/tensorfs/views/tree"
)

// writeList writes the SHA-256 of every file of some directories of the tree.
func (o *verifyOptions) writeList(ctx context.Context, v *verification) error {
	files, err := filesIn(v.tree, o.dirs("raw"))
	if err != nil {
		return err
	}
	if len(files) == 0 {
		return fmt.Errorf("%s: it has no files in %s: there is nothing to list; name other directories with --in", tensorfs.Printable(v.model), near.All(o.dirs("raw")))
	}
	write, discard, err := newList(o.manifest.file, v.stdout)
	if err != nil {
		return err
	}
	defer discard()
	found := make([]sums.Sum, len(files))
	r := &reporter{verification: v, above: func(print func()) { print() }, unfinished: "no list was written"}
	var jobs []verifyJob
	for _, f := range files {
		jobs = append(jobs, r.sumJob(f, func(job int, sum sums.Sum, err error) error {
			found[job] = sum
			return err
		}))
	}
	if err := r.run(ctx, jobs); err != nil {
		return err
	}
	if err := sound(ctx, v.tree.Model); err != nil {
		return err
	}
	var list []byte
	for i, f := range files {
		list = sums.Append(list, found[i], f.path)
	}
	if err := write(list); err != nil || o.manifest.file == "-" {
		return ignorePipe(err)
	}
	r.print("%s, %s", plural(len(files), "digest"), cli.Size(r.Bytes))
	return r.failed
}

// checkList compares the model with a list.
func (o *verifyOptions) checkList(ctx context.Context, v *verification) error {
	in := v.stdin
	if name := o.check.file; name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return tensorfs.PathError(name, err)
		}
		defer f.Close()
		in = f
	}
	r := v.report()
	listed, err := o.readList(in, r)
	if err != nil {
		return err
	}
	var jobs []verifyJob
	for _, f := range listed {
		jobs = append(jobs, r.sumJob(f.treeFile, func(job int, sum sums.Sum, err error) error {
			switch {
			case err != nil:
				r.find(finding{Path: f.path, Kind: kindUnread, Problem: err.Error(), job: job})
			case sum != f.sum:
				r.find(finding{Path: f.path, Kind: kindDifferent, Problem: fmt.Sprintf("its digest is sha256:%s, the list says %s", sum, f.sum), job: job})
			}
			return nil
		}))
	}
	if err := r.run(ctx, jobs); err != nil {
		return err
	}
	return r.end(plural(r.Files, "digest") + " compared")
}

// dirs returns the directories of --in.
func (o *verifyOptions) dirs(otherwise ...string) (dirs []string) {
	if o.in == nil {
		return otherwise
	}
	for _, d := range o.in {
		dirs = append(dirs, strings.Trim(d, "/"))
	}
	return dirs
}

// treeFile is a file of the tree, or a link to one of the model.
type treeFile struct {
	path  string
	entry tensorfs.Entry
}

// filesIn returns the files below directories of the tree.
func filesIn(t *tree.Tree, dirs []string) (files []treeFile, err error) {
	seen := map[string]bool{}
	for _, dir := range dirs {
		e, err := tensorfs.Find(t.Root, dir)
		if err != nil || e.Dir == nil {
			return nil, cli.UsageError{Err: fmt.Errorf("--in %s: not a directory of the tree; it has %s", tensorfs.Printable(dir), near.All(topDirs(t)))}
		}
		if seen[dir] {
			continue
		}
		seen[dir] = true
		err = tensorfs.Walk(e.Dir, func(below string, e tensorfs.Entry) error {
			if e.Dir == nil {
				files = append(files, treeFile{dir + "/" + below, e})
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return files, nil
}

// topDirs are the directories in the root of a tree.
func topDirs(t *tree.Tree) (names []string) {
	for _, e := range t.Root {
		if e.Dir != nil {
			names = append(names, e.Name)
		}
	}
	return names
}

// sumJob hashes a file. An error that is not the end of ctx goes to found.
func (r *reporter) sumJob(f treeFile, found func(job int, sum sums.Sum, err error) error) verifyJob {
	d, closed, err := f.entry.Data, func() {}, error(nil)
	if f.entry.Link != "" {
		name := strings.TrimPrefix(f.path, "source/")
		d, closed, err = openSource(r.tree.Model, tensorfs.Source{Name: name, Path: f.entry.Link})
	}
	bytes := int64(0)
	if err == nil {
		bytes = d.Size()
	}
	return verifyJob{&r.Files, bytes, func(ctx context.Context, job int, read func(int64)) error {
		h := sha256.New()
		if err == nil {
			defer closed()
			err = source.Hash(ctx, h, d, read)
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return found(job, sums.Sum(h.Sum(nil)), err)
	}}
}

// listedFile is a file of the tree that a list has.
type listedFile struct {
	treeFile
	sum sums.Sum
}

// maxStrange is how many files of a list may be none of the tree's before the rest is
// not looked at: what is kept of a list is bounded by the tree.
const maxStrange = 1000

// readList reads a list and reports what it has that the tree has not, and the
// other way round.
func (o *verifyOptions) readList(in io.Reader, r *reporter) (files []listedFile, err error) {
	t, dirs := r.tree, o.dirs()
	if _, err := filesIn(t, dirs); err != nil {
		return nil, err
	}
	at := map[string]int{} // of files, by path
	strange, passed, bad, firstBad := 0, 0, 0, 0
	odd := func(f finding) {
		strange++
		r.find(f)
	}
	shown, advice := tensorfs.Printable(o.check.file), "name a list that sha256sum or tensorfs verify --manifest wrote"
	for l, err := range sums.Lines(in) {
		switch {
		case err != nil:
			return nil, fmt.Errorf("%s: %w; %s", shown, systemError(err), advice)
		case !l.OK:
			bad++
			firstBad = cmp.Or(firstBad, l.Number)
			continue
		}
		f, err := o.listed(t, l.Name)
		i, known := at[f.path]
		switch {
		case dirs != nil && !slices.ContainsFunc(dirs, func(d string) bool { return strings.HasPrefix(f.path, d+"/") }):
			passed++
		case err != nil:
			odd(finding{Path: l.Name, Kind: kindMissing, Problem: err.Error()})
		case known && files[i].sum != l.Sum:
			odd(finding{Path: f.path, Kind: kindList, Problem: fmt.Sprintf("line %d of the list has another digest than a line before", l.Number)})
		case !known:
			at[f.path] = len(files)
			files = append(files, listedFile{f, l.Sum})
		}
		if strange == maxStrange {
			break
		}
	}
	switch {
	case len(files)+strange+passed == 0:
		return nil, fmt.Errorf("%s: it has no line of sha256sum; %s", shown, advice)
	case strange == maxStrange:
		r.find(finding{Kind: kindList, Problem: fmt.Sprintf("the list has %d names and more that fit no file of the model; the rest of it is not compared", strange)})
	}
	if bad > 0 {
		r.find(finding{Kind: kindList, Problem: fmt.Sprintf("the list has %s that sha256sum would not write, the first is line %d", plural(bad, "line"), firstBad)})
	}
	if passed > 0 {
		r.note(plural(passed, "line") + " of the list not compared: --in leaves them out")
	}
	if strange == maxStrange {
		return files, nil
	}
	if dirs == nil { // the views that are in the list
		for _, v := range t.Views {
			if slices.ContainsFunc(files, func(f listedFile) bool { return strings.HasPrefix(f.path, v.Name+"/") }) {
				dirs = append(dirs, v.Name)
			}
		}
	}
	all, err := filesIn(t, dirs)
	for _, f := range all {
		if _, ok := at[f.path]; !ok {
			r.find(finding{Path: f.path, Kind: kindUnlisted, Problem: "the model has it and the list does not"})
		}
	}
	return files, err
}

// listed returns the file of the tree that a line names. In a list that was made
// below a directory of --in, the names are those there.
func (o *verifyOptions) listed(t *tree.Tree, name string) (treeFile, error) {
	clean := path.Clean(name)
	e, err := tensorfs.Find(t.Root, clean)
	for _, dir := range o.dirs("raw") {
		if err == nil || strings.Contains(clean, "/") {
			break
		}
		if e, err = tensorfs.Find(t.Root, dir+"/"+clean); err == nil {
			clean = dir + "/" + clean
		}
	}
	f := treeFile{clean, e}
	why := ""
	if err != nil {
		why = t.WhyAbsent(clean)
	}
	switch {
	case err == nil && e.Dir == nil:
		return f, nil
	case err == nil:
		return f, errors.New("the list has it as a file, and it is a directory")
	case path.IsAbs(clean):
		return f, errors.New("the list has it, but not as a path of the tree, such as raw/NAME")
	case why == "":
		return f, errors.New("the list has it and the model does not")
	}
	view, _, _ := strings.Cut(clean, "/")
	return f, fmt.Errorf("the list has it and %s/ leaves it out: %s", view, tensorfs.OneLine(why))
}
