package main

import (
	"fmt"
	"path"
	"strconv"
	"strings"
)

// pathPattern selects paths of a tree: a path, a directory with all that is in it,
// or a glob.
type pathPattern struct {
	text  string
	glob  bool   // false if text is only a path
	fixed string // how all matches begin
}

// treePath is a path of the tree as a user wrote it, who may begin at a directory: /raw/x, ./raw/x.
func treePath(text string) string {
	for strings.HasPrefix(text, "./") {
		text = strings.TrimLeft(text[2:], "/")
	}
	return strings.Trim(text, "/")
}

// newPathPattern understands an argument. The error is a usageError.
func newPathPattern(text string) (pathPattern, error) {
	p := pathPattern{text: treePath(text), glob: true}
	if p.text == "." || p.text == "" {
		p.text = "*"
	}
	if shown, err := strconv.Unquote(p.text); err == nil && p.text[0] == '"' { // unprintable paths, as ls prints them
		p.text, p.glob = strings.Trim(shown, "/"), false
	}
	p.fixed = p.text
	if p.glob {
		if _, err := matchGlob(p.text, ""); err != nil {
			return p, usageError{err}
		}
		p.fixed = p.text[:len(p.text)-len(strings.TrimLeftFunc(p.text, func(r rune) bool { return !strings.ContainsRune(`*?[\`, r) }))]
	}
	return p, nil
}

// matches reports whether a path is selected.
func (p *pathPattern) matches(path string) bool {
	if rest, ok := strings.CutPrefix(path, p.text); ok && (rest == "" || rest[0] == '/') {
		return true
	}
	ok, err := matchGlob(p.text, path)
	return p.glob && ok && err == nil
}

// mayMatchBelow reports whether a path below dir could be selected. Looking into
// a directory may make it, which takes time.
func (p *pathPattern) mayMatchBelow(dir string) bool {
	return strings.HasPrefix(dir+"/", p.fixed) || strings.HasPrefix(p.fixed, dir+"/")
}

// globPath turns a glob or a path into a pattern without slashes for path.Match, so that *
// matches slashes too.
var globPath = strings.NewReplacer(`\\`, `\\`, `\[`, `\[`, "[!", "[^", "/", "\x00")

// matchGlob reports whether a path of the tree matches.
func matchGlob(glob, name string) (bool, error) {
	ok, err := path.Match(globPath.Replace(glob), strings.ReplaceAll(name, "/", "\x00"))
	if err != nil {
		return false, fmt.Errorf("glob %q: [ without ], or a backslash at the end; quote them as [[] and \\\\", glob)
	}
	return ok, nil
}
