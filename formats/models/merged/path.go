package merged

import (
	"bytes"
	"errors"
	"io/fs"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"

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

// textHead is how much of a file is read to tell that it is not text.
const textHead = 512

// OpenPath opens the model at path as configured: a merge if it is a recipe. Commands and
// the loader open models by it; [formats.Options.Open] and its callers, such as Client.Open
// of package remote, open stored models and know no recipes.
func OpenPath(o formats.Options, path string) (*tensorfs.Model, error) {
	if formats.IsName(path) {
		return o.Open(path)
	}
	dir, name, err := source.Named(path, source.Links(o.KeepInside))
	if err != nil {
		return o.Open(path) // it reports what is wrong
	}
	defer dir.Close()
	if name == "." {
		return o.Open(path)
	}
	text, err := recipeText(dir, name)
	if err != nil {
		return nil, err
	}
	if text == nil {
		return o.Open(path)
	}
	b := beside{o, dir}
	if !o.KeepInside {
		return Open(dir.Location(name), text, b.anywhere().named)
	}
	return Open(dir.Location(name), text, b.inside().named)
}

// recipeText returns the text of a file if it is a recipe, else nil.
func recipeText(dir *source.Directory, name string) ([]byte, error) {
	f, err := dir.OpenFile(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text := make([]byte, min(f.Size(), textHead))
	if err := tensorfs.ReadFull(f, text, 0); err != nil {
		return nil, err
	}
	if bytes.IndexByte(text, 0) >= 0 { // as every GGUF and safetensors file has one
		return nil, nil
	}
	text = make([]byte, min(f.Size(), maxRecipe))
	if err := tensorfs.ReadFull(f, text, 0); err != nil || !recipe.Match(text) {
		return nil, err
	}
	return text, nil
}

// opener opens what a recipe names.
type opener struct {
	exists func(name string) bool
	open   func(name string) (*tensorfs.Model, error)
}

// named opens a model of a recipe: MODEL, or MODEL+ADAPTER.
func (x opener) named(name string) (*tensorfs.Model, error) {
	base, adapter, adapted := name, "", false
	if !x.exists(name) { // a path may have a plus sign
		base, adapter, adapted = strings.Cut(name, "+")
	}
	m, err := x.open(base)
	if err != nil || !adapted {
		return m, err
	}
	err = lora.Open(m, views.Options{}, []string{adapter}, func(named string) (*tensorfs.Model, tensorfs.Adapter, error) {
		return formats.OpenAdapter(named, x.exists, x.open)
	})
	if err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return m, nil
}

// beside opens models for a recipe in a directory.
type beside struct {
	o   formats.Options
	dir *source.Directory
}

// anywhere opens any path, beside the recipe or as it is, any name, or, as mergekit takes it,
// a repository of the Hub.
func (b beside) anywhere() opener {
	locate := func(name string) (path string, there bool) {
		at := name
		if !filepath.IsAbs(name) {
			at = b.dir.Location(name)
		}
		switch {
		case formats.IsName(name):
			return name, false
		case exists(at):
			return at, true
		case exists(name):
			return name, true
		case repository().MatchString(name):
			return hub.Prefix + name, false
		}
		return at, false
	}
	return opener{
		exists: func(name string) bool { _, there := locate(name); return there },
		open: func(name string) (*tensorfs.Model, error) {
			at, _ := locate(name)
			return b.o.Open(at)
		},
	}
}

// inside opens what is in the recipe's directory, below its handle. The recipe's author may
// not be allowed to read what the stores of this process's user have, nor what servers show
// that user.
func (b beside) inside() opener {
	hold := func(name string) (dir *source.Directory, file string, err error) {
		at := name
		if !filepath.IsAbs(name) {
			at = b.dir.Location(name)
		}
		rel, err := filepath.Rel(b.dir.Location("."), at)
		if err != nil || !filepath.IsLocal(rel) {
			return nil, "", tensorfs.Unsupported(at, "it is outside of the recipe's directory", "copy the model there, mount the recipe as an ordinary user without --allow-other, or allow it with --follow-links")
		}
		return b.dir.HoldModel(rel)
	}
	return opener{
		exists: func(name string) bool {
			if formats.IsName(name) {
				return false
			}
			dir, _, err := hold(name)
			if err == nil {
				dir.Close()
			}
			return !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR) // what is refused is there
		},
		open: func(name string) (*tensorfs.Model, error) {
			if formats.IsName(name) {
				return b.byName(name)
			}
			dir, file, err := hold(name)
			if errors.Is(err, fs.ErrNotExist) && repository().MatchString(name) {
				return b.byName(hub.Prefix + name)
			}
			if err != nil {
				return nil, err
			}
			m, err := formats.OpenFS(dir, file)
			if err != nil {
				return nil, errors.Join(err, dir.Close())
			}
			m.Own(dir)
			return m, nil
		},
	}
}

// instead is what to do about a model that a recipe may not name.
const instead = "copy the model there, mount the recipe without --allow-other, or allow it with --follow-links"

// byName opens a model of a store or a server, if only the process's own user reads it.
func (b beside) byName(name string) (*tensorfs.Model, error) {
	if b.o.OwnNames {
		return b.o.Open(name)
	}
	return nil, tensorfs.Unsupported(name, "it is the name of a model in a store or at a server, and in a mount for other users a recipe names only what is in its own directory", instead)
}

// repository is what a recipe calls a model of the Hub.
var repository = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*(@[\w./-]+)?$`)
})

// exists reports whether something has the path.
func exists(path string) bool {
	if source.HasDir(path) {
		return true
	}
	_, err := source.ReadRegular(path, 0)
	return err == nil
}
