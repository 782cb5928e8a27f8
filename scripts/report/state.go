package main

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// An event is a line of go test -json: see go doc test2json, and go help buildjson.
type event struct {
	Action, Package, ImportPath, Test, Output, FailedBuild string
	Elapsed                                                float64
}

// state is what is known of the tests that run.
type state struct {
	record
	out      io.Writer
	began    time.Time
	said     time.Time // when something was printed
	packages map[string]*pkg
}

// pkg is a package whose tests run.
type pkg struct {
	began   time.Time
	tests   map[string]*running
	output  []string // of no test
	cached  bool
	passed  int
	failed  int
	skipped int
}

// running is a test that has begun. Most print nothing of interest.
type running struct {
	began  time.Time
	output []string
}

func newState(out io.Writer) *state {
	now := time.Now()
	return &state{record: record{passed: map[string]bool{}}, out: out, began: now, said: now, packages: map[string]*pkg{}}
}

func (s *state) say(format string, args ...any) {
	fmt.Fprintf(s.out, format, args...)
	s.said = time.Now()
}

// enough is how many lines of one test's output are printed.
const enough = 100

// sayOutput prints what a test said: the first lines and the last ones of what is long.
func (s *state) sayOutput(output []string) {
	output = slices.DeleteFunc(slices.Clone(output), func(text string) bool { return strings.HasPrefix(text, "=== ") })
	for i, text := range output {
		switch left := len(output) - enough; {
		case left <= 0 || i < enough/2 || i >= enough/2+left:
			s.say("%s", text)
		case i == enough/2:
			s.say("        (%d lines are left out)\n", left)
		}
	}
}

// short is how the name of a package is printed.
func short(name string) string {
	if name == module {
		return "."
	}
	return strings.TrimPrefix(name, module+"/")
}

func (s *state) pkg(name string) *pkg {
	p := s.packages[name]
	if p == nil {
		p = &pkg{began: time.Now(), tests: map[string]*running{}}
		s.packages[name] = p
	}
	return p
}

func (s *state) line(line []byte) {
	var e event
	if err := json.Unmarshal(line, &e); err != nil || e.Action == "" {
		s.say("%s", line) // go itself, which reports what is wrong with its arguments
		return
	}
	switch e.Action {
	case "build-output":
		s.say("%s", e.Output)
		return
	case "build-fail":
		return // the package fails too
	}
	p := s.pkg(e.Package)
	if e.Test == "" {
		s.packageEvent(p, e)
		return
	}
	switch e.Action {
	case "run":
		p.tests[e.Test] = &running{began: time.Now()}
	case "cont":
		if r := p.tests[e.Test]; r != nil {
			r.began = time.Now()
		}
	case "output":
		if r := p.tests[e.Test]; r != nil {
			r.output = append(r.output, e.Output)
		}
	case "pass", "fail", "skip":
		s.ended(p, e)
	}
}

// ended notes the result of a test.
func (s *state) ended(p *pkg, e event) {
	r := p.tests[e.Test]
	delete(p.tests, e.Test)
	if r == nil {
		r = &running{}
	}
	t := test{Package: short(e.Package), Name: e.Test}
	switch e.Action {
	case "pass":
		s.Passed++
		s.passed[e.Test] = true
		p.passed++
		for _, text := range r.output {
			if reason, ok := notTested(text); ok {
				s.Partly = append(s.Partly, test{Package: t.Package, Name: t.Name, Reason: reason})
			}
		}
	case "skip":
		t.Reason = reason(r.output)
		s.Skipped = append(s.Skipped, t)
		p.skipped++
	case "fail":
		p.failed++
		// A test fails with any of its subtests, which have been named already.
		below := slices.ContainsFunc(s.Failed, func(f test) bool {
			return f.Package == t.Package && strings.HasPrefix(f.Name, t.Name+"/")
		})
		if !below {
			t.race = slices.ContainsFunc(r.output, func(text string) bool { return strings.Contains(text, "race detected") })
			s.Failed = append(s.Failed, t)
		}
		s.sayOutput(r.output)
	}
}

func (s *state) packageEvent(p *pkg, e event) {
	name := short(e.Package)
	switch e.Action {
	case "output":
		p.cached = p.cached || strings.HasSuffix(strings.TrimSpace(e.Output), "(cached)")
		p.output = append(p.output, e.Output)
		return
	case "pass":
		took := fmt.Sprintf("%.1f s", e.Elapsed)
		if p.cached {
			took = "as before"
		} else {
			s.Packages = append(s.Packages, timed{name, e.Elapsed})
		}
		s.say("ok    %-32s %9s%s\n", name, took, p.counts())
	case "skip":
		s.say("--    %-32s  no tests\n", name)
	case "fail":
		s.unfinished(p, name)
		if p.failed == 0 {
			s.Failed = append(s.Failed, test{Package: name})
			s.sayOutput(p.output)
		}
		s.Packages = append(s.Packages, timed{name, e.Elapsed})
		s.say("FAIL  %-32s %7.1f s%s\n", name, e.Elapsed, p.counts())
	default:
		return
	}
	delete(s.packages, e.Package)
}

// unfinished notes the tests that were running when their package ended: by a panic, a
// timeout, or a call of os.Exit. What there is to say is mostly in the output of one.
func (s *state) unfinished(p *pkg, name string) {
	for _, t := range sortedKeys(p.tests) {
		below := slices.ContainsFunc(sortedKeys(p.tests), func(other string) bool { return strings.HasPrefix(other, t+"/") })
		s.sayOutput(p.tests[t].output)
		if !below {
			s.Failed = append(s.Failed, test{Package: name, Name: t, Reason: "it did not end"})
			p.failed++
		}
	}
}

// end notes packages that never ended, because go test itself was stopped.
func (s *state) end() {
	for _, full := range sortedKeys(s.packages) {
		p, name := s.packages[full], short(full)
		s.unfinished(p, name)
		if p.failed == 0 {
			s.Failed = append(s.Failed, test{Package: name, Reason: "it did not end"})
		}
	}
}

// counts summarises a package's problems.
func (p *pkg) counts() string {
	var parts []string
	if p.failed > 0 {
		parts = append(parts, fmt.Sprintf("%d failed", p.failed))
	}
	if p.skipped > 0 {
		parts = append(parts, fmt.Sprintf("%d skipped", p.skipped))
	}
	if len(parts) == 0 {
		return ""
	}
	return "  (" + strings.Join(parts, ", ") + ")"
}

// running lists what runs, the tests that began first in front.
func (s *state) running() string {
	type one struct {
		name  string
		began time.Time
	}
	var all []one
	for full, p := range s.packages {
		o := one{short(full), p.began}
		if len(p.tests) > 0 {
			names := sortedKeys(p.tests)
			slices.SortStableFunc(names, func(a, b string) int { return p.tests[b].began.Compare(p.tests[a].began) })
			o = one{o.name + " " + names[0], p.tests[names[0]].began}
		}
		all = append(all, o)
	}
	took := func(t time.Time) string { return fmt.Sprintf("%d s", int(time.Since(t).Seconds())) }
	if len(all) == 0 {
		return "still building, " + took(s.began)
	}
	slices.SortFunc(all, func(a, b one) int { return a.began.Compare(b.began) })
	var text []string
	for _, o := range all[:min(3, len(all))] {
		text = append(text, o.name+" "+took(o.began))
	}
	if more := len(all) - len(text); more > 0 {
		text = append(text, fmt.Sprintf("%d more", more))
	}
	return strings.Join(text, ", ")
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
