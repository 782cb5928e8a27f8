package main

import (
	"errors"
	"fmt"
	"io"
	iofs "io/fs"
	"math"
	"os"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/fs"
	"github.com/tensorfs/tensorfs/internal/cli"
	"github.com/tensorfs/tensorfs/internal/mounts"
	"github.com/tensorfs/tensorfs/internal/server"
)

type umountOptions struct{ lazy, all bool }

func (s system) umount() *cobra.Command {
	o := &umountOptions{}
	c := s.command("umount", func(cmd *cobra.Command, args []string) error {
		if o.all {
			return between(0, 0)(cmd, args)
		}
		return between(1, math.MaxInt)(cmd, args)
	}, flags{"all": &o.all, "lazy": &o.lazy}, func(cmd *cobra.Command, args []string) error {
		places := make([]string, len(args))
		for i, arg := range args {
			places[i] = server.MountpointOf(arg)
		}
		if o.all {
			var err error
			if places, err = ownMountpoints(); err != nil {
				return err
			}
		}
		var failed error
		for _, place := range places {
			if err := o.run(cmd.ErrOrStderr(), place); err != nil {
				cli.PrintError(cmd.ErrOrStderr(), err, args)
				failed = cli.Reported{Err: err}
			}
		}
		return failed
	})
	c.Aliases = []string{"unmount"}
	return c
}

// ownMountpoints lists the mounts that do not belong to other users, the last one mounted
// first.
func ownMountpoints() (places []string, err error) {
	all, err := mounts.List()
	if err != nil {
		return nil, err
	}
	for _, m := range slices.Backward(all) {
		if err := m.Ask(new(any)); !errors.Is(err, syscall.EACCES) {
			places = append(places, m.Mountpoint)
		}
	}
	return places, nil
}

const (
	// serverExit is how long a server may take to end once its mount is not in use.
	serverExit = 5 * time.Second
	// serverLate is how long umount waits before it looks for what keeps the server.
	serverLate = 500 * time.Millisecond
)

func (o *umountOptions) run(stderr io.Writer, mountpoint string) error {
	if o.lazy {
		return mounts.Unmount(mountpoint, true)
	}
	m, err := mounts.At(mountpoint)
	if err != nil {
		return err
	}
	pid := 0
	if m != nil {
		var status fs.Status
		err := m.Ask(&status) // any other error means that nothing answers: nothing to wait for
		if errors.Is(err, mounts.ErrHung) {
			return fmt.Errorf("%s: its server%s does not answer; tensorfs umount -l %s detaches the mount",
				tensorfs.Printable(m.Mountpoint), process(m.Server()), tensorfs.Printable(mountpoint))
		}
		pid = status.PID
	}
	if err := mounts.Unmount(mountpoint, false); err != nil {
		if errors.Is(err, syscall.EBUSY) {
			return fmt.Errorf("%s is in use; end those programs (%s names them) or %s", tensorfs.Printable(mountpoint), mounts.InUseCommand(tensorfs.Printable(mountpoint)), cli.Messages[runtime.GOOS].Force)
		}
		if errors.Is(err, iofs.ErrNotExist) {
			return fmt.Errorf("%w; tensorfs status lists the mounts", err)
		}
		return err
	}
	if why := await(pid, m); why != "" {
		cli.Complain(stderr, fmt.Sprintf("tensorfs: %s is unmounted; its server%s keeps running: %s", tensorfs.Printable(m.Mountpoint), process(pid), why))
	}
	return nil
}

// await waits until the server of an unmounted mount has ended. If it does not end,
// await returns why. A copy of the mount in this namespace stays; one in another
// namespace may belong to a program that is just starting another.
func await(pid int, m *mounts.Mount) string {
	looked := false
	for start := time.Now(); pid > 0 && alive(pid); time.Sleep(2 * time.Millisecond) {
		waited := time.Since(start)
		late := waited > serverExit
		if waited < serverLate || looked && !late {
			continue
		}
		looked = true
		places := m.Elsewhere()
		switch {
		case len(places) > 0 && (late || places[0].PID == 0): // mounts in this namespace come first
			return elsewhere(places)
		case late && m.Backend() == mounts.BackendNFS:
			return cli.StillRead
		case late:
			return cli.Messages[runtime.GOOS].StillRuns
		}
	}
	return ""
}

// elsewhere reports where copies of a mount are.
func elsewhere(places []mounts.Copy) string {
	why := "the model is also mounted at " + tensorfs.Printable(places[0].Mountpoint)
	if places[0].PID != 0 {
		why += fmt.Sprintf(" in the mount namespace of process %d", places[0].PID)
	}
	if n := len(places) - 1; n > 0 {
		why += fmt.Sprintf(" and %d more places", n)
	}
	return why
}

// process names a process in a message, if it is known.
func process(pid int) string {
	if pid == 0 {
		return ""
	}
	return fmt.Sprintf(" (process %d)", pid)
}

// alive reports whether a process is still running. A zombie, which in a container
// may wait a second for its parent, is not.
func alive(pid int) bool {
	if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
		return false
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil { // no /proc here
		return true
	}
	_, state, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(state, "Z")
}
