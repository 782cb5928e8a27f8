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

// Keeper keeps descriptors for servers that are gone. Its zero value is ready. While mu is held, nothing is sent and no
// descriptor is used that could make it wait: a client that is stuck stops only itself.
type Keeper struct {
	mu      sync.Mutex
	keys    map[string]*kept
	clients []connection // the oldest first
}

// connection is a connection of a client.
type connection struct {
	conn *net.UnixConn
	pid  int // 0 in another namespace of processes
}

// kept are the descriptors of a key.
type kept struct {
	fds   map[string]int
	owner *net.UnixConn // of the running server; may be nil
	pid   int           // of it
}

// watchEvery is how often a keeper looks for mounts that are gone.
const watchEvery = 10 * time.Second

// Listen makes the socket of a keeper, accessible only to its user. The socket of a keeper
// that has ended is replaced; if a keeper answers, it is an error that wraps [fs.ErrExist].
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

// Serve answers clients until the listener is closed.
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
			k.shed()
			time.Sleep(10 * time.Millisecond) // until it is closed
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
	pid, uid, err := peer(c)
	if err == nil && !trusted(uid) {
		err = fmt.Errorf("user %d: only root and the user of this keeper are answered", uid)
	}
	if err != nil {
		reply(c, []answer{refusal("%v", err)})
		return
	}
	k.enter(connection{c, pid})
	for {
		m, fds, err := receive(c)
		var answers []answer
		switch {
		case err != nil && !errors.Is(err, errMessage):
			return
		case !drained(c):
			closeAll(fds)
			return
		case err != nil:
			answers = []answer{refusal("%v", err)}
		default:
			answers = k.do(c, pid, m, fds)
		}
		if !reply(c, answers) {
			return
		}
	}
}

// enter notes a client.
func (k *Keeper) enter(c connection) {
	k.mu.Lock()
	k.clients = append(k.clients, c)
	many := len(k.clients) > maxClients
	k.mu.Unlock()
	if many {
		k.shed()
	}
}

// shed closes a connection that serves no mount: the newest one of the process that has most of them. So a process that
// connects again and again keeps only itself out.
func (k *Keeper) shed() {
	k.mu.Lock()
	defer k.mu.Unlock()
	serves := map[*net.UnixConn]bool{}
	for _, e := range k.keys {
		serves[e.owner] = true
	}
	count, most := map[int]int{}, 0
	for _, c := range k.clients {
		if !serves[c.conn] {
			count[c.pid]++
			most = max(most, count[c.pid])
		}
	}
	for i, c := range slices.Backward(k.clients) {
		if !serves[c.conn] && count[c.pid] == most {
			c.conn.Close()
			k.clients = slices.Delete(k.clients, i, i+1)
			return
		}
	}
}

// leave ends what a client serves. What was kept for it stays.
func (k *Keeper) leave(c *net.UnixConn) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.clients = slices.DeleteFunc(k.clients, func(other connection) bool { return other.conn == c })
	for _, e := range k.keys {
		if e.owner == c {
			e.owner, e.pid = nil, 0
		}
	}
}

// answer is a message to a client with descriptors, which are closed when it is sent.
type answer struct {
	message
	fds []int
}

func refusal(format string, args ...any) answer {
	return answer{message: message{Error: fmt.Sprintf(format, args...)}}
}

// sendTime is how long a client may take to read an answer.
const sendTime = 3 * time.Second

// reply sends answers, and reports whether the client takes them.
func reply(c *net.UnixConn, answers []answer) bool {
	_ = c.SetWriteDeadline(time.Now().Add(sendTime)) // it fails if the connection has
	var err error
	for _, a := range answers {
		if err == nil {
			err = send(c, a.message, a.fds...)
		}
		closeAll(a.fds)
	}
	return err == nil
}

// drained waits until a client that asks again has read the answer to what it asked before, and reports whether it did in
// time. So there is one answer at most in each connection, with few descriptors: the kernel limits how many of a
// user may be under way.
func drained(c *net.UnixConn) bool {
	raw, err := c.SyscallConn()
	if err != nil {
		return false
	}
	for end := time.Now().Add(sendTime); ; time.Sleep(5 * time.Millisecond) {
		unread := 0
		cerr := raw.Control(func(fd uintptr) { unread, err = unix.IoctlGetInt(int(fd), unix.SIOCOUTQ) })
		if cerr != nil || err != nil || unread == 0 || time.Now().After(end) {
			return cerr == nil && err == nil && unread == 0
		}
	}
}

// keepable returns why a descriptor is not kept: only devices of mounts and files in memory
// are, because closing them never blocks. Closing a file of a server that does not answer
// would.
func keepable(fd int) error {
	const fuseMajor, fuseMinor = 10, 229
	var st unix.Statx_t
	if err := unix.Statx(fd, "", unix.AT_EMPTY_PATH|unix.AT_STATX_DONT_SYNC, unix.STATX_TYPE, &st); err != nil {
		return err
	}
	switch kind := st.Mode & unix.S_IFMT; {
	case kind == unix.S_IFCHR && st.Rdev_major == fuseMajor && st.Rdev_minor == fuseMinor:
		return nil
	case kind == unix.S_IFREG:
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_GET_SEALS, 0); err == nil { // files in memory have them
			return nil
		}
	}
	return errors.New("only the device of a mount and files in memory are kept")
}

// do does what a message asks, and returns the answers. The descriptors are its own.
func (k *Keeper) do(c *net.UnixConn, pid int, m message, fds []int) []answer {
	var refused error
	if m.Op == "put" && len(fds) == 1 {
		refused = keepable(fds[0])
	}
	var unused []int
	defer func() { closeAll(unused) }() // without the lock
	k.mu.Lock()
	defer k.mu.Unlock()
	refuse := func(format string, args ...any) []answer {
		unused = fds
		return []answer{refusal(format, args...)}
	}
	if m.Op == "list" {
		unused = fds
		return k.list()
	}
	e := k.keys[m.Key]
	switch {
	case m.Key == "" || len(m.Key) > maxKey:
		return refuse("a key of %d bytes", len(m.Key))
	case e != nil && e.owner != nil && e.owner != c:
		unused = fds
		return []answer{{message: message{Busy: true, PID: e.pid}}}
	case m.Op != "put" && len(fds) > 0:
		return refuse("%s takes no descriptor", m.Op)
	case refused != nil:
		return refuse("%q: %v", m.Name, refused)
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
			unused = []int{old}
		}
		e.fds[m.Name], e.owner, e.pid = fds[0], c, pid
		if k.keys == nil {
			k.keys = map[string]*kept{}
		}
		k.keys[m.Key] = e
		return []answer{{}}
	case "get":
		if e == nil {
			return []answer{{}}
		}
		a, err := e.copy()
		if err != nil {
			return refuse("%v", err)
		}
		e.owner, e.pid = c, pid
		return []answer{a}
	case "drop":
		unused = k.drop(m.Key)
		return []answer{{}}
	}
	return refuse("%q is not known", m.Op)
}

// copy returns the descriptors as an answer, which may be sent when others are kept.
func (e *kept) copy() (a answer, err error) {
	for _, name := range e.names() {
		fd, err := unix.FcntlInt(uintptr(e.fds[name]), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			closeAll(a.fds)
			return answer{}, fmt.Errorf("the keeper has too many files open: %w", err)
		}
		a.Names, a.fds = append(a.Names, name), append(a.fds, fd)
	}
	return a, nil
}

func (e *kept) names() []string {
	var names []string
	for name := range e.fds {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// list returns what there is, and an empty message behind it. mu is held.
func (k *Keeper) list() []answer {
	var all []answer
	for key, e := range k.keys {
		all = append(all, answer{message: message{Key: key, Names: e.names(), PID: e.pid, Busy: e.owner != nil}})
	}
	return append(all, answer{})
}

// drop forgets a key and returns its descriptors. mu is held.
func (k *Keeper) drop(key string) (fds []int) {
	if e := k.keys[key]; e != nil {
		delete(k.keys, key)
		for _, fd := range e.fds {
			fds = append(fds, fd)
		}
	}
	return fds
}

// watch drops the keys of mounts that are gone: unmounting without a running server
// notifies no process.
func (k *Keeper) watch(done <-chan struct{}) {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for {
		select {
		case <-done:
			return
		case <-tick.C:
			closeAll(k.sweep())
		}
	}
}

// sweep drops the keys with a descriptor that has an error, the device of a mount that is gone, and returns their descriptors.
func (k *Keeper) sweep() (fds []int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for key, e := range k.keys {
		for _, fd := range e.fds {
			p := []unix.PollFd{{Fd: int32(fd)}}
			if n, err := unix.Poll(p, 0); err == nil && n == 1 && p[0].Revents&unix.POLLERR != 0 {
				fds = append(fds, k.drop(key)...)
				break
			}
		}
	}
	return fds
}
