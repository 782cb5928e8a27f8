package main

import (
	"bytes"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// ofLinux are words that mean nothing on a Mac.
var ofLinux = regexp.MustCompile(`(?i)fusermount|fuse3|fuse\.conf|/dev/fuse|fuser\b|/proc|/sys/|/sbin|fstab|systemd|journal|\bapt\b|xdg_runtime|--bind|namespace|container, |control group|\blinux\b`)

// helpOf returns the help of a command, or of a topic.
func helpOf(t *testing.T, goos string, c *cobra.Command) string {
	t.Helper()
	var stdout, stderr bytes.Buffer
	args := append(strings.Fields(c.CommandPath())[1:], "--help")
	if code := execute(newRootFor(goos), args, &stdout, &stderr); code != 0 || stderr.Len() > 0 {
		t.Fatalf("%q: exit code %d, %q", args, code, stderr.String())
	}
	return stdout.String()
}

// TestMacWords holds that a Mac shows no words of Linux in a help text or in the
// manual, and lines that fit.
func TestMacWords(t *testing.T) {
	root := newRootFor("darwin")
	for _, c := range append(pages(root), root) {
		help := helpOf(t, "darwin", c)
		for line := range strings.Lines(help) {
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 80 {
				t.Errorf("%s: %d columns: %s", c.CommandPath(), n, line)
			}
		}
		for where, text := range map[string]string{"help": help, "manual": string(manPage(c, "", "darwin"))} {
			for line := range strings.Lines(text) {
				if word := ofLinux.FindString(line); word != "" {
					t.Errorf("%s, %s: %q: say it in other words in macTexts: %s", c.CommandPath(), where, word, line)
				}
			}
		}
	}
}

// TestMacWordsAreUsed holds that each row changes something, so that none is left
// behind by the text that it is for.
func TestMacWordsAreUsed(t *testing.T) {
	var all strings.Builder
	flags := map[string]bool{}
	root := newRootFor("linux")
	for _, c := range append(pages(root), root) {
		all.WriteString(c.Long + "\n" + c.Example + "\n" + string(manPage(c, "", "linux")))
		c.Flags().VisitAll(func(f *pflag.Flag) {
			all.WriteString("\n" + f.Usage)
			flags[f.Name] = true
		})
	}
	for _, row := range macTexts {
		if !strings.Contains(all.String(), row.linux) {
			t.Errorf("no help text has this passage any more:\n%s", row.linux)
		}
		if word := ofLinux.FindString(row.mac); word != "" {
			t.Errorf("%q: in words for a Mac:\n%s", word, row.mac)
		}
	}
	for _, name := range linuxFlags {
		if !flags[name] {
			t.Errorf("no command has the flag --%s", name)
		}
	}
	for _, item := range linuxItems {
		if name, _, _ := strings.Cut(item, "("); !strings.Contains(all.String(), escape(name)) {
			t.Errorf("the manual has no %s", item)
		}
	}
}

func TestMessages(t *testing.T) {
	for goos, m := range messages {
		if m.noJournal == "" || m.force == "" || m.stillRuns == "" {
			t.Errorf("%s: the row is not complete: %+v", goos, m)
		}
	}
	for _, text := range []string{messages["darwin"].noPlace, messages["darwin"].force, messages["darwin"].stillRuns} {
		if word := ofLinux.FindString(text); word != "" {
			t.Errorf("%q: in words for a Mac: %s", word, text)
		}
	}
}
