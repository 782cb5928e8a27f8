package ollama

import (
	"path"

	"github.com/tensorfs/tensorfs/internal/environ"
	"github.com/tensorfs/tensorfs/internal/source"
)

// maxStored is how many entries of a store Stored looks at.
const maxStored = 20_000

// Stored returns the names of the models in all local stores that can be read, in no
// order. It opens no manifest.
func Stored() []string {
	var names []string
	for _, p := range environ.OllamaStores(environ.Process) {
		store, err := OpenStore(p.Path, false)
		if err != nil {
			continue
		}
		for _, n := range namesIn(store.files, maxStored-len(names)) {
			names = append(names, n.String())
		}
		store.Close()
	}
	return names
}

// namesIn returns the names of the models in a store. It opens no manifest, and looks at no
// more than so many files and directories.
func namesIn(src source.FS, most int) (names []Name) {
	found := []string{manifests}
	for level := range parts {
		var deeper []string
		for _, dir := range found {
			entries, _ := src.ReadDir(dir) // none if it is a file, or may not be read
			entries = entries[:min(len(entries), most)]
			most -= len(entries)
			for _, e := range entries {
				if level < len(parts)-1 || !e.IsDir() {
					deeper = append(deeper, path.Join(dir, e.Name()))
				}
			}
		}
		found = deeper
	}
	for _, name := range found {
		if n, ok := parse(name); ok {
			names = append(names, n)
		}
	}
	return names
}
