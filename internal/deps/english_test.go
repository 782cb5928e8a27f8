package deps

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// habits are expressions of English that a reader has to read twice, with what to write
// instead. They are looked for without regard to case.
var habits = []struct{ name, expression, instead string }{
	{"pronoun for a noun", `\b(those (of|that|who|which|for|in|on|to|from|with|by)|that of|the others|of which|what is not)\b`, "name the noun"},
	{"belongs", `\b(is|are|was|were) (that|those) of\b`, "X belongs to Y, or Y's X"},
	{"no as a predicate", `\b(is|are) none\b|\bnil (for|where)\b|\b(that|which|it|this) is no [a-z]+|\bas far as it is no\b`, "is not a ..., is missing"},
	{"where for if", `\bwhere (there (is|are)|(it|they|that|this) (has|have|is|are|can|may|cannot)|one|no)\b`, "if, when"},
	{"alone for only", `\balone\b`, "only, before the noun"},
	{"nobody in particular", `\b(somebody|anybody|whoever|nobody|one who|one's)\b`, "the user, the reader, the server, you"},
	{"vague verb", `\b(stands?|stood) (in|beside|besides|for|there|between|at|on|above|below|next)\b|\b(is|are) called\b|\b(makes|made) of\b|\bsays\b`, "is stored, contains, reports, converts, is named"},
	{"vague adverb", `\b(anew|by (itself|themselves)|at the same time|in (the )?place of|meanwhile)\b`, "again, automatically, concurrently, instead of"},
	{"chain of commas", `(,[^.;:|,]*){4,}, (where|unless|whose|of which|if|when|which)\b`, "one fact in a sentence, its condition first"},
	{"household noun", `\b(rooms|halls)\b`, "the term of the field: package, terminator, permutation, shard"},
}

var habitExpressions = func() (all []*regexp.Regexp) {
	for _, h := range habits {
		all = append(all, regexp.MustCompile("(?i)"+h.expression))
	}
	return all
}()

// englishAllowed is how often habits may occur, by the pages that count together.
var englishAllowed = map[string]int{
	"documents":  0,
	"help texts": 0,
}

// englishExceptions are lines that a habit finds by mistake, by a part of their text.
var englishExceptions = []struct{ page, part, reason string }{}

// TestEnglish counts habits in documents and help texts, and prints every place if there are more
// than allowed.
func TestEnglish(t *testing.T) {
	root := filepath.Join("..", "..")
	pages := map[string][]string{"documents": {"README.md", "BENCHMARKS.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md"}}
	for kind, pattern := range map[string]string{"documents": "docs/*.md", "help texts": "cmd/tensorfs/help/*.txt"} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil || len(found) < 10 {
			t.Fatalf("%d pages of %s, %v", len(found), pattern, err)
		}
		for _, page := range found {
			name, _ := filepath.Rel(root, page)
			pages[kind] = append(pages[kind], filepath.ToSlash(name))
		}
	}
	pages["documents"] = append(pages["documents"], "docs/benchmarks/details.md")
	pages["help texts"] = append(pages["help texts"], "docs/commands.md") // the part that is generated from the table of flags
	used := map[int]bool{}
	for kind, names := range pages {
		var places []string
		for _, name := range names {
			text, err := os.ReadFile(filepath.Join(root, name))
			if err != nil {
				t.Fatal(err)
			}
			at, end, made := 0, 0, false
			if m := madeText.FindIndex(text); m != nil {
				at, end, made = m[0], m[1], true
			}
			prose := madeText.ReplaceAllStringFunc(string(text), blank)
			if kind == "help texts" && made {
				prose = blank(string(text[:at])) + madeMark.ReplaceAllString(string(text[at:end]), "")
			}
			places = append(places, habitsIn(name, 1, prose, used)...)
		}
		t.Logf("%s: %d places", kind, len(places))
		if len(places) > englishAllowed[kind] {
			t.Errorf("%s have %d places, and %d are allowed:\n%s", kind, len(places), englishAllowed[kind], strings.Join(places, "\n"))
		}
	}
	for i, e := range englishExceptions {
		if !used[i] {
			t.Errorf("the exception for %q in %s finds nothing", e.part, e.page)
		}
	}
}

// habitsIn returns the places in a text that begins at a line of a page. Paragraphs are looked at as one line, since an
// expression may go on in the next; code is left out.
func habitsIn(page string, line int, text string, used map[int]bool) (places []string) {
	for number, paragraph := range paragraphs(text) {
		for i, h := range habits {
			for _, at := range habitExpressions[i].FindAllStringIndex(paragraph, -1) {
				around := paragraph[max(0, at[0]-30):min(len(paragraph), at[1]+20)]
				except := slices.IndexFunc(englishExceptions, func(e struct{ page, part, reason string }) bool {
					return e.page == page && strings.Contains(around, e.part)
				})
				if except >= 0 {
					if used != nil {
						used[except] = true
					}
					continue
				}
				places = append(places, fmt.Sprintf("%s:%d: %s (%s): ...%s...", page, line+number-1, h.name, h.instead, around))
			}
		}
	}
	slices.Sort(places)
	return places
}

var (
	madeText = regexp.MustCompile(`(?s)<!-- made by .*?<!-- end of what is made -->`)
	madeMark = regexp.MustCompile(`<!-- .*? -->`)
	fenced   = regexp.MustCompile("(?ms)^```.*?^```$")
	span     = regexp.MustCompile("`[^`\n]*`")
)

// blank returns as many empty lines as a text has, so that what follows keeps its number.
func blank(s string) string { return strings.Repeat("\n", strings.Count(s, "\n")) }

// paragraphs returns the prose of a page by the line that it begins at. Each list item and each row
// of a table is a paragraph.
func paragraphs(text string) map[int]string {
	text = fenced.ReplaceAllStringFunc(text, blank)
	text = span.ReplaceAllString(text, "`x`")
	all := map[int]string{}
	begin := 0
	for i, line := range strings.Split(text, "\n") {
		line = strings.TrimSpace(line)
		starts := strings.HasPrefix(line, "|") || strings.HasPrefix(line, "- ") || strings.HasPrefix(line, "#")
		switch {
		case line == "" || strings.HasPrefix(line, "<!--"):
			begin = 0
		case begin == 0 || starts:
			begin = i + 1
			all[begin] = line
		default:
			all[begin] += " " + line
		}
	}
	return all
}
