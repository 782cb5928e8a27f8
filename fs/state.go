package fs

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/tensorfs/tensorfs"
	"golang.org/x/sys/unix"
)

// State is what a Loopback leaves in a file that only its user can read: the mount
// table shows others no more than an address. With it a command finds the server of a
// mount, and another server can take the place of one that was killed. Beside it is a
// socket on which the server says how it is.
type State struct {
	PID        int    `json:"pid"`
	Mountpoint string `json:"mountpoint"` // "" where nothing is mounted
	Model      string `json:"model"`
	Port       int    `json:"port"`
	Token      string `json:"token"` // in the source of the mount
	Key        []byte `json:"key"`   // of the handles that clients keep
	Facts      string `json:"facts"` // what the tree follows from; "" is like no other

	dir string // where the file is
}

const (
	stateSuffix  = ".json"
	socketSuffix = ".sock"
	// maxState is how large an answer or a file may be.
	maxState = 1 << 20
)

func (s *State) file(suffix string) string { return filepath.Join(s.dir, strconv.Itoa(s.Port)+suffix) }

// stateDirs are where states are, the best place first: the directory of the user's
// session, or one of this user's alone among temporary files.
func stateDirs() []string {
	var dirs []string
	if dir := os.Getenv("XDG_RUNTIME_DIR"); filepath.IsAbs(dir) {
		dirs = append(dirs, filepath.Join(dir, subtype))
	}
	own := fmt.Sprintf("%s-%d", subtype, os.Geteuid())
	return slices.Compact(append(dirs, filepath.Join(os.TempDir(), own), filepath.Join("/tmp", own)))
}

// private checks that nobody else can change what is in a directory.
func private(dir string) error {
	var st unix.Stat_t
	if err := unix.Lstat(dir, &st); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR || int(st.Uid) != os.Geteuid() || st.Mode&0o077 != 0 {
		return errors.New("it is not a directory that is yours alone (mode 0700)")
	}
	return nil
}

// open finds a place for the state and its socket, and listens there.
func (s *State) open() (net.Listener, error) {
	var errs []error
	for _, dir := range stateDirs() {
		err := os.Mkdir(dir, 0o700)
		if err == nil || errors.Is(err, os.ErrExist) {
			err = private(dir)
		}
		if err != nil {
			errs = append(errs, tensorfs.PathError(dir, err))
			continue
		}
		s.dir = dir
		// Of this port there is no other server: what is there is left over.
		_ = os.Remove(s.file(socketSuffix))
		l, err := net.ListenUnix("unix", &net.UnixAddr{Name: s.file(socketSuffix), Net: "unix"})
		if err == nil {
			return Patient(l), nil
		}
		errs = append(errs, err) // a path may be too long for a socket
	}
	return nil, fmt.Errorf("there is no place for the server's state: %w; set XDG_RUNTIME_DIR to a directory of your own", errors.Join(errs...))
}

// write writes the file, whole or not at all.
func (s *State) write() error {
	text, err := json.Marshal(s)
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(s.dir, ".state-") // with mode 0600
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), s.file(stateSuffix))
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}

// stateFresh is how old a file may get. Some systems remove temporary files that
// nobody has touched for three days.
const stateFresh = 12 * time.Hour

// keep writes the file again where it is gone or about to be removed.
func (s *State) keep(now time.Time) error {
	st, err := os.Lstat(s.file(stateSuffix))
	if err == nil && now.Sub(st.ModTime()) < stateFresh {
		return nil
	}
	_ = os.Chtimes(s.file(socketSuffix), now, now) // it may be gone; then nobody can ask
	return s.write()
}

// remove removes the file and the socket, if they are this server's and not those of
// another one that has the port by now.
func (s *State) remove() {
	if now, err := readState(s.dir, filepath.Base(s.file(stateSuffix))); err == nil && now.Token != s.Token {
		return
	}
	_ = os.Remove(s.file(stateSuffix))
	_ = os.Remove(s.file(socketSuffix))
}

// stateName is how the files are called. A directory of mounts that have no place of
// their own is beside them, so nothing else is touched.
var stateName = regexp.MustCompile(`^[1-9][0-9]{0,4}\.json$`)

// states reads the states that servers of this user have left.
func states() (all []*State) {
	for _, dir := range stateDirs() {
		if private(dir) != nil {
			continue
		}
		entries, err := os.ReadDir(dir)
		if err != nil {
			continue
		}
		for _, e := range entries {
			if !stateName.MatchString(e.Name()) || !e.Type().IsRegular() {
				continue
			}
			if s, err := readState(dir, e.Name()); err == nil {
				all = append(all, s)
			}
		}
	}
	return all
}

func readState(dir, name string) (*State, error) {
	f, err := os.Open(filepath.Join(dir, name))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxState))
	if err != nil {
		return nil, err
	}
	return parseState(dir, name, text)
}

// parseState reads a file of a state, which must be about the port of its name.
func parseState(dir, name string, text []byte) (*State, error) {
	s := &State{}
	if err := json.Unmarshal(text, s); err != nil {
		return nil, err
	}
	if s.dir = dir; !isToken(s.Token) || len(s.Key) != keyBytes || name != strconv.Itoa(s.Port)+stateSuffix || s.Port < 1 || s.Port > 1<<16-1 {
		return nil, errors.New("not a state")
	}
	return s, nil
}

// stateOf returns the state with a token, nil without one.
func stateOf(token string) *State {
	for _, s := range states() {
		if s.Token == token {
			return s
		}
	}
	return nil
}

// isToken reports whether a text looks like the token of a server.
func isToken(s string) bool {
	return len(s) == tokenDigits && strings.Trim(s, "0123456789abcdef") == ""
}

const (
	tokenDigits = 32 // of 128 bits
	keyBytes    = 32
)

// answer tells everybody who connects how the server is.
func (l *Loopback) answer() {
	for {
		c, err := l.socket.Accept()
		if err != nil {
			return
		}
		go func() {
			defer c.Close()
			_ = c.SetDeadline(time.Now().Add(probeTime))
			_ = json.NewEncoder(c).Encode(l.status()) // who has gone needs no answer
		}()
		l.look()
	}
}

// dyingTime is how long a server that was killed may take to end.
const dyingTime = 500 * time.Millisecond

// ask asks the server for its Status. A server that is gone is ENOTCONN.
func (s *State) ask() (Status, error) {
	var status Status
	c, err := net.DialTimeout("unix", s.file(socketSuffix), probeTime)
	switch {
	case errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, os.ErrNotExist):
		// Somebody may have removed the socket of a server that serves its mount. One that
		// was killed listens until the last of its threads has ended, which is soon.
		for late := time.Now().Add(dyingTime); syscall.Kill(s.PID, 0) != syscall.ESRCH && listens(s.Port); time.Sleep(dyingTime / 10) {
			if time.Now().After(late) {
				return status, ErrHung
			}
		}
		return status, syscall.ENOTCONN
	case err != nil:
		return status, askError(err)
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(probeTime)); err != nil {
		return status, err
	}
	if err := json.NewDecoder(io.LimitReader(c, maxState)).Decode(&status); err != nil {
		return status, askError(err)
	}
	return status, nil
}

// askError words an error of a server's socket.
func askError(err error) error {
	var late net.Error
	switch {
	case errors.As(err, &late) && late.Timeout() || errors.Is(err, syscall.EAGAIN):
		return ErrHung
	case errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET): // it ended while it was asked
		return syscall.ENOTCONN
	}
	return err
}

// gone reports whether the server has ended.
func (s *State) gone() bool {
	_, err := s.ask()
	return errors.Is(err, syscall.ENOTCONN)
}

// CleanStates removes the states of servers that are gone and whose mounts are, too.
func CleanStates() error {
	left := states()
	if len(left) == 0 {
		return nil
	}
	all, err := namedMounts()
	if err != nil {
		return err
	}
	for _, s := range left {
		if !slices.ContainsFunc(all, func(m MountInfo) bool { return m.token == s.Token }) && s.gone() {
			s.remove()
		}
	}
	return nil
}
