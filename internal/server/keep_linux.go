package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/fs"
	"github.com/tensorfs/tensorfs/internal/cli"
	"github.com/tensorfs/tensorfs/internal/keep"
)

// Keep keeps mounts for servers that name a socket, until a signal ends it.
func Keep(socket string, stdout io.Writer) error {
	if socket == "" {
		return cli.UsageError{Err: errors.New("give --socket SOCKET, the path that servers name with --takeover")}
	}
	l, err := keep.Listen(socket)
	if err != nil {
		return tensorfs.PathError(socket, err)
	}
	ctx, stop := cli.Interruptible(context.Background())
	defer stop()
	context.AfterFunc(ctx, func() { l.Close() })
	if err := notifyReady(); err != nil {
		return fmt.Errorf("systemd cannot be told that the keeper is ready: %w", err)
	}
	fmt.Fprintf(stdout, "keeps the mounts of servers that name it: tensorfs mount -f --takeover %s\n", tensorfs.Printable(socket))
	return new(keep.Keeper).Serve(l)
}

// WarnUnkept explains in one line why the mount that is about to be made is not kept yet.
// Its server logs the same.
func (s *Spec) WarnUnkept(stderr io.Writer) {
	if s.Takeover == "" || s.Takeover == BySystemd {
		return
	}
	if err := keep.Reach(s.Takeover); err != nil {
		cli.Complain(stderr, "tensorfs: the mount is not kept: "+cli.ErrorLine(err, os.Args[1:]))
	}
}

// keeper returns the keeper of the mount; may be nil.
func (s *Spec) keeper() (fs.Keeper, error) {
	switch {
	case s.Takeover == "":
		return nil, nil
	case s.Takeover == BySystemd:
		systemd, err := keep.NewSystemd()
		if err != nil {
			return nil, fmt.Errorf("--takeover %s: %w", BySystemd, err)
		}
		return systemd, nil
	}
	c, err := keep.NewClient(s.Takeover, s.Mountpoint)
	if err != nil {
		return nil, fmt.Errorf("--takeover: %w", err)
	}
	return c, nil
}
