package testnfs

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
)

var be = binary.BigEndian

// Programs and versions.
const (
	NFS     = 100003
	MOUNT   = 100005
	Version = 3
)

// Client is a connection to a server.
type Client struct {
	// UID is the user that the client claims to be.
	UID uint32

	conn    net.Conn
	sending sync.Mutex

	mu      sync.Mutex
	xid     uint32
	waiting map[uint32]chan []byte
	err     error // why there are no more replies
}

// Dial connects to a server.
func Dial(address string) (*Client, error) {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return nil, err
	}
	c := &Client{conn: conn, waiting: map[uint32]chan []byte{}}
	go c.receive()
	return c, nil
}

// Close ends the connection.
func (c *Client) Close() error { return c.conn.Close() }

const (
	// maxReply is more than any server may send.
	maxReply = 2 << 20
	// pooled is how long a fragment is whose memory is from a pool.
	pooled = 64 << 10
)

var buffers = sync.Pool{New: func() any { return new([maxReply]byte) }}

// receive hands replies to the calls that wait for them.
func (c *Client) receive() {
	for {
		record, err := ReadRecord(c.conn)
		c.mu.Lock()
		if err != nil || len(record) < 4 {
			c.err = errors.Join(err, io.ErrUnexpectedEOF)
			for _, ch := range c.waiting {
				close(ch)
			}
			c.waiting = nil
			c.mu.Unlock()
			c.conn.Close()
			return
		}
		xid := be.Uint32(record)
		ch := c.waiting[xid]
		delete(c.waiting, xid)
		c.mu.Unlock()
		if ch != nil {
			ch <- record
		}
	}
}

// ReadRecord reads a record of a stream. The memory of a large one is from a pool.
func ReadRecord(r io.Reader) (record []byte, err error) {
	for {
		var mark [4]byte
		if _, err := io.ReadFull(r, mark[:]); err != nil {
			return nil, err
		}
		head := be.Uint32(mark[:])
		have, n := len(record), int(head&^(1<<31))
		if n > maxReply-have {
			return nil, fmt.Errorf("a reply of more than %d bytes", maxReply)
		}
		if have+n > cap(record) && n > pooled {
			record = append(buffers.Get().(*[maxReply]byte)[:0], record...)
		}
		if have+n > cap(record) {
			record = append(record, make([]byte, n)...)
		}
		record = record[:have+n]
		if _, err := io.ReadFull(r, record[have:]); err != nil {
			return nil, err
		}
		if head&(1<<31) != 0 {
			return record, nil
		}
	}
}

// Args are arguments of a call, in XDR.
type Args []byte

// Uint32 appends numbers.
func (a Args) Uint32(vs ...uint32) Args {
	for _, v := range vs {
		a = be.AppendUint32(a, v)
	}
	return a
}

// Uint64 appends a number.
func (a Args) Uint64(v uint64) Args { return be.AppendUint64(a, v) }

// Opaque appends bytes after how many they are.
func (a Args) Opaque(b []byte) Args {
	a = append(a.Uint32(uint32(len(b))), b...)
	return append(a, make([]byte, -len(b)&3)...)
}

// Address is the server's address.
func (c *Client) Address() string { return c.conn.RemoteAddr().String() }

// Call is a whole call, without the mark of the record.
func (c *Client) Call(xid, program, version, procedure uint32, args Args) Args {
	who := Args{}.Uint32(0).Opaque([]byte("testnfs")).Uint32(c.UID, c.UID, 0)
	return call(xid, 1, who, program, version, procedure, args)
}

func call(xid, flavour uint32, who []byte, program, version, procedure uint32, args Args) Args {
	a := Args{}.Uint32(xid, 0, 2, program, version, procedure, flavour).Opaque(who).Uint32(0, 0)
	return append(a, args...)
}

// Do makes a call and returns its results.
func (c *Client) Do(program, version, procedure uint32, args Args) (*Results, error) {
	return c.DoRecord(c.Call(0, program, version, procedure, args))
}

// DoAs makes a call with any credential.
func (c *Client) DoAs(flavour uint32, who []byte, program, version, procedure uint32, args Args) (*Results, error) {
	return c.DoRecord(call(0, flavour, who, program, version, procedure, args))
}

// DoRecord makes a call of any content, with a number of its own at the start.
func (c *Client) DoRecord(record Args) (*Results, error) {
	c.mu.Lock()
	if c.err != nil {
		defer c.mu.Unlock()
		return nil, c.err
	}
	c.xid++
	be.PutUint32(record, c.xid)
	ch := make(chan []byte, 1)
	c.waiting[c.xid] = ch
	c.mu.Unlock()
	if err := c.Send(record); err != nil {
		return nil, err
	}
	reply, ok := <-ch
	if !ok {
		c.mu.Lock()
		defer c.mu.Unlock()
		return nil, c.err
	}
	return Reply(reply)
}

// Send sends a record, whatever is in it.
func (c *Client) Send(record []byte) error {
	c.sending.Lock()
	defer c.sending.Unlock()
	_, err := c.conn.Write(append(be.AppendUint32(nil, 1<<31|uint32(len(record))), record...))
	return err
}

// Write sends bytes that are perhaps no record.
func (c *Client) Write(p []byte) (int, error) { return c.conn.Write(p) }

// Results are the results of a call, in XDR. A missing one is an error that stays.
type Results struct {
	record, b []byte
	Err       error
}

// RPCError is the error that a call was not done: how it was accepted, or why it was
// denied.
type RPCError struct {
	Denied bool
	How    uint32
	Rest   []uint32
}

func (e *RPCError) Error() string {
	return fmt.Sprintf("the call was not done: denied %v, %d, %d", e.Denied, e.How, e.Rest)
}

// Reply reads the head of a reply.
func Reply(record []byte) (*Results, error) {
	r := &Results{record: record, b: record}
	r.Uint32() // xid
	if kind := r.Uint32(); r.Err == nil && kind != 1 {
		r.Err = fmt.Errorf("a message of kind %d", kind)
	}
	e := &RPCError{Denied: r.Uint32() != 0}
	if !e.Denied {
		r.Uint32()
		r.Opaque()
	}
	e.How = r.Uint32()
	if r.Err != nil || !e.Denied && e.How == 0 {
		return r, r.Err
	}
	for len(r.b) > 0 && r.Err == nil {
		e.Rest = append(e.Rest, r.Uint32())
	}
	return nil, errors.Join(e, r.Err)
}

// Rest is how many bytes were not read yet.
func (r *Results) Rest() int { return len(r.b) }

// Free gives the memory back: nothing of the results may be used any more.
func (r *Results) Free() {
	if cap(r.record) == maxReply {
		buffers.Put((*[maxReply]byte)(r.record[:maxReply]))
	}
}

func (r *Results) take(n int) []byte {
	if r.Err == nil && (n < 0 || n > len(r.b)) {
		r.Err = fmt.Errorf("%d bytes of the reply are missing: %w", n-len(r.b), io.ErrUnexpectedEOF)
	}
	if r.Err != nil {
		return make([]byte, min(max(n, 0), 8))
	}
	p := r.b[:n]
	r.b = r.b[n:]
	return p
}

// Uint32 reads a number.
func (r *Results) Uint32() uint32 { return be.Uint32(r.take(4)) }

// Uint64 reads a number.
func (r *Results) Uint64() uint64 { return be.Uint64(r.take(8)) }

// Bool reads a number that must be 0 or 1.
func (r *Results) Bool() bool {
	v := r.Uint32()
	if v > 1 && r.Err == nil {
		r.Err = fmt.Errorf("%d is neither true nor false", v)
	}
	return v == 1
}

// Opaque reads bytes, whose padding must be zero. They are the results' own.
func (r *Results) Opaque() []byte {
	n := int(r.Uint32())
	p := r.take(n)
	for _, b := range r.take(-n & 3) {
		if b != 0 && r.Err == nil {
			r.Err = errors.New("padding is not zero")
		}
	}
	return p
}
