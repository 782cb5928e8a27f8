package main

import (
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats"
	"github.com/tensorfs/tensorfs/formats/models"
	"github.com/tensorfs/tensorfs/internal/cli"
	"github.com/tensorfs/tensorfs/internal/mounts"
	"github.com/tensorfs/tensorfs/views/tree"
)

// completeMount completes a mount point, or any path where the word begins none: it
// may be written in another way.
func completeMount(_ *cobra.Command, args []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
	all, _ := mounts.List() // without a list there is nothing to offer
	var names []string
	for _, m := range all {
		if !slices.Contains(args, m.Mountpoint) && !slices.Contains(names, m.Mountpoint) {
			names = append(names, m.Mountpoint)
		}
	}
	if word == "" {
		return cli.Offer(names, word), cobra.ShellCompDirectiveNoFileComp
	}
	return cli.Offer(names, word), cobra.ShellCompDirectiveDefault
}

// modelSuffixes are how the files end that hold a model.
var modelSuffixes = []string{"gguf", "safetensors"}

// completeNamed completes a model where a command could stand, if no command can.
func completeNamed(c *cobra.Command, args []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if !strings.ContainsAny(word, notInCommands) {
		return cli.CompleteNothing(c, args, word)
	}
	return completeModel(c, args, word)
}

// completeModel completes a MODEL: a file, a directory or a name in a local store.
func completeModel(_ *cobra.Command, _ []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
	var here []string
	for _, store := range formats.Stores() {
		if strings.HasPrefix(word, store) {
			return cli.Offer(formats.Stored(store), word), cobra.ShellCompDirectiveNoFileComp
		}
		if strings.HasPrefix(store, word) && len(formats.Stored(store)) > 0 {
			here = append(here, store)
		}
	}
	if len(here) == 0 { // the shell knows better how files are named: ~, quotes
		return modelSuffixes, cobra.ShellCompDirectiveFilterFileExt
	}
	files, _ := os.ReadDir(".")
	for _, f := range files {
		name := f.Name()
		st, err := os.Stat(name)
		switch {
		case err != nil || name[0] == '.':
		case st.IsDir():
			here = append(here, name+"/")
		case slices.ContainsFunc(modelSuffixes, func(s string) bool { return strings.HasSuffix(strings.ToLower(name), "."+s) }):
			here = append(here, name)
		}
	}
	return cli.Offer(here, word), cobra.ShellCompDirectiveNoSpace | cobra.ShellCompDirectiveNoFileComp
}

// completePath completes a path in the tree of the model args[0], down to the next
// directory. Whole-model files are not made for that, so of them only the
// directories are offered.
func completePath(_ *cobra.Command, args []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
	t, err := treeOf(args[0])
	if err != nil {
		return cli.CompleteNothing(nil, nil, "")
	}
	defer t.Model.Close()
	return pathsIn(t, word)
}

func pathsIn(t *tree.Tree, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
	dir, prefix := tensorfs.Dir(t.Root), ""
	if at := strings.LastIndexByte(word, '/'); at >= 0 {
		prefix = word[:at+1]
		e, err := tensorfs.Find(t.Root, word[:at])
		if _, later := e.Dir.(*tensorfs.Later); err != nil || e.Dir == nil || later {
			return cli.CompleteNothing(nil, nil, "")
		}
		dir = e.Dir
	}
	var names []string
	if files, ok := dir.(tensorfs.Files); ok {
		names = cli.StartingWith(files.Len(), files.Name, word[len(prefix):])
	} else {
		for i := range dir.Len() {
			e := dir.Entry(i)
			if e.Dir != nil {
				e.Name += "/"
			}
			names = append(names, e.Name)
		}
	}
	for i := range names {
		names[i] = prefix + names[i]
	}
	return cli.OfferSteps(cli.Offer(names, word))
}

// completeTensor completes the name of a tensor of the model args[0].
func completeTensor(_ *cobra.Command, args []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
	t, err := treeOf(args[0])
	if err != nil {
		return cli.CompleteNothing(nil, nil, "")
	}
	defer t.Model.Close()
	all := t.Model.Tensors
	return cli.OfferSteps(cli.Offer(cli.StartingWith(len(all), func(i int) string { return all[i].Name }, word), word))
}

// treeOf opens a model that was named by an earlier argument.
func treeOf(model string) (*tree.Tree, error) {
	m, err := models.Open(model, models.Options{Top: true})
	if err != nil {
		return nil, err
	}
	return m.Tree(), nil
}
