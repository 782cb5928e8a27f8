package keep

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Client keeps the descriptors of one mount with a [Keeper]. While the keeper is away it waits for another one,
// and gives that all it has.
type Client struct {
	socket, key string
	log         *slog.Logger

	mu    sync.Mutex
	conn  *net.UnixConn // nil while the keeper is away
	life  *net.UnixConn // a second one, on which nothing is said: it ends with the keeper
	fds   map[string]int
	ended chan struct{} // closed by Drop
}

const (
	// busyTime is how long Get waits for the server of a mount to end, which was killed a moment ago.
	busyTime = 2 * time.Second
	// answerTime is how long a keeper may take to answer.
	answerTime = 5 * time.Second
	// away is how often a client looks for a keeper that is gone.
	away = 200 * time.Millisecond
)

// errAway is the error that no keeper listens at a socket.
var errAway = errors.New("no keeper answers there; tensorfs keep --socket starts one")

// NewClient returns a client for the mount of that key. It does not connect yet.
func NewClient(socket, key string) (*Client, error) {
	if key == "" || len(key) > maxKey {
		return nil, fmt.Errorf("the path of the mount point has %d bytes; a keeper takes up to %d", len(key), maxKey)
	}
	return &Client{socket: socket, key: key, log: slog.New(slog.DiscardHandler), fds: map[string]int{}, ended: make(chan struct{})}, nil
}

// LogTo has messages go to a logger. It is for before Get.
func (c *Client) LogTo(log *slog.Logger) { c.log = log }

// Get returns the kept descriptors by their names, which stay kept: none if the keeper does
// not know the mount, or is not running. They are the caller's. It is an error if another
// server has the mount.
func (c *Client) Get() (map[string]int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.connect(); err != nil {
		c.log.Warn("the mount is not kept yet: if this server is killed before it is, its readers get errors", "error", err)
		go c.wait(err)
		return nil, nil
	}
	got, err := c.get()
	if err != nil {
		return nil, err
	}
	go c.watch(c.life)
	return got, nil
}

// get asks for the descriptors. mu is held.
func (c *Client) get() (map[string]int, error) {
	for end := time.Now().Add(busyTime); ; time.Sleep(5 * time.Millisecond) {
		a, fds, err := c.ask(message{Op: "get"})
		switch {
		case err != nil:
			return nil, err
		case a.Busy && time.Now().Before(end):
			continue
		case a.Busy:
			return nil, fmt.Errorf("process %d serves this mount; end it first", a.PID)
		}
		return c.taken(a, fds)
	}
}

// taken returns the descriptors of an answer by their names, and goes on keeping them. mu is held.
func (c *Client) taken(a message, fds []int) (map[string]int, error) {
	names := slices.Compact(slices.Sorted(slices.Values(a.Names)))
	if len(fds) != len(a.Names) || len(names) != len(a.Names) {
		closeAll(fds)
		return nil, fmt.Errorf("%s: %d descriptors with %d names", c.socket, len(fds), len(names))
	}
	got := map[string]int{}
	for i, name := range a.Names {
		own, err := unix.FcntlInt(uintptr(fds[i]), unix.F_DUPFD_CLOEXEC, 0) // for another keeper
		if err != nil {
			closeAll(fds)
			return nil, err
		}
		got[name], c.fds[name] = fds[i], own
	}
	return got, nil
}

// Put keeps a descriptor under a name, replacing an earlier one. The descriptor stays the
// caller's. If no keeper is running, it gets the descriptor once it is.
func (c *Client) Put(name string, fd int) error {
	own, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over() {
		unix.Close(own)
		return nil
	}
	if old, ok := c.fds[name]; ok {
		unix.Close(old)
	}
	c.fds[name] = own
	if c.conn == nil {
		return nil
	}
	return c.put(name)
}

// put gives the keeper a descriptor. mu is held.
func (c *Client) put(name string) error {
	return c.tell(message{Op: "put", Name: name}, c.fds[name])
}

// Clear has the keeper forget what it has of the mount.
func (c *Client) Clear() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over() {
		return nil
	}
	return c.clear()
}

// clear is Clear. mu is held.
func (c *Client) clear() error {
	for _, fd := range c.fds {
		unix.Close(fd)
	}
	clear(c.fds)
	if c.conn == nil {
		return nil // the next keeper has nothing
	}
	return c.tell(message{Op: "drop"})
}

// Drop is Clear for the last time: nothing can be kept afterwards.
func (c *Client) Drop() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over() {
		return nil
	}
	close(c.ended)
	err := c.clear()
	c.lose()
	return err
}

// connect connects to a trusted keeper. mu is held. The idle connection is opened first: if
// another keeper takes the socket between the two, that connection ends.
func (c *Client) connect() error {
	life, err := c.dial()
	if err != nil {
		return err
	}
	conn, err := c.dial()
	if err != nil {
		life.Close()
		return err
	}
	c.conn, c.life = conn, life
	return nil
}

// dial makes a connection, unless another user listens at the socket.
func (c *Client) dial() (*net.UnixConn, error) {
	conn, err := net.DialUnix(network, nil, &net.UnixAddr{Name: c.socket, Net: network})
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %w", c.socket, errAway, err)
	}
	_, uid, err := peer(conn)
	if err == nil {
		err = trust(uid)
	}
	if err != nil {
		conn.Close()
		return nil, fmt.Errorf("%s: %w", c.socket, err)
	}
	return conn, nil
}

// lose gives the connections up, which watch notices. mu is held.
func (c *Client) lose() {
	if c.conn != nil {
		c.conn.Close()
		c.life.Close()
		c.conn = nil
	}
}

// ask asks the keeper. mu is held, so no other goroutine reads from the connection. A
// connection with a missing answer is unusable: the answer could arrive as the reply to a
// later question.
func (c *Client) ask(m message, fds ...int) (message, []int, error) {
	m.Key = c.key
	_ = c.conn.SetDeadline(time.Now().Add(answerTime)) // it fails where the connection has
	err := send(c.conn, m, fds...)
	if err == nil {
		var a message
		var got []int
		if a, got, err = receive(c.conn); err == nil {
			if a.Error == "" {
				return a, got, nil
			}
			closeAll(got)
			return message{}, nil, fmt.Errorf("%s: %s", c.socket, a.Error)
		}
	}
	c.lose()
	return message{}, nil, c.failed(err)
}

// failed names the socket at which no keeper answered.
func (c *Client) failed(err error) error {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = fmt.Errorf("the keeper does not answer within %v; end it and start another", answerTime)
	}
	return fmt.Errorf("%s: %w", c.socket, err)
}

// tell is ask for what is answered with nothing. mu is held.
func (c *Client) tell(m message, fds ...int) error {
	a, got, err := c.ask(m, fds...)
	closeAll(got)
	if err == nil && a.Busy {
		err = fmt.Errorf("process %d serves this mount as well", a.PID)
	}
	return err
}

// watch waits until the keeper is gone, then for another one.
func (c *Client) watch(life *net.UnixConn) {
	_, _ = life.Read(make([]byte, 1)) // the keeper sends nothing unasked
	life.Close()
	c.mu.Lock()
	over := c.over()
	c.lose()
	c.mu.Unlock()
	if over {
		return
	}
	c.log.Warn("the keeper of this mount is gone: if this server is killed before another is there, its readers get errors", "socket", c.socket)
	c.wait(nil)
}

func (c *Client) over() bool {
	select {
	case <-c.ended:
		return true
	default:
		return false
	}
}

// wait waits for a keeper and gives it everything to keep. known is why none is running,
// which was reported already.
func (c *Client) wait(known error) {
	tick := time.NewTicker(away)
	defer tick.Stop()
	said := ""
	if known != nil {
		said = known.Error()
	}
	for {
		select {
		case <-c.ended:
			return
		case <-tick.C:
		}
		err := c.renew()
		if err == nil {
			return
		}
		if text := err.Error(); !errors.Is(err, errAway) && text != said { // a keeper that refuses
			said = text
			c.log.Warn("the mount cannot be kept", "error", err)
		}
	}
}

// renew connects to a new keeper.
func (c *Client) renew() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over() {
		return nil
	}
	if err := c.connect(); err != nil {
		return err
	}
	for name := range c.fds {
		if err := c.put(name); err != nil {
			c.lose()
			return err
		}
	}
	c.log.Info("a keeper has the mount again", "socket", c.socket)
	go c.watch(c.life)
	return nil
}

// Reach returns why a keeper cannot have a mount now: it is away, or another user's.
func Reach(socket string) error {
	conn, err := (&Client{socket: socket}).dial()
	if err == nil {
		conn.Close()
	}
	return err
}

// Kept is what a keeper has of a mount.
type Kept struct {
	Key    string
	Names  []string // of the descriptors
	PID    int      // of the server, 0 where none is there, or one that the keeper cannot see: in another container
	Served bool     // a server is there
}

// List returns what a keeper has.
func List(socket string) ([]Kept, error) {
	c := &Client{socket: socket}
	if err := c.connect(); err != nil {
		return nil, err
	}
	defer c.lose()
	return c.list()
}

// list asks for the list. It ends, whatever the keeper sends.
func (c *Client) list() (all []Kept, err error) {
	m, fds, err := c.ask(message{Op: "list"})
	for len(all) <= maxKeys {
		closeAll(fds)
		if err != nil || m.Key == "" {
			return all, err
		}
		all = append(all, Kept{m.Key, m.Names, m.PID, m.Busy})
		if m, fds, err = receive(c.conn); err != nil { // within the time of ask
			return nil, c.failed(err)
		}
	}
	closeAll(fds)
	return nil, fmt.Errorf("%s: the list of the keeper has no end", c.socket)
}
