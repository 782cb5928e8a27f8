package hub

import (
	"maps"
	"slices"
	"strings"

	"github.com/tensorfs/tensorfs"
)

// Repository returns the name of the repository that a folder in the cache belongs to:
// models--ORG--NAME is ORG/NAME.
func Repository(folder string) (name string, ok bool) {
	name, ok = strings.CutPrefix(folder, "models--")
	return strings.Replace(name, "--", "/", 1), ok
}

// Snapshots returns the names of a repository's snapshots, each with its commit as revision
// in full: first the usual one, which needs no revision (the snapshot of main, or the only
// one), then snapshots with a ref, then snapshots known only by their commit. refs are
// commits by ref. A ref without a snapshot has no name.
func Snapshots(repository string, refs map[string]string, snapshots []string) (names []Name, commits []string) {
	named := map[string]bool{}
	add := func(revision, commit string) {
		named[commit] = true
		names, commits = append(names, Name{Repository: repository, Revision: revision}), append(commits, commit)
	}
	has := func(commit string) bool { return slices.Contains(snapshots, commit) }
	main := refs["main"]
	switch {
	case has(main):
		add("", main)
	case len(snapshots) == 1:
		add("", snapshots[0])
	}
	for _, ref := range slices.Sorted(maps.Keys(refs)) {
		if commit := refs[ref]; ref != "main" && has(commit) {
			add(ref, commit)
		}
	}
	for _, commit := range slices.Sorted(slices.Values(snapshots)) {
		if !named[commit] {
			add(short(commit), commit)
		}
	}
	return names, commits
}

// Commit returns the commit that the text of a file below refs/ names, "" if it
// names none.
func Commit(text []byte) string {
	commit := strings.TrimSpace(string(text))
	if !tensorfs.ValidName(commit) {
		return ""
	}
	return commit
}
