package main

import (
	"os/exec"
	"strings"
	"testing"
)

// TestBeat: what beat runs gives its result, also where the first failure ends a script.
func TestBeat(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skipf("NOT TESTED: scripts: %v", err)
	}
	for _, c := range []struct{ script, said, end string }{
		{"beat short true; echo on", "", "on\n"},
		{"beat long sleep 0.5; echo on", "      ... long, ", "on\n"},
		{"beat bad false; echo on", "", "exit status 1"},
		{"beat bad sh -c 'exit 3' || echo with $?", "", "with 3\n"},
	} {
		cmd := exec.Command(bash, "-c", "set -euo pipefail; . ../beat.sh; "+c.script)
		cmd.Env = append(cmd.Environ(), "BEAT=0.1")
		out, err := cmd.CombinedOutput()
		text := string(out)
		if err != nil {
			text += err.Error()
		}
		if !strings.HasPrefix(text, c.said) || !strings.HasSuffix(text, c.end) {
			t.Errorf("%s: %q", c.script, text)
		}
	}
}
