package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"github.com/tensorfs/tensorfs/fs"
	"golang.org/x/sys/unix"
)

type statusOptions struct{ json bool }

func statusCommand() *cobra.Command {
	o := &statusOptions{}
	c := &cobra.Command{
		Use:   "status [--json]",
		Short: "List the mounted models",
		Long: `status lists the tensorfs mounts of this machine with the process that serves
each. A mount is healthy when its server answers; one that does not was left
behind by a killed server: mounting there again or tensorfs umount cleans it up.
Mounts of other users do not say who serves them (pid 0).`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd.OutOrStdout()) },
	}
	c.Flags().BoolVar(&o.json, "json", false, "print a JSON array of objects: mountpoint, model, pid, healthy")
	return c
}

type mountStatus struct {
	Mountpoint string `json:"mountpoint"`
	Model      string `json:"model"`
	PID        int    `json:"pid"`
	Healthy    bool   `json:"healthy"`
}

func (o *statusOptions) run(stdout io.Writer) error {
	mounts, err := fs.Mounts()
	if err != nil {
		return err
	}
	list := make([]mountStatus, len(mounts))
	for i, m := range mounts {
		pid, healthy := askServer(m.Mountpoint)
		list[i] = mountStatus{m.Mountpoint, m.Source, pid, healthy}
	}
	if o.json {
		e := json.NewEncoder(stdout)
		e.SetIndent("", "  ")
		return e.Encode(list)
	}
	w := tabwriter.NewWriter(stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "PID\tHEALTH\tMOUNTPOINT\tMODEL")
	for _, m := range list {
		health := "ok"
		if !m.Healthy {
			health = "no answer"
		}
		fmt.Fprintf(w, "%d\t%s\t%s\t%s\n", m.PID, health, printablePath(m.Mountpoint), printablePath(m.Model))
	}
	return w.Flush()
}

// answerTime is how long a healthy server may take to say who it is.
const answerTime = 2 * time.Second

// askServer asks the server of a mount for its process id. A mount whose server
// is stuck must not hang the command, so the question is left behind.
func askServer(mountpoint string) (pid int, healthy bool) {
	answer := make(chan int, 1)
	go func() {
		var b [32]byte
		n, err := unix.Getxattr(mountpoint, "user.tensorfs.pid", b[:])
		switch {
		case err == unix.EACCES: // somebody else's mount: alive, and none of our business
			answer <- 0
		case err != nil:
			answer <- -1
		default:
			pid, _ := strconv.Atoi(string(b[:n]))
			answer <- pid
		}
	}()
	select {
	case pid = <-answer:
		return max(pid, 0), pid >= 0
	case <-time.After(answerTime):
		return 0, false
	}
}
