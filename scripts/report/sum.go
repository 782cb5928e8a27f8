package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
)

// slowest is how many packages are named for the time they took.
const slowest = 10

// where is the FILE:LINE: that go test puts before a test's message.
var where = regexp.MustCompile(`^\s*[\w.]+\.go:\d+: `)

// reason returns what a skipped test said last.
func reason(output []string) string {
	for _, text := range slices.Backward(output) {
		if where.MatchString(text) {
			return plain(text)
		}
	}
	return "it does not say why"
}

// notTested returns a passed test's message about a part that it left out.
func notTested(text string) (string, bool) {
	if !where.MatchString(text) {
		return "", false
	}
	rest := where.ReplaceAllString(text, "")
	return plain(text), strings.HasPrefix(rest, "NOT TESTED")
}

var variable = regexp.MustCompile(`/tmp/\S+`)

// plain is a reason without what differs from test to test.
func plain(text string) string {
	text = strings.TrimSpace(where.ReplaceAllString(text, ""))
	text = strings.TrimPrefix(text, "NOT TESTED: ")
	text, _, _ = strings.Cut(text, "\n")
	return variable.ReplaceAllString(text, "...")
}

// runs is what makes tests run that were skipped for a reason.
var runs = []struct {
	reason *regexp.Regexp
	how    string
}{
	{regexp.MustCompile(`short form`), "./scripts/test full"},
	{regexp.MustCompile(`/dev/fuse|no FUSE|nothing can be mounted here: (open|stat)`), "a machine with /dev/fuse, or: docker run --device /dev/fuse --cap-add SYS_ADMIN --security-opt apparmor=unconfined ..."},
	{regexp.MustCompile(`"fusermount3"|pkill`), "sudo ./scripts/setup fast && ./scripts/test"},
	{regexp.MustCompile(`there is no C compiler|installed|no NumPy|executable file not found|no python3|no pkg-config|needs node`), "sudo ./scripts/setup && ./scripts/test full"},
	{regexp.MustCompile(`/etc/mtab`), "sudo ln -s ../proc/self/mounts /etc/mtab"},
	{regexp.MustCompile(`/etc/hosts`), "a line '127.0.0.1 localhost' in /etc/hosts"},
	{regexp.MustCompile(`\broot\b|no tmpfs|other user|control group|namespace`), `sudo env PATH="$PATH" ./scripts/test, on a machine or in a container with all rights,`},
	{regexp.MustCompile(`ordinary user already`), `sudo env PATH="$PATH" ./scripts/test`},
}

// printSum prints what the records of a file hold, and reports whether anything failed.
func printSum(out io.Writer, file string) (bad bool, err error) {
	f, err := os.Open(file)
	if err != nil {
		return false, err
	}
	defer f.Close()
	var all []record
	for d := json.NewDecoder(f); ; {
		var r record
		if err := d.Decode(&r); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return false, fmt.Errorf("%s: %w", file, err)
		}
		all = append(all, r)
	}
	passed, failed, skipped := 0, 0, 0
	times := map[string]float64{}
	var left, partly []test
	for _, r := range all {
		passed += r.Passed
		failed += len(r.Failed)
		skipped += len(r.Skipped)
		left = append(left, r.Skipped...)
		partly = append(partly, r.Partly...)
		for _, p := range r.Packages {
			times[p.Name] += p.Seconds
		}
	}
	printReasons(out, "not run", left)
	printReasons(out, "run in part", partly)
	printSlowest(out, times)
	printTests(out, "UNSTEADY: failed at first and passed when run again; each is a fault to find", all, func(r record) []test { return r.Unsteady })
	printTests(out, "failed, with the command that repeats it", all, func(r record) []test { return r.Failed })
	fmt.Fprintf(out, "\n%d passed, %d failed, %d skipped\n", passed, failed, skipped)
	return failed > 0, nil
}

// printTests prints tests of each record with the commands that repeat them.
func printTests(out io.Writer, what string, all []record, testsOf func(record) []test) {
	first := true
	for _, r := range all {
		for _, t := range testsOf(r) {
			if first {
				fmt.Fprintf(out, "\n%s:\n", what)
				first = false
			}
			fmt.Fprintf(out, "  %s\n      %s\n", t, r.repeat(t))
		}
	}
}

func (t test) String() string {
	s := strings.TrimSpace(t.Package + " " + t.Name)
	if t.Reason != "" {
		s += ": " + t.Reason
	}
	return s
}

// repeat returns the command that runs a test again.
func (r *record) repeat(t test, flags ...string) string {
	again := strings.Join(append([]string{r.Again}, flags...), " ")
	if t.Package == "" {
		return again
	}
	dir := "." // of the package, in its module
	if rest := strings.TrimPrefix(t.Package+"/", path.Clean(r.In)+"/"); rest != "" && t.Package != "." {
		dir = "./" + strings.TrimSuffix(strings.TrimPrefix(rest, "./"), "/")
	}
	if t.Name == "" {
		return again + " " + dir
	}
	parts := strings.Split(t.Name, "/")
	for i, p := range parts {
		parts[i] = "^" + regexp.QuoteMeta(p) + "$"
	}
	return again + " -run '" + strings.ReplaceAll(strings.Join(parts, "/"), "'", ".") + "' " + dir
}

// howToRun returns what makes a test run that was skipped for a reason.
func howToRun(reason string) string {
	for _, c := range runs {
		if c.reason.MatchString(reason) {
			return c.how
		}
	}
	return "" // nothing is known to
}

// printReasons prints tests by what makes them run and by their reason, the most
// frequent first.
func printReasons(out io.Writer, what string, tests []test) {
	if len(tests) == 0 {
		return
	}
	names, reasons := map[string][]string{}, map[string][]string{}
	for _, t := range tests {
		name, how := t.Package+" "+t.Name, howToRun(t.Reason)
		if !slices.Contains(names[t.Reason], name) {
			names[t.Reason] = append(names[t.Reason], name)
		}
		if !slices.Contains(reasons[how], t.Reason) {
			reasons[how] = append(reasons[how], t.Reason)
		}
	}
	fmt.Fprintf(out, "\n%s:\n", what)
	for _, how := range sortedKeys(reasons) {
		if how == "" {
			fmt.Fprintf(out, "  nothing is known to run these here:\n")
		} else {
			fmt.Fprintf(out, "  %s would run these:\n", how)
		}
		list := reasons[how]
		slices.SortFunc(list, func(a, b string) int {
			return cmp.Or(cmp.Compare(len(names[b]), len(names[a])), cmp.Compare(a, b))
		})
		for _, r := range list {
			fmt.Fprintf(out, "  %4d  %s (%s)\n", len(names[r]), r, someOf(names[r]))
		}
	}
}

// someOf names a few of many.
func someOf(names []string) string {
	const some = 3
	text := strings.Join(names[:min(some, len(names))], ", ")
	if more := len(names) - some; more > 0 {
		text += fmt.Sprintf(", and %d more", more)
	}
	return text
}

func printSlowest(out io.Writer, times map[string]float64) {
	if len(times) == 0 {
		return
	}
	names := sortedKeys(times)
	slices.SortStableFunc(names, func(a, b string) int { return cmp.Compare(times[b], times[a]) })
	fmt.Fprintf(out, "\nslowest packages:\n")
	for _, name := range names[:min(slowest, len(names))] {
		fmt.Fprintf(out, "%7.1f s  %s\n", times[name], name)
	}
}
