package formats

import (
	"errors"
	"io/fs"
	"path"
	"strings"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/environ"
	"github.com/tensorfs/tensorfs/internal/source"
)

// openLMStudio opens a model in LM Studio's folder by its name, PUBLISHER/NAME, or a file of
// several there, PUBLISHER/NAME/FILE. No server has such names.
func openLMStudio(name string, keepInside bool) (*tensorfs.Model, bool, error) {
	const all = "tensorfs list " + environ.LMStudio + " shows the models"
	full := environ.LMStudio + name
	switch {
	case name == "":
		return nil, false, tensorfs.Unsupported(full, "it names all models of LM Studio, not one", all)
	case !fs.ValidPath(name) || !strings.Contains(name, "/"):
		return nil, false, tensorfs.Unsupported(full, "it is not PUBLISHER/NAME, as LM Studio names models", all)
	}
	dir, err := environ.LMStudioModels()
	if err != nil {
		return nil, false, err
	}
	m, err := Options{KeepInside: keepInside}.OpenBelow(dir, name)
	if errors.Is(err, fs.ErrNotExist) && !source.Exists(path.Join(dir, name)) {
		return nil, false, &tensorfs.FormatError{File: full, Offset: -1, Kind: fs.ErrNotExist, Problem: "there is no such model in " + tensorfs.Printable(dir), Advice: all}
	}
	if err == nil {
		m.Name = full
	}
	return m, false, err
}
