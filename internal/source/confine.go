package source

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"sync/atomic"

	"github.com/tensorfs/tensorfs"
)

// confinement is the directory that Confine opened. It stays open, so that it is the
// same directory whatever comes to its path.
var confinement atomic.Pointer[os.File]

// Confine makes this process read models only below a directory: no file or directory
// outside of it is used, whatever path, link or name of a store leads there. It is checked
// by the handle of each file that is opened, and holds until the process ends. Files of the
// own cache, and settings such as tokens, are not files of models.
func Confine(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return tensorfs.PathError(dir, err)
	}
	st, err := f.Stat()
	if err == nil && !st.IsDir() {
		err = &tensorfs.FormatError{File: dir, Offset: -1, Problem: "it is not a directory"}
	}
	if err == nil {
		_, err = placeOf(f)
	}
	if err != nil {
		f.Close()
		return err
	}
	confinement.Store(f)
	return nil
}

// Confined reports whether Confine was called. Stores of this machine are not asked for
// models then.
func Confined() bool { return confinement.Load() != nil }

// CheckConfined returns an error, and closes f, if f is outside of the directory of Confine.
func CheckConfined(f *os.File, path string) error {
	root := confinement.Load()
	if root == nil {
		return nil
	}
	within, err := placeOf(root)
	var at string
	if err == nil {
		at, err = placeOf(f)
	}
	if err == nil && (at == within || strings.HasPrefix(at, strings.TrimSuffix(within, "/")+"/")) {
		return nil
	}
	f.Close()
	if err != nil {
		return fmt.Errorf("%s: %w", tensorfs.Printable(path), err)
	}
	return &tensorfs.FormatError{File: path, Offset: -1, Kind: ErrLink,
		Problem: fmt.Sprintf("it leads out of %s, and this server reads nothing else", tensorfs.Printable(within)),
		Advice:  "put the file itself there"}
}

// placeOf returns the path at which the kernel has an open file now.
func placeOf(f *os.File) (string, error) {
	at, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", f.Fd()))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", errors.New("where an open file is cannot be told without /proc; mount it")
	case err != nil:
		return "", err
	case !strings.HasPrefix(at, "/"): // in no directory of this process
		return "", &tensorfs.FormatError{File: f.Name(), Offset: -1, Problem: "it is in no directory"}
	}
	return at, nil
}
