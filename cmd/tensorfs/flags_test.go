package main

import (
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// TestFlagTableIsUsed holds that each row is a flag of a command, so that none is left
// behind, and that what excludes each other are flags.
func TestFlagTableIsUsed(t *testing.T) {
	used, names := map[string]bool{}, map[string]bool{}
	var visit func(c *cobra.Command)
	visit = func(c *cobra.Command) {
		for _, set := range []*pflag.FlagSet{c.Flags(), c.PersistentFlags()} {
			set.VisitAll(func(f *pflag.Flag) {
				used[f.Name+": "+f.Usage], names[f.Name] = true, true
			})
		}
		for _, sub := range c.Commands() {
			visit(sub)
		}
	}
	for _, s := range systems {
		visit(newRootFor(s))
		visit(s.mountHelper())
	}
	for _, r := range flagTable {
		if name, _, _ := strings.Cut(r.name, ","); !used[name+": "+r.help] {
			t.Errorf("no command has --%s of %q: %s", r.name, r.page, r.help)
		}
	}
	for _, pair := range exclusive {
		for _, name := range pair {
			if !names[name] {
				t.Errorf("no command has --%s", name)
			}
		}
	}
}

// TestTextsAreFilled holds that no line of a text has a mark of another form, and that
// every placeholder is known.
func TestTextsAreFilled(t *testing.T) {
	marks := regexp.MustCompile(`(linux|darwin) *\||\{[a-z ]+\}|(?m)^Examples:`)
	for _, s := range systems {
		root := newRootFor(s)
		for _, c := range append(root.Commands(), root) {
			text := long(c) + c.Example
			if mark := marks.FindString(text); mark != "" {
				t.Errorf("%s, %s: %q in the text", s, c.Name(), mark)
			}
		}
	}
}
