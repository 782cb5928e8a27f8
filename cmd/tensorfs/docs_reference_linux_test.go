package main

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"github.com/tensorfs/tensorfs/internal/cli/manual"
	"github.com/tensorfs/tensorfs/views"
	"github.com/tensorfs/tensorfs/views/tree"
)

// referencePages are the pages that together have every command, flag, option, variable,
// view and field.
var referencePages = []string{"tree", "commands", "mounts", "whole-models", "limits"}

// TestReferenceIsComplete holds that they do.
func TestReferenceIsComplete(t *testing.T) {
	read := func(path string) string {
		text, err := os.ReadFile(path)
		must(t, err)
		return string(text)
	}
	doc := ""
	for _, page := range referencePages {
		doc += read("../../docs/" + page + ".md")
	}
	n := 0
	// want looks for a word at the beginning of a span of code, before what ends it.
	want := func(kind, word string) {
		n++
		if !regexp.MustCompile("`" + regexp.QuoteMeta(word) + "(NAME)?[`= ]").MatchString(doc) {
			t.Errorf("%s %s is missing", kind, word)
		}
	}
	for _, c := range append(manual.Pages(newRoot()), newRoot()) {
		if c.HasParent() {
			want("command", c.CommandPath())
		}
		eachFlag(c, func(f *pflag.Flag) { want("flag of "+c.Name(), "--"+f.Name) })
	}
	for _, name := range optionNames(newRoot().Flags()) {
		want("mount option", strings.TrimSuffix(strings.TrimSuffix(name, "="), "NAME"))
	}
	for _, name := range manualNames() {
		want("variable or file", name)
	}
	for _, v := range views.All {
		want("view", v.Name)
	}
	for name := range tree.WholeHelp {
		want("directory", name+"/")
	}
	for _, x := range []struct {
		kind, file, pattern string
		least               int
	}{
		{"field of config.json", "../../formats/config/schema.go", `(?m)^\t\{name: "(\w+)"`, 49},
		{"field of index.json", "../../views/index.go", `f\.(?:text|value|number|add)\("(\w+)", `, 10},
		{"field of tensorfs.json", "../../internal/convert/files.go", "json:\"(\\w+)", 8},
		{"quant mode", "../../tensor.go", `(?m)^//\t(affine|mxfp4|nvfp4|fp8)\b`, 4},
	} {
		found := regexp.MustCompile(x.pattern).FindAllStringSubmatch(read(x.file), -1)
		if len(found) < x.least {
			t.Errorf("only %d of %s", len(found), x.kind)
		}
		for _, m := range found {
			want(x.kind, m[1])
		}
	}
	if n < 150 {
		t.Errorf("only %d things looked for", n)
	}
}

// Links between the pages lead to files and headings that there are.
func TestDocsLinks(t *testing.T) {
	anchors := map[string][]string{}
	n := 0
	for _, page := range append(docPages(t), docOthers...) {
		text, err := os.ReadFile(page)
		must(t, err)
		dir := page[:strings.LastIndex(page, "/")+1]
		for _, m := range regexp.MustCompile(`\]\(([^)]+)\)`).FindAllStringSubmatch(string(text), -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			n++
			file, anchor, _ := strings.Cut(m[1], "#")
			file = dir + file
			if file == dir {
				file = page
			}
			if anchors[file] == nil {
				anchors[file] = headings(t, file)
			}
			if anchor != "" && !slices.Contains(anchors[file], anchor) {
				t.Errorf("%s: %s: no such heading", page, m[1])
			}
		}
	}
	if n < 30 {
		t.Errorf("only %d links", n)
	}
}

// headings returns the anchors of a page, as they are made from its headings.
func headings(t *testing.T, file string) []string {
	t.Helper()
	anchors := []string{""}
	if !strings.HasSuffix(file, ".md") {
		if _, err := os.Stat(file); err != nil {
			t.Error(err)
		}
		return anchors
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Error(err)
	}
	for _, m := range regexp.MustCompile(`(?m)^#+ (.+)$`).FindAllStringSubmatch(string(text), -1) {
		plain := regexp.MustCompile(`[^\w\- ]`).ReplaceAllString(strings.ToLower(m[1]), "")
		anchors = append(anchors, strings.ReplaceAll(plain, " ", "-"))
	}
	return anchors
}
