package ollama

import (
	"io/fs"
	"maps"
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
	for _, n := range namesIn(src, maxNames) {
		m.tags[n.untagged()] = append(m.tags[n.untagged()], n.Tag)
	}
}

// untagged returns the name as users write it, without its tag.
func (n Name) untagged() string { return strings.TrimSuffix(n.String(), ":"+n.Tag) }

// error is the error that the model does not exist; it suggests models with similar names.
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
