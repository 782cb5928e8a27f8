package keep

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Keeper keeps descriptors for servers that are gone. Its zero value is ready.
type Keeper struct {
	mu   sync.Mutex
	keys map[string]*kept
}

// kept are the descriptors of a key.
type kept struct {
	fds   map[string]int
	owner *net.UnixConn // of the server that is there; nil for none
	pid   int           // of it
}

// watchEvery is how often a keeper looks for mounts that are gone.
const watchEvery = 10 * time.Second

// Listen makes the socket of a keeper, for its user alone. A socket of a keeper that is gone is replaced; of one
// that answers it is an error that wraps [fs.ErrExist].
func Listen(path string) (*net.UnixListener, error) {
	addr := &net.UnixAddr{Name: path, Net: network}
	if c, err := net.DialUnix(network, nil, addr); err == nil {
		c.Close()
		return nil, fmt.Errorf("%s: %w: a keeper listens there already", path, fs.ErrExist)
	} else if st, serr := os.Lstat(path); serr == nil && st.Mode()&fs.ModeSocket != 0 && errors.Is(err, unix.ECONNREFUSED) {
		if err := os.Remove(path); err != nil {
			return nil, err
		}
	}
	old := unix.Umask(0o177) // from its first moment on
	defer unix.Umask(old)
	return net.ListenUnix(network, addr)
}

const network = "unixpacket"

// Serve answers those who connect, until the listener is closed.
func (k *Keeper) Serve(l *net.UnixListener) error {
	done := make(chan struct{})
	defer close(done)
	go k.watch(done)
	for {
		c, err := l.AcceptUnix()
		switch {
		case errors.Is(err, net.ErrClosed):
			return nil
		case errors.Is(err, unix.EMFILE), errors.Is(err, unix.ENFILE):
			time.Sleep(100 * time.Millisecond) // somebody will close one
			continue
		case errors.Is(err, unix.ECONNABORTED):
			continue
		case err != nil:
			return err
		}
		go k.answer(c)
	}
}

// answer answers a client until it is gone.
func (k *Keeper) answer(c *net.UnixConn) {
	defer k.leave(c)
	defer c.Close()
	pid, err := allowed(c)
	if err != nil {
		_ = send(c, message{Error: err.Error()}) // it may be gone
		return
	}
	for {
		m, fds, err := receive(c)
		if errors.Is(err, errMessage) {
			err = send(c, message{Error: err.Error()})
		} else if err == nil {
			err = k.do(c, pid, m, fds)
		}
		if err != nil {
			return
		}
	}
}

// allowed returns the process of a client, or why it is not answered.
func allowed(c *net.UnixConn) (pid int, err error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, err
	}
	var cred *unix.Ucred
	if cerr := raw.Control(func(fd uintptr) { cred, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) }); cerr != nil {
		return 0, cerr
	}
	if err != nil {
		return 0, err
	}
	if cred.Uid != 0 && int(cred.Uid) != os.Geteuid() {
		return 0, fmt.Errorf("user %d: %w: this keeper is another user's", cred.Uid, unix.EPERM)
	}
	return int(cred.Pid), nil
}

// leave ends what a client serves. What was kept for it stays.
func (k *Keeper) leave(c *net.UnixConn) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, e := range k.keys {
		if e.owner == c {
			e.owner, e.pid = nil, 0
		}
	}
}

// do does what a message asks, and answers it. The descriptors are its own. An error is one of the connection.
func (k *Keeper) do(c *net.UnixConn, pid int, m message, fds []int) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if m.Op == "list" {
		closeAll(fds)
		return k.list(c)
	}
	refuse := func(format string, args ...any) error {
		closeAll(fds)
		return send(c, message{Error: fmt.Sprintf(format, args...)})
	}
	e := k.keys[m.Key]
	switch {
	case m.Key == "" || len(m.Key) > maxKey:
		return refuse("a key of %d bytes", len(m.Key))
	case e != nil && e.owner != nil && e.owner != c:
		closeAll(fds)
		return send(c, message{Busy: true, PID: e.pid})
	case m.Op != "put" && len(fds) > 0:
		return refuse("%s takes no descriptor", m.Op)
	}
	switch m.Op {
	case "put":
		switch {
		case len(fds) != 1 || m.Name == "" || len(m.Name) > maxName:
			return refuse("%d descriptors with a name of %d bytes", len(fds), len(m.Name))
		case e == nil && len(k.keys) == maxKeys:
			return refuse("%d mounts are kept already", maxKeys)
		case e == nil:
			e = &kept{fds: map[string]int{}}
		}
		old, again := e.fds[m.Name]
		if !again && len(e.fds) == maxDescriptors {
			return refuse("%d descriptors are kept of it already", maxDescriptors)
		}
		if again {
			unix.Close(old)
		}
		e.fds[m.Name], e.owner, e.pid = fds[0], c, pid
		if k.keys == nil {
			k.keys = map[string]*kept{}
		}
		k.keys[m.Key] = e
		return send(c, message{})
	case "get":
		if e == nil {
			return send(c, message{})
		}
		e.owner, e.pid = c, pid
		names := e.names()
		fds := make([]int, len(names))
		for i, name := range names {
			fds[i] = e.fds[name]
		}
		return send(c, message{Names: names}, fds...)
	case "drop":
		k.drop(m.Key)
		return send(c, message{})
	}
	return refuse("%q is not known", m.Op)
}

func (e *kept) names() []string {
	var names []string
	for name := range e.fds {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// list tells a client what there is. mu is held.
func (k *Keeper) list(c *net.UnixConn) error {
	for key, e := range k.keys {
		if err := send(c, message{Key: key, Names: e.names(), PID: e.pid, Busy: e.owner != nil}); err != nil {
			return err
		}
	}
	return send(c, message{})
}

// drop forgets a key. mu is held.
func (k *Keeper) drop(key string) {
	if e := k.keys[key]; e != nil {
		delete(k.keys, key)
		for _, fd := range e.fds {
			unix.Close(fd)
		}
	}
}

// watch drops the keys of mounts that are gone, which nobody else may notice: who unmounts while no server is
// there tells nobody.
func (k *Keeper) watch(done <-chan struct{}) {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for {
		select {
		case <-done:
			return
		case <-tick.C:
			k.sweep()
		}
	}
}

// sweep drops the keys of which a descriptor has an error: the device of a mount that is gone.
func (k *Keeper) sweep() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for key, e := range k.keys {
		for _, fd := range e.fds {
			p := []unix.PollFd{{Fd: int32(fd)}}
			if n, err := unix.Poll(p, 0); err == nil && n == 1 && p[0].Revents&unix.POLLERR != 0 {
				k.drop(key)
				break
			}
		}
	}
}
