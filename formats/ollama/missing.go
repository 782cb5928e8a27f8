package ollama

import (
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/near"
	"github.com/tensorfs/tensorfs/internal/source"
)

// few is how many names are offered.
const few = 3

// maxNames bounds the names of a store that are looked at to find near ones.
const maxNames = 100_000

// missing is a name that was not found, and what the stores have that is near it.
type missing struct {
	name     Name
	searched []string            // the stores, for a message
	tags     map[string][]string // by model, as untagged writes it
}

// look looks into a store.
func (m *missing) look(src source.FS) {
	left := maxNames
	below := func(parts ...string) []fs.DirEntry {
		entries, err := src.ReadDir(path.Join(append([]string{manifests}, parts...)...))
		if err != nil { // it has nothing to offer
			return nil
		}
		entries = entries[:min(len(entries), left)]
		left -= len(entries)
		return entries
	}
	var models []string
	where := map[string]Name{}
	for _, host := range below() {
		for _, namespace := range below(host.Name()) {
			for _, model := range below(host.Name(), namespace.Name()) {
				n := Name{host.Name(), namespace.Name(), model.Name(), defaultTag}
				if n.problem() == "" {
					models = append(models, n.untagged())
					where[n.untagged()] = n
				}
			}
		}
	}
	for _, model := range near.Names(m.name.untagged(), models, few) {
		n := where[model]
		for _, e := range below(n.Host, n.Namespace, n.Model) {
			if n.Tag = e.Name(); n.problem() == "" && !e.IsDir() {
				m.tags[model] = append(m.tags[model], n.Tag)
			}
		}
	}
}

// untagged returns the name as users write it, without its tag.
func (n Name) untagged() string { return strings.TrimSuffix(n.String(), ":"+n.Tag) }

// error says that the model does not exist, and names models that are near its name.
func (m *missing) error() error {
	n := m.name
	e := &tensorfs.FormatError{File: Prefix + n.String(), Offset: -1, Kind: fs.ErrNotExist}
	pull := `"ollama pull ` + n.String() + `"`
	if len(m.searched) == 0 {
		e.Problem, e.Advice = "there is no store to look in", "set OLLAMA_MODELS"
		return e
	}
	e.Problem = "there is no such model in " + strings.Join(m.searched, " or ")
	e.Advice = "fetch it with " + pull + ", or set OLLAMA_MODELS to the directory that holds manifests and blobs"
	var names []string
	for _, model := range near.Names(n.untagged(), slices.Collect(maps.Keys(m.tags)), few) {
		tags := m.tags[model]
		tag := tags[0]
		if t := near.Names(n.Tag, tags, 1); len(t) > 0 {
			tag = t[0]
		}
		if strings.EqualFold(model, n.untagged()) {
			e.Problem = model + " has the tags " + near.List(tags) + ", not " + n.Tag
			e.Advice = "name one, such as " + Prefix + model + ":" + tag + ", or fetch it with " + pull
			return e
		}
		names = append(names, Prefix+strings.TrimSuffix(model+":"+tag, ":"+defaultTag))
	}
	if len(names) > 0 {
		e.Advice = near.Question(names) + " If not, fetch it with " + pull
	}
	return e
}
