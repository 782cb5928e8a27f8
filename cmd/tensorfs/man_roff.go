package main

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/spf13/cobra"
)

// The texts of --help follow a few conventions, which give a page its form:
//
//   - Empty lines separate paragraphs.
//   - Lines that are indented are shown as they are.
//   - Where all of them have two columns (or continue the second), they are a list.
//   - Words in capitals that are in the command's usage, and flags, are emphasised.

// text adds paragraphs.
func (r *roff) text(s string) {
	for _, p := range strings.Split(strings.Trim(s, "\n"), "\n\n") {
		if !strings.HasPrefix(p, " ") {
			r.paragraph()
			r.filled(p)
			continue
		}
		items := columns(p)
		if items == nil {
			r.literal(p)
		}
		for _, i := range items {
			r.item(`\fI`+escape(i.name)+`\fR`, i.text)
		}
	}
}

// paragraph begins one.
func (r *roff) paragraph() {
	if !r.begins {
		r.line(".PP")
	}
	r.begins = false
}

// manItem is a row of a list.
type manItem struct{ name, text string }

// columns returns the rows of an indented paragraph with two columns, nil for one
// that is something else.
func columns(s string) (items []manItem) {
	for _, line := range strings.Split(s, "\n") {
		body := strings.TrimLeft(line, " ")
		if indent := len(line) - len(body); indent > 4 && len(items) > 0 {
			items[len(items)-1].text += "\n" + body
			continue
		}
		name, text, ok := strings.Cut(body, "  ")
		text = strings.TrimLeft(text, " ")
		if !ok || strings.Contains(text, "  ") {
			return nil
		}
		items = append(items, manItem{name, text})
	}
	return items
}

// item adds a row of a list. label is roff already.
func (r *roff) item(label, text string) {
	r.begins = false
	r.line(".TP")
	r.line(label)
	r.filled(text)
}

// literal adds lines as they are.
func (r *roff) literal(s string) {
	r.paragraph()
	r.line(".nf")
	r.line(".RS 4n")
	for _, line := range strings.Split(s, "\n") {
		r.textLine(escape(strings.TrimPrefix(line, "  ")))
	}
	r.line(".RE")
	r.line(".fi")
}

// maxRoffLine is what mandoc recommends at most.
const maxRoffLine = 80

// filled adds lines that are joined and broken anew. A sentence begins a line.
func (r *roff) filled(s string) {
	line := ""
	end := func() {
		if line != "" {
			r.textLine(line)
		}
		line = ""
	}
	for _, w := range strings.Fields(s) {
		shown := r.emphasis(w)
		if len(line)+1+len(shown) > maxRoffLine {
			end()
		}
		if line != "" {
			line += " "
		}
		line += shown
		if sentenceEnd.MatchString(w) {
			end()
		}
	}
	end()
}

var sentenceEnd = regexp.MustCompile(`[A-Za-z0-9)"][.]\)?$`)

// synopsis adds a line of usage.
func (r *roff) synopsis(usage, command string) {
	line := `\fB` + escape(command) + `\fR`
	for _, w := range strings.Fields(usage) {
		line += " " + r.emphasis(w)
	}
	r.line(line)
}

func (r *roff) section(name string) {
	r.line(`.SH "` + name + `"`)
	r.begins = true
}

// line adds a request, or text that is escaped already and begins with a letter.
func (r *roff) line(s string) { fmt.Fprintln(r, s) }

// textLine adds text that is escaped already.
func (r *roff) textLine(s string) {
	if strings.HasPrefix(s, ".") { // not a request
		s = `\&` + s
	}
	r.line(s)
}

// escape makes text stand for itself. A hyphen stays one that can be copied into a
// command.
func escape(s string) string { return roffEscapes.Replace(s) }

var roffEscapes = strings.NewReplacer(`\`, `\e`, `-`, `\-`, `~`, `\(ti`, `^`, `\(ha`, "`", `\(ga`, `'`, `\(aq`)

// emphasisOf returns what shows a word of a command's texts: operands in italics,
// flags in bold. Quotes and commas around them stay as they are.
func emphasisOf(c *cobra.Command) func(string) string {
	operands := map[string]bool{"MODEL": true}
	for _, w := range operand.FindAllString(c.Use, -1) {
		operands[w] = true
	}
	return func(w string) string {
		core := strings.Trim(w, `[]().,;:|`)
		at := strings.Index(w, core)
		before, after := w[:at], w[at+len(core):]
		switch {
		case operands[core]:
			core = `\fI` + escape(core) + `\fR`
		case flagWord.MatchString(core):
			core = `\fB` + escape(core) + `\fR`
		default:
			core = escape(core)
		}
		return escape(before) + core + escape(after)
	}
}

var (
	operand  = regexp.MustCompile(`[A-Z][A-Z]+`)
	flagWord = regexp.MustCompile(`^--?[a-zA-Z][a-z-]*$`)
)
