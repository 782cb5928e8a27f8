package main

import (
	"fmt"
	"strings"

	"github.com/tensorfs/tensorfs"

	"github.com/tensorfs/tensorfs/internal/conceal"
	"github.com/tensorfs/tensorfs/internal/near"
	"github.com/tensorfs/tensorfs/views/tree"
)

// hasEntry reports whether a directory has an entry of that name.
func hasEntry(dir tensorfs.Dir, name string) bool {
	_, ok := tensorfs.Lookup(dir, name)
	return ok
}

// noPath is the error that a path is not in the tree of a model, with the reason, or with
// the path that may be meant.
func noPath(t *tree.Tree, model, path string) error {
	shown := tensorfs.Printable(path)
	if why := t.WhyAbsent(path); why != "" {
		if view, _, _ := strings.Cut(path, "/"); hasEntry(t.Root, view) {
			why = view + "/ leaves it out: " + why
		}
		return fmt.Errorf("%s is not in the tree: %s", shown, tensorfs.OneLine(why))
	}
	if strings.ContainsAny(path, "*?") {
		return fmt.Errorf("%s is not in the tree; tensorfs ls %s %s lists what a pattern matches, tensorfs export writes it", shown, conceal.Printable(model), tensorfs.Quote(path))
	}
	if paths := t.Near(path); len(paths) > 0 {
		return fmt.Errorf("%s is not in the tree; %s", shown, near.Question(paths))
	}
	return fmt.Errorf("%s is not in the tree; tensorfs ls %s shows the paths", shown, conceal.Printable(model))
}
