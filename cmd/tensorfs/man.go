package main

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cpuguy83/go-md2man/v2/md2man"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/tensorfs/tensorfs"
)

func (s system) man() *cobra.Command {
	return s.command("man", between(1, 1), nil, func(cmd *cobra.Command, args []string) error {
		if err := os.MkdirAll(args[0], 0o755); err != nil {
			return tensorfs.NoDirectory(args[0], err)
		}
		for _, c := range append(pages(cmd.Root()), cmd.Root()) {
			if err := os.WriteFile(filepath.Join(args[0], pageName(c)+".1"), s.manPage(c, pageDate()), 0o644); err != nil {
				return tensorfs.NoDirectory(args[0], err)
			}
		}
		return nil
	})
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

// manPage returns the page of a command, which has the texts of its help.
func (s system) manPage(c *cobra.Command, date string) []byte {
	var page strings.Builder
	section := func(name, text string) {
		if text != "" {
			fmt.Fprintf(&page, "# %s\n\n%s\n\n", name, text)
		}
	}
	m := markdown{operandsOf(c)}
	isRoot, isTopic := !c.HasParent(), c.IsAdditionalHelpTopicCommand()
	use, others := strings.TrimPrefix(c.UseLine(), c.CommandPath()), []string{"tensorfs(1)"}
	short, commands := c.Short, ""
	if isRoot {
		use, others, short = " COMMAND [flags] [ARGUMENT...]", nil, "show the tensors of a model as files"
		for _, sub := range pages(c) {
			others = append(others, pageName(sub)+"(1)")
			commands += item("**"+pageName(sub)+"**(1)", m.words(sub.Short+"."))
		}
	}
	description, exit, _ := strings.Cut(cmp.Or(c.Long, c.Short+"."), exitStatus)
	fmt.Fprintf(&page, "# %s 1 %q \"tensorfs %s\" \"tensorfs manual\"\n\n", strings.ToUpper(pageName(c)), date, version())
	section("NAME", pageName(c)+" - "+m.words(strings.ToLower(short[:1])+short[1:]))
	if !isTopic {
		section("SYNOPSIS", "**"+c.CommandPath()+"**"+m.words(use))
	}
	section("DESCRIPTION", m.text(description))
	section("COMMANDS", commands)
	if !isTopic {
		section("OPTIONS", m.options(c))
	}
	section("EXIT STATUS", m.text(strings.TrimPrefix(exit, " ")))
	if isRoot {
		page.WriteString(manualItem.ReplaceAllString(s.text("manual"), "*$1*\n: "))
	}
	section("EXAMPLES", m.text(c.Example))
	section("SEE ALSO", "**"+strings.ReplaceAll(strings.Join(append(others, strings.Fields(c.Annotations[pageKey])...), ", **"), "(", "**("))
	return asRoff(md2man.Render([]byte(page.String())))
}

// manualItem is the name of an item in the text about variables and files.
var manualItem = regexp.MustCompile(`(?m)^(.*)\n: `)

// roffText makes characters of text stand for themselves, so that a command can be copied
// from a page.
var roffText = strings.NewReplacer(`\-`, `\-`, `-`, `\-`, `\\`, `\e`, `~`, `\(ti`, `^`, `\(ha`, "`", `\(ga`, `'`, `\(aq`)

// asRoff is a page in the form that man takes. Lines that begin with a full stop are
// requests.
func asRoff(page []byte) []byte {
	lines := strings.Split(strings.Replace(string(page), "\n\n.SH", "\n.nh\n.ad l\n.SH", 1), "\n")
	for i, line := range lines {
		if !strings.HasPrefix(line, ".") {
			lines[i] = roffText.Replace(line)
		}
	}
	return []byte(strings.Join(lines, "\n"))
}

// markdown makes Markdown of texts of help. They follow a few conventions:
//
//   - Empty lines separate paragraphs.
//   - Lines that are indented are shown as they are.
//   - Where all of them have two columns (or continue the second), they are a list.
//   - Words in capitals that are in the command's usage, and flags, are emphasised.
type markdown struct{ operands []string }

func operandsOf(c *cobra.Command) []string {
	return append(regexp.MustCompile(`[A-Z][A-Z]+`).FindAllString(c.Use, -1), "MODEL")
}

// literal indents lines that are shown as they are.
const literal = "      "

// text is paragraphs.
func (m markdown) text(s string) string {
	paragraphs := strings.Split(strings.Trim(s, "\n"), "\n\n")
	for i, p := range paragraphs {
		switch {
		case !strings.HasPrefix(p, " "):
			paragraphs[i] = m.words(p)
		case m.list(p) != "":
			paragraphs[i] = m.list(p)
		default:
			paragraphs[i] = literal + strings.ReplaceAll(p, "\n", "\n"+literal)
		}
	}
	return strings.Join(paragraphs, "\n\n")
}

// list is a paragraph with two columns as a list, "" for another paragraph.
func (m markdown) list(s string) (items string) {
	for line := range strings.SplitSeq(s, "\n") {
		body := strings.TrimLeft(line, " ")
		if len(line)-len(body) > 4 && items != "" {
			items = strings.TrimSpace(items) + " " + m.words(body) + "\n\n"
			continue
		}
		name, text, ok := strings.Cut(body, "  ")
		if text = strings.TrimLeft(text, " "); !ok || strings.Contains(text, "  ") {
			return ""
		}
		items += item("*"+markdownText.Replace(name)+"*", m.words(text))
	}
	return strings.TrimSpace(items)
}

// item is a row of a list.
func item(name, text string) string { return name + "\n: " + text + "\n\n" }

// options lists the flags. Those of the root are for mount(8) and hidden, but for
// --help and --version, which cobra adds.
func (m markdown) options(c *cobra.Command) (items string) {
	c.InitDefaultHelpFlag()
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		name := "**--" + f.Name + "**"
		if f.Shorthand != "" {
			name = "**-" + f.Shorthand + "**, " + name
		}
		value, usage := pflag.UnquoteUsage(f)
		if value != "" {
			name += " *" + value + "*"
		}
		if !slices.Contains([]string{"", "false", "0", "0s", "[]"}, f.DefValue) {
			usage += " (default: " + f.DefValue + ")"
		}
		items += item(name, m.words(strings.ToUpper(usage[:1])+usage[1:]+"."))
	})
	return items
}

var (
	// markdownText makes characters stand for themselves.
	markdownText = strings.NewReplacer(`\`, `\\`, "`", "\\`", `*`, `\*`, `_`, `\_`, `[`, `\[`, `]`, `\]`, `<`, `\<`, `>`, `\>`)
	manWord      = regexp.MustCompile(`[^\s\[\]().,;:|\\]+`)
	flagWord     = regexp.MustCompile(`^--?[a-zA-Z][a-z-]*$`)
)

// words is text of a paragraph in a line.
func (m markdown) words(s string) string {
	return manWord.ReplaceAllStringFunc(markdownText.Replace(strings.ReplaceAll(s, "\n", " ")), func(w string) string {
		switch {
		case slices.Contains(m.operands, w):
			return "*" + w + "*"
		case flagWord.MatchString(w):
			return "**" + w + "**"
		}
		return w
	})
}
