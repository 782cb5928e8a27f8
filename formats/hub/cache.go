package hub

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"syscall"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/pick"
	"github.com/tensorfs/tensorfs/internal/environ"
	"github.com/tensorfs/tensorfs/internal/near"
	"github.com/tensorfs/tensorfs/internal/source"
)

const (
	// maxRef bounds a file below refs/, which has 40 bytes.
	maxRef = 1 << 16
	// maxFiles bounds the files of a snapshot, and maxDepth its directories in one
	// another.
	maxFiles = 100_000
	maxDepth = 16
	// minCommit is how short a commit may be written, and shortCommit how short it
	// is shown.
	minCommit   = 7
	shortCommit = 12
)

// Found is a repository's snapshot in the cache.
type Found struct {
	Dir     string // the snapshot in the repository's folder
	Name    Name   // with the commit as revision
	Warning string // what a user should know, or ""

	folder *source.Directory
	asked  Name // with the revision that was asked for
}

// FS returns the files of the repository's folder.
func (f *Found) FS() fs.FS { return f.folder }

// Close closes the folder. Files that were opened stay open.
func (f *Found) Close() error { return f.folder.Close() }

// Find finds the repository of a name in the local cache: $HF_HUB_CACHE,
// $HF_HOME/hub or ~/.cache/huggingface/hub. keepInside refuses links that lead out of
// the repository's folder. The caller closes what is found. Of a revision with slashes it takes as much as names one,
// the rest is a path in the repository.
func Find(n Name, keepInside bool) (*Found, error) {
	cache, err := environ.HuggingFaceCache(environ.Process)
	if err != nil {
		return nil, err
	}
	src, err := source.Dir(path.Join(cache, folderName(n.Repository)), source.Links(keepInside))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, notCached(n, cache)
	} else if err != nil {
		return nil, err
	}
	f, err := findSnapshot(src, n)
	if err != nil {
		src.Close()
		return nil, err
	}
	return f, nil
}

// folderName is the name of a repository's folder.
func folderName(repository string) string {
	return "models--" + strings.ReplaceAll(repository, "/", "--")
}

// findSnapshot finds the snapshot in a repository's folder.
func findSnapshot(src *source.Directory, n Name) (*Found, error) {
	f := &Found{folder: src, Name: n, asked: n}
	if n.Revision == "" {
		var err error
		if f.Dir, f.Warning, err = Snapshot(src, ".", n); err != nil {
			return nil, err
		}
	}
	for rev := n.Revision; f.Dir == ""; {
		var err error
		if f.Dir, err = revision(src, rev); err != nil {
			return nil, err
		}
		if f.Dir != "" {
			break
		}
		i := strings.LastIndexByte(rev, '/')
		if i < 0 || n.Select != (pick.Select{}) {
			return nil, noRevision(src, n)
		}
		f.asked.Revision, f.asked.Select.Path = rev[:i], n.Revision[i+1:]
		rev = rev[:i]
	}
	f.Name = f.asked
	f.Name.Revision = short(path.Base(f.Dir))
	return f, nil
}

// short returns a commit as it is shown and understood.
func short(commit string) string {
	if len(commit) > shortCommit && isHex(commit) {
		return commit[:shortCommit]
	}
	return commit
}

func isHex(s string) bool { return strings.Trim(s, "0123456789abcdef") == "" }

// revision returns the directory of a revision's snapshot, or "" if it is missing.
func revision(src source.FS, rev string) (dir string, err error) {
	commit, err := ref(src, path.Join("refs", rev))
	if err != nil {
		return "", err
	}
	if commit == "" {
		commit = rev
	}
	if dir := path.Join("snapshots", commit); tensorfs.ValidName(commit) && source.IsDir(src, dir) {
		return dir, nil
	}
	if rev = strings.ToLower(rev); len(rev) < minCommit || !isHex(rev) {
		return "", nil
	}
	entries, err := src.ReadDir("snapshots")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	for _, e := range entries {
		switch at := path.Join("snapshots", e.Name()); {
		case !strings.HasPrefix(e.Name(), rev) || !isDir(src, at, e):
		case dir != "":
			return "", &tensorfs.FormatError{File: src.Location("snapshots"), Offset: -1, Problem: fmt.Sprintf("two commits begin with %s: %s and %s", rev, tensorfs.Printable(path.Base(dir)), tensorfs.Printable(e.Name())), Advice: "write more letters of one"}
		default:
			dir = at
		}
	}
	return dir, nil
}

// isDir reports whether an entry at a path is a directory, links followed.
func isDir(src source.FS, at string, e fs.DirEntry) bool {
	return e.IsDir() || e.Type()&fs.ModeSymlink != 0 && source.IsDir(src, at)
}

// ref returns the commit that a file below refs/ holds, "" if the file does not exist.
func ref(src source.FS, name string) (commit string, err error) {
	b, err := source.ReadSmall(src, name, maxRef)
	switch {
	case err == nil:
		if commit = strings.TrimSpace(string(b)); !tensorfs.ValidName(commit) {
			return "", &tensorfs.FormatError{File: src.Location(name), Offset: 0, Problem: "it holds " + tensorfs.Quote(commit) + ", which is not the id of a commit"}
		}
		return commit, nil
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR), source.IsDir(src, name):
		return "", nil
	}
	return "", err
}

// IsFolder reports whether dir is a repository's folder in the cache.
func IsFolder(fsys fs.FS, dir string) bool {
	src := source.Of(fsys)
	has := func(name string) bool { return source.IsDir(src, path.Join(dir, name)) }
	return has("snapshots") && (has("refs") || has("blobs"))
}

// Snapshot returns the directory of a repository's usual snapshot, in the repository's
// folder: the snapshot of main, or the only one. n is the repository's name for messages;
// it may be the zero Name.
func Snapshot(fsys fs.FS, folder string, n Name) (dir, warning string, err error) {
	src := source.Of(fsys)
	at := src.Location(folder)
	all := path.Join(folder, "snapshots")
	commit, err := ref(src, path.Join(folder, "refs", "main"))
	if err != nil {
		return "", "", err
	}
	if commit != "" {
		if dir := path.Join(all, commit); source.IsDir(src, dir) {
			return dir, "", nil
		}
		warning = fmt.Sprintf("%s: refs/main names the snapshot %s, which is missing; the only snapshot is shown", tensorfs.Printable(at), tensorfs.Quote(commit))
	}
	entries, err := src.ReadDir(all)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", "", err
	}
	var found []string
	for _, e := range entries {
		if isDir(src, path.Join(all, e.Name()), e) {
			found = append(found, e.Name())
		}
	}
	e := &tensorfs.FormatError{File: at, Offset: -1}
	switch len(found) {
	case 0:
		e.Problem, e.Advice, e.Kind = "it has no snapshot", "download the model again", fs.ErrNotExist
	case 1:
		return path.Join(all, found[0]), warning, nil
	default:
		e.Problem, e.Advice = fmt.Sprintf("it has %d snapshots, and refs/main names none of them", len(found)), "name one, such as "+tensorfs.Printable(src.Location(path.Join(all, found[0])))
	}
	if n.Repository != "" {
		e.File = n.String()
		if len(found) > 1 {
			n.Revision = short(found[0])
			e.Advice = "name one, such as " + tensorfs.Printable(n.String())
		} else {
			e.Advice = "download it with " + n.download()
		}
	}
	return "", "", e
}

// Files lists the files of a snapshot as paths with slashes. Links count as files.
func Files(fsys fs.FS, dir string) ([]string, error) {
	src := source.Of(fsys)
	var files []string
	var walk func(below string, depth int) error
	walk = func(below string, depth int) error {
		entries, err := src.ReadDir(path.Join(dir, below))
		if err != nil {
			return err
		}
		if len(files)+len(entries) > maxFiles || depth > maxDepth {
			return &tensorfs.FormatError{File: src.Location(dir), Offset: -1, Kind: tensorfs.ErrUnsupported,
				Problem: fmt.Sprintf("it has more than %d files, or directories more than %d deep, which no model has", maxFiles, maxDepth), Advice: "name a file of it by its path"}
		}
		for _, e := range entries {
			name := path.Join(below, e.Name())
			if !e.IsDir() {
				files = append(files, name)
			} else if err := walk(name, depth+1); err != nil {
				return err
			}
		}
		return nil
	}
	err := walk(".", 0)
	return files, err
}

// notCached is the error that the cache lacks a repository; it lists what the cache has.
func notCached(n Name, cache string) error {
	e := &tensorfs.FormatError{File: n.String(), Offset: -1, Kind: fs.ErrNotExist, Advice: "download it with " + n.download() + ", or set HF_HOME to the directory that contains it"}
	var entries []fs.DirEntry
	src, err := source.Dir(cache, source.Anywhere)
	if err == nil {
		defer src.Close()
		entries, err = src.ReadDir(".")
	}
	cache = tensorfs.Printable(path.Clean(cache))
	if errors.Is(err, fs.ErrNotExist) {
		e.Problem = "there is no cache " + cache
		return e
	} else if err != nil {
		return err
	}
	e.Problem = "it is not in the cache " + cache
	repositories := repositoriesOf(entries)
	names := near.Names(n.Repository, repositories, 3)
	if _, base, ok := strings.Cut(n.Repository, "/"); ok && len(names) == 0 {
		names = near.Names("/"+base, repositories, 3)
	}
	for i, repository := range names {
		names[i] = Name{repository, n.Revision, n.Select}.String()
		if strings.EqualFold(repository, n.Repository) {
			e.Advice = "write it as " + tensorfs.Printable(names[i])
			return e
		}
	}
	if len(names) > 0 {
		e.Advice = near.Question(names) + " If not, download it with " + n.download()
	}
	return e
}

// noRevision is the error that the cache lacks a revision; it lists the revisions of the
// cache.
func noRevision(src source.FS, n Name) error {
	e := &tensorfs.FormatError{File: n.String(), Offset: -1, Kind: fs.ErrNotExist, Problem: "the cache does not have this revision", Advice: "download it with " + n.download()}
	var have []string
	if refs, err := Files(src, "refs"); err == nil {
		have = refs
	}
	if entries, err := src.ReadDir("snapshots"); err == nil {
		for _, s := range entries {
			have = append(have, short(s.Name()))
		}
	}
	const few = 8
	if len(have) > 0 {
		e.Problem += ", only " + near.List(have[:min(len(have), few)])
		if len(have) > few {
			e.Problem += fmt.Sprintf(" and %d more", len(have)-few)
		}
	}
	if names := near.Names(n.Revision, slices.DeleteFunc(have, func(s string) bool { return strings.EqualFold(s, n.Revision) }), 1); len(names) > 0 {
		n.Revision = names[0]
		e.Advice = near.Question([]string{n.String()}) + " If not, " + e.Advice
	}
	return e
}

// Refuse is the error that a snapshot has no model, or not a single one, with what to do.
func (f *Found) Refuse(r *pick.Refusal) error {
	rest := "download it with "
	if r.Select == (pick.Select{}) {
		rest = "download the rest of this one with "
	}
	return refuse(f.asked, r, rest+f.asked.download())
}

// Refuse is the error that a whole repository, by the name that was asked for, has no
// model, or not a single one.
func (n Name) Refuse(r *pick.Refusal) error { return refuse(n, r, "check the name") }

// refuse is Refuse. otherwise is the advice if no similar name exists.
func refuse(n Name, r *pick.Refusal, otherwise string) error {
	call := func(s pick.Select) string { return Name{n.Repository, n.Revision, s}.String() }
	e := &tensorfs.FormatError{File: n.String(), Offset: -1, Kind: tensorfs.ErrUnsupported, Problem: r.Problem(true), Advice: otherwise}
	switch example := r.Example(true); {
	case r.Several, r.Select == (pick.Select{}) && example != pick.Select{}:
		e.Advice = "name one, such as " + tensorfs.Printable(call(example))
	case r.Select == (pick.Select{}):
		e.Advice = "name a repository with a model, or " + otherwise
	default:
		e.Kind = fs.ErrNotExist
		names := r.Near()
		for i, p := range names {
			names[i] = call(pick.Select{Path: p})
		}
		for _, w := range r.NearWords() {
			names = append(names, call(pick.Select{Word: w}))
		}
		if len(names) > 0 {
			e.Advice = near.Question(names) + " If not, " + e.Advice
		}
	}
	return e
}
