package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/fs"
)

func serveCommand() *cobra.Command {
	o := &mountOptions{}
	o.flags(&cobra.Command{}) // what is no flag here is as mount has it
	o.backend, o.foreground = fs.BackendNFS, true
	c := &cobra.Command{
		Use:   "serve [flags] MODEL",
		Short: "Serve a model to NFS clients of this machine",
		Long: `serve shows the tree of MODEL to programs on this machine that speak NFS
(version 3, read-only), and mounts nothing: it takes no root, no FUSE and no NFS
in the kernel. It prints an address for programs with libnfs and serves until
Ctrl-C.

The address has a secret. Who knows it can read the tree, whoever he is; nobody
else can. The server takes connections from this machine alone.

To mount a model over NFS use tensorfs mount --backend nfs.`,
		Example: `  tensorfs serve model.gguf
  nfs-cat 'nfs://127.0.0.1/TOKEN/config.json?nfsport=PORT&mountport=PORT'`,
		Args: between(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			model, err := args[0], error(nil)
			if o.handOver {
				model, err = takeOver(os.Stdin)
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
			o.keepInside = os.Geteuid() == 0
			return o.serve(cmd, model, "", nil)
		},
	}
	o.addShared(c.Flags())
	o.add(c)
	o.own = c.Flags()
	return c
}

// whereServed tells whoever serves a model in the foreground where it is.
func whereServed(s served, model, mountpoint string) string {
	if n, ok := s.(*nfsServed); ok && mountpoint == "" {
		return n.url()
	}
	return fmt.Sprintf("%s is mounted at %s; Ctrl-C unmounts", printableName(model), tensorfs.Printable(mountpoint))
}
