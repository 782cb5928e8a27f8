package main

import (
	"errors"
	"fmt"
	"io"
	"syscall"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/fs"
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
Mounts of other users do not say who serves them (pid 0). With --hot it lists the
files that are in memory.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd.OutOrStdout()) },
	}
	c.Flags().BoolVar(&o.json, "json", false, "print a JSON array of objects: mountpoint, model, pid, healthy, hot")
	return c
}

type mountStatus struct {
	Mountpoint string        `json:"mountpoint"`
	Model      string        `json:"model"`
	PID        int           `json:"pid"`
	Healthy    bool          `json:"healthy"`
	Hot        *fs.HotStatus `json:"hot,omitempty"`
}

func (o *statusOptions) run(stdout io.Writer) error {
	mounts, err := fs.Mounts()
	if err != nil {
		return err
	}
	list := make([]mountStatus, len(mounts))
	for i, m := range mounts {
		s, err := m.Status()
		// EACCES is somebody else's mount: alive, and none of our business.
		list[i] = mountStatus{m.Mountpoint, m.Source, s.PID, err == nil || errors.Is(err, syscall.EACCES), s.Hot}
	}
	if o.json {
		return printJSON(stdout, list)
	}
	w := tabwriter.NewWriter(stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "PID\tHEALTH\tMOUNTPOINT\tMODEL")
	for _, m := range list {
		health := "ok"
		if !m.Healthy {
			health = "no answer"
		}
		fmt.Fprintf(w, "%d\t%s\t%s\t%s\n", m.PID, health, tensorfs.Printable(m.Mountpoint), tensorfs.Printable(m.Model))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, m := range list {
		if m.Hot == nil {
			continue
		}
		fmt.Fprintf(stdout, "\n%s: %s of %s hot\n", tensorfs.Printable(m.Mountpoint), size(m.Hot.Used), size(m.Hot.Budget))
		for _, f := range m.Hot.Files {
			fmt.Fprintf(stdout, "  %10s  open %d  %s\n", size(f.Bytes), f.Open, tensorfs.Printable(f.Path))
		}
		if m.Hot.Omitted > 0 {
			fmt.Fprintf(stdout, "  and %d more\n", m.Hot.Omitted)
		}
	}
	return nil
}
