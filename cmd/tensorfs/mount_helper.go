package main

import (
	"fmt"
	"io"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"
)

// helperNames are the names under which mount(8) looks for a program that mounts a
// type of file system, without fuse3: mount.TYPE.
var helperNames = []string{"mount.tensorfs", "mount.fuse.tensorfs"}

// isMountHelper reports whether this program was called under such a name.
func isMountHelper(program string) bool {
	return slices.Contains(helperNames, filepath.Base(program))
}

// helperExit translates exit codes to those of mount(8).
var helperExit = map[int]int{exitOK: 0, exitFailed: 32, exitUsage: 1}

// runHelper runs the command line that mount(8) gives a helper and returns an exit
// code of mount(8).
func runHelper(args []string, stdout, stderr io.Writer) int {
	return helperExit[execute(mountHelper(), args, stdout, stderr)]
}

// mountHelper is the command that mount(8) calls.
func mountHelper() *cobra.Command {
	mount := &mountOptions{}
	mount.flags(&cobra.Command{}) // which -o names
	var fake, quiet bool
	var namespace, fsType string
	c := &cobra.Command{
		Use:   "mount.tensorfs MODEL MOUNTPOINT [-sfnv] [-N NAMESPACE] [-o OPTIONS] [-t TYPE]",
		Short: "Mount a model, called by mount(8)",
		Long: `mount.tensorfs is tensorfs under the name by which mount(8) finds it: it mounts
as tensorfs mount does. It serves lines of /etc/fstab like

  /models/model.gguf  /mnt/m  tensorfs  ro,allow_other,nofail  0  0`,
		Args:          between(2, 2),
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			if namespace != "" {
				return fmt.Errorf("-N %s is not supported; use nsenter --mount=%s tensorfs mount", namespace, namespace)
			}
			if fake {
				_, err := mount.takeOptions()
				return err
			}
			return mount.run(cmd, args[0], args[1])
		},
	}
	f := c.Flags()
	f.BoolVarP(&mount.sloppy, "sloppy", "s", false, "ignore unknown options")
	f.BoolVarP(&fake, "fake", "f", false, "check the options and mount nothing")
	f.BoolVarP(&quiet, "no-mtab", "n", false, "accepted: no /etc/mtab is written in any case")
	f.BoolVarP(&quiet, "verbose", "v", false, "accepted: there is nothing more to say")
	f.StringVarP(&namespace, "namespace", "N", "", "refused")
	f.StringArrayVarP(&mount.options, "options", "o", nil, "mount options, separated by commas")
	f.StringVarP(&fsType, "types", "t", "", "accepted: the type is fuse.tensorfs in any case")
	wrapUsage(c)
	return c
}
