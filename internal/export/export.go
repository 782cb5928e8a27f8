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
	"golang.org/x/sys/unix"
)

// File is a file to write.
type File struct {
	Path string // below the directory, with slashes
	Data tensorfs.Data
	Last bool // written after all others, and removed before: while it is there they are complete
}

// Fact is something that all files of a directory have in common, such as the
// model that they are made of. Files are kept and resumed only where all facts
// are the same.
type Fact struct {
	What string `json:"what"`
	Is   string `json:"is"`
}

// Options say how files are written. The zero value is a sound default.
type Options struct {
	Facts    []Fact
	ModTime  time.Time                             // of the files; zero for the time of writing
	Jobs     int                                   // workers; 1 where it is zero
	Force    bool                                  // replace what stands in the way
	Never    []os.FileInfo                         // files that are not replaced in any case
	Link     func(os.FileInfo) bool                // which files may get another name instead of a copy, where they cannot be cloned; none where it is nil
	Check    func() error                          // whether what Data cannot check is still what it was
	Shared   func(path string, linked bool)        // called for each that shares blocks with a file of the model, or is that file
	Progress func(total int64) func(n int64)       // called when the total is known
	Free     func(dir string) (n int64, err error) // bytes that may be written; asks the system where it is nil

	// For tests.
	stretch int64
	clone   func(root *os.Root, src int, name string) (*os.File, error)
}

// Report says what there is afterwards.
type Report struct {
	Files   int
	Bytes   int64
	Written int // files that were not there before
}

// Errors that callers tell apart.
var (
	// ErrOther marks a directory with files of another origin.
	ErrOther = errors.New("the directory holds another export")
	// ErrExists marks something that stands in the way of a file.
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
	dir   string // for messages
	root  *os.Root
	state *state

	mu   sync.Mutex
	dirs map[string]bool // that are known to be directories
}

// Run writes the files below dir, which it makes if it is missing. It returns
// early when ctx ends.
func Run(ctx context.Context, dir string, files []File, o Options) (Report, error) {
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
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return Report{}, tensorfs.NoDirectory(dir, err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return Report{}, err
	}
	defer root.Close()
	x := &exporter{Options: o, dir: dir, root: root, dirs: map[string]bool{}}
	_, err = root.Lstat(stateDir)
	first := os.IsNotExist(err)
	if err := x.parents(logName, true); err != nil {
		return Report{}, err
	}
	if err := x.checkCase(files); err != nil {
		return Report{}, err
	}
	if x.state, err = x.openState(); err != nil {
		return Report{}, err
	}
	report, err := x.run(ctx, files)
	if _, ok := errors.AsType[*NoSpaceError](err); ok && first { // nothing was written: nothing is to go on with
		err = errors.Join(err, root.RemoveAll(stateDir))
	}
	return report, errors.Join(err, x.state.close())
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
		if err := x.root.Remove(f.Path); err != nil && !os.IsNotExist(err) {
			return Report{}, x.failed(f.Path, err)
		}
	}
	done := func(int64) {}
	if x.Progress != nil {
		done = x.Progress(p.bytes(x.stretch))
	}
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
	for _, dir := range append(slices.Collect(maps.Keys(x.dirs)), ".") {
		d, err := x.root.Open(dir)
		if err != nil {
			return x.failed(dir, err)
		}
		if err := d.Sync(); err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOTSUP) {
			d.Close()
			return x.failed(dir, err)
		}
		d.Close()
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
	if _, err := x.root.Lstat(strings.ToUpper(stateDir)); err != nil {
		return nil
	}
	if a, b := sameFolded(files); a != "" {
		return fmt.Errorf("%s: %s and %s would be the same file, because case makes no difference there; choose a directory on another file system",
			tensorfs.Printable(x.dir), tensorfs.Printable(a), tensorfs.Printable(b))
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

// parents checks that the directories above a path are directories, and makes
// those that are missing if told to. A symbolic link is not one: what is behind
// it may be written under another path too.
func (x *exporter) parents(name string, make bool) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	for i := range len(name) {
		if name[i] != '/' || x.dirs[name[:i]] {
			continue
		}
		dir := name[:i]
		st, err := x.root.Lstat(dir)
		if errors.Is(err, os.ErrNotExist) {
			if !make {
				return nil
			}
			if err = x.root.Mkdir(dir, 0o777); err == nil || errors.Is(err, os.ErrExist) {
				st, err = x.root.Lstat(dir)
			}
		}
		if err != nil {
			return x.failed(dir, err)
		}
		if !st.IsDir() {
			return fmt.Errorf("%s is not a directory, but files are to be written below it; remove it, or choose another directory", x.shown(dir))
		}
		x.dirs[dir] = true
	}
	return nil
}

// shown is a path for messages.
func (x *exporter) shown(name string) string {
	return tensorfs.Printable(filepath.Join(x.dir, filepath.FromSlash(name)))
}

// failed says which file an error of the system concerns.
func (x *exporter) failed(name string, err error) error {
	var p *os.PathError
	if errors.As(err, &p) { // with a path relative to the directory
		err = p.Err
	}
	return fmt.Errorf("%s: %w", x.shown(name), err)
}
