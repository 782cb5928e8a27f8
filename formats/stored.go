package formats

import (
	"slices"

	"github.com/tensorfs/tensorfs/formats/hub"
	"github.com/tensorfs/tensorfs/formats/ollama"
	"github.com/tensorfs/tensorfs/internal/environ"
)

// stored list the names of the models in the local stores, by the prefixes of
// schemes.
var stored = map[string]func() []string{
	"ollama:": ollama.Stored,
	"hf:":     hub.Stored,

	environ.LMStudio: environ.LMStudioNames,
}

// Stores returns the prefixes of names that are looked up in a local store.
func Stores() []string {
	var prefixes []string
	for _, s := range schemes {
		prefixes = append(prefixes, s.prefix)
	}
	return prefixes
}

// Stored returns the names of the models in a store, sorted and with its prefix, as
// [Open] takes them. It opens none of the models. What cannot be read is left out.
func Stored(prefix string) []string {
	var names []string
	if list := stored[prefix]; list != nil {
		for _, name := range list() {
			names = append(names, prefix+name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
