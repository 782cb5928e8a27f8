package main

import (
	"os"

	"github.com/spf13/cobra"
	"github.com/tensorfs/tensorfs/internal/mounts"
	"github.com/tensorfs/tensorfs/internal/server"
)

func (s system) serve() *cobra.Command {
	o := &mountOptions{}
	o.define(s, &cobra.Command{}) // options without a flag here have the defaults of mount
	o.spec.Backend, o.foreground = mounts.BackendNFS, true
	c := s.command("serve", between(1, 1), flags{}, func(cmd *cobra.Command, args []string) error {
		model, err := args[0], error(nil)
		o.keepInside, o.shared = os.Geteuid() == 0, true
		if o.spec.HandedOver {
			model, o.LoRA, err = server.Handed(os.Stdin)
		}
		if err == nil {
			model, err = absolute(model)
		}
		if err == nil {
			err = o.check()
		}
		if err == nil {
			err = o.specFor("serve", model, "", nil).Become("")
		}
		if err != nil {
			return err
		}
		return o.serve(cmd, "serve", model, "", nil)
	})
	o.defineShared(s, c)
	return c
}
