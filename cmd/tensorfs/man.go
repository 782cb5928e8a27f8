package main

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/tensorfs/tensorfs"
)

func manCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "man DIRECTORY",
		Short: "Write the manual pages",
		Long: `man writes a manual page for every command to DIRECTORY, usually the directory
man1 of a manual path. It is for packagers and displays nothing.

The pages have the date of the commit that tensorfs was built from, or that of
SOURCE_DATE_EPOCH, so that two runs write the same bytes.`,
		Example: `  tensorfs man /usr/local/share/man/man1`,
		Args:    between(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return tensorfs.NoDirectory(args[0], err)
			}
			for _, c := range append(pages(cmd.Root()), cmd.Root()) {
				page := manPage(c, pageDate(), runtime.GOOS)
				if err := os.WriteFile(filepath.Join(args[0], pageName(c)+".1"), page, 0o644); err != nil {
					return tensorfs.NoDirectory(args[0], err)
				}
			}
			return nil
		},
	}
}

// pages are the commands and topics that have a page of their own beside the root's.
func pages(root *cobra.Command) []*cobra.Command {
	return slices.DeleteFunc(slices.Clone(root.Commands()), func(c *cobra.Command) bool {
		return c.Name() == "help" || !c.IsAvailableCommand() && !c.IsAdditionalHelpTopicCommand()
	})
}

// pageName is the name of a command's page: tensorfs-mount.
func pageName(c *cobra.Command) string { return strings.ReplaceAll(c.CommandPath(), " ", "-") }

// pageDate is the date in the pages, "" where nothing is known. It is never that of
// the clock.
func pageDate() string {
	if seconds, err := strconv.ParseInt(os.Getenv("SOURCE_DATE_EPOCH"), 10, 64); err == nil {
		return time.Unix(seconds, 0).UTC().Format(time.DateOnly)
	}
	return builtFrom().date
}

// exitStatus is the paragraph of a description after which the rest is a section of
// its own.
const exitStatus = "Exit status:"

// manPage returns the page of a command for a system. Its texts are those of --help.
func manPage(c *cobra.Command, date, goos string) []byte {
	r := &roff{emphasis: emphasisOf(c)}
	r.line(fmt.Sprintf(`.TH "%s" 1 "%s" "tensorfs %s" "tensorfs manual"`, strings.ToUpper(pageName(c)), date, version()))
	r.line(".nh") // a name of a file that is broken in two is another name
	r.line(".ad l")
	r.section("NAME")
	short := c.Short
	if !c.HasParent() {
		short = "show the tensors of a model as files"
	}
	r.line(escape(pageName(c)) + ` \- ` + escape(lowerFirst(short)))
	isTopic := c.IsAdditionalHelpTopicCommand()
	if !isTopic {
		r.section("SYNOPSIS")
	}
	if isTopic {
	} else if c.HasParent() {
		r.synopsis(strings.TrimPrefix(c.UseLine(), c.CommandPath()), c.CommandPath())
	} else {
		r.synopsis("COMMAND [flags] [ARGUMENT...]", "tensorfs")
	}
	r.section("DESCRIPTION")
	long, exit, _ := strings.Cut(cmp.Or(c.Long, c.Short+"."), exitStatus)
	r.text(long)
	if !c.HasParent() {
		r.section("COMMANDS")
		for _, sub := range pages(c) {
			r.item(`\fB`+escape(pageName(sub))+`\fR(1)`, sub.Short+".")
		}
	}
	if !isTopic {
		r.options(c)
	}
	if exit != "" {
		r.section("EXIT STATUS")
		r.text(exit)
	}
	if !c.HasParent() {
		for _, s := range rootSections {
			r.section(s.name)
			for _, i := range s.items {
				if has(goos, i.name) {
					r.item(`\fI`+escape(i.name)+`\fR`, i.text)
				}
			}
		}
	}
	if c.Example != "" {
		r.section("EXAMPLES")
		r.text(c.Example)
	}
	r.section("SEE ALSO")
	r.seeAlso(c, goos)
	return r.Bytes()
}

// seeAlso names the other pages.
func (r *roff) seeAlso(c *cobra.Command, goos string) {
	var names []string
	if c.HasParent() {
		names = append(names, "tensorfs(1)")
	} else {
		for _, sub := range pages(c) {
			names = append(names, pageName(sub)+"(1)")
		}
	}
	for _, other := range strings.Fields(seeAlso[c.Name()]) {
		if has(goos, other) {
			names = append(names, other)
		}
	}
	for i, name := range names {
		comma := ","
		if i == len(names)-1 {
			comma = ""
		}
		page, section, _ := strings.Cut(name, "(")
		r.line(`\fB` + escape(page) + `\fR(` + section + comma)
	}
}

// options lists the flags. Those of the root are for mount(8) and hidden, but for
// --help and --version, which cobra adds.
func (r *roff) options(c *cobra.Command) {
	r.section("OPTIONS")
	c.InitDefaultHelpFlag()
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		name := `\fB` + escape("--"+f.Name) + `\fR`
		if f.Shorthand != "" {
			name = `\fB` + escape("-"+f.Shorthand) + `\fR, ` + name
		}
		value, usage := pflag.UnquoteUsage(f)
		if value != "" {
			name += ` \fI` + escape(value) + `\fR`
		}
		if !slices.Contains([]string{"", "false", "0", "[]"}, f.DefValue) {
			usage += " (default: " + f.DefValue + ")"
		}
		r.item(name, upperFirst(usage)+".")
	})
}

func lowerFirst(s string) string { return strings.ToLower(s[:1]) + s[1:] }
func upperFirst(s string) string { return strings.ToUpper(s[:1]) + s[1:] }

// roff collects the source of a page.
type roff struct {
	bytes.Buffer
	emphasis func(word string) string
	begins   bool // a section, and no paragraph is in it yet
}
