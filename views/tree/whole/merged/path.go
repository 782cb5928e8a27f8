package merged

import (
	"bytes"
	"errors"
	"path/filepath"
	"regexp"
	"strings"
	"sync"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats"
	"github.com/tensorfs/tensorfs/formats/hub"
	"github.com/tensorfs/tensorfs/formats/recipe"
	"github.com/tensorfs/tensorfs/internal/source"
	"github.com/tensorfs/tensorfs/views"
	"github.com/tensorfs/tensorfs/views/lora"
)

// maxRecipe is one byte more than a recipe may have, so that a longer one is told.
const maxRecipe = 1<<20 + 1

// textHead is how much of a file tells that it is no text.
const textHead = 512

// OpenPath opens the model at path as the options say: a merge if it is a recipe. It is what
// commands and the loader open models by; [formats.Options.Open] and all that stands on it,
// such as Client.Open of package remote, open what is stored, and know no recipes.
func OpenPath(o formats.Options, path string) (*tensorfs.Model, error) {
	if formats.IsName(path) || source.HasDir(path) {
		return o.Open(path)
	}
	head, err := source.ReadRegular(path, textHead)
	if err != nil || bytes.IndexByte(head, 0) >= 0 { // as every GGUF and safetensors file has one
		return o.Open(path)
	}
	text, err := source.ReadRegular(path, maxRecipe)
	if err != nil {
		return nil, tensorfs.PathError(path, err)
	}
	if !recipe.Match(text) {
		return o.Open(path)
	}
	at, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	m, err := Open(at, text, func(name string) (*tensorfs.Model, error) {
		return named(o, name, filepath.Dir(at))
	})
	if err != nil {
		return nil, err
	}
	return m, nil
}

// named opens a model of a recipe that stands in dir: MODEL, or MODEL+ADAPTER.
func named(o formats.Options, name, dir string) (*tensorfs.Model, error) {
	base, adapter, adapted := name, "", false
	if at, err := locate(name, dir, o.KeepInside); err != nil || !exists(at) { // a path may have a plus sign
		base, adapter, adapted = strings.Cut(name, "+")
	}
	at, err := locate(base, dir, o.KeepInside)
	if err != nil {
		return nil, err
	}
	m, err := o.Open(at)
	if err != nil || !adapted {
		return m, err
	}
	at, err = locate(adapter, dir, o.KeepInside)
	if err == nil {
		err = lora.Open(m, views.Options{}, []string{at}, o.OpenAdapter)
	}
	if err != nil {
		return nil, errors.Join(err, m.Close())
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
	case exists(beside) && (within || !inside):
		return beside, nil
	case !inside && exists(name):
		return name, nil
	case repository().MatchString(name):
		return hub.Prefix + name, nil
	case exists(beside):
		return "", tensorfs.Unsupported(beside, "it is outside of the recipe's directory", "mount it as an ordinary user, or with --follow-links")
	}
	return beside, nil
}

// exists reports whether something has the path.
func exists(path string) bool {
	if source.HasDir(path) {
		return true
	}
	_, err := source.ReadRegular(path, 0)
	return err == nil
}
