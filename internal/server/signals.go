package server

import (
	"errors"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// ignoreHangups lets a server in the background outlive terminals; it has none of its
// own.
func ignoreHangups() { signal.Ignore(syscall.SIGHUP) }

// caught receives the signals that unmount. It has room for signals that come before the
// mount is ready.
type caught chan os.Signal

// newCaught catches nothing yet.
func newCaught() caught { return make(caught, 8) }

// catch takes the signals that unmount, from before the mount is made until the process
// ends.
//
// SIGPIPE ends no server: the system sends it for every connection that the other side
// resets, and any client can reset one. messagesTo notices when the reader of the messages
// of a server in the foreground is gone.
func (c caught) catch(daemon bool) {
	signal.Ignore(syscall.SIGPIPE)
	signal.Notify(c, os.Interrupt, syscall.SIGTERM)
	if !daemon && !signal.Ignored(syscall.SIGHUP) { // nohup
		signal.Notify(c, syscall.SIGHUP)
	}
}

// messagesTo returns a writer for the messages of a server in the foreground. If their
// reader is gone, because a terminal or a pipe was closed, that counts as a signal. The
// journal of systemd may stop and come back.
func (c caught) messagesTo(w io.Writer) io.Writer {
	if isJournal(w) {
		return w
	}
	return outlet{w, c}
}

type outlet struct {
	io.Writer
	gone caught
}

// Write writes, and notices that the reader is gone.
func (o outlet) Write(p []byte) (int, error) {
	n, err := o.Writer.Write(p)
	if errors.Is(err, syscall.EPIPE) {
		select {
		case o.gone <- syscall.SIGPIPE:
		default: // others wait already
		}
	}
	return n, err
}

// UnmountAgain is how long a server waits before it tries again to unmount a
// mount that was in use.
const UnmountAgain = time.Second

// detaches holds the signals that detach a mount in use when sent a second time. Other
// signals may come many times for one reason.
var detaches = map[os.Signal]bool{os.Interrupt: true, syscall.SIGTERM: true}

// handleSignals unmounts at the first signal, once the mount is not in use, and detaches it
// at the next.
func handleSignals(signals <-chan os.Signal, server Served, logger *slog.Logger) {
	var again <-chan time.Time // nil, which never fires, before the first signal
	said := ""
	for {
		unmount := server.Unmount
		select {
		case <-server.Done():
			return
		case sig := <-signals:
			if again != nil && detaches[sig] {
				unmount = server.UnmountLazy
			}
		case <-again:
		}
		again = time.After(UnmountAgain)
		if err := unmount(); err != nil && err.Error() != said {
			said = err.Error()
			logger.Error("cannot unmount yet; trying again every second, and the next signal detaches the mount", "err", err)
		}
	}
}
