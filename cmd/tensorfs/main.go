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
	"github.com/tensorfs/tensorfs/internal/cli"
	_ "github.com/tensorfs/tensorfs/internal/fewfiles" // a one-line error instead of a panic
	"github.com/tensorfs/tensorfs/internal/memlimit"
	"github.com/tensorfs/tensorfs/internal/server"
	"github.com/tensorfs/tensorfs/internal/source"
)

func main() {
	// Package net/http writes there what servers send unasked. All messages of this
	// program have other ways.
	log.SetOutput(io.Discard)
	memlimit.Opening()() // most commands end before their first collection
	source.ReadSlowDirect(server.StreamMemory)
	if isMountHelper(os.Args[0]) {
		os.Exit(runHelper(os.Args[1:], os.Stdout, os.Stderr))
	}
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

// run executes a command line and returns the exit code.
func run(args []string, stdout, stderr io.Writer) int {
	root := newRootFor(system(runtime.GOOS), args...)
	if cli.AsksForCompletion(args) {
		completeFlags(root)
	}
	return execute(root, args, stdout, stderr)
}

// execute runs a command with its arguments and returns the exit code.
func execute(root *cobra.Command, args []string, stdout, stderr io.Writer) int {
	out := cli.Check(stdout)
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
		return cli.ExitOK
	}
	if !cli.IsA[cli.Reported](err) {
		cli.PrintError(stderr, err, args)
	}
	switch {
	case cli.IsA[cli.UsageError](err):
		return cli.ExitUsage
	case cli.IsA[cli.TroubleError](err):
		return cli.ExitTrouble
	}
	return cli.ExitFailed
}

func newRoot() *cobra.Command { return newRootFor(system(runtime.GOOS)) }

// newRootFor returns the command with the words of a system. Of a line that begins with a command, or
// asks for the version, the remaining commands are only names: their flags would take a millisecond.
func newRootFor(s system, line ...string) *cobra.Command {
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
			return cli.UsageError{Err: errors.New("--json is for one model; usage: tensorfs info --json MODEL")}
		}
		return mount.run(cmd, args)
	})
	mount.define(s, root)
	root.SuggestionsMinimumDistance = 2
	root.Flags().VisitAll(func(f *pflag.Flag) { f.Hidden = true }) // they are for mount(8)
	s.define(root, "tensorfs", flags{"json": new(bool), "version": new(bool)})
	root.Version = versionLine()
	root.SetVersionTemplate("{{.Version}}\n")
	commands := map[string]func() *cobra.Command{
		"mount": s.mount, "umount": s.umount, "status": s.status, "keep": s.keep, "serve": s.serve, "ls": s.ls, "info": s.info, "cat": s.cat,
		"export": s.export, "verify": s.verify, "diff": s.diff, "stat": s.stat, "report": s.report, "list": s.list, "fetch": s.fetch, "cache": s.cache,
		"version": s.version, "completion": s.completion, "remote": func() *cobra.Command { return s.command("remote", nil, nil, nil) },
	}
	first := append(line, "")[0]
	only := commands[first] != nil || len(line) == 1 && (first == "--version" || first == "-V")
	for name, made := range commands {
		if only && name != first {
			made = func() *cobra.Command { return &cobra.Command{Use: name} }
		}
		root.AddCommand(made())
	}
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
