package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
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

type statusOptions struct{ json bool }

func (s system) status() *cobra.Command {
	o := &statusOptions{}
	return s.command("status", between(0, 0), flags{"json": &o.json}, o.run)
}

type mountStatus struct {
	Mountpoint string         `json:"mountpoint"`
	Model      string         `json:"model"`
	PID        int            `json:"pid"`
	Backend    string         `json:"backend"`
	Healthy    bool           `json:"healthy"` // the state is ok
	State      string         `json:"state"`
	Mounted    *time.Time     `json:"mounted"`             // nil if the server does not report it
	Changed    []string       `json:"changed"`             // files of the model
	LastError  *fs.Fault      `json:"last_error"`          // the last of Errors; nil without any
	Errors     []fs.Fault     `json:"errors"`              // oldest first
	Warnings   []fs.Fault     `json:"warnings"`            // as well; they do not mean that anything failed
	Unwatched  string         `json:"unwatched,omitempty"` // why any move of the files' times counts as a change
	Warm       *fs.WarmStatus `json:"warm,omitempty"`
	TakenOver  int            `json:"taken_over,omitempty"` // from servers that were gone, how often
	Images     int            `json:"images,omitempty"`     // directories of files that the kernel reads past the server
	Counts     *fs.Counts     `json:"counts,omitempty"`     // since the server began
	Library    bool           `json:"library,omitempty"`
	Models     *int           `json:"models,omitempty"` // of a library
	Open       []string       `json:"open,omitempty"`   // of them, the longest unused first
}

// stateColours are the colours of states in the table.
var stateColours = map[string]cli.Colour{"ok": cli.Good, "changed": cli.Warning, "no answer": cli.Bad}

// notYours is the state of a mount whose server answers only to its owner.
const notYours = "not yours"

// newMountStatus asks the server of a mount.
func newMountStatus(m mounts.Mount) mountStatus {
	var s fs.Status
	err := m.Ask(&s)
	state := "ok"
	switch {
	case errors.Is(err, syscall.EACCES): // another user's, and not ours to show
		state = notYours
	case err != nil:
		state = "no answer"
	case len(s.Health.Changed) > 0:
		state = "changed"
	}
	st := mountStatus{
		Mountpoint: m.Mountpoint, Model: m.Source, PID: s.PID, Backend: m.Backend(), Healthy: state == "ok", State: state,
		Changed: append([]string{}, s.Health.Changed...), Errors: append([]fs.Fault{}, s.Health.Errors...), Warnings: append([]fs.Fault{}, s.Health.Warnings...), Warm: s.Warm, Images: s.Images, TakenOver: s.Taken, Counts: s.Counts,
		Unwatched: s.Health.Unwatched,
	}
	if l := s.Library; l != nil {
		st.Library, st.Models, st.Open = true, &l.Models, l.Open
	}
	if n := len(st.Errors); n > 0 {
		st.LastError = &st.Errors[n-1]
	}
	if !s.Health.Mounted.IsZero() {
		st.Mounted = &s.Health.Mounted
	}
	return st
}

// age is the time since a model was mounted, in the largest unit that fits.
func (m *mountStatus) age(now time.Time) string {
	if m.Mounted == nil {
		return "-"
	}
	d := max(now.Sub(*m.Mounted), 0)
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%dm", d/time.Minute)
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", d/time.Hour)
	}
	return fmt.Sprintf("%dd", d/(24*time.Hour))
}

// process is the pid of the server, as far as it is known.
func (m *mountStatus) process() string {
	if m.PID == 0 {
		return "-"
	}
	return strconv.Itoa(m.PID)
}

// homePath shortens a path in the home directory, for people.
func homePath(path string) string {
	if home := os.Getenv("HOME"); filepath.IsAbs(home) {
		if rest, ok := strings.CutPrefix(path, strings.TrimRight(home, "/")+"/"); ok {
			path = "~/" + rest
		}
	}
	return tensorfs.Printable(path)
}

func (o *statusOptions) run(cmd *cobra.Command, _ []string) error {
	stdout := cmd.OutOrStdout()
	if err := mounts.CleanStates(); err != nil {
		return err
	}
	all, err := mounts.List()
	if err != nil {
		return err
	}
	list := make([]mountStatus, len(all))
	for i, m := range all {
		list[i] = newMountStatus(m)
	}
	if o.json {
		return cli.PrintJSON(stdout, list)
	}
	rows := cli.Table{Right: make([]bool, 5), NameLast: true}
	painter := cli.PainterOf(stdout)
	rows.Add("PID", "HEALTH", "AGE", "MOUNTPOINT", "MODEL")
	now := time.Now()
	for _, m := range list {
		rows.Add(m.process(), painter.Paint(stateColours[m.State], m.State), m.age(now), homePath(m.Mountpoint), homePath(m.Model))
	}
	rows.Print(stdout, cli.TableWidth(stdout))
	for _, m := range list {
		m.print(stdout)
	}
	return nil
}

// print shows what does not fit in the table.
func (m *mountStatus) print(stdout io.Writer) {
	say := func(format string, args ...any) {
		fmt.Fprintf(stdout, "\n%s\n", cli.Folded(stdout, fmt.Sprintf("%s: ", tensorfs.Printable(m.Mountpoint))+fmt.Sprintf(format, args...)))
	}
	for _, file := range m.Changed {
		say("%s changed after it was mounted; unmount and mount again", tensorfs.Printable(file))
	}
	isChange := func(file string) bool { return strings.Contains(m.LastError.Message, file) } // which is said above
	if last := m.LastError; last != nil && !slices.ContainsFunc(m.Changed, isChange) {
		say("last %s", messageText("error", *last))
	}
	if n := len(m.Warnings); n > 0 && (m.Warm == nil || m.Warm.Ended == "" || !strings.HasPrefix(m.Warnings[n-1].Message, server.NotReadAhead)) {
		say("last %s", messageText("warning", m.Warnings[n-1]))
	}
	if m.Unwatched != "" {
		say("no watch: a chmod, rename or link of the model's files counts as a change too: %s", tensorfs.OneLine(m.Unwatched))
	}
	if m.TakenOver > 0 {
		say("taken over %s from a server that was gone", cli.Plural(m.TakenOver, "time"))
	}
	if w := m.Warm; w != nil {
		why := ""
		if w.Ended != "" {
			why = ", then it ended: " + tensorfs.OneLine(w.Ended)
		}
		say("%s of %s read ahead (%s)%s", cli.Size(w.Done), cli.Size(w.Total), w.View, why)
	}
	if m.Library {
		say("a library of %s, %d open", cli.Plural(*m.Models, "model"), len(m.Open))
		for _, name := range m.Open {
			fmt.Fprintf(stdout, "  %s\n", tensorfs.Printable(name))
		}
	}
}

// messageText is a message of a kind.
func messageText(kind string, last fs.Fault) string {
	return fmt.Sprintf("%s, %s: %s", kind, last.Time.Local().Format(time.DateTime), tensorfs.OneLine(last.Message))
}
