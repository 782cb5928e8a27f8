package loopback

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync/atomic"
	"time"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/memlimit"
	"github.com/tensorfs/tensorfs/internal/mounts"
	"github.com/tensorfs/tensorfs/internal/nfsstate"
)

// Options say what is mounted.
type Options struct {
	// State is the server's address. Start fills in its PID and Mountpoint.
	State nfsstate.State
	// Logger is the one of the server.
	Logger *slog.Logger
	// Status returns the server's status, to be marshalled to JSON.
	Status func() any
	// Resume goes on for the mount of a server that is gone, whose port, token and key
	// are in State.
	Resume bool
	// MakeMountpoint makes the last directory of the mount point if it is missing.
	MakeMountpoint bool
	// NonEmpty allows a mount point that has something in it.
	NonEmpty bool
	// Mount mounts at a path, with a program of the system. The source of the mount is
	// nfsstate.Source of the token.
	Mount func(path string) error
	// Clients returns how many connections the server has.
	Clients func() int
	// Unmounted is closed when a client reports that it has unmounted. Any client may,
	// hence it is only a reason to check. May be nil.
	Unmounted <-chan struct{}
}

// Mount is a tree that is served, and mounted unless it has no mount point.
type Mount struct {
	o      Options
	path   string // "" where nothing is mounted
	made   string // identity of the directory there if it was made
	socket net.Listener
	looks  chan struct{}
	ended  atomic.Bool // the user has asked to unmount
	done   chan struct{}
}

// Start mounts what the caller serves already. If the mount point is "", nothing is
// mounted: programs connect on their own, and it ends when it is told to unmount. As with
// FUSE, the mount of a server that is gone is removed first, and a missing directory is
// made.
func Start(mountpoint string, o Options) (m *Mount, err error) {
	m = &Mount{o: o, looks: make(chan struct{}, 1), done: make(chan struct{})}
	switch {
	case o.Resume || mountpoint == "":
		m.path = mountpoint
		err = m.open()
	default:
		err = m.mount(mountpoint)
	}
	if err != nil {
		return nil, err
	}
	memlimit.Follow()
	go m.watch()
	return m, nil
}

// Abandoned returns the state of the server of the mount at a path if the server is gone,
// nil otherwise.
func Abandoned(mountpoint string) *nfsstate.State {
	m, err := mounts.At(mountpoint)
	if err != nil || m == nil || m.Token == "" {
		return nil
	}
	if s := nfsstate.Of(m.Token); s != nil && s.Mountpoint == m.Mountpoint && s.Gone() {
		return s
	}
	return nil
}

// mount mounts at a path that has no mount of a server that is there.
func (m *Mount) mount(mountpoint string) error {
	point, err := mounts.Take(mountpoint, m.o.MakeMountpoint, m.o.NonEmpty)
	if err != nil {
		return err
	}
	defer point.Close()
	if point.Cleaned {
		m.o.Logger.Info("removed the mount of a server that is gone", "mountpoint", mountpoint)
	}
	m.path, m.made = point.Path, point.Made
	if err := m.open(); err != nil {
		point.Remove()
		return err
	}
	err = m.o.Mount(m.path)
	if err == nil && !mounts.HasToken(m.o.State.Token) {
		err = errors.New("the mount table does not have what was mounted")
	}
	if err != nil {
		err = errors.Join(err, m.unmount(true)) // it may have been mounted late, and is not wanted any more
		m.close()
		point.Remove()
		return fmt.Errorf("%s: %w", tensorfs.Printable(mountpoint), err)
	}
	return nil
}

// open records the server's address before its mount can be found.
func (m *Mount) open() (err error) {
	state := &m.o.State
	state.PID, state.Mountpoint = os.Getpid(), m.path
	if m.socket, err = state.Listen(); err != nil {
		return err
	}
	if err = state.Write(); err != nil {
		m.close()
		return fmt.Errorf("the server's state cannot be written: %w", err)
	}
	go nfsstate.Answer(m.socket, func() any { // who asks may have just unmounted
		m.look()
		return m.o.Status()
	})
	return nil
}

func (m *Mount) close() {
	m.socket.Close()
	m.o.State.Remove()
}

const (
	// tableTime is how often the table of mounts is read: unmounting need not notify the
	// server.
	tableTime = 2 * time.Second
	// goneTime is the same once the mount is gone, but not the last client.
	goneTime = 200 * time.Millisecond
)

// watch waits until the mount and its last client are gone. It only reads the table of
// mounts: this process must not touch its own mount.
func (m *Mount) watch() {
	unmounted, said, missed := m.o.Unmounted, false, 0
	for wait, over := tableTime, false; !over; {
		select {
		case <-time.After(wait):
		case <-unmounted:
			unmounted = nil
		case <-m.looks:
		}
		if err := m.o.State.Keep(time.Now()); err != nil && !said {
			said = true
			m.o.Logger.Warn("the server's state cannot be kept: tensorfs status may not find this mount", "error", err)
		}
		if wait, missed = tableTime, missed+1; m.here() {
			missed = 0
			continue
		}
		// Files that are open while a mount is detached still need the server. Without them
		// the kernel keeps no connection. A table that was read while it changed may lack a
		// mount that exists: unless a client reported that the mount is gone, look again.
		sure := missed > 1 || unmounted == nil || m.ended.Load()
		wait, over = goneTime, m.path == "" || sure && m.o.Clients() == 0
	}
	m.close()
	if m.path != "" {
		mounts.Leave(m.path, m.made)
	}
	close(m.done)
}

// look makes watch look at the table of mounts.
func (m *Mount) look() {
	select {
	case m.looks <- struct{}{}:
	default:
	}
}

// here reports whether the mount is there. Where nothing is mounted, it is there until
// Unmount.
func (m *Mount) here() bool {
	if m.path == "" {
		return !m.ended.Load()
	}
	return mounts.HasToken(m.o.State.Token)
}

// Wait returns when the mount and its last user are gone.
func (m *Mount) Wait() { <-m.done }

// Done is closed when Wait would return.
func (m *Mount) Done() <-chan struct{} { return m.done }

// Logger returns Options.Logger.
func (m *Mount) Logger() *slog.Logger { return m.o.Logger }

// Unmount unmounts. It fails with an error that wraps syscall.EBUSY while the mount is in
// use; the server then goes on. It does not wait: see Wait.
func (m *Mount) Unmount() error { return m.unmount(false) }

// UnmountLazy takes the mount out of the tree of files at once, in use or not.
func (m *Mount) UnmountLazy() error { return m.unmount(true) }

func (m *Mount) unmount(lazy bool) error {
	defer m.look()
	m.ended.Store(true)
	if m.path == "" {
		return nil
	}
	top, err := mounts.Top(m.path)
	if err != nil || top == nil || top.Token != m.o.State.Token {
		return nil // another mount may be there by now
	}
	return top.Unmount(lazy)
}
