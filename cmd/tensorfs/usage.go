package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// mistyped reports whether the first of two arguments is a command that was
// mistyped, and not a model to be mounted: nothing has that name, and a command has
// nearly that name.
func mistyped(root *cobra.Command, name string) bool {
	_, err := os.Lstat(name)
	return err != nil && !strings.ContainsAny(name, "/.:") && len(root.SuggestionsFor(name)) > 0
}

// notACommand returns the error for the first word of a command line.
func notACommand(root *cobra.Command, name string) error {
	name = publicName(name)
	if near := root.SuggestionsFor(name); len(near) > 0 {
		return usageError{fmt.Errorf("%q is not a command; did you mean %s?", name, strings.Join(near, " or "))}
	}
	return usageError{fmt.Errorf("%q is not a command; see tensorfs --help", name)}
}

// between returns a check of the number of arguments, in words that cobra's do not
// have.
func between(least, most int) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		switch {
		case len(args) < least:
			return errors.New("too few arguments")
		case len(args) > most:
			return errors.New("too many arguments")
		}
		return nil
	}
}

// strictHelp makes help about what is not a command an error, where cobra prints
// what it has about something else.
func strictHelp(root *cobra.Command) {
	printHelp := root.HelpFunc()
	root.SetHelpFunc(func(c *cobra.Command, args []string) {
		if helpFor(c) == nil {
			printHelp(c, args)
		}
	})
	root.InitDefaultHelpCmd()
	help, _, err := root.Find([]string{"help"})
	if err != nil || help == root {
		return // it has no commands
	}
	run := help.Run
	help.RunE = func(c *cobra.Command, args []string) error {
		if about, rest, _ := root.Find(args); len(rest) > 0 {
			return notACommand(about, rest[0])
		}
		run(c, args)
		return nil
	}
}

// helpFor returns an error where --help follows a word that would have been the
// name of a command.
func helpFor(c *cobra.Command) error {
	if asked, _ := c.Flags().GetBool("help"); !asked || !c.HasSubCommands() {
		return nil
	}
	return c.ValidateArgs(c.Flags().Args())
}

// wrapUsage makes every complaint about flags and arguments a usageError.
func wrapUsage(c *cobra.Command) {
	c.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return usageError{fmt.Errorf("%w; see %s --help", err, c.CommandPath())}
	})
	if args := c.Args; args != nil {
		c.Args = func(cmd *cobra.Command, a []string) error {
			if slices.Contains(a, "") { // often a variable that is not set; as a path it would be the current directory
				return usageError{fmt.Errorf("an argument is empty; usage: %s", cmd.UseLine())}
			}
			if err := args(cmd, a); err != nil {
				var usage usageError
				if errors.As(err, &usage) {
					return err
				}
				return usageError{fmt.Errorf("%w; usage: %s", err, cmd.UseLine())}
			}
			return nil
		}
	}
	for _, sub := range c.Commands() {
		wrapUsage(sub)
	}
}
