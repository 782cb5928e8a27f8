package tensorfs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestPathError holds that errors of the system become one line with advice, and
// stay themselves for errors.Is.
func TestPathError(t *testing.T) {
	dir := t.TempDir()
	_, missing := os.Stat(filepath.Join(dir, "x"))
	for _, c := range []struct {
		err  error
		is   error
		want string
	}{
		{missing, fs.ErrNotExist, "a\\nb\": no such file or directory; check the path"},
		{syscall.EACCES, fs.ErrPermission, "no permission to read it; change its mode or run as its owner"},
		{&fs.PathError{Op: "open", Path: "x", Err: syscall.ELOOP}, syscall.ELOOP, "its symbolic links form a loop; name the file itself"},
		{fmt.Errorf("x: %w", syscall.ENOTDIR), syscall.ENOTDIR, "is not a directory; check the path"},
		{syscall.EMFILE, syscall.EMFILE, "too many files are open; raise the limit with 'ulimit -n'"},
		{&fs.PathError{Op: "open", Path: "x", Err: syscall.EIO}, syscall.EIO, "it cannot be opened: input/output error; check the path"},
		{errors.New("odd"), nil, "it cannot be opened: odd; check the path"},
	} {
		err := PathError("a\nb", c.err)
		if s := err.Error(); !strings.HasPrefix(s, `"a\nb": `) || !strings.HasSuffix(s, c.want) || strings.Contains(s, "\n") {
			t.Errorf("%q does not say %q", s, c.want)
		}
		if c.is == nil {
			c.is = c.err
		}
		if !errors.Is(err, c.is) {
			t.Errorf("%v is not %v", err, c.is)
		}
	}
	for mode, want := range map[fs.FileMode]string{fs.ModeDir: "a directory", fs.ModeNamedPipe: "a FIFO", fs.ModeSocket: "a socket", fs.ModeDevice: "a device", fs.ModeDevice | fs.ModeCharDevice: "a device"} {
		if s := NotRegular("x", mode).Error(); s != "x: it is "+want+", not a regular file; name a model file" {
			t.Errorf("%v: %s", mode, s)
		}
	}
}
