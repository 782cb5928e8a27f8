package export

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/opendir"
	"golang.org/x/sys/unix"
)

// File is a file to write.
type File struct {
	Path string // below the directory, with slashes
	Data tensorfs.Data
	Last bool // written after all others, and removed before: while it is there they are complete
}

// Fact is something that all files of a directory have in common, such as the model that
// they come from. Files are kept and resumed only if all facts are the same.
type Fact struct {
	What string `json:"what"`
	Is   string `json:"is"`
}

// Options say how files are written. The zero value is a sound default.
type Options struct {
	Facts    []Fact
	ModTime  time.Time                             // of the files; zero for the time of writing
	Jobs     int                                   // workers; 0 means 1
	Force    bool                                  // replace existing files
	Never    []os.FileInfo                         // files that are not replaced in any case
	Link     func(os.FileInfo) bool                // which files may be linked instead of copied, if they cannot be cloned; nil means that none may
	Check    func() error                          // whether what Data cannot check is still what it was
	Shared   func(path string, linked bool)        // called for each that shares blocks with a file of the model, or is that file
	Whole    func(path string, f *os.File) error   // called for each that is written, before it gets its name
	Progress func(total int64) func(n int64)       // called when the total is known
	Free     func(dir string) (n int64, err error) // bytes that may be written; nil asks the system

	// For tests.
	stretch int64
	clone   func(dir *opendir.Dir, src int, name string) (*os.File, error)
}

// Report describes the directory afterwards.
type Report struct {
	Files   int
	Bytes   int64
	Written int // files that were not there before
}

// Errors that callers tell apart.
var (
	// ErrOther marks a directory with files of another origin.
	ErrOther = errors.New("the directory holds another export")
	// ErrExists marks an existing file or directory that blocks a file.
	ErrExists = errors.New("exists already")
	// ErrBusy marks a directory to which another process exports.
	ErrBusy = errors.New("another tensorfs exports to this directory")
)

// defaultStretch is how much of a large file is written and made durable at a
// time: what is lost at most, for each worker, when the program is killed. The log
// counts in it: a different one needs another stateVersion.
const defaultStretch = 64 << 20

// exporter is one run.
type exporter struct {
	Options
	at    *opendir.Dir
	own   *opendir.Dir // stateDir, which only this user can change
	state *state
	began bool // something of a file was written

	mu   sync.Mutex
	dirs map[string]*opendir.Dir // those below at that are open, by their paths
}

// Run writes the files below dir, which it makes if it is missing. It returns
// early when ctx ends. A directory that it made and wrote nothing to does not stay.
func Run(ctx context.Context, dir string, files []File, o Options) (Report, error) {
	if err := checkPaths(files); err != nil {
		return Report{}, err
	}
	at, err := opendir.Make(dir, 0o777, false)
	if err != nil {
		return Report{}, tensorfs.NoDirectory(dir, err)
	}
	report, err := RunIn(ctx, at, files, o)
	if err != nil {
		at.Undo()
		return report, err
	}
	return report, at.Close()
}

// RunIn is [Run] for an open directory.
func RunIn(ctx context.Context, at *opendir.Dir, files []File, o Options) (_ Report, err error) {
	o.stretch = cmp.Or(o.stretch, defaultStretch)
	o.Jobs = max(o.Jobs, 1)
	if o.clone == nil {
		o.clone = cloneFile
	}
	if o.Check == nil {
		o.Check = func() error { return nil }
	}
	if err := checkPaths(files); err != nil {
		return Report{}, err
	}
	x := &exporter{Options: o, at: at, dirs: map[string]*opendir.Dir{}}
	defer x.close()
	_, err = at.Lstat(stateDir)
	first := errors.Is(err, os.ErrNotExist)
	if x.own, err = at.Private(stateDir); err != nil {
		return Report{}, x.notOwn(err)
	}
	defer func() {
		if err != nil && first && !x.began { // nothing is to go on with
			err = errors.Join(err, x.own.Clear(), at.RemoveDir(stateDir))
		}
		x.own.Close()
	}()
	if err := x.checkCase(files); err != nil {
		return Report{}, err
	}
	if x.state, err = x.openState(); err != nil {
		return Report{}, err
	}
	report, err := x.run(ctx, files)
	return report, errors.Join(err, x.state.close())
}

// notOwn explains why the directory of the state cannot be used.
func (x *exporter) notOwn(err error) error {
	if p, ok := errors.AsType[*os.PathError](err); ok && (errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP)) {
		return fmt.Errorf("%s is not a directory; remove it, or choose another directory", tensorfs.Printable(p.Path))
	}
	return tensorfs.NoDirectory(x.at.Path(), err)
}

// close closes the directories that were opened.
func (x *exporter) close() {
	for _, d := range x.dirs {
		d.Close()
	}
}

func (x *exporter) run(ctx context.Context, files []File) (Report, error) {
	p, err := x.plan(ctx, files)
	if err != nil {
		return Report{}, err
	}
	defer p.close()
	if err := x.checkSpace(p); err != nil {
		return Report{}, err
	}
	for _, f := range p.last {
		if err := x.remove(f.Path); err != nil {
			return Report{}, err
		}
	}
	done := func(int64) {}
	if x.Progress != nil {
		done = x.Progress(p.bytes(x.stretch))
	}
	x.began = true
	if err := x.write(ctx, p.files, done); err != nil {
		return Report{}, err
	}
	if err := errors.Join(x.Check(), x.syncDirs()); err != nil {
		return Report{}, err
	}
	if err := x.write(ctx, p.last, done); err != nil {
		return Report{}, err
	}
	p.report.Written = len(p.files) + len(p.last)
	if x.Shared != nil {
		for _, f := range slices.Concat(p.files, p.last) {
			if f.cloned || f.linked {
				x.Shared(f.Path, f.linked)
			}
		}
	}
	return p.report, x.syncDirs()
}

// syncDirs makes the names durable that files got. Some file systems cannot, and
// need not, do that.
func (x *exporter) syncDirs() error {
	for _, d := range append(slices.Collect(maps.Values(x.dirs)), x.own, x.at) {
		if err := d.Sync(); err != nil {
			return err
		}
	}
	return nil
}

// checkPaths refuses paths that could leave the directory, or meet.
func checkPaths(files []File) error {
	seen := make(map[string]bool, len(files))
	for _, f := range files {
		first, _, _ := strings.Cut(f.Path, "/")
		switch {
		case !filepath.IsLocal(f.Path) || path.Clean(f.Path) != f.Path || f.Path == "." || strings.ContainsRune(f.Path, 0):
			return fmt.Errorf("%s is not the path of a file below a directory", tensorfs.Quote(f.Path))
		case strings.EqualFold(first, stateDir):
			return fmt.Errorf("%s: this name is the export's own", tensorfs.Printable(f.Path))
		case seen[f.Path]:
			return fmt.Errorf("two files would be called %s", tensorfs.Printable(f.Path))
		}
		seen[f.Path] = true
	}
	return nil
}

// checkCase refuses files whose names differ only in case, where the file system
// takes these for the same.
func (x *exporter) checkCase(files []File) error {
	if _, err := x.at.Lstat(strings.ToUpper(stateDir)); err != nil {
		return nil
	}
	if a, b := sameFolded(files); a != "" {
		return fmt.Errorf("%s: %s and %s would be the same file, because case makes no difference there; choose a directory on another file system",
			tensorfs.Printable(x.at.Path()), tensorfs.Printable(a), tensorfs.Printable(b))
	}
	return nil
}

// sameFolded returns two paths that differ only in case, or "".
func sameFolded(files []File) (a, b string) {
	seen := make(map[string]string, len(files))
	for _, f := range files {
		key := strings.ToLower(f.Path)
		if seen[key] != "" {
			return seen[key], f.Path
		}
		seen[key] = f.Path
	}
	return "", ""
}

// parent opens the directory above a path, and makes what is missing of it if told to; else
// it is nil. A symbolic link is not a directory: what is behind it may be written under
// another path too.
func (x *exporter) parent(name string, make bool) (d *opendir.Dir, base string, err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	d = x.at
	start := 0
	for i := range len(name) {
		if name[i] != '/' {
			continue
		}
		dir, part := name[:i], name[start:i]
		start = i + 1
		next := x.dirs[dir]
		if next == nil {
			if make {
				next, err = d.MakeSub(part, 0o777)
			} else if next, err = d.Sub(part); errors.Is(err, os.ErrNotExist) {
				return nil, "", nil
			}
			if errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
				return nil, "", fmt.Errorf("%s is not a directory, but files are to be written below it; remove it, or choose another directory", x.shown(dir))
			}
			if err != nil {
				return nil, "", x.failed(dir, err)
			}
			x.dirs[dir] = next
		}
		d = next
	}
	return d, name[start:], nil
}

// lstat describes what is at a path.
func (x *exporter) lstat(name string) (os.FileInfo, error) {
	d, base, err := x.parent(name, false)
	if err != nil {
		return nil, err
	}
	if d == nil {
		return nil, os.ErrNotExist
	}
	return d.Lstat(base)
}

// remove removes the file at a path, if there is one.
func (x *exporter) remove(name string) error {
	d, base, err := x.parent(name, false)
	if err != nil || d == nil {
		return err
	}
	if err := d.Remove(base); err != nil && !errors.Is(err, os.ErrNotExist) {
		return x.failed(name, err)
	}
	return nil
}

// shown is a path for messages.
func (x *exporter) shown(name string) string {
	return tensorfs.Printable(filepath.Join(x.at.Path(), filepath.FromSlash(name)))
}

// failed names the file that a system error is about.
func (x *exporter) failed(name string, err error) error {
	var p *os.PathError
	if errors.As(err, &p) { // with a path relative to the directory
		err = p.Err
	}
	return fmt.Errorf("%s: %w", x.shown(name), err)
}
