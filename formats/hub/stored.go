package hub

import (
	"io/fs"
	"strings"

	"github.com/tensorfs/tensorfs/internal/environ"
	"github.com/tensorfs/tensorfs/internal/source"
)

// Stored returns the names of the models in the local Hugging Face cache, in no
// order; none if it cannot be read. A folder does not say which of its -- is a
// slash: the first is taken for it, as the hub has no name with two of them.
func Stored() []string {
	cache, err := environ.HuggingFaceCache(environ.Process)
	if err != nil {
		return nil
	}
	src, err := source.Dir(cache, source.Anywhere)
	if err != nil {
		return nil
	}
	defer src.Close()
	entries, err := src.ReadDir(".")
	if err != nil {
		return nil
	}
	return repositoriesOf(entries)
}

// repositoriesOf returns the repositories whose folders are among the entries.
func repositoriesOf(entries []fs.DirEntry) (names []string) {
	for _, e := range entries {
		if name, ok := strings.CutPrefix(e.Name(), "models--"); ok && name != "" {
			names = append(names, strings.Replace(name, "--", "/", 1))
		}
	}
	return names
}
