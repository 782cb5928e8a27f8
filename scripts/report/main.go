// Report follows the tests for scripts/test. It reads what go test -json writes and
// prints a line for each package as its tests end, what failed tests said, and what is
// still running when there was nothing else to say for a while:
//
//	go test -json ./... | report -to FILE -again 'go test'
//	report -to FILE -check 'gofmt' -again 'gofmt -l .' -failed
//	report -sum FILE
//
// Each run adds its results to FILE. The last form reads it all and prints what failed with
// the command that repeats it, what was skipped and why, and the slowest packages. The exit
// status is 1 if anything failed. With the flag for it, a failed test is repeated on its own, and if it passes
// then it is listed as unsteady instead of failed; without another failure the status is 3.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"time"
)

// module is cut from the names of packages.
const module = "github.com/tensorfs/tensorfs"

// quiet is how long nothing may be printed before a line names what is running.
const quiet = 15 * time.Second

func main() {
	to := flag.String("to", "", "the `file` of what was seen")
	again := flag.String("again", "go test", "the `command` that repeats this")
	in := flag.String("in", ".", "the `directory` of the module that the command is for")
	alone := flag.Bool("alone", false, "run tests that failed once more")
	check := flag.String("check", "", "what this was, if not tests")
	failed := flag.Bool("failed", false, "the check failed")
	sum := flag.String("sum", "", "print what the `file` holds")
	flag.Parse()
	var bad, unsteady bool
	var err error
	switch {
	case *sum != "":
		bad, err = printSum(os.Stdout, *sum)
	case *check != "":
		r := record{Again: *again, Passed: 1}
		if *failed {
			r.Passed, r.Failed = 0, []test{{Name: *check}}
		}
		err = r.add(*to)
	default:
		var r *record
		if r, err = watch(os.Stdin, os.Stdout, quiet); err == nil {
			r.Again, r.In = *again, *in
			if *alone {
				r.repeatFailed(os.Stdout, runShell)
			}
			bad, unsteady, err = len(r.Failed) > 0, len(r.Unsteady) > 0, r.add(*to)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "report:", err)
		os.Exit(1)
	}
	switch {
	case bad:
		os.Exit(1)
	case unsteady:
		os.Exit(3)
	}
}

// A record is what one run has seen.
type record struct {
	Again    string // the command that repeats it, without packages
	In       string // the directory of its module, to which packages are relative; "" is "."
	Passed   int
	Failed   []test
	Unsteady []test // failed beside other tests, and passed on its own
	Skipped  []test
	Partly   []test // passed, and said what of theirs was not tested
	Packages []timed

	passed map[string]bool // by the name of a test, in any package
}

// A test is one that failed, or was skipped for a reason. Without a package it is a check
// that is not a Go test; without a name it is the package as a whole.
type test struct {
	Package, Name, Reason string
	race                  bool // it failed by a data race
}

type timed struct {
	Name    string
	Seconds float64
}

// add appends the record to a file of them.
func (r *record) add(file string) error {
	f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	if err := json.NewEncoder(f).Encode(r); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}

// watch follows a stream of events to its end.
func watch(in io.Reader, out io.Writer, quiet time.Duration) (*record, error) {
	lines, done := make(chan []byte), make(chan error, 1)
	go func() {
		r := bufio.NewReader(in)
		for {
			line, err := r.ReadBytes('\n')
			if len(line) > 0 {
				lines <- line
			}
			if err != nil {
				close(lines)
				if err == io.EOF {
					err = nil
				}
				done <- err
				return
			}
		}
	}()
	s := newState(out)
	timer := time.NewTicker(max(quiet/4, time.Millisecond))
	defer timer.Stop()
	for {
		select {
		case line, ok := <-lines:
			if !ok {
				s.end()
				return &s.record, <-done
			}
			s.line(line)
		case <-timer.C:
			if time.Since(s.said) >= quiet {
				s.say("      ... %s\n", s.running())
			}
		}
	}
}
