package main

import (
	"os"
	"slices"
	"sort"
	"strings"
	"unicode"

	"github.com/spf13/cobra"
	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats"
	"github.com/tensorfs/tensorfs/formats/models"
	"github.com/tensorfs/tensorfs/internal/mounts"
	"github.com/tensorfs/tensorfs/views/tree"
)

// The names that are offered come from strangers: from a model, or from other users'
// mounts.
//
// bash inserts what several candidates have in common as it is, and evaluates the
// line at the next Tab. So a name that a shell could take for more than a name is
// not offered.

// plainWord reports whether a name means itself in a shell. Shells quote blanks.
func plainWord(name string) bool {
	for _, r := range name {
		if !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("-_./+@%,=: ", r) {
			return false
		}
	}
	return name != "" && name[0] != '-' && name[0] != '='
}

// offer returns the names that begin with the word and are fit to be offered.
func offer(names []string, word string) []cobra.Completion {
	var fit []cobra.Completion
	for _, name := range names {
		if strings.HasPrefix(name, word) && plainWord(name) {
			fit = append(fit, name)
		}
	}
	return fit
}

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
		return offer(names, word), cobra.ShellCompDirectiveNoFileComp
	}
	return offer(names, word), cobra.ShellCompDirectiveDefault
}

// modelSuffixes are how the files end that hold a model.
var modelSuffixes = []string{"gguf", "safetensors"}

// completeNamed completes a model where a command could stand, if no command can.
func completeNamed(c *cobra.Command, args []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if !strings.ContainsAny(word, notInCommands) {
		return nothing(c, args, word)
	}
	return completeModel(c, args, word)
}

// completeModel completes a MODEL: a file, a directory or a name in a local store.
func completeModel(_ *cobra.Command, _ []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
	var here []string
	for _, store := range formats.Stores() {
		if strings.HasPrefix(word, store) {
			return offer(formats.Stored(store), word), cobra.ShellCompDirectiveNoFileComp
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
	return offer(here, word), cobra.ShellCompDirectiveNoSpace | cobra.ShellCompDirectiveNoFileComp
}

// completePath completes a path in the tree of the model args[0], down to the next
// directory. Whole-model files are not made for that, so of them only the
// directories are offered.
func completePath(_ *cobra.Command, args []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
	t, err := treeOf(args[0])
	if err != nil {
		return nothing(nil, nil, "")
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
			return nothing(nil, nil, "")
		}
		dir = e.Dir
	}
	var names []string
	if files, ok := dir.(tensorfs.Files); ok {
		names = startingWith(files.Len(), files.Name, word[len(prefix):])
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
	return step(offer(names, word))
}

// completeTensor completes the name of a tensor of the model args[0].
func completeTensor(_ *cobra.Command, args []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
	t, err := treeOf(args[0])
	if err != nil {
		return nothing(nil, nil, "")
	}
	defer t.Model.Close()
	all := t.Model.Tensors
	return step(offer(startingWith(len(all), func(i int) string { return all[i].Name }, word), word))
}

// treeOf opens a model that was named by an earlier argument.
func treeOf(model string) (*tree.Tree, error) {
	m, err := models.Open(model, models.Options{Top: true})
	if err != nil {
		return nil, err
	}
	return m.Tree(), nil
}

// startingWith returns the names in a sorted list that begin with a word.
func startingWith(n int, name func(i int) string, word string) (names []string) {
	for i := sort.Search(n, func(i int) bool { return name(i) >= word }); i < n && strings.HasPrefix(name(i), word); i++ {
		names = append(names, name(i))
	}
	return names
}

const (
	// fewNames are shown in full.
	fewNames = 100
	// manyNames are too many for a shell.
	manyNames = 5000
)

// step returns sorted names or, if they are many, their beginnings up to the next dot:
// layers.0., layers.1., output.weight.
func step(names []string) ([]cobra.Completion, cobra.ShellCompDirective) {
	directive := cobra.ShellCompDirectiveNoFileComp
	if len(names) > fewNames {
		common := len(commonPrefix(names[0], names[len(names)-1]))
		var shorter []string
		for i := 0; i < len(names); {
			begin, n := names[i], 1
			if dot := strings.IndexByte(begin[common:], '.'); dot >= 0 {
				begin = begin[:common+dot+1]
				n = len(startingWith(len(names)-i, func(j int) string { return names[i+j] }, begin))
			}
			if n == 1 {
				begin = names[i]
			}
			shorter = append(shorter, begin)
			i += n
		}
		names = shorter
	}
	if len(names) > manyNames {
		return nil, directive
	}
	if slices.ContainsFunc(names, func(s string) bool { return strings.HasSuffix(s, "/") || strings.HasSuffix(s, ".") }) {
		directive |= cobra.ShellCompDirectiveNoSpace
	}
	return names, directive
}

func commonPrefix(a, b string) string {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return a[:n]
}
