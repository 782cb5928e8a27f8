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
	"github.com/tensorfs/tensorfs/internal/server"
	"github.com/tensorfs/tensorfs/internal/source"
)

func main() {
	// Package net/http writes there what servers send unasked. All messages of this
	// program have other ways.
	log.SetOutput(io.Discard)
	source.ReadSlowDirect(server.StreamMemory)
	if isMountHelper(os.Args[0]) {
		os.Exit(runHelper(os.Args[1:], os.Stdout, os.Stderr))
	}
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

// run executes a command line and returns the exit code.
func run(args []string, stdout, stderr io.Writer) int {
	root := newRoot()
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
	root.AddCommand(s.mount(), s.umount(), s.status(), s.keep(), s.serve(), s.ls(), s.info(), s.cat(), s.export(), s.verify(), s.diff(), s.stat(), s.report(), s.list(),
		s.fetch(), s.cache(), s.version(), s.completion(), s.command("remote", nil, nil, nil))
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
