package main

import (
	"bytes"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// stream returns events as go test -json writes them: ACTION PACKAGE TEST OUTPUT.
func stream(events ...[4]string) string {
	var b strings.Builder
	for _, e := range events {
		fmt.Fprintf(&b, "{\"Action\":%q,\"Package\":%q,\"Test\":%q,\"Output\":%q,\"Elapsed\":1.5}\n", e[0], module+"/"+e[1], e[2], e[3])
	}
	return b.String()
}

func TestReport(t *testing.T) {
	for _, c := range []struct {
		name, in string
		printed  []string // while the tests run, in this order
		sum      []string // at the end, in this order
	}{
		{"pass", stream([4]string{"start", "a"}, [4]string{"run", "a", "TestA"}, [4]string{"output", "a", "TestA", "    a_test.go:3: a log line\n"},
			[4]string{"pass", "a", "TestA"}, [4]string{"pass", "a"}),
			[]string{"ok    a", "1.5 s"}, []string{"1.5 s  a", "\n1 passed, 0 failed, 0 skipped\n"}},
		{"no tests", stream([4]string{"start", "a"}, [4]string{"skip", "a"}), []string{"--    a", "no tests"}, []string{"\n0 passed, 0 failed, 0 skipped\n"}},
		{"cached", stream([4]string{"output", "a", "", "ok  \ta\t(cached)\n"}, [4]string{"pass", "a"}), []string{"ok    a", "as before"}, []string{"\n0 passed, 0 failed"}},
		{"a subtest fails", stream([4]string{"run", "a", "TestA"}, [4]string{"run", "a", "TestA/x y"}, [4]string{"output", "a", "TestA/x y", "=== RUN TestA/x y\n"},
			[4]string{"output", "a", "TestA/x y", "    a_test.go:3: wrong\n"}, [4]string{"fail", "a", "TestA/x y"}, [4]string{"fail", "a", "TestA"}, [4]string{"fail", "a"}),
			[]string{"    a_test.go:3: wrong\n", "FAIL  a", "(2 failed)"}, []string{"failed, with", "a TestA/x y\n", "go test -short -run '^TestA$/^x y$' ./a\n", "\n0 passed, 1 failed, 0 skipped\n"}},
		{"a package does not build", `{"ImportPath":"x [x.test]","Action":"build-output","Output":"a.go:1: no\n"}` + "\n" +
			stream([4]string{"output", "a", "", "FAIL\ta [build failed]\n"}, [4]string{"fail", "a"}),
			[]string{"a.go:1: no\n", "FAIL\ta [build failed]\n", "FAIL  a"}, []string{"  a\n", "go test -short ./a\n", "\n0 passed, 1 failed"}},
		{"a panic", stream([4]string{"run", "a", "TestA"}, [4]string{"run", "a", "TestA/b"}, [4]string{"output", "a", "TestA/b", "panic: no\n"}, [4]string{"fail", "a"}),
			[]string{"panic: no\n", "FAIL  a"}, []string{"a TestA/b: it did not end\n", "\n0 passed, 1 failed"}},
		{"go test is killed", stream([4]string{"start", "a"}, [4]string{"start", "b"}, [4]string{"run", "b", "TestB"}), nil,
			[]string{"  a: it did not end\n", "  b TestB: it did not end\n", "\n0 passed, 2 failed"}},
		{"skips", stream([4]string{"run", "a", "TestA"}, [4]string{"output", "a", "TestA", "    a_test.go:3: NOT TESTED: nothing can be mounted here: open /dev/fuse: no such file\n"}, [4]string{"skip", "a", "TestA"},
			[4]string{"run", "a", "TestB"}, [4]string{"output", "a", "TestB", "    a_test.go:3: not in the short form: it is long\n"}, [4]string{"skip", "a", "TestB"},
			[4]string{"run", "a", "TestC"}, [4]string{"skip", "a", "TestC"},
			[4]string{"run", "a", "TestD"}, [4]string{"output", "a", "TestD", "    a_test.go:3: NOT TESTED: files of root\n"}, [4]string{"pass", "a", "TestD"}, [4]string{"pass", "a"}),
			[]string{"ok    a", "(3 skipped)"},
			[]string{"not run:\n", "nothing is known to run these here:\n", "1  it does not say why (a TestC)\n", "./scripts/test full would run these:\n", "1  not in the short form: it is long (a TestB)\n",
				"--device /dev/fuse", "1  nothing can be mounted here: open /dev/fuse: no such file (a TestA)\n", "run in part:\n", "1  files of root (a TestD)\n", "\n1 passed, 0 failed, 3 skipped\n"}},
		{"not an event", "go: no such package\n", []string{"go: no such package\n"}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out bytes.Buffer
			r, err := watch(strings.NewReader(c.in), &out, time.Hour)
			if err != nil {
				t.Fatal(err)
			}
			inOrder(t, out.String(), c.printed)
			r.Again = "go test -short"
			file := filepath.Join(t.TempDir(), "seen")
			if err := r.add(file); err != nil {
				t.Fatal(err)
			}
			out.Reset()
			bad, err := printSum(&out, file)
			if err != nil || bad != (len(r.Failed) > 0) {
				t.Errorf("%v, %v with %d failures", bad, err, len(r.Failed))
			}
			inOrder(t, out.String(), c.sum)
		})
	}
}

func inOrder(t *testing.T, text string, parts []string) {
	t.Helper()
	rest := text
	for _, p := range parts {
		_, after, ok := strings.Cut(rest, p)
		if !ok {
			t.Fatalf("%q is missing, or not in its place:\n%s", p, text)
		}
		rest = after
	}
}

// lines is a writer that hands over what was written, a line at a time.
type lines chan string

func (l lines) Write(p []byte) (int, error) { l <- string(p); return len(p), nil }

// TestSaysWhatRuns: there is a line of its own when there is nothing to say.
func TestSaysWhatRuns(t *testing.T) {
	in, events := io.Pipe()
	out := make(lines)
	go func() {
		defer close(out)
		watch(in, out, time.Millisecond)
	}()
	waitFor := func(want string) {
		t.Helper()
		for line := range out {
			if strings.Contains(line, want) {
				return
			}
		}
		t.Errorf("it never says %q", want)
	}
	waitFor("... still building, 0 s\n")
	go io.WriteString(events, stream([4]string{"start", "a"}, [4]string{"run", "a", "TestA"}))
	waitFor("... a TestA 0 s\n")
	events.Close()
	for range out {
	}
}

// TestSumOfChecks: checks that are no tests of Go's count as one each.
func TestSumOfChecks(t *testing.T) {
	file := filepath.Join(t.TempDir(), "seen")
	for _, r := range []record{{Again: "gofmt -l .", Passed: 1}, {Again: "go vet ./...", Failed: []test{{Name: "vet"}}}} {
		if err := r.add(file); err != nil {
			t.Fatal(err)
		}
	}
	var out bytes.Buffer
	if bad, err := printSum(&out, file); !bad || err != nil {
		t.Errorf("%v, %v", bad, err)
	}
	inOrder(t, out.String(), []string{"  vet\n      go vet ./...\n", "\n1 passed, 1 failed, 0 skipped\n"})
}

// TestAlone: a few tests that fail are run once more. Only what ran then and passed is
// unsteady, and nothing that ended by a panic, a limit of time or a data race.
func TestAlone(t *testing.T) {
	fails := func(name, said string) []test {
		r, err := watch(strings.NewReader(stream([4]string{"run", "a", name}, [4]string{"output", "a", name, said}, [4]string{"fail", "a", name}, [4]string{"fail", "a"})), io.Discard, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		return r.Failed
	}
	passes := stream([4]string{"run", "a", "TestA"}, [4]string{"pass", "a", "TestA"}, [4]string{"pass", "a"})
	wrong := fails("TestA", "    a_test.go:3: wrong\n")
	for _, c := range []struct {
		name     string
		failed   []test
		again    string // the output of the test's second run
		asked    int    // commands
		unsteady int
	}{
		{"it passes", wrong, passes, 1, 1},
		{"it fails", wrong, stream([4]string{"run", "a", "TestA"}, [4]string{"fail", "a", "TestA"}, [4]string{"fail", "a"}), 1, 0},
		{"it is skipped", wrong, stream([4]string{"run", "a", "TestA"}, [4]string{"skip", "a", "TestA"}, [4]string{"pass", "a"}), 1, 0},
		{"it is not found", wrong, stream([4]string{"pass", "a"}), 1, 0},
		{"it passes, and its package fails", wrong, stream([4]string{"run", "a", "TestA"}, [4]string{"pass", "a", "TestA"}, [4]string{"fail", "a"}), 1, 0},
		{"nothing comes", wrong, "", 1, 0},
		{"a data race", fails("TestA", "    testing.go:1: race detected during execution of test\n"), passes, 0, 0},
		{"a panic", []test{{Package: "a", Name: "TestA", Reason: "it did not end"}}, passes, 0, 0},
		{"a package", []test{{Package: "a"}}, passes, 0, 0},
		{"many", []test{wrong[0], wrong[0], wrong[0], wrong[0]}, passes, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := record{Again: "go test", Failed: slices.Clone(c.failed)}
			asked := 0
			r.repeatFailed(io.Discard, func(command string) (io.ReadCloser, error) {
				asked++
				if want := "go test -json -count=1 -run '^TestA$' ./a"; command != want {
					t.Errorf("%s, want %s", command, want)
				}
				return io.NopCloser(strings.NewReader(c.again)), nil
			})
			if asked != c.asked || len(r.Unsteady) != c.unsteady || len(r.Failed) != len(c.failed)-c.unsteady || r.Passed != c.unsteady {
				t.Errorf("%d commands, %d unsteady, %d failed, %d passed", asked, len(r.Unsteady), len(r.Failed), r.Passed)
			}
			var out bytes.Buffer
			file := filepath.Join(t.TempDir(), "seen")
			if err := r.add(file); err != nil {
				t.Fatal(err)
			}
			if bad, err := printSum(&out, file); err != nil || bad != (len(r.Failed) > 0) {
				t.Errorf("%v, %v", bad, err)
			}
			if c.unsteady > 0 {
				inOrder(t, out.String(), []string{"UNSTEADY", "  a TestA\n      go test -run '^TestA$' ./a\n", "\n1 passed, 0 failed"})
			}
		})
	}
}

// TestRepeat holds the commands that run tests of the root's module and of another one again.
func TestRepeat(t *testing.T) {
	for _, c := range []struct{ in, pkg, want string }{
		{".", ".", "go test -run '^TestA$' ."},
		{".", "fs/nfs", "go test -run '^TestA$' ./fs/nfs"},
		{"", "fs/nfs", "go test -run '^TestA$' ./fs/nfs"},
		{"cmd/csi", "cmd/csi", "go test -run '^TestA$' ."},
		{"cmd/csi", "cmd/csi/deploy", "go test -run '^TestA$' ./deploy"},
	} {
		r := record{Again: "go test", In: c.in}
		if got := r.repeat(test{Package: c.pkg, Name: "TestA"}); got != c.want {
			t.Errorf("%q, %q: %s, want %s", c.in, c.pkg, got, c.want)
		}
	}
}
