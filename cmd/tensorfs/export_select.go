package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/tensorfs/tensorfs"

	"github.com/tensorfs/tensorfs/internal/export"
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
	pathPattern
	paths int    // that matched, links not counted
	only  string // the path, if it is one
	links int
}

// indexName is the file whose presence says that the rest is complete.
const indexName = "index.json"

func newSelection(texts []string) (*selection, error) {
	s := &selection{}
	for _, text := range texts {
		p, err := newPathPattern(text)
		if err != nil {
			return nil, err
		}
		s.patterns = append(s.patterns, &exportPattern{pathPattern: p})
	}
	return s, nil
}

// from selects from a tree.
func (s *selection) from(t *tree.Tree, model string) error {
	s.walk(t.Root, "")
	index := false
	for i := range s.files {
		view, _, below := strings.Cut(s.files[i].Path, "/")
		s.files[i].Last = view == indexName && !below
		for _, v := range t.Views {
			index = index || below && v.Name == view
		}
	}
	for _, p := range s.patterns {
		if err := p.problem(t, model); err != nil {
			return err
		}
	}
	if e, err := tensorfs.Find(t.Root, indexName); err == nil && index && !s.has(indexName) {
		s.files = append(s.files, export.File{Path: indexName, Data: e.Data, Last: true})
	}
	return nil
}

func (s *selection) has(path string) bool {
	for _, f := range s.files {
		if f.Path == path {
			return true
		}
	}
	return false
}

func (s *selection) walk(d tensorfs.Dir, prefix string) {
	files, cheap := d.(tensorfs.Files)
	for i := range d.Len() {
		if cheap {
			if path := prefix + files.Name(i); s.matching(path) != nil {
				s.add(path, d.Entry(i))
			}
			continue
		}
		e := d.Entry(i)
		path := prefix + e.Name
		if e.Dir == nil {
			s.add(path, e)
			continue
		}
		for _, p := range s.patterns {
			if p.mayMatchBelow(path) {
				s.walk(e.Dir, path+"/")
				break
			}
		}
	}
}

// matching returns the patterns that select a path.
func (s *selection) matching(path string) (all []*exportPattern) {
	for _, p := range s.patterns {
		if p.matches(path) {
			all = append(all, p)
		}
	}
	return all
}

func (s *selection) add(path string, e tensorfs.Entry) {
	all := s.matching(path)
	for _, p := range all {
		if e.Link != "" {
			p.links++
			continue
		}
		p.paths++
		p.only = path
	}
	switch {
	case len(all) == 0:
	case e.Link != "":
		s.links++
	default:
		s.files = append(s.files, export.File{Path: path, Data: e.Data})
	}
}

// problem says why a pattern does not select what its author wants.
func (p *exportPattern) problem(t *tree.Tree, model string) error {
	shown := tensorfs.Printable(p.text)
	switch {
	case p.paths == 0 && p.links > 0:
		return fmt.Errorf("%s: these are links to the model's own files, which are not exported; cp copies them from %s", shown, tensorfs.Printable(t.Model.Path))
	case p.paths == 0:
		if p.glob && p.fixed != p.text {
			return fmt.Errorf("no path of the tree matches %q; tensorfs ls %s shows all", p.text, printableName(model))
		}
		return noPath(t, model, p.text)
	case p.paths == 1:
		for _, w := range t.Whole {
			if p.only == w.Name+"/tensorfs.json" && p.only != p.text {
				if reason := w.Files().Reason; reason != "" {
					return errors.New(w.Name + "/ has no files: " + tensorfs.OneLine(reason))
				}
			}
		}
	}
	return nil
}
