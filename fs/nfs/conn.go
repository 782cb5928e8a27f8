package nfs

import (
	"context"
	"encoding/binary"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

var be = binary.BigEndian

const (
	// maxConns is how many connections there may be. A mount has one, or a few.
	maxConns = 64
	// maxInFlight is how many requests of a connection are answered at a time.
	maxInFlight = 32
	// sharedPayloads is how many reads of all connections are answered at a time, each
	// with maxRead bytes, beside one of each connection: one whose client takes no reply
	// keeps what it has, and must not stop others.
	sharedPayloads = 64
	// writeTime is how long a client may take to take a reply.
	writeTime = time.Minute
)

// conn is a connection of a client.
type conn struct {
	server *Server
	net    net.Conn
	ctx    context.Context // ends with the connection
	cancel context.CancelFunc
	known  atomic.Bool // it has shown a token or a handle of ours
	order  uint64

	own     chan struct{} // holds the payload that is this connection's own
	writing sync.Mutex
}

func newConn(s *Server, nc net.Conn) *conn {
	ctx, cancel := context.WithCancel(context.Background())
	return &conn{server: s, net: nc, ctx: ctx, cancel: cancel, own: make(chan struct{}, 1)}
}

// close ends the connection and what is done for it.
func (c *conn) close() {
	c.cancel()
	c.net.Close()
}

// serve answers requests until the client goes or sends what is no request.
func (c *conn) serve() {
	var running sync.WaitGroup
	defer running.Wait()
	defer c.close()
	slots := make(chan struct{}, maxInFlight)
	r := newRecords(c.net)
	for {
		record, err := r.next()
		if err != nil {
			return
		}
		select {
		case slots <- struct{}{}:
		case <-c.ctx.Done():
			return
		}
		running.Go(func() {
			defer func() { <-slots }()
			c.answer(record)
		})
	}
}

// answer answers a request, or ends the connection if it cannot.
func (c *conn) answer(record []byte) {
	var r reply
	defer r.free()
	if !c.call(record, &r) || !c.send(&r) {
		c.close()
	}
}

// reply is an answer: the record's mark and head, and what a READ has read.
type reply struct {
	head    encoder
	payload *[maxPayload]byte // nil without one
	from    chan struct{}     // what counts it
	n       int               // bytes of it, padded
}

const maxPayload = maxRead + 3

var payloads = sync.Pool{New: func() any { return new([maxPayload]byte) }}

// take gets a buffer, the connection's own or a shared one, and waits if all are in use.
func (r *reply) take(c *conn) error {
	select {
	case c.own <- struct{}{}:
		r.from = c.own
	case c.server.payloads <- struct{}{}:
		r.from = c.server.payloads
	case <-c.ctx.Done():
		return c.ctx.Err()
	}
	r.payload = payloads.Get().(*[maxPayload]byte)
	return nil
}

func (r *reply) free() {
	if r.payload != nil {
		payloads.Put(r.payload)
		r.payload, r.n = nil, 0
		<-r.from
	}
}

// send writes a reply, which is one record of one fragment.
func (c *conn) send(r *reply) bool {
	be.PutUint32(r.head, lastFragment|uint32(len(r.head)-markBytes+r.n))
	c.writing.Lock()
	defer c.writing.Unlock()
	if c.net.SetWriteDeadline(time.Now().Add(writeTime)) != nil {
		return false
	}
	buffers := net.Buffers{r.head}
	if r.n > 0 {
		buffers = append(buffers, r.payload[:r.n])
	}
	_, err := buffers.WriteTo(c.net)
	return err == nil
}
