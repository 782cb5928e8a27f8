package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/fs"
	"github.com/tensorfs/tensorfs/internal/cli"
	"github.com/tensorfs/tensorfs/internal/keep"
)

// run keeps mounts until a signal ends it.
func (o *keepOptions) run(cmd *cobra.Command, _ []string) error {
	if o.socket == "" {
		return cli.UsageError{Err: errors.New("give --socket SOCKET, the path that servers name with --takeover")}
	}
	l, err := keep.Listen(o.socket)
	if err != nil {
		return tensorfs.PathError(o.socket, err)
	}
	ctx, stop := interruptible(context.Background())
	defer stop()
	context.AfterFunc(ctx, func() { l.Close() })
	if err := notifyReady(); err != nil {
		return fmt.Errorf("systemd cannot be told that the keeper is ready: %w", err)
	}
	fmt.Fprintf(cmd.OutOrStdout(), "keeps the mounts of servers that name it: tensorfs mount -f --takeover %s\n", tensorfs.Printable(o.socket))
	return new(keep.Keeper).Serve(l)
}

// warnUnkept explains in one line why the mount that is about to be made is not kept yet.
// Its server logs the same.
func (o *mountOptions) warnUnkept(stderr io.Writer) {
	if o.takeover == "" || o.takeover == bySystemd {
		return
	}
	if err := keep.Reach(o.takeover); err != nil {
		cli.Complain(stderr, "tensorfs: the mount is not kept: "+cli.ErrorLine(err, os.Args[1:]))
	}
}

// keeper returns the keeper of the mount; may be nil.
func (o *mountOptions) keeper(mountpoint string) (fs.Keeper, error) {
	switch {
	case o.takeover == "":
		return nil, nil
	case o.takeover == bySystemd:
		s, err := keep.NewSystemd()
		if err != nil {
			return nil, fmt.Errorf("--takeover %s: %w", bySystemd, err)
		}
		return s, nil
	}
	c, err := keep.NewClient(o.takeover, mountpoint)
	if err != nil {
		return nil, fmt.Errorf("--takeover: %w", err)
	}
	return c, nil
}
