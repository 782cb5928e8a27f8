package main

import (
	"fmt"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/tensorfs/tensorfs/internal/cli"
)

// templateFuncs adds the functions of the templates to cobra, which has one table for all commands of a process.
var templateFuncs = sync.OnceFunc(func() {
	cobra.AddTemplateFunc("long", long)
	cobra.AddTemplateFunc("ownFlags", func(all *pflag.FlagSet) string { return flagUsages(all, false) })
	cobra.AddTemplateFunc("remoteFlags", func(all *pflag.FlagSet) string {
		var names []string
		all.VisitAll(func(f *pflag.Flag) {
			if marked(f, markRemote) && !f.Hidden {
				names = append(names, "--"+f.Name)
			}
		})
		if names == nil {
			return ""
		}
		return strings.Join(cli.Wrap("For models on other machines, see tensorfs help remote: "+strings.Join(names, ", "), cli.Columns, 0), "\n")
	})
})

// layOutHelp makes help begin with the usage and the examples, which are what most look
// for. The flags for models on other machines, which nearly all commands have, are named
// there and described once, in the text about these.
func layOutHelp(root *cobra.Command) {
	templateFuncs()
	const flags, subcommands = "{{.LocalFlags.FlagUsages | trimTrailingWhitespaces}}", "{{if .HasAvailableSubCommands}}{{$cmds"
	usage := strings.Replace(root.UsageTemplate(), flags, "{{ownFlags .LocalFlags}}{{with remoteFlags .LocalFlags}}\n\n{{.}}{{end}}", 1)
	usage = strings.ReplaceAll(usage, ".FlagUsages |", fmt.Sprintf(".FlagUsagesWrapped %d |", cli.Columns))
	root.SetUsageTemplate(usage)
	at := strings.Index(usage, subcommands)
	const ifCommand, end = "{{if or .Runnable .HasSubCommands}}", "{{end}}"
	root.SetHelpTemplate(ifCommand + usage[:at] + "\n\n" + end + "{{or (long .) .Short | trimTrailingWhitespaces}}\n" + ifCommand + usage[at:] + end)
}

// flagUsages describes flags: the flags for remote models, or all others, in groups.
func flagUsages(all *pflag.FlagSet, remote bool) string {
	set := pflag.NewFlagSet("", pflag.ContinueOnError)
	set.SortFlags = all.SortFlags
	var rare []string
	all.VisitAll(func(f *pflag.Flag) {
		if marked(f, markRemote) != remote {
			return
		}
		if marked(f, markRare) && !f.Hidden {
			rare = append(rare, "--"+f.Name)
			return
		}
		shown := *f
		shown.Hidden = f.Hidden && !remote // as all are of the root
		set.AddFlag(&shown)
	})
	text := func(set *pflag.FlagSet) string { return strings.TrimRight(set.FlagUsagesWrapped(cli.Columns), " \n") }
	if remote {
		return text(set)
	}
	titles, sets := grouped(set)
	lines := text(sets[0])
	for i := 1; i < len(sets); i++ {
		lines += "\n\n" + titles[i] + ":\n" + text(sets[i])
	}
	if rare != nil {
		lines += "\n\n" + strings.Join(cli.Wrap("Rarely needed, and described in the manual page and docs/commands.md: "+strings.Join(rare, ", "), cli.Columns, 0), "\n")
	}
	return lines
}

// commandGroups are the commands as help lists them.
var commandGroups = []struct{ title, commands string }{
	{"Look into models:", "info ls cat stat diff report verify list"},
	{"Mount models:", "mount umount status serve keep"},
	{"Keep files of models:", "export fetch cache"},
	{"About tensorfs itself:", "completion help version"},
}

// groupCommands makes help list the commands by what they are for.
func groupCommands(root *cobra.Command) {
	for _, g := range commandGroups {
		root.AddGroup(&cobra.Group{ID: g.title, Title: g.title})
		for name := range strings.FieldsSeq(g.commands) {
			if c, _, err := root.Find([]string{name}); err == nil && c != root {
				c.GroupID = g.title
			}
		}
	}
	root.SetHelpCommandGroupID(commandGroups[len(commandGroups)-1].title)
}
