package main

import (
	"bytes"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/tensorfs/tensorfs/internal/cli"
	"github.com/tensorfs/tensorfs/internal/cli/manual"
)

// ofLinux are words that mean nothing on a Mac.
var ofLinux = regexp.MustCompile(`(?i)fusermount|fuse3|fuse\.conf|/dev/fuse|fuser\b|/proc|/sys/|/sbin|fstab|systemd|journal|\bapt\b|xdg_runtime|--bind|namespace|container, |control group|\blinux\b`)

// helpOf returns the help of a command, or of a topic.
func helpOf(t *testing.T, goos string, c *cobra.Command) string {
	t.Helper()
	var stdout, stderr bytes.Buffer
	args := append(strings.Fields(c.CommandPath())[1:], "--help")
	if code := execute(newRootFor(system(goos)), args, &stdout, &stderr); code != 0 || stderr.Len() > 0 {
		t.Fatalf("%q: exit code %d, %q", args, code, stderr.String())
	}
	return stdout.String()
}

// TestMacWords holds that a Mac shows no words of Linux in a help text or in the
// manual, and lines that fit.
func TestMacWords(t *testing.T) {
	root := newRootFor("darwin")
	for _, c := range append(manual.Pages(root), root) {
		help := helpOf(t, "darwin", c)
		for line := range strings.Lines(help) {
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 80 {
				t.Errorf("%s: %d columns: %s", c.CommandPath(), n, line)
			}
		}
		for where, text := range map[string]string{"help": help, "manual": string(book("darwin").Page(c))} {
			for line := range strings.Lines(text) {
				if word := ofLinux.FindString(line); word != "" {
					t.Errorf("%s, %s: %q: say it in other words on a line that begins with darwin|: %s", c.CommandPath(), where, word, line)
				}
			}
		}
	}
}

func TestMessages(t *testing.T) {
	for goos, m := range cli.Messages {
		if m.NoJournal == "" || m.Force == "" || m.StillRuns == "" {
			t.Errorf("%s: the row is not complete: %+v", goos, m)
		}
	}
	for _, text := range []string{cli.Messages["darwin"].Force, cli.Messages["darwin"].StillRuns} {
		if word := ofLinux.FindString(text); word != "" {
			t.Errorf("%q: in words for a Mac: %s", word, text)
		}
	}
}
