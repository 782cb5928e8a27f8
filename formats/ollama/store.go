package ollama

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	"github.com/tensorfs/tensorfs"
)

// store is a directory with manifests and blobs:
//
//	manifests/HOST/NAMESPACE/MODEL/TAG     JSON
//	blobs/sha256-HEX                       content
type store string

// place is a store and how it was found, for messages.
type place struct {
	dir store
	how string
}

// stores returns where Ollama keeps its models: OLLAMA_MODELS alone where it is
// set, else the home directory, else that of Ollama's service on Linux.
func stores() []place {
	// Ollama strips blanks and quotes, which shells on Windows leave in.
	if dir := strings.Trim(strings.TrimSpace(os.Getenv("OLLAMA_MODELS")), `"'`); dir != "" {
		return []place{{store(dir), "OLLAMA_MODELS"}}
	}
	var places []place
	if home, err := os.UserHomeDir(); err == nil {
		places = append(places, place{store(filepath.Join(home, ".ollama", "models")), "the home directory"})
	}
	if runtime.GOOS == "linux" {
		places = append(places, place{"/usr/share/ollama/.ollama/models", "Ollama's service"})
	}
	return places
}

// locate finds the manifest of a name in the first store that has it.
func locate(n Name) (string, error) {
	fail := func(kind error, advice, problem string, args ...any) (string, error) {
		return "", &tensorfs.FormatError{File: "ollama:" + n.String(), Offset: -1, Problem: fmt.Sprintf(problem, args...), Advice: advice, Kind: kind}
	}
	var searched []string
	for _, p := range stores() {
		path, err := p.dir.find(n)
		switch {
		case err == nil:
			return path, nil
		case errors.Is(err, fs.ErrNotExist):
			searched = append(searched, fmt.Sprintf("%s (%s)", tensorfs.Printable(string(p.dir)), p.how))
		case errors.Is(err, fs.ErrPermission):
			return fail(fs.ErrPermission, "run as its owner or in its group", "no permission to read %s (%s)", tensorfs.Printable(string(p.dir)), p.how)
		default:
			return "", fmt.Errorf("ollama: %s: in %s (%s): %w", n, tensorfs.Printable(string(p.dir)), p.how, err)
		}
	}
	if len(searched) == 0 {
		return fail(fs.ErrNotExist, "set OLLAMA_MODELS", "there is no store to look in")
	}
	return fail(fs.ErrNotExist, "see 'ollama list', fetch it with 'ollama pull', or set OLLAMA_MODELS to the directory that holds manifests and blobs",
		"looked for its manifest %s; found no such model in %s", n.Path(), strings.Join(searched, " or "))
}

// find returns the path of a name's manifest: the exact one, else the only one
// whose parts differ in case, as Ollama takes such names for the same.
func (s store) find(n Name) (string, error) {
	root, err := os.OpenRoot(filepath.Join(string(s), "manifests"))
	if err != nil {
		return "", err
	}
	defer root.Close()
	exact := filepath.FromSlash(n.Path())
	if _, err := root.Stat(exact); err == nil {
		return filepath.Join(root.Name(), exact), nil
	} else if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR) {
		return "", fmt.Errorf("manifest: %w", describe(err))
	}
	found := []string{"."}
	for _, part := range n.parts() {
		var deeper []string
		for _, dir := range found {
			entries, err := fs.ReadDir(root.FS(), filepath.ToSlash(dir))
			if errors.Is(err, syscall.ENOTDIR) {
				continue
			} else if err != nil {
				return "", err
			}
			for _, e := range entries {
				// Of one length: no letter beyond ASCII folds into one then.
				if len(e.Name()) == len(part) && strings.EqualFold(e.Name(), part) {
					deeper = append(deeper, filepath.Join(dir, e.Name()))
				}
			}
		}
		found = deeper
	}
	switch len(found) {
	case 0:
		return "", fs.ErrNotExist
	case 1:
		return filepath.Join(root.Name(), found[0]), nil
	}
	return "", fmt.Errorf("%s and %s differ only in case; write the name exactly as one of them", tensorfs.Printable(found[0]), tensorfs.Printable(found[1]))
}

// manifestPath is a manifest's place in a store.
type manifestPath struct {
	dir   store
	below string // path below manifests
}

// inStore finds the store that a manifest belongs to: the nearest directory
// above it that is called manifests and has blobs beside it.
func inStore(path string) (manifestPath, bool) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return manifestPath{}, false
	}
	for dir := filepath.Dir(abs); ; dir = filepath.Dir(dir) {
		up := filepath.Dir(dir)
		if up == dir {
			return manifestPath{}, false
		}
		if filepath.Base(dir) != "manifests" {
			continue
		}
		if st, err := os.Stat(filepath.Join(up, "blobs")); err != nil || !st.IsDir() {
			continue
		}
		below, err := filepath.Rel(dir, abs)
		return manifestPath{store(up), below}, err == nil
	}
}

// locateFile is inStore for any path to a manifest, through symbolic links too
// where they stand outside of a store.
func locateFile(path string) (manifestPath, error) {
	if m, ok := inStore(path); ok {
		return m, nil
	}
	if real, err := filepath.EvalSymlinks(path); err == nil {
		if m, ok := inStore(real); ok {
			return m, nil
		}
	}
	return manifestPath{}, &tensorfs.FormatError{File: path, Offset: -1, Problem: "it is in no Ollama store: no directory above it is called manifests and has one called blobs beside it",
		Advice: "name the manifest where Ollama keeps it, or the model as ollama:NAME"}
}

// path returns the manifest's path.
func (m manifestPath) path() string { return filepath.Join(string(m.dir), "manifests", m.below) }

// name returns the model's name as users write it, for messages.
func (m manifestPath) name() string {
	if n, ok := m.parse(); ok {
		return n.String()
	}
	return tensorfs.Printable(m.below)
}

// parse returns the model's name; false where Ollama would not list the file.
func (m manifestPath) parse() (Name, bool) {
	p := strings.Split(filepath.ToSlash(m.below), "/")
	if len(p) != 4 {
		return Name{}, false
	}
	n := Name{p[0], p[1], p[2], p[3]}
	return n, n.problem() == ""
}

// maxManifest is far above what Ollama writes: 80,000 layers.
const maxManifest = 16 << 20

// read returns the manifest's text. Links are followed inside manifests only.
func (m manifestPath) read() ([]byte, error) {
	f, err := openBelow(filepath.Join(string(m.dir), "manifests"), m.below)
	if err != nil {
		return nil, fmt.Errorf("%s: manifest: %w", tensorfs.Printable(m.path()), err)
	}
	defer f.Close()
	b, err := readSmall(f, maxManifest)
	if err != nil {
		return nil, fmt.Errorf("%s: manifest: %w", tensorfs.Printable(m.path()), err)
	}
	return b, nil
}

// openBelow opens the regular file at path below dir. Symbolic links are
// followed while they stay below dir, and nothing blocks on what is no regular
// file.
func openBelow(dir, path string) (*os.File, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, describe(err)
	}
	defer root.Close()
	return openIn(root, path)
}

func openIn(root *os.Root, path string) (*os.File, error) {
	f, err := root.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, describe(err)
	}
	st, err := f.Stat()
	if err == nil {
		err = regular(st)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// worded is an error of the system in words for users.
type worded struct {
	text string
	err  error
}

// Error returns the words alone: they say what err says.
func (w worded) Error() string { return w.text }

// Unwrap returns the error of the system.
func (w worded) Unwrap() error { return w.err }

// regular returns an error unless st is a regular file.
func regular(st fs.FileInfo) error {
	what := "a device or socket"
	switch m := st.Mode(); {
	case m.IsRegular():
		return nil
	case m.IsDir():
		what = "a directory"
	case m&fs.ModeNamedPipe != 0:
		what = "a FIFO"
	}
	return worded{fmt.Sprintf("it is %s, not a regular file; fetch the model again", what), tensorfs.ErrFormat}
}

// describe rewords errors of opening a file below a directory.
func describe(err error) error {
	var pe *fs.PathError
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return worded{"there is no such file; fetch the model again", fs.ErrNotExist}
	case errors.Is(err, fs.ErrPermission):
		return worded{"no permission to read it; change its mode or run as its owner", fs.ErrPermission}
	case errors.Is(err, syscall.ELOOP):
		return worded{"symbolic links go round in a loop; fetch the model again", syscall.ELOOP}
	case errors.Is(err, syscall.ENXIO):
		return worded{"it is a device or socket, not a regular file; fetch the model again", tensorfs.ErrFormat}
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		return worded{"too many open files, and a model needs one for every blob; raise the limit with 'ulimit -n'", err}
	case errors.As(err, &pe) && pe.Err.Error() == "path escapes from parent":
		return worded{"it is a symbolic link that leaves the directory; put the file itself or a hard link there", err}
	}
	return err
}

// readSmall reads a whole file of at most max bytes.
func readSmall(f *os.File, max int64) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(f, max+1))
	if err != nil {
		return nil, err
	}
	if int64(len(b)) > max {
		return nil, worded{fmt.Sprintf("it is larger than %d bytes; it is not what it should be", max), tensorfs.ErrFormat}
	}
	return b, nil
}
