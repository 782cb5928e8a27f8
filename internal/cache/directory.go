package cache

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/tensorfs/tensorfs"
	"golang.org/x/sys/unix"
)

// dirVariable names the directory of the cache in the environment.
const dirVariable = "TENSORFS_CACHE"

// DefaultDir returns where the cache is if no option names a directory:
// TENSORFS_CACHE, else tensorfs in XDG_CACHE_HOME or ~/.cache, and for a service of
// root, which has no home, /var/cache/tensorfs.
func DefaultDir() (string, error) {
	if dir := os.Getenv(dirVariable); dir != "" {
		return filepath.Abs(dir)
	}
	if dir := os.Getenv("XDG_CACHE_HOME"); filepath.IsAbs(dir) { // others are to be ignored
		return filepath.Join(dir, "tensorfs"), nil
	}
	home := os.Getenv("HOME")
	switch {
	case os.Geteuid() == 0 && (home == "" || home == "/"):
		return "/var/cache/tensorfs", nil
	case !filepath.IsAbs(home):
		return "", fmt.Errorf("there is no home directory for the cache; name a directory with --cache or %s", dirVariable)
	}
	return filepath.Join(home, ".cache", "tensorfs"), nil
}

const (
	version  = "v1"
	filesDir = "files"
	namesDir = "names"
	tmpDir   = "tmp"
	// privateDir is below filesDir.
	privateDir = "private"

	tagName = "CACHEDIR.TAG"
	tag     = "Signature: 8a477f597d28d172789f06886806bc55\n# This is the cache of tensorfs: backups may leave it out. See https://bford.info/cachedir/\n"
)

// prepare makes the directories of a cache below dir and returns this version's. If a
// directory cannot hold a cache, but another could, it returns an error; if only storing
// has to be given up, an unfitError.
func prepare(dir string) (string, error) {
	if err := makeOwn(dir); err != nil {
		return "", err
	}
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return "", notUsable(dir, err)
	}
	if name := remoteFileSystem(&st); name != "" {
		return "", unfitError{fmt.Errorf("%s is on %s, which cannot hold a cache; name a local directory with --cache or %s", tensorfs.Printable(dir), name, dirVariable)}
	}
	root := filepath.Join(dir, version)
	for _, d := range []string{"", filesDir, filepath.Join(filesDir, privateDir), namesDir, tmpDir} {
		if err := makeOwn(filepath.Join(root, d)); err != nil {
			return "", err
		}
	}
	path := filepath.Join(root, tagName)
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		if err := os.WriteFile(path, []byte(tag), 0o600); err != nil {
			return "", notUsable(path, err)
		}
	}
	return root, nil
}

// makeOwn makes a directory of our own, or holds that it is one.
func makeOwn(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return notUsable(dir, err)
	}
	return checkOwn(dir)
}

// checkOwn returns an error unless dir is a directory that only this user can write to, and
// not a planted link.
func checkOwn(dir string) error {
	const instead = "name another directory with --cache or " + dirVariable
	var st unix.Stat_t
	err := unix.Lstat(filepath.Clean(dir), &st) // a slash at the end would follow a link
	if err == nil && st.Mode&unix.S_IFMT == unix.S_IFLNK {
		if st.Uid != 0 && int(st.Uid) != os.Geteuid() {
			return fmt.Errorf("%s: it is a symbolic link of another user (%d), who may make it lead anywhere; %s", tensorfs.Printable(dir), st.Uid, instead)
		}
		err = unix.Stat(dir, &st)
	}
	if err != nil {
		return notUsable(dir, &fs.PathError{Op: "stat", Path: dir, Err: err})
	}
	switch {
	case st.Mode&unix.S_IFMT != unix.S_IFDIR:
		return fmt.Errorf("%s: the cache must be a directory; %s", tensorfs.Printable(dir), instead)
	case int(st.Uid) != os.Geteuid():
		return fmt.Errorf("%s: the cache belongs to another user (%d); %s", tensorfs.Printable(dir), st.Uid, instead)
	case st.Mode&0o022 != 0:
		return fmt.Errorf("%s: others may write to the cache; chmod go-w %s, or %s", tensorfs.Printable(dir), tensorfs.Printable(dir), instead)
	}
	return nil
}

// unfitError is a reason to go on without storing.
type unfitError struct{ error }

func (e unfitError) Unwrap() error { return e.error }

// diskErrors are failures of a disk, and not of the command line: the cache goes on
// without it.
var diskErrors = []error{unix.ENOSPC, unix.EDQUOT, unix.EROFS, unix.EIO, unix.ENFILE, unix.EMFILE}

func isDiskError(err error) bool {
	for _, e := range diskErrors {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// notUsable is the error that path cannot hold the cache.
func notUsable(path string, err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		err = p.Err
	}
	err = fmt.Errorf("%s: cannot keep a cache here: %w; name another directory with --cache or %s", tensorfs.Printable(path), err, dirVariable)
	if isDiskError(err) {
		return unfitError{err}
	}
	return err
}

// errNotRegular marks something other than a file where a file belongs.
var errNotRegular = errors.New("it is not a regular file")

// openRegular opens a file, whatever is in its place: it follows no link, and does
// not wait for the other end of a FIFO.
func openRegular(path string, how int) (*os.File, error) {
	f, err := os.OpenFile(path, how|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	for _, e := range []error{unix.ELOOP, unix.ENXIO, unix.EISDIR, unix.ENOTDIR} {
		if errors.Is(err, e) {
			err = fmt.Errorf("%w: %w", errNotRegular, err)
		}
	}
	if err != nil {
		return nil, err
	}
	st, err := f.Stat()
	if err == nil && !st.Mode().IsRegular() {
		err = errNotRegular
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// readRegular returns the text of a file, the beginning of one that is longer than
// most.
func readRegular(path string, most int64) ([]byte, error) {
	f, err := openRegular(path, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	return readAll(f, most)
}

// readAll is readRegular for a file that is open, and closes it.
func readAll(f *os.File, most int64) ([]byte, error) {
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, most))
}

// lockFile opens a file and locks it. ok is false while another has it.
func lockFile(path string, how int) (f *os.File, ok bool, err error) {
	f, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o600)
	if err != nil {
		return nil, false, err
	}
	if ok, err = flock(f, how); !ok {
		f.Close()
		return nil, false, err
	}
	return f, true, nil
}

// flock locks an open file, or does not: it never waits.
func flock(f *os.File, how int) (ok bool, err error) {
	for {
		switch err := unix.Flock(int(f.Fd()), how|unix.LOCK_NB); err {
		case unix.EINTR:
		case unix.EWOULDBLOCK:
			return false, nil
		default:
			return err == nil, err
		}
	}
}

// unlock gives back what flock locked.
func unlock(f *os.File) { _ = unix.Flock(int(f.Fd()), unix.LOCK_UN) } // closing the file does it too

// writeFile puts text under a name at once, by way of a temporary file in tmp.
func writeFile(tmp, path string, text []byte) error {
	f, err := os.CreateTemp(tmp, "file-")
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		os.Remove(f.Name())
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		os.Remove(f.Name())
		return err
	}
	return nil
}

// removeDir removes a directory so that it is gone at once, and then its files.
func removeDir(tmp, dir string) error {
	away := filepath.Join(tmp, "gone-"+randomName())
	if err := os.Rename(dir, away); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	}
	return os.RemoveAll(away)
}
