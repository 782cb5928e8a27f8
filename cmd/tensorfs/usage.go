package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats"
	"github.com/tensorfs/tensorfs/formats/models"
	"github.com/tensorfs/tensorfs/internal/cli"
	"github.com/tensorfs/tensorfs/internal/cli/theirs"
	"github.com/tensorfs/tensorfs/internal/conceal"
	"github.com/tensorfs/tensorfs/internal/near"
)

// rootArgs checks the words of a command line whose first is not a command: MODEL, as
// with info, or MODEL MOUNTPOINT, as with mount.
func rootArgs(root *cobra.Command, args []string) error {
	switch {
	case len(args) == 0:
		return nil
	case !isNamed(args[0]):
		return neither(root, args)
	case len(args) == 1:
		return nil
	}
	// A mount point with the name of a command has a slash in front.
	if c, _, err := root.Find(args[1:2]); err == nil && c != root {
		words := append([]string{args[1], args[0]}, args[2:]...)
		return cli.UsageError{Err: fmt.Errorf("the command comes before the model; did you mean tensorfs %s?", line(words))}
	}
	if len(args) > 2 {
		return cli.UsageError{Err: fmt.Errorf("too many arguments; name a command before them, such as tensorfs info MODEL (tensorfs --help lists all)")}
	}
	return nil
}

// isNamed reports whether a word names a model rather than a command: a file has that
// name, or no command could have it.
func isNamed(word string) bool {
	_, err := os.Lstat(word)
	return err == nil || strings.ContainsAny(word, notInCommands)
}

// notInCommands are characters that occur in names of remote models and in paths, but in no
// command.
const notInCommands = "/.:"

// neither returns the error for a first word that is neither a command nor a model, with
// both that may be meant.
func neither(root *cobra.Command, words []string) error {
	word := words[0]
	if advice := theirs.Verb(word, words[1:], formats.IsName); advice != "" {
		return cli.UsageError{Err: fmt.Errorf("%q is not a command; %s", word, advice)}
	}
	var commands, files []string
	if len(word) > root.SuggestionsMinimumDistance { // a shorter word is as near to any other
		commands = root.SuggestionsFor(word)
	}
	if f, err := os.Open("."); err == nil {
		names, _ := f.Readdirnames(maxNames) // existing ones, as far as they can be read
		f.Close()
		files = near.Names(word, names, 3)
	}
	advice := near.Question(commands)
	switch {
	case len(commands)+len(files) == 0:
		advice = "tensorfs --help lists the commands, tensorfs list the models of this machine"
	case len(commands) == 0:
		advice = "did you mean the file " + near.Either(files) + "?"
	case len(files) > 0:
		advice = "did you mean the command " + near.Either(commands) + ", or the file " + near.Either(files) + "?"
	}
	return cli.UsageError{Err: fmt.Errorf("%q is not a command, and there is no file of that name; %s", word, advice)}
}

// maxNames bounds the names that are compared with a mistyped one.
const maxNames = 100_000

// notACommand returns the error for what should be the name of a command below another.
func notACommand(of *cobra.Command, name string) error {
	name = conceal.Name(name)
	if advice := theirs.Verb(name, nil, formats.IsName); advice != "" && !of.HasParent() {
		return cli.UsageError{Err: fmt.Errorf("%q is not a command; %s", name, advice)}
	}
	if names := of.SuggestionsFor(name); len(names) > 0 {
		return cli.UsageError{Err: fmt.Errorf("%q is not a command; %s", name, near.Question(names))}
	}
	return cli.UsageError{Err: fmt.Errorf("%q is not a command; see %s --help", name, of.CommandPath())}
}

// runInfo runs info for a model that is named without a command. The flags are those
// before and after it.
func runInfo(root *cobra.Command, model string) error {
	info, _, err := root.Find([]string{"info"})
	if err != nil {
		return err
	}
	var flags []string
	root.Flags().Visit(func(f *pflag.Flag) { flags = append(flags, "--"+f.Name+"="+f.Value.String()) })
	if err := info.ParseFlags(flags); err != nil {
		return info.FlagErrorFunc()(info, err)
	}
	info.SetContext(root.Context())
	return info.RunE(info, []string{model})
}

// line is a part of a command line for messages.
func line(words []string) string {
	shown := make([]string, len(words))
	for i, w := range words {
		shown[i] = conceal.Printable(w)
	}
	return strings.Join(shown, " ")
}

// modelFirst makes a command that failed, and whose first argument is not a model, say
// whether its second one is.
func modelFirst(c *cobra.Command) {
	run := c.RunE
	c.RunE = func(c *cobra.Command, args []string) error {
		err := run(c, args)
		if f := c.Flags().Lookup("takeover"); f != nil && isSet(f) {
			return err // the second may be a mount that waits for a server
		}
		if err == nil || cli.IsA[cli.Reported](err) || len(args) < 2 || !isModel(args[1]) || isModel(args[0]) {
			return err
		}
		swapped := append([]string{args[1], args[0]}, args[2:]...)
		return cli.UsageError{Err: fmt.Errorf("the model comes first; did you mean %s %s?", c.CommandPath(), line(swapped))}
	}
}

// isModel reports whether a name belongs to a model: one that can be opened, or is looked
// for on a server.
func isModel(name string) bool {
	if formats.IsName(name) {
		return true
	}
	m, err := models.Open(name, models.Options{Top: true})
	if err != nil {
		return false
	}
	m.Close()
	return true
}

// between returns a check of the number of arguments, in more helpful words than cobra's.
// hint is what to do if there are more.
func between(least, most int, hint ...string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		switch {
		case len(args) < least:
			return errors.New("too few arguments")
		case len(args) > most:
			return errors.New(strings.Join(append([]string{"too many arguments"}, hint...), "; "))
		}
		return nil
	}
}

// strictHelp makes help about an unknown command an error, while cobra prints help about
// something else.
func strictHelp(root *cobra.Command) {
	printHelp := root.HelpFunc()
	root.SetHelpFunc(func(c *cobra.Command, args []string) {
		if about := helpNamed(c); about != nil {
			c = about
		}
		if helpFor(c) == nil {
			stderr := c.ErrOrStderr()
			c.SetErr(io.Discard) // where cobra prints why it cannot write, which execute reports
			printHelp(c, args)
			c.SetErr(stderr)
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
	if asked, _ := c.Flags().GetBool("help"); !asked || !c.HasSubCommands() || helpNamed(c) != nil {
		return nil
	}
	return c.ValidateArgs(c.Flags().Args())
}

// helpNamed returns the command that follows --help, as in tensorfs --help mount; may be
// nil.
func helpNamed(c *cobra.Command) *cobra.Command {
	words := c.Flags().Args()
	if asked, _ := c.Flags().GetBool("help"); !asked || len(words) == 0 {
		return nil
	}
	if about, rest, err := c.Find(words); err == nil && about != c && len(rest) == 0 {
		return about
	}
	return nil
}

// wrapUsage makes every complaint about flags and arguments a cli.UsageError.
func wrapUsage(c *cobra.Command) {
	c.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		if value, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
			err = fmt.Errorf("--%s %s: %w", value.GetFlag().Name, tensorfs.Quote(value.GetValue()), wrongValue(value.GetFlag(), value.Unwrap()))
		}
		if err := unknownFlag(c, err); err != nil {
			return err
		}
		return cli.UsageError{Err: fmt.Errorf("%w; see %s --help", err, c.CommandPath())}
	})
	if args := c.Args; args != nil {
		c.Args = func(cmd *cobra.Command, a []string) error {
			if slices.Contains(a, "") { // often a variable that is not set; as a path it would be the current directory
				return cli.UsageError{Err: fmt.Errorf("an argument is empty; usage: %s", cmd.UseLine())}
			}
			if err := cmp.Or(cli.EmptyFlag(cmd.Flags()), cli.BlankUnit(cmd.Flags(), a), cli.UnexpandedHome(cmd.Flags(), a), contradiction(cmd.Flags())); err != nil {
				return err
			}
			err := args(cmd, a)
			if err == nil || cli.IsA[cli.UsageError](err) {
				return err
			}
			if together := misplaced(cmd.Flags(), a); together != "" {
				return cli.UsageError{Err: fmt.Errorf("%w; %s", err, together)}
			}
			return cli.UsageError{Err: fmt.Errorf("%w; usage: %s", err, cmd.UseLine())}
		}
	}
	for _, sub := range c.Commands() {
		wrapUsage(sub)
	}
}

// contradiction returns the error of flags that exclude each other.
func contradiction(set *pflag.FlagSet) error {
	for _, pair := range exclusive {
		a, b := set.Lookup(pair[0]), set.Lookup(pair[1])
		if a != nil && b != nil && isGiven(a) && isGiven(b) {
			return cli.UsageError{Err: fmt.Errorf("%s and %s exclude each other", shortName(a), shortName(b))}
		}
	}
	return nil
}

// isGiven reports whether a flag has an effect: --all=false has none, --size 0 does.
func isGiven(f *pflag.Flag) bool { return isSet(f) || f.Changed && f.Value.Type() != "bool" }

// shortName is a flag as most write it.
func shortName(f *pflag.Flag) string {
	if f.Shorthand != "" {
		return "-" + f.Shorthand
	}
	return "--" + f.Name
}
