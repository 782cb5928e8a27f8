package main

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/library"
	"github.com/tensorfs/tensorfs/internal/near"
	"github.com/tensorfs/tensorfs/internal/server"
	"github.com/tensorfs/tensorfs/views"
)

// shells write the script of a shell, which asks the program itself for what may
// come next.
var shells = map[string]func(root *cobra.Command, w io.Writer) error{
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

func (s system) completion() *cobra.Command {
	known := slices.Sorted(maps.Keys(shells))
	c := s.command("completion", func(cmd *cobra.Command, args []string) error {
		if len(args) == 1 && !slices.Contains(known, args[0]) {
			return fmt.Errorf("%s: there are completions for %s", tensorfs.Quote(args[0]), near.All(known))
		}
		return between(1, 1)(cmd, args)
	}, nil, func(cmd *cobra.Command, args []string) error {
		return shells[args[0]](cmd.Root(), cmd.OutOrStdout())
	})
	c.ValidArgs = known
	return c
}

// argCompletions complete the arguments of a command, in order. The last one is for all
// that follow; without any, nothing is offered.
var argCompletions = map[string][]cobra.CompletionFunc{
	"tensorfs":   {completeNamed, nothing},
	"mount":      {completeModel, completeDirectory, nothing},
	"umount":     {completeMount},
	"status":     {nothing},
	"keep":       {nothing},
	"serve":      {completeModel, nothing},
	"ls":         {completeModel, completePath, nothing},
	"info":       {completeModel},
	"cat":        {completeModel, completePath, nothing},
	"export":     {completeModel, completeDirectory, completePath},
	"verify":     {completeModel},
	"diff":       {completeModel, completeModel, completeTensor},
	"stat":       {completeModel, completeTensor},
	"report":     {completeModel, completeModel, nothing},
	"cache":      {nothing},
	"fetch":      {completeModel, completeDirectory, nothing},
	"list":       {completeLibrary, nothing},
	"remote":     {nothing},
	"version":    {nothing},
	"completion": {nothing}, // cobra offers its ValidArgs
}

// completeArguments lets the shells complete the arguments of all commands. The values of
// flags are in flagTable.
func completeArguments(root *cobra.Command) {
	for _, c := range append(root.Commands(), root) {
		if of := argCompletions[c.Name()]; of != nil && c.ValidArgs == nil {
			c.ValidArgsFunction = func(c *cobra.Command, args []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
				return of[min(len(args), len(of)-1)](c, args, word)
			}
		}
	}
}

func nothing(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveNoFileComp
}

func completeDirectory(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveFilterDirs
}

// completeLibrary offers the stores, and folders if the word matches no store.
func completeLibrary(_ *cobra.Command, _ []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return offer(library.Stores, word), cobra.ShellCompDirectiveFilterDirs
}

func oneOf(values []string) cobra.CompletionFunc {
	return func(_ *cobra.Command, _ []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return offer(values, word), cobra.ShellCompDirectiveNoFileComp
	}
}

// allViews are the names of all views.
var allViews = func() (names []string) {
	for _, v := range views.All {
		names = append(names, v.Name)
	}
	return names
}()

// listOf completes the last of a list of names.
func listOf(names []string) cobra.CompletionFunc {
	return func(_ *cobra.Command, _ []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
		at := strings.LastIndexFunc(word, isViewComma) + 1
		return offerMore(names, strings.FieldsFunc(word[:at], isViewComma), word[:at], word[at:])
	}
}

// completeFlags registers the completions of flags' values in a command and the commands below it.
// Cobra keeps registrations in a global map for ever, so only a process that completes makes them.
func completeFlags(c *cobra.Command) {
	c.Flags().VisitAll(func(f *pflag.Flag) {
		for _, row := range f.Annotations[rowKey] {
			if i, err := strconv.Atoi(row); err == nil && flagTable[i].values != nil {
				_ = c.RegisterFlagCompletionFunc(f.Name, flagTable[i].values) // fails only for an unknown flag
			}
		}
	})
	for _, below := range c.Commands() {
		completeFlags(below)
	}
}

// asksForCompletion reports whether a shell runs the program to complete a line.
func asksForCompletion(args []string) bool {
	return len(args) > 0 && (args[0] == cobra.ShellCompRequestCmd || args[0] == cobra.ShellCompNoDescRequestCmd)
}

// offerMore offers names after their common prefix in a word, without names that are taken.
func offerMore(names, taken []string, before, last string) (all []cobra.Completion, _ cobra.ShellCompDirective) {
	for _, name := range offer(names, last) {
		if !slices.Contains(taken, name) {
			all = append(all, before+name)
		}
	}
	return all, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}

// completeLog offers the system's logs, or files if the word matches no log.
func completeLog(_ *cobra.Command, _ []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return offer(server.LogNames(), word), cobra.ShellCompDirectiveDefault
}

// completeOptions completes the last of a list of options. A value is completed like the
// flag of the same name.
func completeOptions(c *cobra.Command, args []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
	before, last := word[:strings.LastIndexByte(word, ',')+1], word[strings.LastIndexByte(word, ',')+1:]
	candidates := optionNames(c.Flags())
	if key, value, ok := strings.Cut(last, "="); ok {
		complete, ok := c.GetFlagCompletionFunc(strings.ReplaceAll(key, "_", "-"))
		if !ok {
			return nothing(c, args, word)
		}
		before += key + "="
		candidates, _ = complete(c, args, value)
		last = value
	}
	return offerMore(candidates, strings.Split(before, ","), before, last)
}
