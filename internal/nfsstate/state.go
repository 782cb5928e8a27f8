package nfsstate

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
	"sync"
	"time"

	"github.com/tensorfs/tensorfs"
)

// State is the address of a mount's NFS server. It is kept in a file that only the server's
// user can read, because the token and the key grant access.
type State struct {
	PID        int    `json:"pid"`
	Mountpoint string `json:"mountpoint"` // "" where nothing is mounted
	Model      string `json:"model"`
	Port       int    `json:"port"`
	Token      string `json:"token"` // in the source of the mount: 32 hexadecimal digits
	Key        []byte `json:"key"`   // signs the handles that clients keep: 32 bytes
	Facts      string `json:"facts"` // a digest of what the tree follows from; "" equals no other

	dir string // of the file and of the socket
}

// program names the directories of the states.
const program = "tensorfs"

const (
	stateSuffix  = ".json"
	socketSuffix = ".sock"
	// maxState is how large an answer or a file may be.
	maxState = 1 << 20
)

func (s *State) file(suffix string) string { return filepath.Join(s.dir, strconv.Itoa(s.Port)+suffix) }

// stateDirs are the directories that may have states, the best one first: the directory
// of the user's session, or directories of this user among the temporary files.
func stateDirs() []string {
	var dirs []string
	if dir, err := RuntimeDir(); err == nil && dir != "" {
		dirs = append(dirs, filepath.Join(dir, program))
	}
	own := fmt.Sprintf("%s-%d", program, os.Geteuid())
	return slices.Compact(append(dirs, filepath.Join(os.TempDir(), own), filepath.Join("/tmp", own)))
}

// Listen chooses the directory of the state and of its socket, and listens at the socket.
// Write, Keep and Remove work in that directory.
func (s *State) Listen() (net.Listener, error) {
	var errs []error
	for _, dir := range stateDirs() {
		err := os.Mkdir(dir, 0o700)
		if err == nil || errors.Is(err, os.ErrExist) {
			err = Own(dir, private)
		}
		if err != nil {
			errs = append(errs, tensorfs.PathError(dir, err))
			continue
		}
		s.dir = dir
		// This server has the port, so a socket of that name is left over.
		_ = os.Remove(s.file(socketSuffix))
		l, err := net.ListenUnix("unix", &net.UnixAddr{Name: s.file(socketSuffix), Net: "unix"})
		if err == nil {
			return Patient(l), nil
		}
		errs = append(errs, err) // a path may be too long for a socket
	}
	return nil, fmt.Errorf("there is no place for the server's state: %w; set XDG_RUNTIME_DIR to a directory of your own", errors.Join(errs...))
}

// Write writes the file, whole or not at all.
func (s *State) Write() error {
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

// stateFresh is how old a file may get. Some systems remove temporary files that were not
// touched for three days.
const stateFresh = 12 * time.Hour

// Keep writes the file again if it is gone or about to be removed by the system.
func (s *State) Keep(now time.Time) error {
	st, err := os.Lstat(s.file(stateSuffix))
	if err == nil && now.Sub(st.ModTime()) < stateFresh {
		return nil
	}
	_ = os.Chtimes(s.file(socketSuffix), now, now) // it may be gone; the server can then not be asked
	return s.Write()
}

// Remove removes the file and the socket, unless they belong to another server that has
// the port by now.
func (s *State) Remove() {
	if now, err := readState(s.dir, filepath.Base(s.file(stateSuffix))); err == nil && now.Token != s.Token {
		return
	}
	_ = os.Remove(s.file(stateSuffix))
	_ = os.Remove(s.file(socketSuffix))
}

// stateName matches the names of states. The directory may also have mount points, which
// are not touched.
var stateName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[1-9][0-9]{0,4}\.json$`) })

// All reads the states of all servers of this user.
func All() (all []*State) {
	for _, dir := range stateDirs() {
		if Own(dir, private) != nil {
			continue
		}
		entries, err := os.ReadDir(dir)
		if err != nil {
			continue
		}
		for _, e := range entries {
			if !stateName().MatchString(e.Name()) || !e.Type().IsRegular() {
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

// parseState reads the text of a state. Its port must be the one in the name of the file.
func parseState(dir, name string, text []byte) (*State, error) {
	s := &State{}
	if err := json.Unmarshal(text, s); err != nil {
		return nil, err
	}
	if s.dir = dir; !IsToken(s.Token) || len(s.Key) != KeyBytes || name != strconv.Itoa(s.Port)+stateSuffix || s.Port < 1 || s.Port > 1<<16-1 {
		return nil, errors.New("not a state")
	}
	return s, nil
}

// Of returns the state with a token, nil without one.
func Of(token string) *State {
	for _, s := range All() {
		if s.Token == token {
			return s
		}
	}
	return nil
}

// IsToken reports whether a text looks like the token of a server.
func IsToken(s string) bool {
	return len(s) == tokenDigits && strings.Trim(s, "0123456789abcdef") == ""
}

// tokenDigits is how many hexadecimal digits a token has: 128 bits.
const tokenDigits = 32

// KeyBytes is the length of a key.
const KeyBytes = 32

// Source returns the source of a server's mount, as the table of mounts shows it.
func Source(token string) string { return sourceHost + token }

const sourceHost = "127.0.0.1:/"

// TokenIn returns the token in the source of a mount that looks like one of a server's,
// else "". The path of a directory follows the token where mount --bind shows a part of
// the mount elsewhere. FUSE mounts are left out: their source is any text of their user.
func TokenIn(fsType, source string) string {
	token, ok := strings.CutPrefix(source, sourceHost)
	token, _, _ = strings.Cut(token, "/")
	if !ok || strings.HasPrefix(fsType, "fuse") || !IsToken(token) {
		return ""
	}
	return token
}
