package formats

import (
	"errors"
	"io/fs"
	"path"
	"slices"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/exported"
	"github.com/tensorfs/tensorfs/formats/hf"
	"github.com/tensorfs/tensorfs/formats/hub"
	"github.com/tensorfs/tensorfs/formats/images"
	"github.com/tensorfs/tensorfs/formats/pick"
	"github.com/tensorfs/tensorfs/internal/source"
)

// openHub opens a model of the local Hugging Face cache by its name. lacks reports that the
// cache does not have all of it.
func openHub(name string, keepInside bool) (m *tensorfs.Model, lacks bool, err error) {
	n, err := hub.ParseName(name)
	if err != nil {
		return nil, false, err
	}
	at, err := hub.Find(n, keepInside)
	if err != nil {
		return nil, errors.Is(err, fs.ErrNotExist), err
	}
	refuse := func(r *pick.Refusal) error {
		lacks = !r.Several
		return at.Refuse(r)
	}
	m, err = owning(at)(openSnapshot(source.Of(at.FS()), at.Dir, at.Warning, at.Name.Select, refuse))
	if err != nil {
		return nil, lacks || errors.Is(err, fs.ErrNotExist), err
	}
	m.Name = at.Name.String()
	return m, false, nil
}

// openDir opens the model in a directory, or describes what a directory without one holds.
func openDir(src source.FS, dir string) (*tensorfs.Model, error) {
	entries, err := src.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	if exported.Match(entries) {
		return exported.OpenFS(src, dir)
	}
	names := fileNames(entries)
	refuse := func(r *pick.Refusal) error { return noModel(src, dir, entries, r) }
	if hub.IsFolder(src, dir) && !slices.Contains(names, "config.json") {
		snapshot, warning, err := hub.Snapshot(src, dir, hub.Name{})
		if err != nil {
			return nil, err
		}
		return openSnapshot(src, snapshot, warning, pick.Select{}, func(r *pick.Refusal) error { return several(src, snapshot, r) })
	}
	if slices.Contains(names, images.PipelineFile) {
		names = withBelow(src, dir, entries)
	}
	return openOne(src, dir, names, pick.Select{}, refuse)
}

// openPart opens the directory of the pipeline of diffusers that a text encoder belongs to, because the
// encoder's tokenizer is another part, and returns the encoder's name there. It returns nil if an
// absolute path does not lead to a text encoder.
func (o Options) openPart(dir string) (pipeline *source.Directory, part string) {
	if part = path.Base(dir); images.TokenizerOf(part) == "" {
		return nil, ""
	}
	pipeline, err := source.Dir(path.Dir(dir), source.Links(o.KeepInside))
	if err != nil {
		return nil, ""
	}
	entries, err := pipeline.ReadDir(".") // of a link, the path is followed wherever it leads
	has := func(name string, is func(fs.DirEntry) bool) bool {
		return slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return e.Name() == name && is(e) })
	}
	if err != nil || !has(part, fs.DirEntry.IsDir) || !has(images.PipelineFile, func(e fs.DirEntry) bool { return !e.IsDir() }) {
		pipeline.Close()
		return nil, ""
	}
	return pipeline, part
}

// openSnapshot opens a model of a snapshot in the folder of a repository.
func openSnapshot(src source.FS, dir, warning string, sel pick.Select, refuse func(*pick.Refusal) error) (*tensorfs.Model, error) {
	entries, err := src.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	files := fileNames(entries)
	if sel != (pick.Select{}) || !pick.Whole(files) {
		if files, err = hub.Files(src, dir); err != nil {
			return nil, err
		}
	}
	m, err := openOne(src, dir, files, sel, refuse)
	if err != nil {
		return nil, err
	}
	if m.Path == src.Location(dir) { // users know the repository by its folder
		m.Path = src.Location(".")
	}
	if warning != "" {
		m.Warnings = append(m.Warnings, warning)
	}
	return m, nil
}

// openOne opens the model of a directory with those files.
func openOne(src source.FS, dir string, files []string, sel pick.Select, refuse func(*pick.Refusal) error) (*tensorfs.Model, error) {
	name, refusal := pick.Model(files, sel)
	switch at := path.Join(dir, name); {
	case refusal != nil:
		return nil, refuse(refusal)
	case name == ".":
		return hf.OpenFS(src, dir)
	case slices.Contains(files, name):
		return openFile(src, at)
	default:
		return openDir(src, at)
	}
}

// fileNames returns the names of entries that are not directories.
func fileNames(entries []fs.DirEntry) []string {
	var names []string
	for _, e := range entries {
		if !e.IsDir() {
			names = append(names, e.Name())
		}
	}
	return names
}
