package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/cli"
	"github.com/tensorfs/tensorfs/internal/mounts"
)

func (s system) serve() *cobra.Command {
	o := &mountOptions{}
	o.define(s, &cobra.Command{}) // options without a flag here have the defaults of mount
	o.backend, o.foreground = mounts.BackendNFS, true
	c := s.command("serve", between(1, 1), flags{}, func(cmd *cobra.Command, args []string) error {
		model, err := args[0], error(nil)
		o.keepInside, o.shared = os.Geteuid() == 0, true
		if o.handOver {
			model, o.LoRA, err = takeOver(os.Stdin)
		}
		if err == nil {
			model, err = absolute(model)
		}
		if err == nil {
			err = o.check()
		}
		if err == nil {
			err = o.becomeServer("serve", "", model, "", nil)
		}
		if err != nil {
			return err
		}
		return o.serve(cmd, model, "", nil)
	})
	o.defineShared(s, c)
	return c
}

// whereServed reports where a model that is served in the foreground can be found.
func whereServed(s served, model, mountpoint string) string {
	if n, ok := s.(*nfsServed); ok && mountpoint == "" {
		return n.url()
	}
	return fmt.Sprintf("%s is mounted at %s; Ctrl-C unmounts", cli.PrintableName(model), tensorfs.Printable(mountpoint))
}
