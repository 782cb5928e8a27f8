package main

import (
	"errors"
	"fmt"
	iofs "io/fs"
	"slices"
	"strings"

	"github.com/tensorfs/tensorfs"

	"github.com/tensorfs/tensorfs/internal/cli"
	"github.com/tensorfs/tensorfs/internal/conceal"
	"github.com/tensorfs/tensorfs/internal/export"
	"github.com/tensorfs/tensorfs/views"
	"github.com/tensorfs/tensorfs/views/tree"
)

// selection is the part of a tree that patterns select.
type selection struct {
	patterns []*exportPattern
	files    []export.File
	links    int
}

// exportPattern is an argument, and what it selected.
type exportPattern struct {
	cli.PathPattern
	paths int    // that matched, links not counted
	only  string // the path, if it is one
	links int
}

// indexName is the file whose presence means that the rest is complete.
const indexName = "index.json"

func newSelection(texts []string) (*selection, error) {
	s := &selection{}
	for _, text := range texts {
		p, err := cli.NewPathPattern(text)
		if err != nil {
			return nil, err
		}
		s.patterns = append(s.patterns, &exportPattern{PathPattern: p})
	}
	return s, nil
}

// from selects from a tree.
func (s *selection) from(t *tree.Tree, model string) error {
	hasIndex, needsIndex := false, false
	err := tensorfs.Walk(t.Root, func(path string, e tensorfs.Entry) error {
		if e.Dir != nil {
			if !slices.ContainsFunc(s.patterns, func(p *exportPattern) bool { return p.MayMatchBelow(path) }) {
				return iofs.SkipDir
			}
			return nil
		}
		selected := false
		for _, p := range s.patterns {
			switch {
			case !p.Matches(path):
				continue
			case e.Link != "":
				p.links++
			default:
				p.paths++
				p.only = path
			}
			selected = true
		}
		switch {
		case !selected:
		case e.Link != "":
			s.links++
		default:
			view, _, below := strings.Cut(path, "/")
			hasIndex = hasIndex || path == indexName
			needsIndex = needsIndex || below && isView(t, view)
			s.files = append(s.files, export.File{Path: path, Data: e.Data, Last: path == indexName || view == tree.IndexDir})
		}
		return nil
	})
	for _, p := range s.patterns {
		if err == nil {
			err = p.problem(t, model)
		}
	}
	if err != nil {
		return err
	}
	if e, err := tensorfs.Find(t.Root, indexName); err == nil && needsIndex && !hasIndex {
		s.files = append(s.files, export.File{Path: indexName, Data: e.Data, Last: true})
	}
	return nil
}

// isView reports whether a directory at the top of a tree is a view.
func isView(t *tree.Tree, dir string) bool {
	return slices.ContainsFunc(t.Views, func(v views.Built) bool { return v.Name == dir })
}

// problem explains why a pattern does not select what its author wants.
func (p *exportPattern) problem(t *tree.Tree, model string) error {
	shown := tensorfs.Printable(p.Text)
	switch {
	case p.paths == 0 && p.links > 0:
		return fmt.Errorf("%s: these are links to the model's own files, which are not exported; cp copies them from %s", shown, tensorfs.Printable(t.Model.Path))
	case p.paths == 0:
		if p.Glob && p.Fixed != p.Text {
			return fmt.Errorf("no path of the tree matches %q; tensorfs ls %s shows all", p.Text, conceal.Printable(model))
		}
		return noPath(t, model, p.Text)
	case p.paths == 1:
		for _, w := range t.Whole {
			if p.only == w.Name+"/tensorfs.json" && p.only != p.Text {
				if reason := w.Files().Reason; reason != "" {
					return errors.New(w.Name + "/ has no files: " + tensorfs.OneLine(reason))
				}
			}
		}
	}
	return nil
}
