package ollama

import (
	"fmt"
	"strings"

	"github.com/tensorfs/tensorfs"
)

// Prefix is what names of models in the store begin with.
const Prefix = "ollama:"

// What a name leaves out.
const (
	defaultHost      = "registry.ollama.ai"
	defaultNamespace = "library"
	defaultTag       = "latest"
)

// Name is a model's name, complete and valid.
type Name struct {
	Host, Namespace, Model, Tag string
}

// ParseName parses
//
//	[scheme://][host/][namespace/]model[:tag]
//
// from the right and fills in what is left out. Every part is checked, so that
// a path may be built from it. Digests (@sha256:...) are not part of names.
func ParseName(s string) (Name, error) {
	if s == "" {
		return Name{}, &tensorfs.FormatError{File: strings.TrimSuffix(Prefix, ":"), Offset: -1, Problem: "it names all models of the store, not one", Advice: "tensorfs list " + Prefix + " shows their names"}
	}
	n := Name{defaultHost, defaultNamespace, "", defaultTag}
	rest := s
	if i := strings.LastIndexByte(rest, ':'); i > strings.LastIndexByte(rest, '/') {
		rest, n.Tag = rest[:i], rest[i+1:]
	}
	var more bool
	rest, n.Model, more = cutLast(rest)
	if more {
		rest, n.Namespace, more = cutLast(rest)
	}
	if more {
		n.Host = rest
		if scheme, host, ok := strings.Cut(n.Host, "://"); ok && isScheme(scheme) {
			n.Host = host
		}
	}
	if problem := n.problem(); problem != "" {
		return Name{}, nameError(s, problem)
	}
	return n, nil
}

func nameError(s, problem string) error {
	return &tensorfs.FormatError{File: Prefix + s, Offset: -1, Problem: problem, Advice: "write it as [HOST/][NAMESPACE/]MODEL[:TAG]; 'ollama list' shows the names"}
}

// cutLast cuts s at its last slash; found is false where s has no slash, and
// then all of s is last.
func cutLast(s string) (before, last string, found bool) {
	i := strings.LastIndexByte(s, '/')
	if i < 0 {
		return "", s, false
	}
	return s[:i], s[i+1:], true
}

// isScheme reports whether s can come before "://".
func isScheme(s string) bool {
	for i := range len(s) {
		if c := s[i]; !isAlnum(c) || i == 0 && c <= '9' {
			return false
		}
	}
	return s != ""
}

func isAlnum(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

// parts are the rules for the parts of a name, in the order of the path.
var parts = [4]struct {
	what string
	max  int
	more string // bytes beside letters, digits and _ that may follow the first
}{
	{"host", 350, "-.:"},
	{"namespace", 80, "-"},
	{"model", 80, "-."},
	{"tag", 80, "-."},
}

func (n Name) parts() [4]string { return [4]string{n.Host, n.Namespace, n.Model, n.Tag} }

// problem describes what is wrong with the name, "" if it is valid.
func (n Name) problem() string {
	for i, s := range n.parts() {
		rule := &parts[i]
		switch {
		case s == "":
			return "the " + rule.what + " is empty"
		case len(s) > rule.max:
			return fmt.Sprintf("the %s has %d bytes, at most %d are allowed", rule.what, len(s), rule.max)
		}
		for j := range len(s) {
			if c := s[j]; !isAlnum(c) && c != '_' && (j == 0 || strings.IndexByte(rule.more, c) < 0) {
				return fmt.Sprintf("the %s %s has a byte %q that is not allowed there", rule.what, tensorfs.Quote(s), c)
			}
		}
	}
	return ""
}

// Path returns the manifest's path below the manifests directory, with slashes.
func (n Name) Path() string { return n.Host + "/" + n.Namespace + "/" + n.Model + "/" + n.Tag }

// String returns the shortest text that [ParseName] makes the name from, with
// the tag.
func (n Name) String() string {
	s := n.Model + ":" + n.Tag
	switch {
	case n.Host != defaultHost:
		return n.Host + "/" + n.Namespace + "/" + s
	case n.Namespace != defaultNamespace:
		return n.Namespace + "/" + s
	}
	return s
}
