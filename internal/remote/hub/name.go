package hub

import (
	"net/url"
	"strings"

	"github.com/tensorfs/tensorfs"
)

const (
	prefix     = "hf:"
	mainBranch = "main"
	commitSize = 40 // digits
)

// check refuses names that are not of a repository, or not of a revision. It is
// careful about what goes into addresses, and leaves the rest to the Hub.
func check(repository, revision string) error {
	name := prefix + repository
	if revision != "" {
		name += "@" + revision
	}
	parts := strings.Split(repository, "/")
	ok := len(parts) <= 2 && len(revision) <= 1024
	for _, p := range parts {
		ok = ok && tensorfs.ValidName(p) && !strings.ContainsAny(p, "@:?#%\\ ")
	}
	if revision != "" {
		for p := range strings.SplitSeq(revision, "/") {
			ok = ok && tensorfs.ValidName(p)
		}
	}
	if !ok {
		return &tensorfs.FormatError{File: name, Offset: -1, Problem: "it is not a name that the Hub may have", Advice: "write it as hf:ORG/NAME or hf:ORG/NAME@REVISION"}
	}
	return nil
}

// isHex reports whether s is n digits as git and sha256sum write them.
func isHex(s string, n int) bool {
	return len(s) == n && strings.Trim(s, "0123456789abcdef") == ""
}

// escape escapes each part of a path for an address.
func escape(path string) string {
	parts := strings.Split(path, "/")
	for i, p := range parts {
		parts[i] = url.PathEscape(p)
	}
	return strings.Join(parts, "/")
}

// api is the address of the Hub's description of a revision: its commit, or its tree. The
// revision is one part of the path, even if it contains slashes.
func (h *hub) api(repository, what, revision string) string {
	return h.Endpoint.String() + "/api/models/" + escape(repository) + "/" + what + "/" + url.PathEscape(revision)
}

// resolve is the address of a file.
func (h *hub) resolve(s *snapshot, path string) string {
	return h.Endpoint.String() + "/" + escape(s.Repository) + "/resolve/" + s.Commit + "/" + escape(path)
}
