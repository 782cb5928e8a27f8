package fs

import (
	"errors"
	"net"
	"strconv"
	"strings"
	"syscall"
)

// Backends are the ways in which a tree is mounted.
const (
	BackendFUSE = "fuse"
	BackendNFS  = "nfs"
)

// Backend returns how the tree is mounted.
func (m *MountInfo) Backend() string {
	if m.token != "" {
		return BackendNFS
	}
	return BackendFUSE
}

// loopbackToken returns the token in the source of a mount that looks like one of ours,
// else "". After it comes the path of a directory that mount --bind shows elsewhere. The source of a FUSE mount is whatever its user says.
func loopbackToken(fsType, source string) string {
	token, ok := strings.CutPrefix(source, loopbackHost)
	token, _, _ = strings.Cut(token, "/")
	if !ok || strings.HasPrefix(fsType, "fuse") || !isToken(token) {
		return ""
	}
	return token
}

// namedMounts is the mount table, where the source of a Loopback's mount is the model.
// Those of other users keep their address.
func namedMounts() ([]MountInfo, error) {
	all, err := readMounts()
	if err != nil {
		return nil, err
	}
	for i := range all {
		m := &all[i]
		if m.token = loopbackToken(m.Type, m.Source); m.token == "" {
			continue
		}
		if s := stateOf(m.token); s != nil {
			m.Source, m.port = s.Model, s.Port
		}
	}
	return all, nil
}

// askLoopback asks the server of a Loopback for its Status.
func (m *MountInfo) askLoopback() (Status, error) {
	if s := stateOf(m.token); s != nil {
		return s.ask()
	}
	if m.port != 0 && !listens(m.port) {
		return Status{}, syscall.ENOTCONN
	}
	return Status{}, syscall.EACCES // another user's, as far as one can tell
}

// listens reports whether somebody listens at a port of this machine.
func listens(port int) bool {
	c, err := net.DialTimeout("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), probeTime)
	if err == nil {
		c.Close()
	}
	return !errors.Is(err, syscall.ECONNREFUSED)
}

// loopbackServer returns the process that serves a Loopback, 0 where that is not known.
func (m *MountInfo) loopbackServer() int {
	if m.token != "" {
		if s := stateOf(m.token); s != nil {
			return s.PID
		}
	}
	return 0
}

// leaveState makes the server of a Loopback that was unmounted look, and removes the
// state of one that is gone.
func (m *MountInfo) leaveState() {
	if m.token == "" {
		return
	}
	if s := stateOf(m.token); s != nil && s.gone() {
		s.remove()
	}
}
