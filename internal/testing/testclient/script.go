// Package testclient gives tests what they hold the project against: libraries of
// others in processes of their own, and golden files that are kept compressed.
package testclient

import (
	"bufio"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
)

// Script is a process that runs a script of another project's library, which
// knows nothing of tensorfs. It takes jobs and gives results, a JSON object a line.
type Script struct {
	in  io.WriteCloser
	out *bufio.Reader
}

// Start starts a script in a directory, or skips the test where the npm package
// that it needs is not installed there.
func Start(t *testing.T, dir, script, pkg string) *Script {
	t.Helper()
	if testing.Short() {
		t.Skipf("not in the short form: it needs %s", pkg)
	}
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skipf("NOT TESTED: without node there is no %s", pkg)
	}
	if v, err := exec.Command(node, "--version").Output(); err != nil || versionNumber(string(v)) < 20 {
		t.Skipf("NOT TESTED: %s needs node 20, and there is %s", pkg, v)
	}
	if _, err := os.Stat(dir + "/node_modules/" + pkg); err != nil {
		t.Skipf("NOT TESTED: %s is not installed: scripts/setup installs it where npm reaches its registry", pkg)
	}
	c := exec.Command(node, script)
	c.Dir = dir
	c.Stderr = os.Stderr
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		if err := c.Wait(); err != nil {
			t.Errorf("%s: %v", pkg, err)
		}
	})
	return &Script{in, bufio.NewReader(out)}
}

// versionNumber returns the first number of a version such as v20.1.0, 0 without one.
func versionNumber(v string) int {
	major, _, _ := strings.Cut(strings.TrimPrefix(v, "v"), ".")
	n, _ := strconv.Atoi(major)
	return n
}

// Do does a job and fills in its result.
func (n *Script) Do(t *testing.T, job, result any) {
	t.Helper()
	b, err := json.Marshal(job)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := n.in.Write(append(b, '\n')); err != nil {
		t.Fatal(err)
	}
	line, err := n.out.ReadBytes('\n')
	if err != nil {
		t.Fatalf("the script ended: %v", err)
	}
	if err := json.Unmarshal(line, result); err != nil {
		t.Fatalf("%v: %s", err, line)
	}
}
