package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// TestFlagGroups holds that each flag that help could hide among others has a group, in
// one place, and that a group names no flag that there is not.
func TestFlagGroups(t *testing.T) {
	commands, ofMount := map[string]int{}, map[string]bool{}
	for _, s := range systems {
		for _, c := range newRootFor(s).Commands() {
			c.Flags().VisitAll(func(f *pflag.Flag) {
				if !f.Hidden && s == systems[0] {
					commands[f.Name]++
				}
				if c.Name() == "mount" && (!f.Hidden || marked(f, markElsewhere)) {
					ofMount[f.Name] = true
				}
			})
		}
	}
	seen := map[string]string{}
	for _, g := range flagGroups {
		for name := range strings.FieldsSeq(g.names) {
			if seen[name] != "" || commands[name] == 0 && !ofMount[name] {
				t.Errorf("--%s of %q: it is in %q as well, or no command has it", name, g.title, seen[name])
			}
			seen[name] = g.title
		}
	}
	for name, n := range commands {
		if seen[name] == "" && name != "json" && name != "all" && name != "force" && (n > 2 || ofMount[name]) {
			t.Errorf("--%s is in no group of flagGroups", name)
		}
	}
}

// TestHelpInGroups holds that help lists a flag under the title of its group and nowhere
// else, and that the manual page has the same titles.
func TestHelpInGroups(t *testing.T) {
	_, help, _ := command("mount", "--help")
	page := string(book(systems[0]).Page(find(t, "mount")))
	at := []int{strings.Index(help, "\nFlags:\n")}
	for _, g := range flagGroups {
		first, _, _ := strings.Cut(g.names, " ")
		if find(t, "mount").Flags().Lookup(first) == nil {
			if strings.Contains(page+help, g.title) {
				t.Errorf("a title without flags: %s", g.title)
			}
			continue
		}
		if !strings.Contains(page, ".SS \""+g.title+"\"\n") {
			t.Errorf("the manual page has no %q", g.title)
		}
		if strings.HasPrefix(g.names, "offline ") {
			continue // described in the text about these
		}
		i := strings.Index(help, "\n"+g.title+":\n")
		at = append(at, i)
		part, _, _ := strings.Cut(help[max(i, 0)+1:], "\n\n")
		for name := range strings.FieldsSeq(g.names) {
			f := find(t, "mount").Flags().Lookup(name)
			if f.Hidden || marked(f, markElsewhere) {
				continue
			}
			if !strings.Contains(page, strings.ReplaceAll(name, "-", `\-`)) {
				t.Errorf("the manual page has no --%s", name)
			}
			if marked(f, markRare) {
				if strings.Contains(part, " --"+name) || !strings.Contains(help, "docs/commands.md: ") || !strings.Contains(help, "--"+name) {
					t.Errorf("--%s is described, or not named among flags that are rarely needed", name)
				}
				continue
			}
			if !strings.Contains(part, " --"+name) || strings.Count(help, " --"+name+" ")+strings.Count(help, " --"+name+"[") == 0 {
				t.Errorf("--%s is not below %q", name, g.title)
			}
		}
	}
	if !slices.IsSorted(at) || at[0] < 0 {
		t.Errorf("the groups are at %v", at)
	}
	if _, help, _ := command("umount", "--help"); strings.Contains(help, "The mount:") {
		t.Errorf("a title without flags: %s", help)
	}
}

func find(t *testing.T, name string) *cobra.Command {
	t.Helper()
	c, _, err := newRoot().Find([]string{name})
	if err != nil {
		t.Fatal(err)
	}
	return c
}
