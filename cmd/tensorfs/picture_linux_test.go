package main

import (
	"errors"
	"os/exec"
	"strings"
	"testing"
)

// TestPicture: the picture in README.md is what the commands in it print now. The model
// is a real one, which scripts/picture fetches once.
func TestPicture(t *testing.T) {
	if testing.Short() {
		t.Skip("not in the short form: a model of 94 MB")
	}
	needFUSE(t)
	out, err := exec.Command("../../scripts/picture", "--check").CombinedOutput()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && exit.ExitCode() == 77 {
		t.Skipf("NOT TESTED: %s", strings.TrimSpace(string(out)))
	}
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
