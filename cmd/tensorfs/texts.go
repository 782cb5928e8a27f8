package main

import (
	"embed"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/tensorfs/tensorfs/internal/cli"
	"github.com/tensorfs/tensorfs/internal/conceal"
	"github.com/tensorfs/tensorfs/internal/rescue"
)

// texts has a file for every command and topic, PAGE.txt:
//
//	cat [-f] MODEL PATH                                      its usage
//	Print one file of a model's tree without mounting it     in a line
//	see tensorfs-ls(1)                                       what else its manual page names, in any number of such lines
//
//	cat writes one file of the tree ...                      the text of --help
//
//	Examples:
//	  tensorfs cat model.gguf config.json
//
// A line that begins with linux| or darwin| is only for that system. {options} is replaced
// by the options of -o that are flags, {remote options} by the options about remote models,
// and {remote flags} by the help for these flags.
//
// manual.txt has only the sections of tensorfs(1), and library.txt is README in the mount
// of a library.
//
//go:embed help
var texts embed.FS

// system is what the commands run on, by its name in GOOS: their words depend on it.
type system string

// systems are the systems with texts of their own.
var systems = []system{"linux", "darwin"}

// text returns a text as this system shows it.
func (s system) text(page string) string {
	b, err := texts.ReadFile("help/" + page + ".txt")
	if err != nil {
		panic(err)
	}
	var lines []string
	for line := range strings.Lines(string(b)) {
		if on, text, ok := strings.Cut(line, "|"); ok && slices.Contains(systems, system(on)) {
			if on != string(s) {
				continue
			}
			line = text
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "")
}

// pageKey is the annotation of a command that names the pages which its own refers to, for package manual.
const pageKey = "see"

// command makes a command of its text, with flags of its own.
func (s system) command(page string, args cobra.PositionalArgs, own flags, run func(*cobra.Command, []string) error) *cobra.Command {
	head, text, _ := strings.Cut(s.text(page), "\n\n")
	lines := strings.Split(strings.TrimSpace(head), "\n")
	text, examples, _ := strings.Cut(text, "\nExamples:\n")
	c := &cobra.Command{
		Use: lines[0], Short: lines[1], Long: strings.TrimSuffix(text, "\n"), Example: strings.TrimSuffix(examples, "\n"),
		Annotations: map[string]string{pageKey: strings.ReplaceAll(strings.Join(lines[2:], " "), "see ", "")},
		Args:        args, RunE: rescued(run), SilenceUsage: true, SilenceErrors: true,
	}
	s.define(c, page, own)
	return c
}

// rescued returns a run of a command in which a panic is an error about the model that the command names first.
func rescued(run func(*cobra.Command, []string) error) func(*cobra.Command, []string) error {
	if run == nil {
		return nil
	}
	return func(c *cobra.Command, args []string) (err error) {
		what := c.Name()
		if len(args) > 0 {
			what = conceal.Printable(args[0])
		}
		defer func() { rescue.Name(err, what) }()
		defer rescue.To(&err, what)
		return run(c, args)
	}
}

// long returns the text of a command's help, with what follows from the table of flags. The
// root's flags are mount's.
func long(c *cobra.Command) string {
	if !strings.Contains(c.Long, "{") {
		return c.Long
	}
	all := c.Root().Flags()
	options := func(remote bool) string {
		var names []string
		all.VisitAll(func(f *pflag.Flag) {
			if marked(f, markOption) && marked(f, markRemote) == remote && !marked(f, markElsewhere) {
				names = append(names, optionUsage(f))
			}
		})
		return strings.Join(names, ", ")
	}
	paragraphs := strings.Split(c.Long, "\n\n")
	for i, p := range paragraphs {
		filled := strings.NewReplacer("{options}", options(false), "{remote options}", options(true)).Replace(p)
		if filled != p {
			paragraphs[i] = strings.Join(cli.Wrap(filled, cli.Columns, 0), "\n")
		}
	}
	return strings.Replace(strings.Join(paragraphs, "\n\n"), "{remote flags}", flagUsages(all, true), 1)
}
