package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/tensorfs/tensorfs/internal/cli/manual"
)

// TestDocsCommandsPage holds docs/commands.md to the table of flags and the help texts;
// -update writes it.
func TestDocsCommandsPage(t *testing.T) {
	generated(t, "../../docs/commands.md", "TestDocsCommandsPage", commandsPage(newRoot()))
}

// generated compares the part of a page between the marks of a test with text, or writes
// it there with -update.
func generated(t *testing.T, page, test, text string) {
	t.Helper()
	begin, end := "<!-- made by go test ./cmd/tensorfs -run "+test+" -update -->\n", "<!-- end of what is made -->\n"
	b, err := os.ReadFile(page)
	must(t, err)
	before, rest, ok := strings.Cut(string(b), begin)
	_, after, both := strings.Cut(rest, end)
	if !ok || !both {
		t.Fatalf("%s has no place for the text of %s", page, test)
	}
	want := before + begin + text + end + after
	if *update {
		must(t, os.WriteFile(page, []byte(want), 0o644))
	} else if string(b) != want {
		t.Errorf("%s is out of date: go test ./cmd/tensorfs -run %s -update", page, test)
	}
}

// commandsPage returns the generated part of docs/commands.md: the commands by what they
// are for, the flags that several commands share, each command's own flags, variables and
// files.
func commandsPage(root *cobra.Command) string {
	var b strings.Builder
	b.WriteString("## All commands\n\n| command | what it does |\n|---|---|\n")
	for _, g := range commandGroups {
		pageRow(&b, "**"+strings.TrimSuffix(g.title, ":")+"**", "")
		eachOf(root, g.commands, func(c *cobra.Command) {
			pageRow(&b, code(strings.TrimSuffix(c.CommandPath(), c.Name())+c.Use), escapeMarkdown(c.Short))
		})
	}
	b.WriteString("\n## Flags of several commands\n\n| flag | what it does | commands |\n|---|---|---|\n")
	for i, g := range flagGroups {
		commands := map[string][]string{} // by flag
		first := map[string]*pflag.Flag{}
		eachCommand(root, func(c *cobra.Command) {
			eachFlag(c, func(f *pflag.Flag) {
				if groupOf(f.Name) == i {
					commands[f.Name] = append(commands[f.Name], c.Name())
					if first[f.Name] == nil {
						first[f.Name] = f
					}
				}
			})
		})
		pageRow(&b, "**"+g.title+"**", "", "")
		last := ""
		for name := range strings.FieldsSeq(g.names) {
			if f := first[name]; f != nil {
				of := strings.Join(commands[name], ", ")
				shown := of
				if of == last {
					shown = "same"
				}
				flag, usage := flagCells(f)
				pageRow(&b, flag, usage, shown)
				last = of
			}
		}
	}
	b.WriteString("\n## Flags of single commands\n\n| command | flag | what it does |\n|---|---|---|\n")
	eachCommand(root, func(c *cobra.Command) {
		name := strings.TrimPrefix(c.CommandPath(), "tensorfs ")
		eachFlag(c, func(f *pflag.Flag) {
			if groupOf(f.Name) < 0 && f.Name != "help" {
				flag, usage := flagCells(f)
				pageRow(&b, name, flag, usage)
			}
		})
	})
	b.WriteString("\n`--help` is a flag of every command.\n")
	for part := range strings.SplitSeq(strings.TrimPrefix(system("linux").text("manual"), "# "), "\n# ") {
		title, text, _ := strings.Cut(part, "\n")
		fmt.Fprintf(&b, "\n## %s\n\n| name | what it is for |\n|---|---|\n", title[:1]+strings.ToLower(title[1:]))
		for _, item := range manual.Items(text) {
			pageRow(&b, "`"+strings.ReplaceAll(item.Name, ", ", "`, `")+"`", escapeMarkdown(item.Text))
		}
	}
	return b.String()
}

// eachCommand calls do for the commands that are for people, and for their subcommands.
func eachCommand(root *cobra.Command, do func(*cobra.Command)) {
	for _, g := range commandGroups {
		eachOf(root, g.commands, do)
	}
}

// eachOf calls do for the commands of these names and for their subcommands.
func eachOf(root *cobra.Command, names string, do func(*cobra.Command)) {
	for name := range strings.FieldsSeq(names) {
		c, _, err := root.Find([]string{name})
		if err != nil || c == root {
			continue
		}
		do(c)
		for _, sub := range c.Commands() {
			if sub.IsAvailableCommand() {
				do(sub)
			}
		}
	}
}

// eachFlag calls do for the flags of a command that are for people.
func eachFlag(c *cobra.Command, do func(*pflag.Flag)) {
	c.InitDefaultHelpFlag()
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			do(f)
		}
	})
}

// flagCells returns a flag with its value, and what it does.
func flagCells(f *pflag.Flag) (flag, usage string) {
	value, usage := pflag.UnquoteUsage(f)
	name := "--" + f.Name
	if value != "" {
		name += " " + value
	}
	if f.Shorthand != "" {
		name += "`, `-" + f.Shorthand
	}
	if !slices.Contains([]string{"", "false", "0", "0s", "[]"}, f.DefValue) {
		usage += " (default " + f.DefValue + ")"
	}
	return code(name), escapeMarkdown(usage)
}

// pageRow writes a row of a table.
func pageRow(b *strings.Builder, cells ...string) {
	fmt.Fprintf(b, "| %s |\n", strings.Join(cells, " | "))
}

// code returns a span of code in a cell of a table.
func code(text string) string { return "`" + strings.ReplaceAll(text, "|", `\|`) + "`" }

// escapeMarkdown keeps characters of help texts from becoming emphasis, cells or tags.
func escapeMarkdown(text string) string {
	return strings.NewReplacer("|", `\|`, "*", `\*`, "<", `\<`, "_", `\_`, "~", `\~`).Replace(text)
}
