// Mutate asks whether the tests of a package notice mistakes. It changes one
// token of the package at a time (a comparison, a sign, a constant, a negation),
// runs the tests, and prints the changes that survive: a survivor is either a
// change that makes no difference or a test that is missing.
//
//	go run ./scripts/mutate -n 40 -seed 1 -test '-short' ./views
//	go run ./scripts/mutate -at views/fused.go:215 ./views
//
// The tree is not touched: the compiler gets a changed file by -overlay. What
// mutants mount and start is best kept in namespaces that go with them:
//
//	-wrap 'unshare --mount --pid --fork --mount-proc --kill-child'
package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

var (
	number  = flag.Int("n", 40, "how many changes to try")
	seed    = flag.Uint64("seed", 1, "seed of the choice")
	at      = flag.String("at", "", "try all changes of `FILE:LINE` and no others")
	files   = flag.String("files", "", "only in files that match `PATTERN`")
	test    = flag.String("test", "", "further `flags` of go test")
	timeout = flag.Duration("timeout", 5*time.Minute, "tests that take longer have noticed")
	wrap    = flag.String("wrap", "", "`command` to put before go test")
)

// operators has what each operator can be mistaken for.
var operators = map[token.Token]string{
	token.LSS: "<=", token.LEQ: "<", token.GTR: ">=", token.GEQ: ">", token.EQL: "!=", token.NEQ: "==",
	token.LAND: "||", token.LOR: "&&", token.ADD: "-", token.SUB: "+", token.MUL: "/", token.QUO: "*", token.REM: "/",
	token.SHL: ">>", token.SHR: "<<", token.AND: "|", token.OR: "&", token.AND_NOT: "&",
	token.INC: "--", token.DEC: "++", token.ADD_ASSIGN: "-=", token.SUB_ASSIGN: "+=", token.OR_ASSIGN: "&=",
	token.BREAK: "continue", token.CONTINUE: "break",
}

// change replaces one token by another text.
type change struct {
	file     string
	at       token.Position
	old, new string
}

// changes returns all changes of a file.
func changes(file string, source []byte) (all []change, err error) {
	set := token.NewFileSet()
	f, err := parser.ParseFile(set, file, source, parser.ParseComments)
	if err != nil || ast.IsGenerated(f) {
		return nil, err
	}
	add := func(pos token.Pos, old, new string) {
		all = append(all, change{file, set.Position(pos), old, new})
	}
	swap := func(pos token.Pos, op token.Token) {
		if other, ok := operators[op]; ok {
			add(pos, op.String(), other)
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BinaryExpr:
			swap(n.OpPos, n.Op)
		case *ast.IncDecStmt:
			swap(n.TokPos, n.Tok)
		case *ast.AssignStmt:
			swap(n.TokPos, n.Tok)
		case *ast.BranchStmt:
			if n.Label == nil {
				swap(n.TokPos, n.Tok)
			}
		case *ast.UnaryExpr:
			if n.Op == token.NOT || n.Op == token.SUB {
				add(n.OpPos, n.Op.String(), "")
			}
		case *ast.BasicLit:
			if v, err := strconv.ParseInt(n.Value, 0, 64); err == nil && n.Kind == token.INT {
				add(n.Pos(), n.Value, strconv.FormatInt(v+1, 10))
				if v > 0 {
					add(n.Pos(), n.Value, strconv.FormatInt(v-1, 10))
				}
			}
		case *ast.Ident:
			if other := map[string]string{"true": "false", "false": "true"}[n.Name]; other != "" {
				add(n.Pos(), n.Name, other)
			}
		}
		return true
	})
	return all, nil
}

// goTest runs the tests of a package, with an overlay if there is one.
func goTest(pkg, overlay string) (output []byte, passed bool) {
	dir, err := os.MkdirTemp("", "mutate")
	check(err)
	defer os.RemoveAll(dir)
	check(os.Chmod(dir, 0o1777)) // tests become other users
	args := strings.Fields(*wrap)
	args = append(args, "go", "test", "-count=1", "-vet=off", "-failfast", "-timeout="+timeout.String())
	args = append(append(args, strings.Fields(*test)...), pkg)
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env = append(os.Environ(), "TMPDIR="+dir)
	if overlay != "" { // for what tests build, too
		cmd.Env = append(cmd.Env, "GOFLAGS="+os.Getenv("GOFLAGS")+" -overlay="+overlay)
	}
	output, err = cmd.CombinedOutput()
	return output, err == nil
}

// try runs the tests of a package with a change.
func try(pkg string, source []byte, c change) (verdict string) {
	dir, err := os.MkdirTemp("", "mutant")
	check(err)
	defer os.RemoveAll(dir)
	i := c.at.Offset
	mutant, overlay := filepath.Join(dir, "mutant.go"), filepath.Join(dir, "overlay.json")
	check(os.WriteFile(mutant, []byte(string(source[:i])+c.new+string(source[i+len(c.old):])), 0o666))
	replace, err := json.Marshal(map[string]any{"Replace": map[string]string{c.file: mutant}})
	check(err)
	check(os.WriteFile(overlay, replace, 0o666))
	switch output, passed := goTest(pkg, overlay); {
	case passed:
		return "SURVIVED"
	case bytes.Contains(output, []byte("[build failed]")):
		return "does not compile"
	}
	return "noticed"
}

func main() {
	flag.Parse()
	pkg := flag.Arg(0)
	args := []string{"list", "-f", `{{range .GoFiles}}{{$.Dir}}/{{.}}{{"\n"}}{{end}}`}
	for _, f := range strings.Fields(*test) {
		if strings.HasPrefix(f, "-tags=") {
			args = append(args, f)
		}
	}
	list, err := exec.Command("go", append(args, pkg)...).Output()
	check(err)
	var all []change
	sources := map[string][]byte{}
	for _, file := range strings.Fields(string(list)) {
		if ok, err := filepath.Match(*files, filepath.Base(file)); err != nil || *files != "" && !ok {
			check(err)
			continue
		}
		sources[file], err = os.ReadFile(file)
		check(err)
		of, err := changes(file, sources[file])
		check(err)
		for _, c := range of {
			if *at == "" || strings.HasSuffix(fmt.Sprintf("%s:%d", c.file, c.at.Line), "/"+*at) {
				all = append(all, c)
			}
		}
	}
	if output, passed := goTest(pkg, ""); !passed {
		check(fmt.Errorf("the tests fail without a change:\n%s", output))
	}
	if *at == "" {
		rand.New(rand.NewPCG(*seed, 0)).Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		all = all[:min(*number, len(all))]
	}
	count := map[string]int{}
	for _, c := range all {
		verdict := try(pkg, sources[c.file], c)
		count[verdict]++
		line := strings.Split(string(sources[c.file]), "\n")[c.at.Line-1]
		fmt.Printf("%-16s %s:%d:%d: %q for %q in %s\n", verdict, filepath.Base(c.file), c.at.Line, c.at.Column, c.new, c.old, strings.TrimSpace(line))
	}
	fmt.Println(len(all), "changes:", count)
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutate:", err)
		os.Exit(1)
	}
}
