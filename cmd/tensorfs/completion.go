package main

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/library"
	"github.com/tensorfs/tensorfs/internal/cli"
	"github.com/tensorfs/tensorfs/internal/near"
	"github.com/tensorfs/tensorfs/internal/server"
	"github.com/tensorfs/tensorfs/views"
)

func (s system) completion() *cobra.Command {
	known := slices.Sorted(maps.Keys(cli.Shells))
	c := s.command("completion", func(cmd *cobra.Command, args []string) error {
		if len(args) == 1 && !slices.Contains(known, args[0]) {
			return fmt.Errorf("%s: there are completions for %s", tensorfs.Quote(args[0]), near.All(known))
		}
		return between(1, 1)(cmd, args)
	}, nil, func(cmd *cobra.Command, args []string) error {
		return cli.Shells[args[0]](cmd.Root(), cmd.OutOrStdout())
	})
	c.ValidArgs = known
	return c
}

// argCompletions complete the arguments of a command, in order. The last one is for all
// that follow; without any, nothing is offered.
var argCompletions = map[string][]cobra.CompletionFunc{
	"tensorfs":   {completeNamed, cli.CompleteNothing},
	"mount":      {completeModel, cli.CompleteDirectory, cli.CompleteNothing},
	"umount":     {completeMount},
	"status":     {cli.CompleteNothing},
	"keep":       {cli.CompleteNothing},
	"serve":      {completeModel, cli.CompleteNothing},
	"ls":         {completeModel, completePath, cli.CompleteNothing},
	"info":       {completeModel},
	"cat":        {completeModel, completePath, cli.CompleteNothing},
	"export":     {completeModel, cli.CompleteDirectory, completePath},
	"verify":     {completeModel},
	"diff":       {completeModel, completeModel, completeTensor},
	"stat":       {completeModel, completeTensor},
	"report":     {completeModel, completeModel, cli.CompleteNothing},
	"cache":      {cli.CompleteNothing},
	"fetch":      {completeModel, cli.CompleteDirectory, cli.CompleteNothing},
	"list":       {completeLibrary, cli.CompleteNothing},
	"remote":     {cli.CompleteNothing},
	"version":    {cli.CompleteNothing},
	"completion": {cli.CompleteNothing}, // cobra offers its ValidArgs
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

// completeLibrary offers the stores, and folders if the word matches no store.
func completeLibrary(_ *cobra.Command, _ []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return cli.Offer(library.Stores, word), cobra.ShellCompDirectiveFilterDirs
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
		return cli.OfferMore(names, strings.FieldsFunc(word[:at], isViewComma), word[:at], word[at:])
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

// completeLog offers the system's logs, or files if the word matches no log.
func completeLog(_ *cobra.Command, _ []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return cli.Offer(server.LogNames(), word), cobra.ShellCompDirectiveDefault
}

// completeOptions completes the last of a list of options. A value is completed like the
// flag of the same name.
func completeOptions(c *cobra.Command, args []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
	before, last := word[:strings.LastIndexByte(word, ',')+1], word[strings.LastIndexByte(word, ',')+1:]
	candidates := optionNames(c.Flags())
	if key, value, ok := strings.Cut(last, "="); ok {
		complete, ok := c.GetFlagCompletionFunc(strings.ReplaceAll(key, "_", "-"))
		if !ok {
			return cli.CompleteNothing(c, args, word)
		}
		before += key + "="
		candidates, _ = complete(c, args, value)
		last = value
	}
	return cli.OfferMore(candidates, strings.Split(before, ","), before, last)
}
