package mounts

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"syscall"
	"time"

	"github.com/tensorfs/tensorfs/internal/nfsstate"
	"golang.org/x/sys/unix"
)

// AttrPrefix begins the names of the extended attributes by which the root of a FUSE
// mount tells how its server is. Each of them is JSON.
const AttrPrefix = "user." + Program + "."

// Attrs are the attributes that a server may have, without AttrPrefix. Every server has
// the first one. The kernel caches none of them: an answer proves that the server is there.
var Attrs = []string{"pid", "health", "images", "taken", "counts", "warm", "library"}

// ErrHung is the error that the server of a mount exists but takes more than two seconds to
// answer: it was stopped, or waits for the disk of the model.
var ErrHung = nfsstate.ErrHung

// Ask asks the server of a mount, which may be another process, how it is, and decodes
// the answer into v: an object with a field for each of the attributes that the server
// has. An error means that the server is gone (it wraps syscall.ENOTCONN), does not
// answer in time (ErrHung), or answers only its owner (syscall.EACCES).
func (m *Mount) Ask(v any) error {
	type answer struct {
		text json.RawMessage
		err  error
	}
	answered := make(chan answer, 1)
	go func() { // if the server hangs, this goroutine remains until the server ends
		var a answer
		if m.Token != "" {
			a.err = m.askNFS(&a.text)
		} else {
			a.text, a.err = askFUSE(m.Mountpoint)
		}
		answered <- a
	}()
	err := ErrHung
	select {
	case a := <-answered:
		if err = a.err; err == nil {
			err = json.Unmarshal(a.text, v)
		}
	case <-time.After(nfsstate.AskTime):
	}
	if err != nil {
		return fmt.Errorf("%s: %w", m.Mountpoint, err)
	}
	return nil
}

// askFUSE reads the attributes of the root of a mount as one object.
func askFUSE(mountpoint string) (json.RawMessage, error) {
	var object bytes.Buffer
	value := make([]byte, 64<<10) // the largest that the kernel allows
	for i, name := range Attrs {
		n, err := unix.Getxattr(mountpoint, AttrPrefix+name, value)
		if err != nil {
			if i == 0 {
				return nil, err
			}
			continue
		}
		fmt.Fprintf(&object, ",%q:%s", name, value[:n])
	}
	text := append(object.Bytes(), '}')
	text[0] = '{'
	return text, nil
}

// askNFS asks the NFS server of a mount.
func (m *Mount) askNFS(v any) error {
	if s := nfsstate.Of(m.Token); s != nil {
		return s.Ask(v)
	}
	if m.port != 0 && !nfsstate.Listens(m.port) {
		return syscall.ENOTCONN
	}
	return syscall.EACCES // another user's, as far as one can tell
}

// nfsServer returns the process that serves an NFS mount, 0 if unknown.
func (m *Mount) nfsServer() int {
	if s := nfsstate.Of(m.Token); m.Token != "" && s != nil {
		return s.PID
	}
	return 0
}

// goneErrors are the errors of a FUSE mount whose server has ended: Linux's, and another
// one of macOS.
var goneErrors = []error{unix.ENOTCONN, unix.ENXIO}

// stale reports whether the server of a mount is gone. A server that hangs is not gone.
func (m *Mount) stale() bool {
	if m.Token != "" {
		return errors.Is(m.askNFS(new(json.RawMessage)), syscall.ENOTCONN)
	}
	gone := make(chan bool, 1)
	go func() {
		var st unix.Statfs_t // never answered from a cache
		err := unix.Statfs(m.Mountpoint, &st)
		if errors.Is(err, unix.ECONNABORTED) { // it ended while it was asked
			err = unix.Statfs(m.Mountpoint, &st)
		}
		gone <- slices.ContainsFunc(goneErrors, func(target error) bool { return errors.Is(err, target) })
	}()
	select {
	case g := <-gone:
		return g
	case <-time.After(nfsstate.AskTime):
		return false
	}
}

// cleanState removes the state of an NFS server that is gone. A server that is there
// looks whether its mount is, because it is asked.
func (m *Mount) cleanState() {
	if m.Token == "" {
		return
	}
	if s := nfsstate.Of(m.Token); s != nil && s.Gone() {
		s.Remove()
	}
}
