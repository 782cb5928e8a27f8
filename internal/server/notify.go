package server

import (
	"errors"
	"fmt"
	"io"
	iofs "io/fs"
	"os"
	"syscall"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/cli"
	"github.com/tensorfs/tensorfs/internal/web"
)

// notifyReady tells systemd, for a unit with Type=notify, that the mount can be used.
// Without systemd it does nothing. See sd_notify(3).
func notifyReady() error { return notify("READY=1") }

// NotifyFailed reports why there is no mount: the line that is printed, and the kind of the
// error.
func NotifyFailed(err error) error {
	text := "STATUS=" + cli.ErrorLine(err, os.Args[1:])
	if no := errnoOf(err); no != 0 {
		text += fmt.Sprintf("\nERRNO=%d", int(no))
	}
	return notify(text)
}

// errnos are the kinds of errors that the parent of a server tells apart. The first match
// counts.
var errnos = []struct {
	kind error
	no   syscall.Errno
}{
	{tensorfs.ErrFormat, syscall.EBADMSG},
	{tensorfs.ErrUnsupported, syscall.ENOTSUP},
	{tensorfs.ErrChanged, syscall.ESTALE},
	{iofs.ErrNotExist, syscall.ENOENT},
	{iofs.ErrPermission, syscall.EACCES},
}

// errnoOf returns the kind of an error as a number, 0 if unspecified.
func errnoOf(err error) syscall.Errno {
	for _, e := range errnos {
		if errors.Is(err, e.kind) {
			return e.no
		}
	}
	if web.Unanswered(err) {
		return syscall.EAGAIN
	}
	no, _ := errors.AsType[syscall.Errno](err)
	return no
}

// isJournal reports whether systemd connected a writer to its journal. See
// systemd.exec(5), JOURNAL_STREAM.
func isJournal(w io.Writer) bool {
	f, ok := cli.File(w)
	if !ok {
		return false
	}
	st, err := f.Stat()
	if err != nil {
		return false
	}
	id, ok := st.Sys().(*syscall.Stat_t)
	return ok && os.Getenv("JOURNAL_STREAM") == fmt.Sprintf("%d:%d", id.Dev, id.Ino)
}
