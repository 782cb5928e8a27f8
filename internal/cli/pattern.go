package cli

import (
	"fmt"
	"path"
	"strconv"
	"strings"
)

// PathPattern selects paths of a tree: a path, a directory with all that is in it,
// or a glob.
type PathPattern struct {
	Text  string
	Glob  bool   // false if text is only a path
	Fixed string // how all matches begin
}

// TreePath is a path of the tree as a user wrote it, who may begin at a directory: /raw/x, ./raw/x.
func TreePath(text string) string {
	for strings.HasPrefix(text, "./") {
		text = strings.TrimLeft(text[2:], "/")
	}
	return strings.Trim(text, "/")
}

// NewPathPattern understands an argument. The error is a usageError.
func NewPathPattern(text string) (PathPattern, error) {
	p := PathPattern{Text: TreePath(text), Glob: true}
	if p.Text == "." || p.Text == "" {
		p.Text = "*"
	}
	if shown, err := strconv.Unquote(p.Text); err == nil && p.Text[0] == '"' { // as ls prints unprintable names
		p.Text, p.Glob = strings.Trim(shown, "/"), false
	}
	p.Fixed = p.Text
	if p.Glob {
		if _, err := MatchGlob(p.Text, ""); err != nil {
			return p, UsageError{err}
		}
		p.Fixed = p.Text[:len(p.Text)-len(strings.TrimLeftFunc(p.Text, func(r rune) bool { return !strings.ContainsRune(`*?[\`, r) }))]
	}
	return p, nil
}

// Matches reports whether a path is selected.
func (p *PathPattern) Matches(path string) bool {
	if rest, ok := strings.CutPrefix(path, p.Text); ok && (rest == "" || rest[0] == '/') {
		return true
	}
	ok, err := MatchGlob(p.Text, path)
	return p.Glob && ok && err == nil
}

// MayMatchBelow reports whether a path below dir could be selected. Looking into
// a directory may make it, which takes time.
func (p *PathPattern) MayMatchBelow(dir string) bool {
	return strings.HasPrefix(dir+"/", p.Fixed) || strings.HasPrefix(p.Fixed, dir+"/")
}

// globPath turns a glob or a path into what path.Match takes. There * matches
// slashes too, because they are replaced.
var globPath = strings.NewReplacer(`\\`, `\\`, `\[`, `\[`, "[!", "[^", "/", "\x00")

// MatchGlob reports whether a path of the tree matches.
func MatchGlob(glob, name string) (bool, error) {
	ok, err := path.Match(globPath.Replace(glob), strings.ReplaceAll(name, "/", "\x00"))
	if err != nil {
		return false, fmt.Errorf("glob %q: [ without ], or a backslash at the end; quote them as [[] and \\\\", glob)
	}
	return ok, nil
}
