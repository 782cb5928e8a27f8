package main

import (
	"fmt"
	"io"
	"path/filepath"
	"runtime"
	"slices"

	"github.com/spf13/cobra"

	"github.com/tensorfs/tensorfs/internal/cli"
)

// helperNames are the names under which mount(8) looks for a program that mounts a
// type of file system, without fuse3: mount.TYPE.
var helperNames = []string{"mount.tensorfs", "mount.fuse.tensorfs"}

// isMountHelper reports whether this program was called under such a name.
func isMountHelper(program string) bool {
	return slices.Contains(helperNames, filepath.Base(program))
}

// helperExit translates exit codes to mount(8)'s.
var helperExit = map[int]int{cli.ExitOK: 0, cli.ExitFailed: 32, cli.ExitUsage: 1}

// runHelper runs the command line that mount(8) gives a helper and returns an exit
// code of mount(8).
func runHelper(args []string, stdout, stderr io.Writer) int {
	return helperExit[execute(system(runtime.GOOS).mountHelper(), args, stdout, stderr)]
}

// mountHelper is the command that mount(8) calls.
func (s system) mountHelper() *cobra.Command {
	mount := &mountOptions{}
	mount.define(s, &cobra.Command{}) // which -o names
	var fake, quiet bool
	var namespace, fsType string
	own := flags{
		"sloppy": &mount.sloppy, "fake": &fake, "no-mtab": &quiet, "verbose": &quiet, "namespace": &namespace, "options": &mount.options, "types": &fsType,
	}
	c := s.command("mount.tensorfs", between(2, 2), own, func(cmd *cobra.Command, args []string) error {
		if namespace != "" {
			return fmt.Errorf("-N %s is not supported; use nsenter --mount=%s tensorfs mount", namespace, namespace)
		}
		if fake {
			_, err := mount.takeOptions()
			return err
		}
		return mount.run(cmd, args)
	})
	wrapUsage(c)
	return c
}
