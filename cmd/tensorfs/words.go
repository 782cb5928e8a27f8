package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats"
	"github.com/tensorfs/tensorfs/internal/cli"
	"github.com/tensorfs/tensorfs/internal/cli/theirs"
	"github.com/tensorfs/tensorfs/internal/near"
)

// unknownFlag adds to the error of an unknown flag which one may be meant. Other errors give
// nil.
func unknownFlag(c *cobra.Command, err error) error {
	missing, ok := errors.AsType[*pflag.NotExistError](err)
	if !ok {
		return nil
	}
	name := strings.ReplaceAll(missing.GetSpecifiedName(), "_", "-")
	if words := c.Flags().Args(); c.HasParent() && c.HasSubCommands() && len(words) > 0 {
		return notACommand(c, words[0])
	}
	if words := c.Flags().Args(); !c.HasParent() && len(words) > 0 { // of a command that is not there
		if advice := theirs.Verb(words[0], words[1:], formats.IsName); advice != "" {
			return cli.UsageError{Err: fmt.Errorf("%q is not a command; %s", words[0], advice)}
		}
	} else if !c.HasParent() {
		for _, other := range c.Commands() {
			if other.Name() == name && !other.Hidden {
				return cli.UsageError{Err: fmt.Errorf("%w; did you mean %s?", err, other.CommandPath())}
			}
		}
	}
	if way := theirs.Way(c.Name(), c.HasParent(), name); way != "" {
		return cli.UsageError{Err: fmt.Errorf("%w; %s", err, way)}
	}
	if ours := theirs.Flags[name]; ours != "" && c.Flags().Lookup(ours) != nil {
		return cli.UsageError{Err: fmt.Errorf("%w; did you mean --%s?", err, ours)}
	}
	var names []string
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			names = append(names, f.Name)
		}
	})
	if len(name) < 2 {
		return nil
	}
	if names = near.Names(name, names, 3); len(names) == 0 {
		return elsewhereFlag(c, name, err)
	}
	for i := range names {
		names[i] = "--" + names[i]
	}
	return cli.UsageError{Err: fmt.Errorf("%w; %s", err, near.Question(names))}
}

// elsewhereFlag returns the error of a flag that only other commands have, nil if none has it.
func elsewhereFlag(c *cobra.Command, name string, err error) error {
	root := c.Root()
	if near.Names(name, []string{"version"}, 1) != nil {
		return cli.UsageError{Err: fmt.Errorf("%w; did you mean %s --version?", err, root.Name())}
	}
	var have []string
	for _, other := range newRoot().Commands() { // with their flags
		if f := other.Flags().Lookup(name); f != nil && !f.Hidden {
			have = append(have, other.CommandPath())
		}
	}
	switch n := len(have); {
	case n == 0:
		return nil
	case n > 3:
		have = have[:3]
	}
	return cli.UsageError{Err: fmt.Errorf("%w; %s has no such flag, %s does", err, c.CommandPath(), near.Either(have))}
}

// misplaced explains too many arguments: a name with a blank that lost its quotes, or views
// after --views. It is "" if neither fits.
func misplaced(set *pflag.FlagSet, args []string) string {
	for i := range args {
		for end := i + 2; end <= min(len(args), i+maxBlanks); end++ {
			name := strings.Join(args[i:end], " ")
			if _, err := os.Lstat(name); err == nil {
				return fmt.Sprintf("put the name in quotes: %s", tensorfs.Quote(name))
			}
		}
	}
	if f := set.Lookup("views"); f != nil && f.Changed {
		named := []string{f.Value.String()}
		for _, a := range args {
			if slices.Contains(allViews, a) {
				named = append(named, a)
			}
		}
		if len(named) > 1 {
			return "views have commas between them: --views " + strings.Join(named, ",")
		}
	}
	return ""
}

// maxBlanks bounds the words that are tried as one name.
const maxBlanks = 6
