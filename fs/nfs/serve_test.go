package nfs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/tensorfs/tensorfs"

	"github.com/tensorfs/tensorfs/internal/source"
	"github.com/tensorfs/tensorfs/internal/testing/testlimit"
	"github.com/tensorfs/tensorfs/internal/testing/testnfs"
)

// counting is Data whose byte at each offset can be computed.
type counting int64

func at(off int64) byte { return byte(uint64(off) * 0x9e3779b97f4a7c15 >> 56) }

func (c counting) Size() int64 { return int64(c) }
func (c counting) ReadAt(p []byte, off int64) (int, error) {
	n, err := tensorfs.ClipRange(int64(c), p, off)
	for i := range p[:n] {
		p[i] = at(off + int64(i))
	}
	return n, err
}

// TestReaders lets 32 readers read at random offsets, on one connection and on several.
func TestReaders(t *testing.T) {
	const size, readers = 3<<20 + 7, 32
	c, root, _ := mounted(t, tensorfs.Entries{{Name: "data", Data: counting(size)}}, Options{})
	h, _, err := c.Lookup(root, "data")
	if err != nil {
		t.Fatal(err)
	}
	clients := []*testnfs.Client{c, dial(t, c.Address()), dial(t, c.Address())}
	var wg sync.WaitGroup
	for i := range readers {
		wg.Go(func() {
			r, c := rand.New(rand.NewPCG(1, uint64(i))), clients[i%len(clients)]
			for range 20 {
				off, n := r.Int64N(size+10), r.IntN(1<<uint(r.IntN(21)))
				p := make([]byte, n)
				got, eof, err := c.Read(h, p, off)
				want := int(min(int64(n), max(size-off, 0)))
				if err != nil || got != want || eof != (off+int64(got) >= size) {
					t.Errorf("%d bytes at %d: %d, end %v, %v", n, off, got, eof, err)
					return
				}
				for j, b := range p[:got] {
					if b != at(off+int64(j)) {
						t.Errorf("byte %d is wrong", off+int64(j))
						return
					}
				}
			}
		})
	}
	wg.Wait()
}

// TestLargeReads holds how much one READ returns at most, also if the limit is not a multiple of 4
// bytes.
func TestLargeReads(t *testing.T) {
	const size = maxRead + 5
	c, root, _ := mounted(t, tensorfs.Entries{{Name: "data", Data: counting(size)}}, Options{})
	h, _, err := c.Lookup(root, "data")
	if err != nil {
		t.Fatal(err)
	}
	p := make([]byte, size)
	for _, n := range []int{maxRead - 3, maxRead - 2, maxRead - 1, maxRead, maxRead + 1, size} {
		want := min(n, maxRead)
		got, eof, err := c.Read(h, p[:n], 1)
		if err != nil || got != want || eof {
			t.Errorf("%d bytes: %d, end %v, %v", n, got, eof, err)
			continue
		}
		if p[0] != at(1) || p[got-1] != at(int64(got)) {
			t.Errorf("%d bytes: they are others", n)
		}
	}
}

// slow is Data that gives nothing until it is told to.
type slow struct {
	reading atomic.Int32
	most    atomic.Int32
	ended   chan error // of reads that give up
	free    chan struct{}
}

func newSlow() *slow { return &slow{ended: make(chan error, 1000), free: make(chan struct{})} }

func (s *slow) Size() int64 { return 10 }
func (s *slow) ReadAt(p []byte, off int64) (int, error) {
	return s.ReadAtContext(context.Background(), p, off)
}

func (s *slow) ReadAtContext(ctx context.Context, p []byte, off int64) (int, error) {
	n := s.reading.Add(1)
	for {
		most := s.most.Load()
		if n <= most || s.most.CompareAndSwap(most, n) {
			break
		}
	}
	select {
	case <-s.free:
		s.reading.Add(-1)
		return len(p), nil
	case <-ctx.Done():
		s.reading.Add(-1) // before its end is reported
		s.ended <- ctx.Err()
		return 0, ctx.Err()
	}
}

// asSlow mounts a tree with slow data and returns its handle.
func asSlow(t *testing.T, o Options) (*slow, *testnfs.Client, testnfs.Handle, *Server) {
	t.Helper()
	d := newSlow()
	c, root, s := mounted(t, tensorfs.Entries{{Name: "slow", Data: d}}, o)
	h, _, err := c.Lookup(root, "slow")
	if err != nil {
		t.Fatal(err)
	}
	return d, c, h, s
}

// TestInFlight holds how many requests of a connection run concurrently, that other requests
// overtake waiting ones, and that all are answered.
func TestInFlight(t *testing.T) {
	const requests = 100
	d, c, h, _ := asSlow(t, Options{})
	var wg sync.WaitGroup
	read := func() {
		if n, _, err := c.Read(h, make([]byte, 10), 0); n != 10 || err != nil {
			t.Errorf("%d bytes, %v", n, err)
		}
	}
	for range maxInFlight - 1 {
		wg.Go(read)
	}
	testlimit.Wait(t, "reads", func() bool { return d.reading.Load() == maxInFlight-1 })
	if _, err := c.GetAttr(h); err != nil { // it passes them
		t.Error(err)
	}
	for range requests - maxInFlight + 1 {
		wg.Go(read)
	}
	testlimit.Wait(t, "full connection", func() bool { return d.reading.Load() == maxInFlight })
	other := dial(t, c.Address())
	if _, err := other.GetAttr(h); err != nil {
		t.Errorf("another connection: %v", err)
	}
	close(d.free)
	wg.Wait()
	if most := d.most.Load(); most != maxInFlight {
		t.Errorf("%d at a time", most)
	}
}

// TestMemory holds how many reads of all connections have memory at a time.
func TestMemory(t *testing.T) {
	d, c, h, s := asSlow(t, Options{})
	const conns = sharedPayloads/maxInFlight + 2
	var wg sync.WaitGroup
	for range conns {
		c := dial(t, c.Address())
		for range maxInFlight {
			wg.Go(func() {
				if _, _, err := c.Read(h, make([]byte, 10), 0); err != nil {
					t.Error(err)
				}
			})
		}
	}
	const most = sharedPayloads + conns // one is each connection's own
	testlimit.Wait(t, "reads", func() bool { return d.reading.Load() == most })
	close(d.free)
	wg.Wait()
	if n := d.most.Load(); n != most {
		t.Errorf("%d at a time", n)
	}
	testlimit.Wait(t, "memory that is given back", func() bool { return len(s.payloads) == 0 }) // after the reply
}

// TestStuckClients has clients that request much and take no reply. Another client can read a file
// all the same, and the stuck clients are still connected afterwards.
func TestStuckClients(t *testing.T) {
	const size, stuck, requests = 40*maxRead + 7, maxConns - 4, 40
	c, root, s := mounted(t, tensorfs.Entries{{Name: "data", Data: counting(size)}}, Options{})
	h, _, err := c.Lookup(root, "data")
	if err != nil {
		t.Fatal(err)
	}
	var calls []byte
	for i := range uint32(requests) {
		call := c.Call(i, testnfs.NFS, 3, 6, testnfs.Args{}.Opaque(h).Uint64(0).Uint32(maxRead))
		calls = append(be.AppendUint32(calls, lastFragment|uint32(len(call))), call...)
	}
	small := net.Dialer{Control: func(_, _ string, raw syscall.RawConn) (err error) {
		cerr := raw.Control(func(fd uintptr) { err = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 4096) })
		return errors.Join(err, cerr)
	}}
	for range stuck {
		nc, err := small.Dial("tcp", c.Address())
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		if _, err := nc.Write(calls); err != nil {
			t.Fatal(err)
		}
	}
	testlimit.Wait(t, "replies that nobody takes", func() bool { return len(s.payloads) == sharedPayloads && s.Clients() == stuck+1 })
	ended := make(chan error, 1)
	go func() {
		all, err := c.ReadAll(h, maxRead)
		if err == nil && len(all) != size {
			err = fmt.Errorf("%d bytes", len(all))
		}
		ended <- err
	}()
	if err := testlimit.Receive(t, "file beside stuck clients", ended); err != nil {
		t.Fatal(err)
	}
	if n := s.Clients(); n != stuck+1 {
		t.Errorf("%d clients are left of %d: the file came when others had been given up", n, stuck+1)
	}
}

// TestCancel holds that reads end with their connection, and with the server, and that
// nothing is said of that.
func TestCancel(t *testing.T) {
	d, c, h, s := asSlow(t, Options{})
	for name, end := range map[string]func(*testnfs.Client) error{
		"the client":  (*testnfs.Client).Close,
		"the garbage": func(c *testnfs.Client) error { _, err := c.Write(bytes.Repeat([]byte{0xff}, 4)); return err },
	} {
		one := dial(t, c.Address())
		failed := make(chan error, 3)
		for range cap(failed) {
			go func() { _, _, err := one.Read(h, make([]byte, 10), 0); failed <- err }()
		}
		testlimit.Wait(t, "reads", func() bool { return d.reading.Load() == int32(cap(failed)) })
		if err := end(one); err != nil {
			t.Fatal(err)
		}
		for range cap(failed) {
			if err := testlimit.Receive(t, "end of a read: "+name, d.ended); !errors.Is(err, context.Canceled) {
				t.Errorf("%s: %v", name, err)
			}
			if err := testlimit.Receive(t, "error of a client: "+name, failed); err == nil {
				t.Errorf("%s: it was answered", name)
			}
		}
	}
	go c.Read(h, make([]byte, 10), 0)
	testlimit.Wait(t, "read", func() bool { return d.reading.Load() == 1 })
	testlimit.Return("Close", func() { s.Close() })
	if err := testlimit.Receive(t, "end of a read", d.ended); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if h := s.Health(); len(h.Errors) > 0 {
		t.Errorf("it complains: %+v", h.Errors)
	}
	if _, err := testnfs.Dial(c.Address()); err == nil {
		t.Error("it still listens")
	}
}

// TestConnections holds that connections without a valid handle make room for other connections.
func TestConnections(t *testing.T) {
	c, root, _ := mounted(t, small(), Options{})
	var strangers []net.Conn
	for range maxConns + 10 {
		conn, err := net.Dial("tcp", c.Address())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		strangers = append(strangers, conn)
		if len(strangers) > 11 {
			continue
		}
		// The reply shows that this connection was accepted before the next ones.
		if _, err := testnfs.ReadRecord(asked(t, conn)); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 11 { // one place is the client's
		ended(t, fmt.Sprint("stranger ", i), strangers[i])
	}
	if _, err := c.GetAttr(root); err != nil {
		t.Errorf("the client: %v", err)
	}
	if _, err := dial(t, c.Address()).GetAttr(root); err != nil {
		t.Errorf("another connection of it: %v", err)
	}
}

// asked sends a NULL.
func asked(t *testing.T, conn net.Conn) net.Conn {
	var c testnfs.Client
	call := c.Call(1, testnfs.NFS, 3, 0, nil)
	if _, err := conn.Write(append(testnfs.Args{}.Uint32(1<<31|uint32(len(call))), call...)); err != nil {
		t.Fatal(err)
	}
	return conn
}

// TestKnownConnections holds that a stranger gets no place of a client.
func TestKnownConnections(t *testing.T) {
	c, root, _ := mounted(t, small(), Options{})
	clients := []*testnfs.Client{c}
	for range maxConns - 1 {
		clients = append(clients, dial(t, c.Address()))
	}
	look := func() {
		for i, c := range clients {
			if _, err := c.GetAttr(root); err != nil {
				t.Fatalf("client %d: %v", i, err)
			}
		}
	}
	look()
	conn, err := net.Dial("tcp", c.Address())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ended(t, "one too many", conn)
	look()
}

// broken is a listener that gives an error.
type broken struct {
	net.Listener
	err error
}

func (b broken) Accept() (net.Conn, error) { return nil, b.err }
func (b broken) Close() error              { return nil }

// TestServeEnds holds what Serve returns.
func TestServeEnds(t *testing.T) {
	s, err := New(small(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Serve(broken{err: io.ErrNoProgress}); err != io.ErrNoProgress {
		t.Errorf("a listener that fails: %v", err)
	}
	for range 2 {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Serve(l); err != nil {
		t.Errorf("a server that is closed: %v", err)
	}
	if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("its listener: %v", err)
	}
}

// failing is Data that cannot be read.
type failing struct{ err error }

func (failing) Size() int64                         { return 10 }
func (f failing) ReadAt([]byte, int64) (int, error) { return 0, f.err }

// panicking is Data with a bug.
type panicking struct{}

func (panicking) Size() int64                       { return 10 }
func (panicking) ReadAt([]byte, int64) (int, error) { panic("a bug") }

// TestErrors holds what readers and the log are told of errors.
func TestErrors(t *testing.T) {
	var log bytes.Buffer
	c, root, s := mounted(t, tensorfs.Entries{
		{Name: "broken", Data: failing{io.ErrUnexpectedEOF}},
		{Name: "changed", Data: failing{&tensorfs.ChangedError{File: "/model"}}},
		{Name: "panics", Data: panicking{}},
		{Name: "refused", Data: failing{&os.PathError{Op: "read", Path: "x", Err: syscall.EACCES}}},
		{Name: "same", Data: failing{&tensorfs.ChangedError{File: "/model"}}},
		{Name: "stale", Data: failing{syscall.ESTALE}},
	}, Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	for range 3 {
		for name, want := range map[string]error{"broken": testnfs.IO, "changed": testnfs.IO, "same": testnfs.IO, "refused": testnfs.Access, "stale": testnfs.Stale, "panics": nil} {
			h, _, err := c.Lookup(root, name)
			if err != nil {
				t.Fatal(err)
			}
			_, _, err = c.Read(h, make([]byte, 10), 0)
			var refused *testnfs.RPCError
			if want != nil && !errors.Is(err, want) || want == nil && (!errors.As(err, &refused) || refused.How != 5) {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	s.Close() // nothing is logged any more
	for text, n := range map[string]int{"file=broken": 1, "file=refused": 1, "file=/model": 1, "a bug": 3, "level=ERROR": 7} {
		if got := strings.Count(log.String(), text); got != n {
			t.Errorf("%q is %d times in the log, want %d:\n%s", text, got, n, log.String())
		}
	}
	if h := s.Health(); len(h.Changed) != 1 || h.Changed[0] != "/model" {
		t.Errorf("%+v", h)
	}
	if len(s.payloads) != 0 {
		t.Errorf("%d payloads are left", len(s.payloads))
	}
}

// TestChangedModel changes a mapped file below a client.
func TestChangedModel(t *testing.T) {
	path := filepath.Join(t.TempDir(), "model")
	content := bytes.Repeat([]byte("model"), 1<<16)
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	m, err := source.Map(path, "model")
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	c, root, s := mounted(t, tensorfs.Entries{
		file("other", "text"),
		{Name: "tensor", Data: m.Section(5, int64(len(content)-10))},
	}, Options{})
	h, _, err := c.Lookup(root, "tensor")
	if err != nil {
		t.Fatal(err)
	}
	if b, err := c.ReadAll(h, 100_000); err != nil || !bytes.Equal(b, content[5:len(content)-5]) {
		t.Fatalf("%d bytes, %v", len(b), err)
	}
	if err := os.Chtimes(path, time.Time{}, time.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, content[:100], 0o600); err != nil {
		t.Fatal(err)
	}
	for _, off := range []int64{0, 200_000} {
		if _, _, err := c.Read(h, make([]byte, 100), off); !errors.Is(err, testnfs.IO) {
			t.Errorf("at %d: %v", off, err)
		}
	}
	if _, err := c.GetAttr(h); err != nil {
		t.Errorf("attributes: %v", err)
	}
	other, _, err := c.Lookup(root, "other")
	if err != nil {
		t.Fatal(err)
	}
	if b, err := c.ReadAll(other, 4); err != nil || string(b) != "text" {
		t.Errorf("what needs no file: %q, %v", b, err)
	}
	if h := s.Health(); len(h.Changed) != 1 || h.Changed[0] != path {
		t.Errorf("%+v", h)
	}
}
