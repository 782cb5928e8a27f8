package manual

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/tensorfs/tensorfs"
)

// Book describes the pages of a command and of the commands below it.
type Book struct {
	Root          *cobra.Command
	Version, Date string // "" if unknown
	Sections      string // of the root's page: "# TITLE" and items, see Items
	Long          func(*cobra.Command) string
	Groups        func(*pflag.FlagSet) (titles []string, sets []*pflag.FlagSet) // flags in the order of help
}

// See is the annotation of a command that lists other pages to see, such as "mount(8)".
const See = "see"

// Write writes all pages into a directory.
func (b Book) Write(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return tensorfs.NoDirectory(dir, err)
	}
	for _, c := range append(Pages(b.Root), b.Root) {
		if err := os.WriteFile(filepath.Join(dir, pageName(c)+".1"), b.Page(c), 0o644); err != nil {
			return tensorfs.NoDirectory(dir, err)
		}
	}
	return nil
}

// Pages returns the commands and topics with a page, apart from the root.
func Pages(root *cobra.Command) []*cobra.Command {
	return slices.DeleteFunc(slices.Clone(root.Commands()), func(c *cobra.Command) bool {
		return c.Name() == "help" || !c.IsAvailableCommand() && !c.IsAdditionalHelpTopicCommand()
	})
}

// pageName is the name of a command's page: tensorfs-mount.
func pageName(c *cobra.Command) string { return strings.ReplaceAll(c.CommandPath(), " ", "-") }

// exitStatus is the paragraph of a description after which the rest is a section of
// its own.
const exitStatus = "Exit status:"

// Page returns the page of a command, which has the texts of its help.
func (b Book) Page(c *cobra.Command) []byte {
	r := roff{append(regexp.MustCompile(`[A-Z][A-Z]+`).FindAllString(c.Use, -1), "MODEL")}
	page := fmt.Sprintf(".TH %q 1 %q \"tensorfs %s\" \"tensorfs manual\"\n.nh\n.ad l\n", strings.ToUpper(pageName(c)), b.Date, b.Version)
	section := func(name, text string) {
		if text != "" {
			page += ".SH \"" + name + "\"\n" + strings.TrimPrefix(text, ".PP\n")
		}
	}
	isRoot, isTopic := !c.HasParent(), c.IsAdditionalHelpTopicCommand()
	use, others := strings.TrimPrefix(c.UseLine(), c.CommandPath()), []string{"tensorfs(1)"}
	short, commands := c.Short, ""
	if isRoot {
		use, others, short = " COMMAND [flags] [ARGUMENT...]", nil, "show the tensors of a model as files"
		for _, sub := range Pages(c) {
			others = append(others, pageName(sub)+"(1)")
			commands += r.item(bold(pageName(sub))+"(1)", sub.Short+".")
		}
	}
	description, exit, _ := strings.Cut(cmp.Or(b.Long(c), c.Short+"."), exitStatus)
	section("NAME", escape(pageName(c))+` \- `+r.words(strings.ToLower(short[:1])+short[1:]))
	if !isTopic {
		section("SYNOPSIS", bold(c.CommandPath())+r.words(use))
	}
	section("DESCRIPTION", r.text(description))
	section("COMMANDS", commands)
	if !isTopic {
		section("OPTIONS", b.options(r, c))
	}
	section("EXIT STATUS", r.text(strings.TrimPrefix(exit, " ")))
	if isRoot {
		for part := range strings.SplitSeq(strings.TrimPrefix(b.Sections, "# "), "\n# ") {
			name, text, _ := strings.Cut(part, "\n")
			items := ""
			for _, item := range Items(text) {
				items += r.item(italic(item.Name), item.Text)
			}
			section(name, items)
		}
	}
	section("EXAMPLES", r.text(c.Example))
	others = append(others, strings.Fields(c.Annotations[See])...)
	for i, other := range others {
		name, number, _ := strings.Cut(other, "(")
		others[i] = bold(name) + "(" + number
	}
	section("SEE ALSO", strings.Join(others, ", ")+"\n")
	return []byte(page)
}

// Item describes a variable or a file.
type Item struct{ Name, Text string }

// item is an Item as it is written: its name, and below that a colon and its text.
var item = regexp.MustCompile(`(?m)^(.*)\n: (.*)$`)

// Items returns the items of a text.
func Items(text string) (items []Item) {
	for _, m := range item.FindAllStringSubmatch(text, -1) {
		items = append(items, Item{m[1], m[2]})
	}
	return items
}

// roff writes texts of help as man takes them. They follow a few conventions:
//
//   - Empty lines separate paragraphs.
//   - Lines that are indented are shown as they are.
//   - Where all of them have two columns (or continue the second), they are a list.
//   - Words in capitals that are in the command's usage, and flags, are emphasised.
type roff struct{ operands []string }

// text is paragraphs.
func (r roff) text(s string) (all string) {
	for p := range strings.SplitSeq(strings.Trim(s, "\n"), "\n\n") {
		list := r.list(p)
		switch {
		case p == "":
		case !strings.HasPrefix(p, " "):
			all += ".PP\n" + r.words(p)
		case list != "":
			all += list
		default:
			all += ".PP\n.nf\n.RS 4n\n" + strings.TrimPrefix(escape(strings.ReplaceAll("\n"+p, "\n  ", "\n")), "\n") + "\n.RE\n.fi\n"
		}
	}
	return all
}

// list is a paragraph with two columns as a list, "" for another paragraph.
func (r roff) list(s string) (items string) {
	var rows [][2]string
	for line := range strings.SplitSeq(s, "\n") {
		body := strings.TrimLeft(line, " ")
		if n := len(rows); len(line)-len(body) > 4 && n > 0 {
			rows[n-1][1] += " " + body
			continue
		}
		name, text, ok := strings.Cut(body, "  ")
		if text = strings.TrimLeft(text, " "); !ok || strings.Contains(text, "  ") {
			return ""
		}
		rows = append(rows, [2]string{name, text})
	}
	for _, row := range rows {
		items += r.item(italic(row[0]), row[1])
	}
	return items
}

// item is a row of a list. name is roff already.
func (r roff) item(name, text string) string { return ".TP\n" + name + "\n" + r.words(text) }

// options lists the flags in their groups. The root's flags are for mount(8) and hidden,
// except --help and --version, which cobra adds.
func (b Book) options(r roff, c *cobra.Command) (items string) {
	c.InitDefaultHelpFlag()
	titles, sets := b.Groups(c.Flags())
	for i, set := range sets {
		if titles[i] != "" {
			items += ".SS \"" + titles[i] + "\"\n"
		}
		items += r.flags(set)
	}
	return items
}

func (r roff) flags(set *pflag.FlagSet) (items string) {
	set.VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		name := bold("--" + f.Name)
		if f.Shorthand != "" {
			name = bold("-"+f.Shorthand) + ", " + name
		}
		value, usage := pflag.UnquoteUsage(f)
		if value != "" {
			name += " " + italic(value)
		}
		if !slices.Contains([]string{"", "false", "0", "0s", "[]"}, f.DefValue) {
			usage += " (default: " + f.DefValue + ")"
		}
		items += r.item(name, strings.ToUpper(usage[:1])+usage[1:]+".")
	})
	return items
}

var (
	manWord  = regexp.MustCompile(`[^\s\[\]().,;:|]+`)
	flagWord = regexp.MustCompile(`^--?[a-zA-Z][a-z-]*$`)
	// roffText escapes characters, so that a command can be copied from a page. A full stop
	// begins a request.
	roffText = strings.NewReplacer(`\`, `\e`, `-`, `\-`, `~`, `\(ti`, `^`, `\(ha`, "`", `\(ga`, `'`, `\(aq`, "\n.", "\n\\&.")
)

func escape(s string) string { return roffText.Replace(s) }
func bold(s string) string   { return `\fB` + escape(s) + `\fR` }
func italic(s string) string { return `\fI` + escape(s) + `\fR` }

// words is the text of a paragraph in a line.
func (r roff) words(s string) string {
	line := manWord.ReplaceAllStringFunc(strings.ReplaceAll(s, "\n", " "), func(w string) string {
		switch {
		case slices.Contains(r.operands, w):
			return italic(w)
		case flagWord.MatchString(w):
			return bold(w)
		}
		return escape(w)
	})
	if strings.HasPrefix(line, ".") {
		line = `\&` + line
	}
	return line + "\n"
}
