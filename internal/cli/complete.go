package cli

import (
	"bytes"
	"io"
	"slices"
	"sort"
	"strings"
	"unicode"

	"github.com/spf13/cobra"
)

// What is offered comes from strangers: names of a model, or of other users' mounts. bash
// inserts what several candidates have in common as it is, and evaluates the line at the next
// Tab. So a name that a shell could take for more than a name is not offered.

// Shells write the script of a shell, which asks the program itself for what may
// come next.
var Shells = map[string]func(root *cobra.Command, w io.Writer) error{
	"bash":       bashCompletion,
	"zsh":        (*cobra.Command).GenZshCompletion,
	"fish":       func(root *cobra.Command, w io.Writer) error { return root.GenFishCompletion(w, true) },
	"powershell": (*cobra.Command).GenPowerShellCompletionWithDesc,
}

// bashCompletion writes cobra's script, but without a backslash before a comma. Its
// printf %q puts one there, because a comma matters in braces, and then does not find
// what was typed of -o a,b=c in what it offers.
func bashCompletion(root *cobra.Command, w io.Writer) error {
	var script bytes.Buffer
	if err := root.GenBashCompletionV2(&script, true); err != nil {
		return err
	}
	const strip = "    __tensorfs_handle_special_char \"$cur\" :\n"
	_, err := io.WriteString(w, strings.Replace(script.String(), strip, "    COMPREPLY=(\"${COMPREPLY[@]//\\\\,/,}\")\n"+strip, 1))
	return err
}

// AsksForCompletion reports whether a shell runs the program to complete a line.
func AsksForCompletion(args []string) bool {
	return len(args) > 0 && (args[0] == cobra.ShellCompRequestCmd || args[0] == cobra.ShellCompNoDescRequestCmd)
}

// CompleteNothing offers nothing, not even files.
func CompleteNothing(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveNoFileComp
}

// CompleteDirectory offers directories.
func CompleteDirectory(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveFilterDirs
}

// CompleteOneOf offers values.
func CompleteOneOf(values []string) cobra.CompletionFunc {
	return func(_ *cobra.Command, _ []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return Offer(values, word), cobra.ShellCompDirectiveNoFileComp
	}
}

// Offer returns the names that begin with the word and are fit to be offered.
func Offer(names []string, word string) []cobra.Completion {
	var fit []cobra.Completion
	for _, name := range names {
		if strings.HasPrefix(name, word) && plainWord(name) {
			fit = append(fit, name)
		}
	}
	return fit
}

// OfferMore offers names after their common prefix in a word, without names that are taken.
func OfferMore(names, taken []string, before, last string) (all []cobra.Completion, _ cobra.ShellCompDirective) {
	for _, name := range Offer(names, last) {
		if !slices.Contains(taken, name) {
			all = append(all, before+name)
		}
	}
	return all, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}

// plainWord reports whether a name means itself in a shell. Shells quote blanks.
func plainWord(name string) bool {
	for _, r := range name {
		if !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("-_./+@%,=: ", r) {
			return false
		}
	}
	return name != "" && name[0] != '-' && name[0] != '='
}

// StartingWith returns the names in a sorted list that begin with a word.
func StartingWith(n int, name func(i int) string, word string) (names []string) {
	for i := sort.Search(n, func(i int) bool { return name(i) >= word }); i < n && strings.HasPrefix(name(i), word); i++ {
		names = append(names, name(i))
	}
	return names
}

// OfferSteps returns sorted names or, if they are many, their beginnings up to the next dot:
// layers.0., layers.1., output.weight.
func OfferSteps(names []string) ([]cobra.Completion, cobra.ShellCompDirective) {
	directive := cobra.ShellCompDirectiveNoFileComp
	if len(names) > fewNames {
		common := len(commonPrefix(names[0], names[len(names)-1]))
		var shorter []string
		for i := 0; i < len(names); {
			begin, n := names[i], 1
			if dot := strings.IndexByte(begin[common:], '.'); dot >= 0 {
				begin = begin[:common+dot+1]
				n = len(StartingWith(len(names)-i, func(j int) string { return names[i+j] }, begin))
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

const (
	// fewNames are shown in full.
	fewNames = 100
	// manyNames are too many for a shell.
	manyNames = 5000
)

func commonPrefix(a, b string) string {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return a[:n]
}
