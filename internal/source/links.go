package source

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/tensorfs/tensorfs"
)

// Links says how far symbolic links among a model's files are followed. A
// directory or file that the user names is always followed.
type Links bool

const (
	// Anywhere follows links to anything that the process may read.
	Anywhere Links = false
	// Inside follows links that stay inside the model's directory. For a snapshot in
	// the Hugging Face cache that is the repository's folder models--ORG--NAME,
	// because its files are links into the folder's blobs. Others are refused with
	// ErrLink: through them, anyone who can write to a model's directory could show
	// files that only the user of this process may read.
	Inside Links = true
)

// ErrLink marks a symbolic link that is not followed.
var ErrLink = fmt.Errorf("%w: a symbolic link that leaves the model's directory", tensorfs.ErrUnsupported)

// inner is the area that a directory's links may lead to. Files are opened below
// the handle of root, so that a link which is changed meanwhile is not followed
// out of it either.
type inner struct {
	root  *os.Root
	path  string // of root, without links
	below string // the directory in root
	twins string // directory of the named file's target, if that is a different one
}

// openInner determines how far the links of d may lead.
func openInner(d *Directory) (*inner, error) {
	if _, err := os.Stat(d.path); err != nil {
		return nil, err // filepath's own error has no errno
	}
	real, err := filepath.EvalSymlinks(d.path)
	if err != nil {
		return nil, err
	}
	in := &inner{path: real, below: "."}
	if repo, ok := repository(real); ok {
		in.path = repo
	} else if repo, ok := repository(d.path); ok {
		// The folder's own name may be a link to a disk with more room.
		if repo, err := filepath.EvalSymlinks(repo); err == nil && holds(repo, real) {
			in.path = repo
		}
	}
	if in.below, err = filepath.Rel(in.path, real); err != nil {
		return nil, err
	}
	if d.named != "" {
		if file, err := filepath.EvalSymlinks(d.Location(d.named)); err == nil && !holds(in.path, file) {
			in.twins = filepath.Dir(file)
		}
	}
	if in.root, err = os.OpenRoot(in.path); err != nil {
		return nil, err
	}
	return in, nil
}

// repository returns the folder of the Hugging Face cache that a snapshot's directory belongs to.
func repository(dir string) (string, bool) {
	for at := dir; filepath.Dir(at) != at; at = filepath.Dir(at) {
		up := filepath.Dir(at)
		if folder := filepath.Dir(up); filepath.Base(up) == "snapshots" && strings.HasPrefix(filepath.Base(folder), "models--") {
			return folder, true
		}
	}
	return "", false
}

// holds reports whether path is dir or below it. Neither has links.
func holds(dir, path string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(rel)
}

// open opens a name of d.
func (in *inner) open(d *Directory, name string, flags int) (*os.File, error) {
	f, err := in.root.OpenFile(filepath.Join(in.below, name), flags, 0)
	if _, ok := errors.AsType[syscall.Errno](err); ok || err == nil {
		return f, err
	}
	// os.Root also refuses absolute links that lead inside. The path that they lead
	// to has no links and is opened below the same handle.
	path := d.Location(name)
	if _, err := os.Stat(path); err != nil {
		return nil, err
	}
	real, err := filepath.EvalSymlinks(path)
	switch {
	case err != nil:
		return nil, err
	case holds(in.path, real):
		rel, err := filepath.Rel(in.path, real)
		if err != nil {
			return nil, err
		}
		return in.root.OpenFile(rel, flags, 0)
	case in.twins != "" && real == filepath.Join(in.twins, filepath.Base(name)):
		return openTwin(in.twins, filepath.Base(name), flags)
	}
	return nil, &tensorfs.FormatError{File: path, Offset: -1, Kind: ErrLink,
		Problem: fmt.Sprintf("it is a symbolic link that leaves %s, to %s", tensorfs.Printable(in.path), tensorfs.Printable(real)),
		Advice:  "put the file itself there, or allow such links with --follow-links"}
}

// openTwin opens a link's target if it has the link's own name and is beside the
// target of the file that the user named, which is a link too, as in
//
//	ln -s /models/m-0000?-of-00002.gguf .
func openTwin(dir, name string, flags int) (*os.File, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	return root.OpenFile(name, flags, 0)
}
