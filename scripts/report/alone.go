package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
)

// few is how many tests may fail for each to be run once more. Where more fail, it is
// not chance.
const few = 3

// repeatFailed repeats each failed test once on its own, and moves tests that pass to
// Unsteady. Tests that a panic, a limit of time or a data race ended stay failed: their
// frequency is no measure of their severity.
//
// run runs a command of the shell and returns what go test -json wrote.
func (r *record) repeatFailed(out io.Writer, run func(command string) (io.ReadCloser, error)) {
	if len(r.Failed) > few {
		return
	}
	var failed []test
	for _, t := range r.Failed {
		if t.Name == "" || t.Reason != "" || t.race || !passes(out, r.repeat(t, "-json", "-count=1"), t, run) {
			failed = append(failed, t)
			continue
		}
		r.Passed++
		r.Unsteady = append(r.Unsteady, t)
	}
	r.Failed = failed
}

// passes runs the command of one test, and reports whether that test ran and passed.
func passes(out io.Writer, command string, t test, run func(string) (io.ReadCloser, error)) bool {
	fmt.Fprintf(out, "running again: %s\n", t)
	events, err := run(command)
	if err != nil {
		fmt.Fprintln(out, err)
		return false
	}
	defer events.Close()
	again, err := watch(events, out, quiet)
	return err == nil && len(again.Failed) == 0 && again.passed[t.Name]
}

// runShell is run of repeatFailed for real commands.
func runShell(command string) (io.ReadCloser, error) {
	cmd := exec.Command("bash", "-c", command)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	return &shell{out, cmd}, cmd.Start()
}

// shell is what a command writes. Close waits for its end; what the test did is in its events.
type shell struct {
	io.Reader
	cmd *exec.Cmd
}

func (s *shell) Close() error { return s.cmd.Wait() }
