package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// docPages are the pages whose commands are run: README.md, CONTRIBUTING.md and
// docs/*.md.
func docPages(t *testing.T) []string {
	t.Helper()
	pages, err := filepath.Glob("../../docs/*.md")
	if err != nil || len(pages) < 5 {
		t.Fatalf("%d pages, %v", len(pages), err)
	}
	return append([]string{"../../README.md", "../../CONTRIBUTING.md"}, pages...)
}

// docOthers are pages without commands to run.
var docOthers = []string{"../../CHANGELOG.md", "../../ARCHITECTURE.md", "../../SECURITY.md", "../../BENCHMARKS.md", "../../docs/benchmarks/details.md", "../../docs/benchmarks/results.md"}

// docBlock is a fenced block of a page.
type docBlock struct {
	line     int    // of the fence
	language string // after the fence
	mark     string // the comment on the line before the fence, without <!-- and -->
	text     string
}

// notRun returns why a block is not run, "" for one that is.
func (b docBlock) notRun() string {
	why, _ := strings.CutPrefix(b.mark, "not run: ")
	if why == b.mark {
		return ""
	}
	return why
}

// docLanguages are the languages of blocks. TestDocsRun runs the blocks marked "run"; blocks that
// are not run must give a reason; shown blocks contain no commands.
var docLanguages = map[string]string{
	"console": "run",                                                            // commands after "$ ", each with its output; ... matches anything
	"sh":      "run",                                                            // commands that succeed and say nothing on standard error
	"pycon":   "doctest",                                                        // a Python session, which scripts/test-python runs
	"python":  "code", "c": "code", "cpp": "code", "go": "code", "objc": "code", // an example file, a part of one, or not run
	"text": "shown", "json": "shown", "ini": "shown", "yaml": "shown",
}

var docMark = regexp.MustCompile(`^<!-- (.+) -->$`)

// docBlocks returns the blocks of a page, and complains about code without a fence,
// which nothing would run.
func docBlocks(t *testing.T, page string) (blocks []docBlock) {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	var open *docBlock
	before := ""
	for i, line := range strings.Split(string(text), "\n") {
		language, fence := strings.CutPrefix(line, "```")
		switch {
		case fence && open == nil:
			open = &docBlock{line: i + 1, language: language}
			if m := docMark.FindStringSubmatch(before); m != nil {
				open.mark = m[1]
			}
		case fence:
			blocks = append(blocks, *open)
			open = nil
		case open != nil:
			open.text += line + "\n"
		case strings.HasPrefix(line, "    ") && before == "":
			t.Errorf("%s:%d: a block without a fence; say its language", page, i+1)
		}
		before = line
	}
	if open != nil {
		t.Errorf("%s:%d: the block has no end", page, open.line)
	}
	return blocks
}

// Every block is run, or is marked with the reason, or holds no commands.
func TestDocsBlocks(t *testing.T) {
	for _, page := range docPages(t) {
		for _, b := range docBlocks(t, page) {
			use, known := docLanguages[b.language]
			if !known {
				t.Errorf("%s:%d: a block of the language %q", page, b.line, b.language)
			}
			if why := b.notRun(); why != "" && (use == "shown" || len(strings.Fields(why)) < 2) {
				t.Errorf("%s:%d: not run for the reason %q", page, b.line, why)
			}
			if use == "code" && b.notRun() == "" && !strings.HasPrefix(strings.TrimPrefix(b.mark, "part of "), "examples/") {
				t.Errorf("%s:%d: code that nothing runs; say why", page, b.line)
			}
			if use == "shown" && regexp.MustCompile(`(?m)^(\$|tensorfs|sudo|mount|ls|cat) `).MatchString(b.text) {
				t.Errorf("%s:%d: commands in a block that is not run", page, b.line)
			}
			if b.language == "json" && !json.Valid([]byte(b.text)) {
				t.Errorf("%s:%d: not JSON", page, b.line)
			}
			if use == "run" {
				for line := range strings.Lines(b.text) {
					checkCommandLine(t, page, strings.TrimPrefix(line, "$ "))
				}
			}
		}
	}
}

// Commands in running text have the names and flags that there are.
func TestDocsCommands(t *testing.T) {
	n := 0
	for _, page := range append(docPages(t), docOthers...) {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile("`(tensorfs [^`]+)`").FindAllStringSubmatch(string(text), -1) {
			checkCommandLine(t, page, m[1])
			n++
		}
	}
	if n < 20 {
		t.Errorf("only %d commands found", n)
	}
}

// checkCommandLine checks the names of the commands of tensorfs in a line, and of
// their flags.
func checkCommandLine(t *testing.T, page, line string) {
	t.Helper()
	for _, part := range regexp.MustCompile(`[|;&()#]|\s--\s`).Split(line, -1) {
		words := strings.Fields(part)
		i := slices.Index(words, "tensorfs")
		if i < 0 || i+1 == len(words) || i > 0 && words[i-1] != "sudo" && words[i-1] != "env" {
			continue
		}
		root := newRoot()
		words = words[i+1:]
		c, rest, err := root.Find(words)
		if err != nil || c == root && !strings.HasPrefix(words[0], "-") && !slices.Contains([]string{"COMMAND", "MODEL"}, words[0]) {
			t.Errorf("%s: %q: no such command", page, line)
			continue
		}
		for _, w := range rest {
			if !hasFlag(c, strings.Trim(w, "[]'\",.")) {
				t.Errorf("%s: %q: tensorfs %s has no flag %s", page, line, c.Name(), w)
			}
		}
	}
}

// hasFlag reports whether a command takes a word of its command line.
func hasFlag(c *cobra.Command, word string) bool {
	if !strings.HasPrefix(word, "-") || word == "-" {
		return true
	}
	c.InitDefaultHelpFlag()
	if name, long := strings.CutPrefix(word, "--"); long {
		name, _, _ = strings.Cut(name, "=")
		return c.Flags().Lookup(name) != nil
	}
	return c.Flags().ShorthandLookup(word[1:2]) != nil
}
