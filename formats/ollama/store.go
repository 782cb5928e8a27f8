package ollama

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"syscall"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/environ"
	"github.com/tensorfs/tensorfs/internal/source"
)

// A store is an FS with manifests and blobs:
//
//	manifests/HOST/NAMESPACE/MODEL/TAG     JSON
//	blobs/sha256-HEX                       content
const (
	manifests = "manifests"
	blobsDir  = "blobs"
)

// Store is a store of this machine. Both directories may be links.
type Store struct {
	files source.Join
	dirs  []*source.Directory
}

// OpenStore returns the store in the directory at dir. keepInside refuses links that
// lead out of its two directories.
func OpenStore(dir string, keepInside bool) (*Store, error) {
	s := &Store{files: source.Join{}}
	for _, name := range []string{manifests, blobsDir} {
		d, err := source.Dir(path.Join(dir, name), source.Links(keepInside))
		if name == blobsDir && errors.Is(err, fs.ErrNotExist) {
			err = noStore(dir)
		}
		if err != nil {
			return nil, errors.Join(err, s.Close())
		}
		s.dirs = append(s.dirs, d)
		s.files[name] = d
	}
	return s, nil
}

// FS returns the store's files.
func (s *Store) FS() fs.FS { return s.files }

// Follow names a manifest that is followed wherever it leads, because the user
// named it.
func (s *Store) Follow(name string) {
	s.dirs[0].Follow(strings.TrimPrefix(name, manifests+"/"))
}

// Close closes the store. Its files stay open.
func (s *Store) Close() error {
	var errs []error
	for _, d := range s.dirs {
		errs = append(errs, d.Close())
	}
	return errors.Join(errs...)
}

// noStore returns the error about a path in no store.
func noStore(path string) error {
	return &tensorfs.FormatError{File: path, Offset: -1, Problem: "it is not in an Ollama store, which has the directories manifests and blobs",
		Advice: "name the manifest where Ollama keeps it, or the model as ollama:NAME"}
}

// located is a manifest that was found by the model's name.
type located struct {
	store *Store
	name  string      // of the manifest in the store
	file  source.File // nil until it is opened
}

// locate finds the manifest of a name in the first store that has it. The caller
// closes the store and the file.
func locate(n Name, keepInside bool) (located, error) {
	sought := missing{name: n, tags: map[string][]string{}}
	for _, p := range environ.OllamaStores(environ.Process) {
		src, err := OpenStore(p.Path, keepInside)
		if err == nil {
			at := located{store: src}
			if at.name, at.file, err = findManifest(src.files, n); err == nil {
				return at, nil
			}
			if errors.Is(err, fs.ErrNotExist) {
				sought.look(src.files)
			}
			src.Close()
		}
		switch {
		case errors.Is(err, fs.ErrNotExist):
			sought.searched = append(sought.searched, fmt.Sprintf("%s (%s)", tensorfs.Printable(p.Path), p.Known))
		case errors.Is(err, fs.ErrPermission):
			return located{}, &tensorfs.FormatError{File: Prefix + n.String(), Offset: -1, Kind: fs.ErrPermission,
				Problem: fmt.Sprintf("no permission to read %s (%s)", tensorfs.Printable(p.Path), p.Known), Advice: "run as its owner or in its group"}
		default:
			return located{}, fmt.Errorf("ollama: %s: in %s (%s): %w", n, tensorfs.Printable(p.Path), p.Known, refetch(err))
		}
	}
	return located{}, sought.error()
}

// findManifest returns the name of a model's manifest in a store: the exact one, which it
// opens, else the only one whose parts differ in case, as Ollama takes such names
// for the same.
func findManifest(src source.FS, n Name) (string, source.File, error) {
	exact := path.Join(manifests, n.Path())
	f, err := src.OpenFile(exact)
	if err == nil || !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR) {
		return exact, f, err
	}
	found := []string{manifests}
	for _, part := range n.parts() {
		var deeper []string
		for _, dir := range found {
			entries, err := src.ReadDir(dir)
			if errors.Is(err, syscall.ENOTDIR) {
				continue
			} else if err != nil {
				return "", nil, err
			}
			for _, e := range entries {
				// Of one length: no letter beyond ASCII folds into one then.
				if len(e.Name()) == len(part) && strings.EqualFold(e.Name(), part) {
					deeper = append(deeper, path.Join(dir, e.Name()))
				}
			}
		}
		found = deeper
	}
	switch len(found) {
	case 0:
		return "", nil, fs.ErrNotExist
	case 1:
		return found[0], nil, nil
	}
	return "", nil, fmt.Errorf("%s and %s differ only in case; write the name exactly as one of them",
		tensorfs.Printable(strings.TrimPrefix(found[0], manifests+"/")), tensorfs.Printable(strings.TrimPrefix(found[1], manifests+"/")))
}

// Locate finds the store that a manifest belongs to, and its name there: the nearest
// directory above it that is named manifests and has blobs beside it. The path may be a
// symbolic link into a store.
func Locate(file string) (dir, name string, ok bool) {
	abs, real, err := source.Abs(file)
	if err != nil {
		return "", "", false
	}
	if dir, name, ok = inStore(abs); !ok && real != "" {
		dir, name, ok = inStore(real)
	}
	return dir, name, ok
}

// inStore is Locate for an absolute path, taken as it is.
func inStore(abs string) (dir, name string, ok bool) {
	abs = path.Clean(abs)
	for at := path.Dir(abs); ; at = path.Dir(at) {
		up := path.Dir(at)
		if up == at {
			return "", "", false
		}
		if path.Base(at) == manifests && source.HasDir(path.Join(up, blobsDir)) {
			return up, strings.TrimPrefix(strings.TrimPrefix(abs, up), "/"), true
		}
	}
}

// parse returns the model's name of a manifest in a store; false where Ollama
// would not list the file.
func parse(name string) (Name, bool) {
	p := strings.Split(name, "/")
	if len(p) != 5 || p[0] != manifests {
		return Name{}, false
	}
	n := Name{p[1], p[2], p[3], p[4]}
	return n, n.problem() == ""
}

// display returns the name of a manifest's model as users write it, for messages.
func display(name string) string {
	if n, ok := parse(name); ok {
		return n.String()
	}
	return tensorfs.Printable(strings.TrimPrefix(name, manifests+"/"))
}

// maxManifest is far above what Ollama writes: 80,000 layers.
const maxManifest = 16 << 20

// Find returns the name under which a store has a model: the requested name, or the only
// one that differs from it only in case, because Ollama treats such names as equal. The
// error is fs.ErrNotExist if the store does not have the model.
func Find(store fs.FS, n Name) (Name, error) {
	name, f, err := findManifest(source.Of(store), n)
	if f != nil {
		f.Close()
	}
	if err != nil {
		return n, err
	}
	if there, ok := parse(name); ok {
		return there, nil
	}
	return n, fs.ErrNotExist
}
