package main

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/fs"
)

type umountOptions struct{ lazy bool }

func umountCommand() *cobra.Command {
	o := &umountOptions{}
	c := &cobra.Command{
		Use:     "umount [-l] MOUNTPOINT",
		Aliases: []string{"unmount"},
		Short:   "Unmount a model",
		Long: `umount unmounts MOUNTPOINT and waits until its server has ended. A mount that a
killed server left behind is removed too. A server lives on as long as somebody
uses the mount: after -l, or where a container or another mount namespace was
made meanwhile and has a copy of it.`,
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error { return o.run(args[0]) },
	}
	c.Flags().BoolVarP(&o.lazy, "lazy", "l", false, "detach now, even if somebody uses it; those are served until they are done")
	return c
}

// serverExit is how long a server may take to end once nobody uses its mount.
const serverExit = 5 * time.Second

func (o *umountOptions) run(mountpoint string) error {
	pid := 0
	if !o.lazy {
		status, _ := fs.MountInfo{Mountpoint: mountpoint}.Status() // no answer: nothing to wait for
		pid = status.PID
	}
	if err := fs.UnmountPath(mountpoint, o.lazy); err != nil {
		if errors.Is(err, syscall.EBUSY) {
			return fmt.Errorf("%s is in use; end those programs (fuser -vm %s names them) or detach it with -l", tensorfs.Printable(mountpoint), tensorfs.Printable(mountpoint))
		}
		return err
	}
	for end := time.Now().Add(serverExit); pid > 0 && time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		if !alive(pid) {
			break
		}
	}
	return nil
}

// alive reports whether a process still runs. One that has ended and only waits
// for its parent to ask, which may take a second in a container, does not.
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
