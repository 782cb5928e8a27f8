package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"runtime"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/tensorfs/tensorfs"
	_ "github.com/tensorfs/tensorfs/internal/fewfiles" // a one-line error instead of a panic
	"github.com/tensorfs/tensorfs/internal/term"
)

// Exit codes.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2

	exitTrouble = 2 // of diff, whose 1 means that models differ
)

// usageError is a command line that cannot be understood.
type usageError struct{ error }

func main() {
	// Package net/http writes there what servers send unasked. All messages of this
	// program have other ways.
	log.SetOutput(io.Discard)
	if isMountHelper(os.Args[0]) {
		os.Exit(runHelper(os.Args[1:], os.Stdout, os.Stderr))
	}
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

// run executes a command line and returns the exit code.
func run(args []string, stdout, stderr io.Writer) int {
	root := newRoot()
	if asksForCompletion(args) {
		completeFlags(root)
	}
	return execute(root, args, stdout, stderr)
}

// execute runs a command with its arguments and returns the exit code.
func execute(root *cobra.Command, args []string, stdout, stderr io.Writer) int {
	out := term.Check(stdout)
	root.SetArgs(args)
	root.SetOut(out)
	root.SetErr(stderr)
	strictHelp(root)
	c, err := root.ExecuteContextC(context.Background())
	if err == nil {
		err = helpFor(c)
	}
	if err == nil {
		err = out.Err()
	}
	if err == nil {
		return exitOK
	}
	if !is[reported](err) {
		printError(stderr, err, args)
	}
	switch {
	case is[usageError](err):
		return exitUsage
	case is[troubleError](err):
		return exitTrouble
	}
	return exitFailed
}

// is reports whether an error is of a type.
func is[T error](err error) bool {
	_, ok := errors.AsType[T](err)
	return ok
}

// troubleError is a failure of a command whose exit status 1 means something else.
type troubleError struct{ error }

// printError prints an error of a command line.
func printError(stderr io.Writer, err error, args []string) {
	complain(stderr, "tensorfs: "+errorLine(err, args))
}

// complain prints a message: as one line, which a terminal gets folded at words.
func complain(w io.Writer, message string) { fmt.Fprintln(w, folded(w, message)) }

// folded returns text that is written to w, folded at words if that is a terminal.
func folded(w io.Writer, text string) string {
	if !term.Is(w) {
		return text
	}
	return term.Fold(text, term.Width(w)-1, "  ")
}

// errorLine returns an error of a command line as a line. Words that are too long to read,
// such as a name of 5,000 letters, are cut in the middle.
func errorLine(err error, args []string) string {
	words := strings.Split(tensorfs.OneLine(publicText(err.Error(), args)), " ")
	for i := range words {
		words[i] = term.Shorten(words[i], longestWord)
	}
	return strings.Join(words, " ")
}

const longestWord = 400

// reported marks a failure that the command has already printed.
type reported struct{ error }

// Unwrap returns what was reported, which decides the exit code.
func (r reported) Unwrap() error { return r.error }

func newRoot() *cobra.Command { return newRootFor(system(runtime.GOOS)) }

// newRootFor returns the command with the words of a system.
func newRootFor(s system) *cobra.Command {
	mount := &mountOptions{}
	// mount(8) calls a filesystem's program as PROGRAM SOURCE DIRECTORY -o OPTIONS.
	root := s.command("tensorfs", rootArgs, nil, func(cmd *cobra.Command, args []string) error {
		switch len(args) {
		case 0:
			if cmd.Flags().Changed("verbose") { // of other programs it is the version; for mount(8) a model follows
				_, err := fmt.Fprintln(cmd.OutOrStdout(), versionLine())
				return err
			}
			return cmd.Help()
		case 1:
			return runInfo(cmd, args[0])
		}
		if cmd.Flags().Changed("json") {
			return usageError{errors.New("--json is for one model; usage: tensorfs info --json MODEL")}
		}
		return mount.run(cmd, args)
	})
	mount.define(s, root)
	root.SuggestionsMinimumDistance = 2
	root.Flags().VisitAll(func(f *pflag.Flag) { f.Hidden = true }) // they are for mount(8)
	s.define(root, "tensorfs", flags{"json": new(bool), "version": new(bool)})
	root.Version = versionLine()
	root.SetVersionTemplate("{{.Version}}\n")
	root.AddCommand(s.mount(), s.umount(), s.status(), s.keep(), s.serve(), s.ls(), s.info(), s.cat(), s.export(), s.verify(), s.diff(), s.stat(), s.report(), s.list(),
		s.fetch(), s.cache(), s.version(), s.man(), s.completion(), s.command("remote", nil, nil, nil))
	for _, c := range root.Commands() {
		if strings.Contains(c.Use, " MODEL") && !c.HasSubCommands() {
			modelFirst(c)
		}
	}
	completeArguments(root)
	groupCommands(root)
	layOutHelp(root)
	wrapUsage(root)
	return root
}
