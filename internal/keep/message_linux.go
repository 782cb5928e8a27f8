package keep

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"

	"golang.org/x/sys/unix"
)

// Bounds of what a keeper takes: whoever may connect could use up its memory and descriptors otherwise.
const (
	maxMessage     = 16 << 10
	maxKey         = 8 << 10
	maxName        = 64
	maxKeys        = 1000
	maxDescriptors = 8 // of a key
)

// message is what a client asks, or the answer.
type message struct {
	Op    string   `json:"op,omitempty"`
	Key   string   `json:"key,omitempty"`
	Name  string   `json:"name,omitempty"`
	Names []string `json:"names,omitempty"` // of the descriptors that come along, in their order
	PID   int      `json:"pid,omitempty"`   // of the server of a key, where one is there
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

// receive takes a message and its descriptors, which are the caller's to close. Programs that this
// process starts do not get them.
func receive(c *net.UnixConn) (m message, fds []int, err error) {
	text, rights := make([]byte, maxMessage), make([]byte, unix.CmsgSpace(4*maxDescriptors))
	n, rn, flags, _, err := c.ReadMsgUnix(text, rights)
	if err != nil {
		return m, nil, err
	}
	if n == 0 && rn == 0 {
		return m, nil, net.ErrClosed // a message has some bytes
	}
	controls, err := unix.ParseSocketControlMessage(rights[:rn])
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
	} else if jerr := json.Unmarshal(text[:n], &m); jerr != nil {
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
