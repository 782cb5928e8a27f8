package main

import (
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// ignoreHangups lets a server in the background outlive terminals and pipes; it
// has none of its own. A write to a pipe without a reader is then an error instead
// of ending the process, which would leave a dead mount.
func ignoreHangups() { signal.Ignore(syscall.SIGHUP, syscall.SIGPIPE) }

// catchSignals takes the signals that unmount, from before the mount is made
// until the process ends. One that is caught before the mount is ready waits in
// the channel.
func catchSignals(daemon bool) <-chan os.Signal {
	c := make(chan os.Signal, 8)
	signal.Notify(c, os.Interrupt, syscall.SIGTERM)
	if daemon {
		return c
	}
	signal.Notify(c, syscall.SIGPIPE)
	if !signal.Ignored(syscall.SIGHUP) { // nohup
		signal.Notify(c, syscall.SIGHUP)
	}
	return c
}

// unmountAgain is how long a server waits before it tries again to unmount a
// mount that was in use.
const unmountAgain = time.Second

// detaches holds the signals that detach a mount in use when sent a second time.
// The others may come many times for one reason.
var detaches = map[os.Signal]bool{os.Interrupt: true, syscall.SIGTERM: true}

// handleSignals unmounts at the first signal, as soon as nobody uses the mount,
// and detaches it at the next.
func handleSignals(signals <-chan os.Signal, server served, logger *slog.Logger) {
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
		again = time.After(unmountAgain)
		if err := unmount(); err != nil && err.Error() != said {
			said = err.Error()
			logger.Error("cannot unmount yet; trying again every second, and the next signal detaches the mount", "err", err)
		}
	}
}
