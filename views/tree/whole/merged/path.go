package merged

import (
	"path/filepath"
	"regexp"
	"strings"
	"sync"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats"
	"github.com/tensorfs/tensorfs/formats/hub"
	"github.com/tensorfs/tensorfs/formats/recipe"
	"github.com/tensorfs/tensorfs/internal/source"
)

// maxRecipe is one byte more than a recipe may have, so that a longer one is told.
const maxRecipe = 1<<20 + 1

// OpenPath opens the model at path as the options say: a merge if it is a recipe.
func OpenPath(o formats.Options, path string) (*tensorfs.Model, error) {
	if formats.IsName(path) || source.HasDir(path) {
		return o.Open(path)
	}
	head, err := source.ReadRegular(path, 64<<10)
	if err != nil || !recipe.Match(head) {
		return o.Open(path)
	}
	text, err := source.ReadRegular(path, maxRecipe)
	if err != nil {
		return nil, tensorfs.PathError(path, err)
	}
	at, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	m, err := Open(at, text, func(name string) (*tensorfs.Model, error) {
		at, err := locate(name, filepath.Dir(at), o.KeepInside)
		if err != nil {
			return nil, err
		}
		return o.Open(at)
	})
	if err != nil {
		return nil, err
	}
	return m, nil
}

// repository is what a recipe calls a model of the Hub.
var repository = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*(@[\w./-]+)?$`)
})

// locate returns what a recipe's name of a model is for formats.Open: a path as it stands or
// beside the recipe, a name, or, as mergekit takes it, a repository of the Hub. inside refuses
// paths out of the recipe's directory.
func locate(name, dir string, inside bool) (string, error) {
	if base, adapter, ok := strings.Cut(name, "+"); ok && !formats.IsName(name) {
		return "", tensorfs.Unsupported(name, "adapters are not merged by a recipe here", "export "+tensorfs.Printable(base)+" with --lora "+tensorfs.Printable(adapter)+", and name that")
	}
	if formats.IsName(name) {
		return name, nil
	}
	beside := name
	if !filepath.IsAbs(name) {
		beside = filepath.Join(dir, name)
	}
	rel, err := filepath.Rel(dir, beside)
	within := err == nil && filepath.IsLocal(rel)
	switch {
	case there(beside) && (within || !inside):
		return beside, nil
	case !inside && there(name):
		return name, nil
	case repository().MatchString(name):
		return hub.Prefix + name, nil
	case there(beside):
		return "", tensorfs.Unsupported(beside, "it is outside of the recipe's directory", "mount it as an ordinary user, or with --follow-links")
	}
	return beside, nil
}

// there reports whether something has the path.
func there(path string) bool {
	if source.HasDir(path) {
		return true
	}
	_, err := source.ReadRegular(path, 0)
	return err == nil
}
