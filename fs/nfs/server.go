package nfs

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/fs"
)

// Options say how a tree is served. The zero value is the default.
type Options struct {
	// Key signs file handles: 32 bytes, nil means random ones. A server with the key and
	// the tree of another one goes on with its clients.
	Key []byte
	// Token is what MNT must ask for: 32 hexadecimal digits, "" for random ones.
	Token string
	// Shared lets any number of clients use the token. It is for a server whose path no
	// mount table shows.
	Shared bool
	// Mounted reports that a client of an earlier server used the token.
	Mounted bool
	// ModTime is the time of every file; zero for the time of New.
	ModTime time.Time
	// FSID is the number of the file system; 0 for one that follows from the key.
	FSID uint64
	// Logger receives what error numbers cannot say; nil discards it.
	Logger *slog.Logger
	// UID and GID are the owner of all files.
	UID, GID uint32
	// OwnerOnly refuses all users but UID and root.
	OwnerOnly bool
	// Check and Unwatched are as in [fs.Options].
	Check     func() error
	Unwatched func() string
}

// tokenBytes is the length of a token, which is written in hexadecimal.
const tokenBytes = 16

// Server serves a tree.
type Server struct {
	opts    Options
	tree    *fs.Numbers
	handles *handles
	faults  *fs.Faults

	// payloads bounds the memory of replies: it has an element for each payload that may
	// be under way, beside the payloads that every connection has of its own.
	payloads chan struct{}

	mu        sync.Mutex
	closed    bool
	listeners map[net.Listener]struct{}
	conns     map[*conn]struct{}
	running   sync.WaitGroup // connections
	order     uint64         // of the last connection

	mount mountState
}

// New returns a server of a tree that does not serve yet. It refuses what [fs.Mount]
// refuses.
func New(tree tensorfs.Dir, o Options) (*Server, error) {
	numbers, err := fs.Number(tree)
	if err != nil {
		return nil, fmt.Errorf("cannot serve this tree: %w", err)
	}
	if o.Key == nil {
		o.Key = make([]byte, keyBytes)
		rand.Read(o.Key)
	}
	if len(o.Key) != keyBytes {
		return nil, fmt.Errorf("the key of an NFS server has %d bytes, not %d", keyBytes, len(o.Key))
	}
	if o.Token == "" {
		token := make([]byte, tokenBytes)
		rand.Read(token)
		o.Token = hex.EncodeToString(token)
	}
	if b, err := hex.DecodeString(o.Token); err != nil || len(b) != tokenBytes {
		return nil, fmt.Errorf("the token of an NFS server has %d hexadecimal digits", 2*tokenBytes)
	}
	nodes, _ := numbers.Total()
	key := derive(o.Key, "handles", o.FSID, uint64(o.ModTime.Unix()), uint64(o.ModTime.Nanosecond()), nodes)
	if o.FSID == 0 {
		o.FSID = be.Uint64(derive(o.Key, "fsid"))
	}
	if o.ModTime.IsZero() {
		o.ModTime = time.Now()
	}
	s := &Server{
		opts:      o,
		tree:      numbers,
		handles:   newHandles(key),
		faults:    fs.NewFaults(o.Logger),
		payloads:  make(chan struct{}, sharedPayloads),
		listeners: map[net.Listener]struct{}{},
		conns:     map[*conn]struct{}{},
	}
	s.mount = mountState{used: o.Mounted, gone: make(chan struct{})}
	return s, nil
}

// Token is what clients mount: the path is "/" and the token.
func (s *Server) Token() string { return s.opts.Token }

// Key is the key of the handles.
func (s *Server) Key() []byte { return s.opts.Key }

// Unmounted is closed when a client reported that it has unmounted the tree. Any client
// can: check whether the mount still exists.
func (s *Server) Unmounted() <-chan struct{} { return s.mount.gone }

// Clients returns how many connections have shown a handle of this server, or its token.
// The kernel's client has one while a file system is mounted or a file of it open, except
// while it is idle.
func (s *Server) Clients() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for c := range s.conns {
		if c.known.Load() {
			n++
		}
	}
	return n
}

// Health is the record of what went wrong.
func (s *Server) Health() fs.Health {
	return s.faults.Health(s.opts.Check, s.opts.Unwatched, "the model")
}

// Logger returns Options.Logger with a memory: what it logs as a warning or error is
// part of the Health.
func (s *Server) Logger() *slog.Logger { return s.faults.Logger() }

// Serve answers clients until Close, then returns nil, or until the listener fails,
// and then returns its error. It closes the listener.
func (s *Server) Serve(l net.Listener) error {
	defer l.Close()
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.listeners[l] = struct{}{}
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		delete(s.listeners, l)
		s.mu.Unlock()
	}()
	for {
		c, err := l.Accept()
		if err != nil {
			s.mu.Lock()
			defer s.mu.Unlock()
			if s.closed {
				return nil
			}
			return err
		}
		s.start(c)
	}
}

// start serves a connection. If there are too many, the oldest one that has not shown a
// valid handle is closed.
func (s *Server) start(nc net.Conn) {
	c := newConn(s, nc)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		c.close()
		return
	}
	if len(s.conns) >= maxConns {
		var oldest *conn
		for o := range s.conns {
			if !o.known.Load() && (oldest == nil || o.order < oldest.order) {
				oldest = o
			}
		}
		if oldest == nil {
			c.close()
			return
		}
		oldest.close()
		delete(s.conns, oldest)
	}
	s.order++
	c.order = s.order
	s.conns[c] = struct{}{}
	s.running.Go(func() {
		c.serve()
		s.mu.Lock()
		delete(s.conns, c)
		s.mu.Unlock()
	})
}

// Close ends Serve and all connections, and waits for what they are doing. Reads of
// Data that waits for others are cancelled.
func (s *Server) Close() error {
	s.mu.Lock()
	s.closed = true
	for l := range s.listeners {
		l.Close()
	}
	for c := range s.conns {
		c.close()
	}
	s.mu.Unlock()
	s.running.Wait()
	return nil
}
