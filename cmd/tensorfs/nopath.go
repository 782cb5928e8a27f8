package main

import (
	"fmt"
	"strings"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/fs/tree"
	"github.com/tensorfs/tensorfs/internal/near"
)

// noPath says that a path is not in the tree of a model, and why, or which path
// may be meant.
func noPath(t *tree.Tree, model, path string) error {
	shown := tensorfs.Printable(path)
	if why := t.WhyAbsent(path); why != "" {
		view, _, _ := strings.Cut(path, "/")
		return fmt.Errorf("%s is not in the tree: %s/ leaves it out: %s", shown, view, tensorfs.OneLine(why))
	}
	if paths := t.Near(path); len(paths) > 0 {
		return fmt.Errorf("%s is not in the tree; %s", shown, near.Question(paths))
	}
	return fmt.Errorf("%s is not in the tree; tensorfs ls %s shows the paths", shown, printableName(model))
}
