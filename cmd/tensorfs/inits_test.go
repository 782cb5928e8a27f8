package main

import (
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// maxInitAllocs bounds what a package allocates before main: every command pays for it, whatever
// it does. A table that is read from text, which takes thousands of allocations, is read at its
// first use.
const maxInitAllocs = 1200

func TestInits(t *testing.T) {
	cmd := exec.Command(os.Args[0], "version")
	cmd.Env = append(os.Environ(), "GODEBUG=inittrace=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	seen := 0
	for _, m := range regexp.MustCompile(`(?m)^init (\S+) .* (\d+) allocs$`).FindAllStringSubmatch(string(out), -1) {
		if !strings.HasPrefix(m[1], "github.com/tensorfs/tensorfs/") || strings.HasSuffix(m[1], "/cmd/tensorfs") || strings.Contains(m[1], "/internal/testing/") {
			continue // what only tests have
		}
		seen++
		if n, _ := strconv.Atoi(m[2]); n > maxInitAllocs {
			t.Errorf("%s makes %d allocations at start, want at most %d", m[1], n, maxInitAllocs)
		}
	}
	if seen < 10 {
		t.Errorf("%d packages of the module are in the trace:\n%s", seen, out)
	}
}
