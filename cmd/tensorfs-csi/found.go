package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/tensorfs/tensorfs/internal/keep"
	"github.com/tensorfs/tensorfs/internal/mounts"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// current returns the server of a key that runs or starts, or nil, and
// whether an earlier one left its mount. The lock of the key is held.
func (f *fleet) current(key string, a attributes) (s *server, follows bool, err error) {
	s = f.running(key)
	if s != nil && s.isReady() {
		if _, orphan, err := f.statusOrOrphan(key); orphan || errors.Is(err, unix.ENOTCONN) { // it was killed a moment ago
			select {
			case <-s.ended:
			case <-time.After(stopTime):
				_ = unix.Kill(s.pid, unix.SIGKILL) // it may be gone by now
				<-s.ended
			}
		}
	}
	if s != nil && !s.isGone() {
		return s, false, nil
	}
	return f.findRunning(key, a)
}

// findRunning is current for a server that an earlier driver started.
func (f *fleet) findRunning(key string, a attributes) (s *server, follows bool, err error) {
	m, err := top(f.dir.mount(key))
	if err != nil {
		return nil, false, err
	}
	if m == nil {
		return nil, false, f.endStrays(key)
	}
	if !m.Ours() {
		return nil, false, status.Errorf(codes.FailedPrecondition, "%s: something else is mounted there (%s)", m.Mountpoint, m.Type)
	}
	st, orphan, err := f.statusOrOrphan(key)
	switch {
	case orphan:
		return nil, true, nil // the next server takes it over
	case err == nil:
		s, err = f.adopt(key, a, st.PID)
		return s, false, err
	case errors.Is(err, mounts.ErrHung):
		return nil, false, status.Errorf(codes.Unavailable, "the server of %s does not answer", a.public())
	}
	return nil, true, nil // the next server removes what is left
}

// endStrays ends processes that an earlier driver started and that have not mounted yet.
func (f *fleet) endStrays(key string) error {
	names, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		return err
	}
	for _, name := range names {
		words := commandLine(name)
		if !slices.Contains(words, f.dir.mount(key)) || !slices.Contains(words, "mount") { // it may be gone
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(name)))
		if st, serr := os.Stat(filepath.Dir(name)); err != nil || serr != nil || st.Sys().(*syscall.Stat_t).Uid != 0 || pid == os.Getpid() {
			continue
		}
		f.log.Info("ending a server that an earlier driver started", "key", key, "pid", pid)
		process, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			continue
		}
		if err := unix.PidfdSendSignal(process, unix.SIGKILL, nil, 0); err == nil {
			untilGone(process)
		}
		unix.Close(process)
	}
	return detach(f.dir.mount(key)) // it may have been faster
}

// commandLine returns the words of a process's command line, nil if it has none. While a
// server begins, it executes itself again, and for that moment it has none either.
func commandLine(name string) []string {
	for range 100 {
		line, err := os.ReadFile(name)
		if err != nil {
			return nil
		}
		if len(line) > 0 {
			return strings.Split(string(line), "\x00")
		}
		if _, err := os.Readlink(filepath.Join(filepath.Dir(name), "exe")); err != nil { // a thread of the kernel, or over
			return nil
		}
		time.Sleep(time.Millisecond)
	}
	return nil
}

// untilGone waits for the end of a process.
func untilGone(process int) {
	for {
		if _, err := unix.Poll([]unix.PollFd{{Fd: int32(process), Events: unix.POLLIN}}, -1); !errors.Is(err, unix.EINTR) {
			return
		}
	}
}

// isOrphan reports whether the keeper has a mount without a server. Accessing such a mount
// blocks.
func (f *fleet) isOrphan(key string) bool {
	if f.keeper == "" {
		return false
	}
	kept, err := keep.List(f.keeper)
	return err == nil && slices.ContainsFunc(kept, func(k keep.Kept) bool { return k.Key == f.dir.mount(key) && !k.Served })
}

// adopt takes over a process that serves a key.
func (f *fleet) adopt(key string, a attributes, pid int) (*server, error) {
	process, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return nil, fmt.Errorf("process %d, the server of %s: %w", pid, a.public(), err)
	}
	s := f.newServer(key, a, secrets{})
	s.pid, s.keeps = pid, f.keeper != ""
	close(s.ready)
	f.add(s)
	f.log.Info("found a server", "key", key, "model", a.public(), "pid", pid)
	go f.readLog(s)
	go func() {
		defer unix.Close(process)
		untilGone(process)
		f.hasEnded(s)
	}()
	return s, nil
}
