package fs

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/tensorfs/tensorfs"
)

// LoopbackOptions say what a Loopback stands for.
type LoopbackOptions struct {
	// FsName is the path of the model.
	FsName string
	// Logger and Health are those of the server.
	Logger *slog.Logger
	Health func() Health
	// Warm, MakeMountpoint and NonEmpty are as in Options.
	Warm           func() WarmStatus
	MakeMountpoint bool
	NonEmpty       bool
	// Port, Token and Key are those of the server, see State.
	Port  int
	Token string
	Key   []byte
	// Facts are what the tree follows from. Servers with the same facts have the same
	// tree, and one may go on where the other was killed.
	Facts string
	// Mount mounts at a path, with a program of the system. The source of the mount is
	// LoopbackSource(Token).
	Mount func(path string) error
	// Clients returns how many connections there are.
	Clients func() int
	// Unmounted is closed when a client says that it has unmounted. Anybody may say so,
	// hence it is no more than a reason to look; nil is never.
	Unmounted <-chan struct{}
}

// Loopback is a tree that this process serves on an address of this machine, for a
// client of another protocol than FUSE that the system has. The caller serves; a
// Loopback mounts, is found by [Mounts], and knows when the mount is gone.
type Loopback struct {
	o      LoopbackOptions
	state  State
	path   string // "" where nothing is mounted
	made   string // identity of the directory there if it was made
	socket net.Listener
	looks  chan struct{}
	ended  atomic.Bool // for one that is not mounted
	done   chan struct{}
}

// Patient makes a listener fail only when it is closed: for want of a descriptor, for
// instance, it waits.
func Patient(l net.Listener) net.Listener { return patient{l} }

type patient struct{ net.Listener }

// Accept returns the next connection.
func (l patient) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err == nil || errors.Is(err, net.ErrClosed) {
			return c, err
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// LoopbackSource is the source of a mount in the mount table.
func LoopbackSource(token string) string { return loopbackHost + token }

const loopbackHost = "127.0.0.1:/"

// MountLoopback mounts what the caller serves already. As with [Mount], the mount of a
// server that is gone is removed first, and a missing directory is made.
func MountLoopback(mountpoint string, o LoopbackOptions) (*Loopback, error) {
	mountpoint, err := filepath.Abs(mountpoint)
	if err != nil {
		return nil, err
	}
	cleaned, err := cleanStale(mountpoint)
	if err != nil {
		return nil, err
	}
	l := newLoopback(o)
	if cleaned {
		l.o.Logger.Info("removed the mount of a server that is gone", "mountpoint", mountpoint)
	}
	place, err := takePlace(mountpoint, o.MakeMountpoint, o.NonEmpty)
	if err != nil {
		return nil, err
	}
	defer place.close()
	l.path, l.made = place.path, place.made
	if err := l.open(); err != nil {
		place.remove()
		return nil, err
	}
	err = o.Mount(l.path)
	if err == nil && !l.here() {
		err = errors.New("the mount table does not have what was mounted")
	}
	if err != nil {
		if m := l.mount(); m != nil { // it was late, and is not wanted any more
			err = errors.Join(err, m.unmount(true))
		}
		l.close()
		place.remove()
		return nil, fmt.Errorf("%s: %w", tensorfs.Printable(mountpoint), err)
	}
	l.start()
	return l, nil
}

// ResumeLoopback goes on for the mount of a server that is gone, whose port, token and
// key the caller has taken over.
func ResumeLoopback(old *State, o LoopbackOptions) (*Loopback, error) {
	l := newLoopback(o)
	l.path = old.Mountpoint
	if err := l.open(); err != nil {
		return nil, err
	}
	l.start()
	return l, nil
}

// OpenLoopback mounts nothing: programs connect by themselves. It ends when it is told to
// unmount.
func OpenLoopback(o LoopbackOptions) (*Loopback, error) {
	l := newLoopback(o)
	if err := l.open(); err != nil {
		return nil, err
	}
	l.start()
	return l, nil
}

// Abandoned returns the state of the server of the mount at a path if it is gone, nil
// otherwise.
func Abandoned(mountpoint string) *State {
	m, err := MountAt(mountpoint)
	if err != nil || m == nil || m.token == "" {
		return nil
	}
	if s := stateOf(m.token); s != nil && s.Mountpoint == m.Mountpoint && s.gone() {
		return s
	}
	return nil
}

func newLoopback(o LoopbackOptions) *Loopback {
	return &Loopback{o: o, looks: make(chan struct{}, 1), done: make(chan struct{})}
}

// open says where the server is, before anybody can find its mount.
func (l *Loopback) open() error {
	l.state = State{
		PID: os.Getpid(), Mountpoint: l.path, Model: l.o.FsName,
		Port: l.o.Port, Token: l.o.Token, Key: l.o.Key, Facts: l.o.Facts,
	}
	var err error
	if l.socket, err = l.state.open(); err != nil {
		return err
	}
	if err = l.state.write(); err != nil {
		l.close()
		return fmt.Errorf("the server's state cannot be written: %w", err)
	}
	go l.answer()
	return nil
}

func (l *Loopback) close() {
	l.socket.Close()
	l.state.remove()
}

func (l *Loopback) start() {
	boundMemory()
	go l.watch()
}

// status is what the server says about itself.
func (l *Loopback) status() Status {
	s := Status{PID: os.Getpid(), Health: l.o.Health()}
	if l.o.Warm != nil {
		warm := l.o.Warm()
		s.Warm = &warm
	}
	return s
}

const (
	// tableTime is how often the mount table is read. Nobody has to say that he
	// unmounts.
	tableTime = 2 * time.Second
	// goneTime is the same once the mount is gone, but not the last client.
	goneTime = 200 * time.Millisecond
)

// watch waits until the mount and its last client are gone. It reads the mount table
// alone: this process must not touch its own mount.
func (l *Loopback) watch() {
	unmounted, said, missed := l.o.Unmounted, false, 0
	for wait, over := tableTime, false; !over; {
		select {
		case <-time.After(wait):
		case <-unmounted:
			unmounted = nil
		case <-l.looks:
		}
		if err := l.state.keep(time.Now()); err != nil && !said {
			said = true
			l.o.Logger.Warn("the server's state cannot be kept: tensorfs status may not find this mount", "error", err)
		}
		if wait, missed = tableTime, missed+1; l.here() {
			missed = 0
			continue
		}
		// Files that are open while a mount is detached still need the server. The
		// kernel has no connection without them. A table that was read while it changed
		// may lack a mount that is there: nobody said that it is gone, so look again.
		sure := missed > 1 || unmounted == nil || l.ended.Load()
		wait, over = goneTime, l.path == "" || sure && l.o.Clients() == 0
	}
	l.close()
	if l.path != "" {
		leavePlace(l.path, l.made)
	}
	close(l.done)
}

// look makes watch look at the mount table.
func (l *Loopback) look() {
	select {
	case l.looks <- struct{}{}:
	default:
	}
}

// here reports whether the mount is there, at its place or at another. A table that
// cannot be read does not say that it is gone.
func (l *Loopback) here() bool {
	if l.path == "" {
		return !l.ended.Load()
	}
	all, err := namedMounts()
	if err != nil {
		return true
	}
	for i := range all {
		if all[i].token == l.o.Token {
			return true
		}
	}
	return false
}

// mount returns the mount at its place, nil where it is not there.
func (l *Loopback) mount() *MountInfo {
	m, err := mountedAt(l.path)
	if err != nil || m == nil || m.token != l.o.Token {
		return nil
	}
	return m
}

// Wait returns when the mount and its last user are gone.
func (l *Loopback) Wait() { <-l.done }

// Done is closed when Wait would return.
func (l *Loopback) Done() <-chan struct{} { return l.done }

// Logger returns the logger whose warnings and errors are part of the Health.
func (l *Loopback) Logger() *slog.Logger { return l.o.Logger }

// Unmount unmounts, see [Server.Unmount].
func (l *Loopback) Unmount() error { return l.unmount(false) }

// UnmountLazy takes the mount out of the tree of files, see [Server.UnmountLazy].
func (l *Loopback) UnmountLazy() error { return l.unmount(true) }

func (l *Loopback) unmount(lazy bool) error {
	defer l.look()
	l.ended.Store(true)
	if l.path == "" {
		return nil
	}
	m := l.mount()
	if m == nil {
		return nil
	}
	return m.unmount(lazy)
}
