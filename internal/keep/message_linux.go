package keep

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"sync"

	"golang.org/x/sys/unix"
)

// Bounds of what a keeper takes: a client could use up its memory and descriptors otherwise.
const (
	maxMessage     = 16 << 10
	maxKey         = 8 << 10
	maxName        = 64
	maxKeys        = 1000
	maxDescriptors = 8              // of a key
	maxClients     = 2*maxKeys + 64 // connections; the server of a mount has two
)

// message is what a client asks, or the answer.
type message struct {
	Op    string   `json:"op,omitempty"`
	Key   string   `json:"key,omitempty"`
	Name  string   `json:"name,omitempty"`
	Names []string `json:"names,omitempty"` // of the descriptors that come along, in their order
	PID   int      `json:"pid,omitempty"`   // of the server of a key, if it runs
	Busy  bool     `json:"busy,omitempty"`  // a server is there: PID, unless it is of another namespace of processes
	Error string   `json:"error,omitempty"`
}

// send sends a message and descriptors.
func send(c *net.UnixConn, m message, fds ...int) error {
	text, err := json.Marshal(m)
	if err != nil {
		return err
	}
	var rights []byte
	if len(fds) > 0 {
		rights = unix.UnixRights(fds...)
	}
	_, _, err = c.WriteMsgUnix(text, rights, nil)
	return err
}

// errMessage is wrapped by errors of messages that make no sense. The connection is of use all the same.
var errMessage = errors.New("not a message")

// room is what a message and its descriptors are received into.
type room struct {
	text   [maxMessage]byte
	rights [16 + 4*maxDescriptors]byte // behind a header; the kernel cuts off what does not fit
}

var rooms = sync.Pool{New: func() any { return new(room) }}

// receive takes a message and its descriptors, which are the caller's to close. Programs that this
// process starts do not get them. Memory is taken only once a message is there.
func receive(c *net.UnixConn) (m message, fds []int, err error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return m, nil, err
	}
	rerr := raw.Read(func(fd uintptr) bool {
		r := rooms.Get().(*room)
		defer rooms.Put(r)
		n, rn, flags, _, rerr := unix.Recvmsg(int(fd), r.text[:], r.rights[:], unix.MSG_DONTWAIT|unix.MSG_CMSG_CLOEXEC)
		switch {
		case errors.Is(rerr, unix.EAGAIN):
			return false
		case rerr != nil:
			err = rerr
		case n == 0 && rn == 0:
			err = net.ErrClosed // a message has some bytes
		default:
			m, fds, err = parse(r.text[:n], r.rights[:rn], flags)
		}
		return true
	})
	if rerr != nil {
		return message{}, nil, rerr
	}
	return m, fds, err
}

// parse reads a message that was received.
func parse(text, rights []byte, flags int) (m message, fds []int, err error) {
	controls, err := unix.ParseSocketControlMessage(rights)
	if err != nil {
		return m, nil, err
	}
	for i := range controls {
		more, err := unix.ParseUnixRights(&controls[i])
		if err == nil { // else it has no descriptors
			fds = append(fds, more...)
		}
	}
	if flags&(unix.MSG_TRUNC|unix.MSG_CTRUNC) != 0 {
		err = fmt.Errorf("%w: it is too long", errMessage)
	} else if jerr := json.Unmarshal(text, &m); jerr != nil {
		err = fmt.Errorf("%w: %w", errMessage, jerr)
	}
	if err != nil {
		closeAll(fds)
		return message{}, nil, err
	}
	return m, fds, nil
}

func closeAll(fds []int) {
	for _, fd := range fds {
		unix.Close(fd)
	}
}
