package deps

import (
	"bufio"
	"bytes"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// lower makes TestEnglishOfCode write the counts that have fallen into englishTable:
//
//	go test ./internal/deps -run TestEnglishOfCode -args -lower
var lower = flag.Bool("lower", false, "lower the counts in "+englishTable)

// englishTable has a line for every package that has habits left: its directory, and how
// many habits each of codeKinds may have.
const englishTable = "testdata/english.txt"

// codeKinds are the kinds of English in Go files, counted separately in every package.
var codeKinds = []string{"exported", "inner", "messages", "tests"}

// TestEnglishOfCode counts habits in the comments and messages of every package, and fails
// if a package has more than englishTable allows. -v prints every place.
func TestEnglishOfCode(t *testing.T) {
	root := filepath.Join("..", "..")
	allowed := readEnglishTable(t)
	total, words := map[string]int{}, map[string]int{}
	now := map[string]map[string]int{}
	for _, dir := range append(packages(t, root), packagesOfModule(t, root, "cmd/tensorfs-csi")...) {
		found := englishOfPackage(t, root, dir)
		for _, kind := range codeKinds {
			var places []string
			for _, x := range found[kind] {
				words[kind] += len(strings.Fields(x.text))
				places = append(places, habitsIn(x.file, x.line, x.text, nil)...)
			}
			total[kind] += len(places)
			if len(places) > 0 {
				if now[dir] == nil {
					now[dir] = map[string]int{}
				}
				now[dir][kind] = len(places)
				t.Logf("%s, %s: %d places\n%s", dir, kind, len(places), strings.Join(places, "\n"))
			}
			if most := allowed[dir][kind]; len(places) > most {
				t.Errorf("%s, %s: %d places, and internal/deps/%s allows %d:\n%s", dir, kind, len(places), englishTable, most, strings.Join(places, "\n"))
			}
		}
	}
	for _, kind := range codeKinds {
		t.Logf("%s: %d places in %d words", kind, total[kind], words[kind])
		if words[kind] < 10000 {
			t.Errorf("%s: only %d words were read", kind, words[kind])
		}
	}
	for dir := range allowed {
		if _, err := os.Stat(filepath.Join(root, dir)); err != nil {
			t.Errorf("%s has a line for %s, which is gone: move the line with the package", englishTable, dir)
		}
	}
	if *lower {
		writeEnglishTable(t, allowed, now)
	}
}

// passage is a comment or a message, and the line that it begins at.
type passage struct {
	file string
	line int
	text string
}

// packagesOfModule returns the directories of a module inside of this one.
func packagesOfModule(t *testing.T, root, dir string) (all []string) {
	t.Helper()
	for _, d := range packages(t, filepath.Join(root, dir)) {
		all = append(all, filepath.ToSlash(filepath.Join(dir, d)))
	}
	return all
}

// englishOfPackage returns the English of a package's Go files, by kind.
func englishOfPackage(t *testing.T, root, dir string) map[string][]passage {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	all := map[string][]passage{}
	for _, file := range files {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.ToSlash(filepath.Join(dir, filepath.Base(file)))
		for kind, found := range englishOfFile(t, name, source) {
			all[kind] = append(all[kind], found...)
		}
	}
	return all
}

// englishOfFile returns the English of a Go file, by kind.
func englishOfFile(t *testing.T, name string, source []byte) map[string][]passage {
	t.Helper()
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, name, source, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string][]passage{}
	put := func(kind string, at token.Pos, text string) {
		all[kind] = append(all[kind], passage{name, set.Position(at).Line, text})
	}
	isTest := strings.HasSuffix(name, "_test.go")
	exported := exportedComments(file)
	for _, group := range file.Comments {
		kind := "inner"
		switch {
		case isTest:
			kind = "tests"
		case exported[group]:
			kind = "exported"
		}
		var lines []string
		for _, c := range group.List {
			lines = append(lines, commentText(c.Text))
		}
		put(kind, group.Pos(), strings.Join(lines, "\n"))
	}
	if !isTest {
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.ImportSpec:
				return false
			case *ast.BinaryExpr, *ast.BasicLit:
				if text, ok := literalText(n.(ast.Expr)); ok && strings.Contains(strings.TrimSpace(text), " ") {
					put("messages", n.Pos(), text)
					return false
				}
			}
			return true
		})
	}
	return all
}

// exportedComments returns the comments that documentation of the package shows: of the
// package, of exported declarations, and of their exported fields and methods.
func exportedComments(file *ast.File) map[*ast.CommentGroup]bool {
	all := map[*ast.CommentGroup]bool{file.Doc: true}
	fields := func(list *ast.FieldList) {
		for _, f := range list.List {
			if len(f.Names) == 0 || slices.ContainsFunc(f.Names, (*ast.Ident).IsExported) {
				all[f.Doc], all[f.Comment] = true, true
			}
		}
	}
	for _, decl := range file.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			if d.Name.IsExported() && (d.Recv == nil || exportedReceiver(d.Recv)) {
				all[d.Doc] = true
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch s := spec.(type) {
				case *ast.TypeSpec:
					if !s.Name.IsExported() {
						continue
					}
					all[d.Doc], all[s.Doc], all[s.Comment] = true, true, true
					ast.Inspect(s.Type, func(n ast.Node) bool {
						switch n := n.(type) {
						case *ast.StructType:
							fields(n.Fields)
						case *ast.InterfaceType:
							fields(n.Methods)
						}
						return true
					})
				case *ast.ValueSpec:
					if slices.ContainsFunc(s.Names, (*ast.Ident).IsExported) {
						all[d.Doc], all[s.Doc], all[s.Comment] = true, true, true
					}
				}
			}
		}
	}
	delete(all, nil)
	return all
}

// exportedReceiver reports whether a method belongs to an exported type.
func exportedReceiver(recv *ast.FieldList) bool {
	exported := false
	for _, f := range recv.List {
		ast.Inspect(f.Type, func(n ast.Node) bool {
			if id, ok := n.(*ast.Ident); ok && id.IsExported() {
				exported = true
			}
			return true
		})
	}
	return exported
}

// directive is a comment for a program, such as //go:build.
var directive = regexp.MustCompile(`^//([a-z]+:|export |line |nolint|extern )`)

// commentText returns the text of a comment, without its marks and without code, on as many lines.
func commentText(c string) string {
	if directive.MatchString(c) {
		return ""
	}
	if text, ok := strings.CutPrefix(c, "//"); ok {
		if strings.HasPrefix(text, "\t") || strings.HasPrefix(text, "    ") {
			return "" // code
		}
		return text
	}
	return strings.TrimSuffix(strings.TrimPrefix(c, "/*"), "*/")
}

// literalText returns a string literal, or literals that are joined by +; what is computed
// between them becomes an x.
func literalText(e ast.Expr) (string, bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		if e.Kind != token.STRING {
			return "", false
		}
		text, err := strconv.Unquote(e.Value)
		return text, err == nil
	case *ast.BinaryExpr:
		x, okX := literalText(e.X)
		y, okY := literalText(e.Y)
		switch {
		case e.Op != token.ADD || !okX && !okY:
			return "", false
		case !okX:
			x = "x"
		case !okY:
			y = "x"
		}
		return x + y, true
	}
	return "", false
}

func readEnglishTable(t *testing.T) map[string]map[string]int {
	t.Helper()
	b, err := os.ReadFile(filepath.FromSlash(englishTable))
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]map[string]int{}
	for s := bufio.NewScanner(bytes.NewReader(b)); s.Scan(); {
		cells := strings.Fields(s.Text())
		if len(cells) == 0 || cells[0] == "#" {
			continue
		}
		if len(cells) != 1+len(codeKinds) || all[cells[0]] != nil {
			t.Fatalf("%s: %q is not a package and %d numbers, or the package has two lines", englishTable, s.Text(), len(codeKinds))
		}
		all[cells[0]] = map[string]int{}
		for i, kind := range codeKinds {
			if all[cells[0]][kind], err = strconv.Atoi(cells[1+i]); err != nil {
				t.Fatalf("%s: %v", englishTable, err)
			}
		}
	}
	return all
}

// writeEnglishTable writes the lower of the counts allowed and found.
func writeEnglishTable(t *testing.T, allowed, now map[string]map[string]int) {
	t.Helper()
	var b strings.Builder
	fmt.Fprintf(&b, "# package %s\n", strings.Join(codeKinds, " "))
	for _, dir := range slices.Sorted(maps.Keys(allowed)) {
		line, sum := dir, 0
		for _, kind := range codeKinds {
			n := min(allowed[dir][kind], now[dir][kind])
			line, sum = fmt.Sprintf("%s %d", line, n), sum+n
		}
		if sum > 0 {
			b.WriteString(line + "\n")
		}
	}
	if err := os.WriteFile(filepath.FromSlash(englishTable), []byte(b.String()), 0o666); err != nil {
		t.Fatal(err)
	}
}

// TestEnglishIsFound holds that every habit is found in an example, wherever it is written
// in a Go file, and that code and directives are not counted.
func TestEnglishIsFound(t *testing.T) {
	for _, c := range []struct{ habit, text string }{
		{"pronoun for a noun", "reads those of the file"},
		{"belongs", "its type is that of the tensor"},
		{"no as a predicate", "returns nil where it is missing"},
		{"where for if", "the shape where there is a shape"},
		{"alone for only", "for BERT alone"},
		{"nobody in particular", "whoever reads it"},
		{"vague verb", "stands beside the model"},
		{"vague adverb", "is read anew"},
		{"chain of commas", "reads a, b, c, d, e, f, where it can"},
		{"household noun", "the rooms of the house"},
	} {
		if !slices.ContainsFunc(habitsIn("page", 1, c.text, nil), func(s string) bool { return strings.Contains(s, ": "+c.habit+" (") }) {
			t.Errorf("%q: %s is not found", c.text, c.habit)
		}
	}
	source := `// Package p is read anew.
package p

//go:generate whoever anew
// T is read
// at the same
// time.
type T struct {
	F int // whoever
	f int // nobody
}

// m is read alone.
//
//	alone := true
func (T) m() error {
	/* somebody */
	return errors.New("read " + "meanwhile by " + T.s)
}
`
	places := func(found []passage) (all []string) {
		for _, x := range found {
			all = append(all, habitsIn("p", x.line, x.text, nil)...)
		}
		return all
	}
	found := englishOfFile(t, "p/p.go", []byte(source))
	for kind, lines := range map[string][]int{"exported": {1, 5, 9}, "inner": {10, 13, 17}, "messages": {18}} {
		got := places(found[kind])
		for _, line := range lines {
			if !slices.ContainsFunc(got, func(s string) bool { return strings.HasPrefix(s, fmt.Sprintf("p:%d:", line)) }) {
				t.Errorf("%s: line %d is not found in %q", kind, line, got)
			}
		}
		if len(got) != len(lines) {
			t.Errorf("%s: found %q, want lines %d", kind, got, lines)
		}
	}
	if got := places(englishOfFile(t, "p/p_test.go", []byte(source))["tests"]); len(got) != 6 {
		t.Errorf("tests: found %q", got)
	}
}
