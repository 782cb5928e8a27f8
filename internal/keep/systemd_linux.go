package keep

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Systemd keeps descriptors with the manager of services. It gives a service back what that service stored,
// so there is a single mount for each.
type Systemd struct {
	socket string
	fds    map[string]int // that this process was started with
	known  []string       // names that the manager has
}

// firstListen is the first descriptor that a service is given. See sd_listen_fds(3).
const firstListen = 3

// maxListen bounds what is looked at.
const maxListen = 64

// NewSystemd takes what this process was started with. It does so once: the variables that say it are
// removed, and programs that this process starts get none of the descriptors.
func NewSystemd() (*Systemd, error) {
	s := &Systemd{socket: os.Getenv("NOTIFY_SOCKET"), fds: map[string]int{}}
	if s.socket == "" {
		return nil, errors.New("there is no NOTIFY_SOCKET: systemd sets it for a service with Type=notify, which takes FileDescriptorStoreMax= besides")
	}
	to, err := dialManager(s.socket)
	if err != nil {
		return nil, fmt.Errorf("NOTIFY_SOCKET=%s: %w", s.socket, err)
	}
	unix.Close(to) // Tell looks again each time
	pid, count, names := os.Getenv("LISTEN_PID"), os.Getenv("LISTEN_FDS"), strings.Split(os.Getenv("LISTEN_FDNAMES"), ":")
	for _, name := range []string{"LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"} {
		if err := os.Unsetenv(name); err != nil {
			return nil, err
		}
	}
	if pid != strconv.Itoa(os.Getpid()) { // for a parent of this process, or stale
		return s, nil
	}
	n, err := strconv.Atoi(count)
	if err != nil || n < 0 || n > maxListen {
		return nil, fmt.Errorf("LISTEN_FDS=%s: not a number of descriptors", count)
	}
	for i := range n {
		fd := firstListen + i
		unix.CloseOnExec(fd)
		name := ""
		if i < len(names) {
			name = names[i]
		}
		if _, twice := s.fds[name]; twice || name == "" {
			unix.Close(fd)
			continue
		}
		s.fds[name] = fd
		s.known = append(s.known, name)
	}
	return s, nil
}

// Get returns the descriptors that are kept, by their names. They are the caller's.
func (s *Systemd) Get() (map[string]int, error) {
	fds := s.fds
	s.fds = nil
	return fds, nil
}

// Put keeps a descriptor under a name, replacing an earlier one.
func (s *Systemd) Put(name string, fd int) error {
	if slices.Contains(s.known, name) { // the manager would have both
		if err := Tell(s.socket, "FDSTOREREMOVE=1\nFDNAME="+name); err != nil {
			return err
		}
	} else {
		s.known = append(s.known, name)
	}
	return Tell(s.socket, "FDSTORE=1\nFDNAME="+name, fd)
}

// Drop has the manager forget all descriptors.
func (s *Systemd) Drop() error { return s.Clear() }

// Clear has the manager forget all descriptors.
func (s *Systemd) Clear() error {
	var failed error
	for _, name := range s.known {
		failed = errors.Join(failed, Tell(s.socket, "FDSTOREREMOVE=1\nFDNAME="+name))
	}
	s.known = nil
	return failed
}
