package fs

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"sync"

	"golang.org/x/sys/unix"
)

// state is what the next server has to know of a mount.
type state struct {
	Numbering  int               `json:"numbering"`
	Identity   string            `json:"identity"`
	Mountpoint string            `json:"mountpoint"`
	Made       string            `json:"made,omitempty"`  // see Server.made
	Device     string            `json:"device"`          // in the table of mounts
	Init       []byte            `json:"init"`            // the first message of the kernel
	Answer     []byte            `json:"answer"`          // what it was told
	Taken      int               `json:"taken"`           // how often the mount was taken over
	Later      map[uint64]string `json:"later,omitempty"` // digests of directories that were made, by number
}

// stateFile is a file in memory that has the state, in two copies that are written in turn: whenever
// a server is killed, one of them is whole.
//
//	0      copy 0: 4 bytes CRC-32 of what follows, 4 bytes length, 8 bytes count of writes, JSON
//	32 KiB copy 1
type stateFile struct {
	mu     sync.Mutex
	fd     int
	writes uint64
	state  state
}

const (
	stateCopy   = 32 << 10
	stateHeader = 16
)

func newStateFile(s state) (*stateFile, error) {
	fd, err := unix.MemfdCreate("tensorfs mount", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("a file in memory: %w", err)
	}
	f := &stateFile{fd: fd, state: s}
	if err := f.change(func(*state) {}); err != nil {
		unix.Close(fd)
		return nil, err
	}
	return f, nil
}

// openStateFile reads the state that another server wrote. The descriptor is its own.
func openStateFile(fd int) (*stateFile, error) {
	f := &stateFile{fd: fd}
	found := false
	for i := range 2 {
		buf := make([]byte, stateCopy)
		n, err := unix.Pread(fd, buf, int64(i*stateCopy))
		if err != nil {
			return nil, err
		}
		writes, s, err := decodeState(buf[:n])
		if err == nil && writes > f.writes {
			f.writes, f.state, found = writes, s, true
		}
	}
	if !found {
		return nil, errNoState
	}
	return f, nil
}

var errNoState = errors.New("there is no state in it that this version knows")

func encodeState(writes uint64, s state) ([]byte, error) {
	buf := make([]byte, stateHeader, stateCopy)
	text, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	if len(text) > stateCopy-stateHeader {
		return nil, fmt.Errorf("the state has %d bytes", len(text))
	}
	buf = append(buf, text...)
	binary.LittleEndian.PutUint32(buf[4:], uint32(len(text)))
	binary.LittleEndian.PutUint64(buf[8:], writes)
	binary.LittleEndian.PutUint32(buf, crc32.ChecksumIEEE(buf[4:]))
	return buf, nil
}

func decodeState(buf []byte) (writes uint64, s state, err error) {
	if len(buf) < stateHeader {
		return 0, s, errNoState
	}
	sum, n := binary.LittleEndian.Uint32(buf), binary.LittleEndian.Uint32(buf[4:])
	if int64(n) > int64(len(buf)-stateHeader) || crc32.ChecksumIEEE(buf[4:stateHeader+n]) != sum {
		return 0, s, errNoState
	}
	err = json.Unmarshal(buf[stateHeader:stateHeader+n], &s)
	return binary.LittleEndian.Uint64(buf[8:]), s, err
}

// change changes the state and writes it.
func (f *stateFile) change(do func(*state)) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	do(&f.state)
	f.writes++
	buf, err := encodeState(f.writes, f.state)
	if err != nil {
		return err
	}
	_, err = unix.Pwrite(f.fd, buf, int64(f.writes%2)*stateCopy)
	return err
}

// takenOver returns how often the mount was taken over.
func (f *stateFile) takenOver() int {
	if f == nil {
		return 0
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.state.Taken
}

func (f *stateFile) close() { unix.Close(f.fd) }
