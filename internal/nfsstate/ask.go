package nfsstate

import (
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"strconv"
	"syscall"
	"time"
)

const (
	// AskTime is how long a server may take to answer before it counts as hung.
	AskTime = 2 * time.Second
	// dyingTime is how long a server that was killed may take to end.
	dyingTime = 500 * time.Millisecond
)

// ErrHung is the error that the server of a mount exists but takes more than AskTime to
// answer: it was stopped, or waits for the disk of the model.
var ErrHung = errors.New("its server does not answer")

// Answer tells everybody who connects to the listener what status returns, as JSON. It
// returns when the listener is closed.
func Answer(l net.Listener, status func() any) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer c.Close()
			_ = c.SetDeadline(time.Now().Add(AskTime))
			_ = json.NewEncoder(c).Encode(status()) // a client that has gone needs no answer
		}()
	}
}

// Ask decodes the server's answer into v. A server that has ended gives ENOTCONN, one
// that does not answer in time ErrHung.
func (s *State) Ask(v any) error {
	c, err := net.DialTimeout("unix", s.file(socketSuffix), AskTime)
	switch {
	case errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, os.ErrNotExist):
		// The socket of a running server may have been removed. A killed server listens
		// until the last of its threads has ended, which is soon.
		for late := time.Now().Add(dyingTime); syscall.Kill(s.PID, 0) != syscall.ESRCH && Listens(s.Port); time.Sleep(dyingTime / 10) {
			if time.Now().After(late) {
				return ErrHung
			}
		}
		return syscall.ENOTCONN
	case err == nil:
		defer c.Close()
		if err = c.SetDeadline(time.Now().Add(AskTime)); err == nil {
			err = json.NewDecoder(io.LimitReader(c, maxState)).Decode(v)
		}
	}
	var late net.Error
	switch {
	case errors.As(err, &late) && late.Timeout() || errors.Is(err, syscall.EAGAIN):
		return ErrHung
	case errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET): // it ended while it was asked
		return syscall.ENOTCONN
	}
	return err
}

// Gone reports whether the server has ended.
func (s *State) Gone() bool { return errors.Is(s.Ask(new(json.RawMessage)), syscall.ENOTCONN) }

// Listens reports whether a process listens at a TCP port of this machine.
func Listens(port int) bool {
	c, err := net.DialTimeout("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), AskTime)
	if err == nil {
		c.Close()
	}
	return !errors.Is(err, syscall.ECONNREFUSED)
}

// Patient makes a listener fail only when it is closed. If, for instance, the process is
// out of descriptors for another connection, it waits.
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
