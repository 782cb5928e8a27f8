package ollama

import (
	"path"

	"github.com/tensorfs/tensorfs/internal/source"
)

// maxStored is how many entries of a store Stored looks at.
const maxStored = 20_000

// Stored returns the names of the models in all local stores that can be read, in no
// order. It opens no manifest.
func Stored() []string {
	var names []string
	left := maxStored
	for _, p := range source.OllamaStores() {
		store, err := OpenStore(p.Path, false)
		if err != nil {
			continue
		}
		found := []string{manifests}
		for range parts {
			var deeper []string
			for _, dir := range found {
				entries, _ := store.files.ReadDir(dir) // nothing if it is a file, or not ours to read
				entries = entries[:min(len(entries), left)]
				left -= len(entries)
				for _, e := range entries {
					deeper = append(deeper, path.Join(dir, e.Name()))
				}
			}
			found = deeper
		}
		for _, name := range found {
			if n, ok := parse(name); ok {
				names = append(names, n.String())
			}
		}
		store.Close()
	}
	return names
}
