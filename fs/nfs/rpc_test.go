package nfs

import (
	"bytes"
	"encoding/hex"
	"errors"
	"io"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/tensorfs/tensorfs/internal/testing/testlimit"
	"github.com/tensorfs/tensorfs/internal/testing/testnfs"
)

// TestGolden holds a call and its reply, byte by byte, as RFC 5531 and 1813 draw them.
func TestGolden(t *testing.T) {
	_, address := serve(t, small(), Options{})
	for _, test := range []struct{ name, call, reply string }{
		{
			"NULL of NFS",
			"80000028 00000001 00000000 00000002 000186a3 00000003 00000000 00000000 00000000 00000000 00000000",
			"80000018 00000001 00000001 00000000 00000000 00000000 00000000",
		},
		{
			"GETATTR of a short handle",
			"80000030 00000002 00000000 00000002 000186a3 00000003 00000001 00000000 00000000 00000000 00000000 00000002 abcd0000",
			"8000001c 00000002 00000001 00000000 00000000 00000000 00000000 00002711",
		},
		{
			"MNT of a wrong path",
			"80000030 00000003 00000000 00000002 000186a5 00000003 00000001 00000000 00000000 00000000 00000000 00000002 2f780000",
			"8000001c 00000003 00000001 00000000 00000000 00000000 00000000 0000000d",
		},
		{
			"EXPORT",
			"80000028 00000004 00000000 00000002 000186a5 00000003 00000005 00000000 00000000 00000000 00000000",
			"8000001c 00000004 00000001 00000000 00000000 00000000 00000000 00000000",
		},
	} {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		unhex := func(s string) []byte {
			b, err := hex.DecodeString(string(bytes.ReplaceAll([]byte(s), []byte(" "), nil)))
			if err != nil {
				t.Fatal(err)
			}
			return b
		}
		call, want := unhex(test.call), unhex(test.reply)
		if _, err := conn.Write(call); err != nil {
			t.Fatal(err)
		}
		got := make([]byte, len(want))
		if _, err := io.ReadFull(conn, got); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: %x, %v, want %x", test.name, got, err, want)
		}
	}
}

// TestRefusedCalls holds how calls are refused that no procedure sees.
func TestRefusedCalls(t *testing.T) {
	c, root, _ := mounted(t, small(), Options{})
	h := testnfs.Args{}.Opaque(root)
	for name, test := range map[string]struct {
		rpc, program, version, procedure, flavour uint32
		cred                                      []byte
		args                                      testnfs.Args
		want                                      testnfs.RPCError
	}{
		"another RPC":          {rpc: 3, program: 100003, version: 3, want: testnfs.RPCError{Denied: true, How: 0, Rest: []uint32{2, 2}}},
		"a credential unknown": {rpc: 2, program: 100003, version: 3, flavour: 6, want: testnfs.RPCError{Denied: true, How: 1, Rest: []uint32{1}}},
		"a credential cut off": {rpc: 2, program: 100003, version: 3, flavour: 1, cred: make([]byte, 16), want: testnfs.RPCError{Denied: true, How: 1, Rest: []uint32{1}}},
		"many groups":          {rpc: 2, program: 100003, version: 3, flavour: 1, cred: append(make([]byte, 16), bytes.Repeat([]byte{0, 0, 0, 17}, 18)...), want: testnfs.RPCError{Denied: true, How: 1, Rest: []uint32{1}}},
		"a portmapper":         {rpc: 2, program: 100000, version: 2, want: testnfs.RPCError{How: 1}},
		"a lock manager":       {rpc: 2, program: 100021, version: 4, want: testnfs.RPCError{How: 1}},
		"NFS 2":                {rpc: 2, program: 100003, version: 2, want: testnfs.RPCError{How: 2, Rest: []uint32{3, 3}}},
		"NFS 4":                {rpc: 2, program: 100003, version: 4, want: testnfs.RPCError{How: 2, Rest: []uint32{3, 3}}},
		"MOUNT 1":              {rpc: 2, program: 100005, version: 1, want: testnfs.RPCError{How: 2, Rest: []uint32{3, 3}}},
		"procedure 22":         {rpc: 2, program: 100003, version: 3, procedure: 22, want: testnfs.RPCError{How: 3}},
		"the last procedure":   {rpc: 2, program: 100005, version: 3, procedure: 1<<32 - 1, want: testnfs.RPCError{How: 3}},
		"no handle":            {rpc: 2, program: 100003, version: 3, procedure: 1, want: testnfs.RPCError{How: 4}},
		"half a handle":        {rpc: 2, program: 100003, version: 3, procedure: 1, args: h[:16], want: testnfs.RPCError{How: 4}},
		"a handle of 65 bytes": {rpc: 2, program: 100003, version: 3, procedure: 1, args: testnfs.Args{}.Opaque(make([]byte, 65)), want: testnfs.RPCError{How: 4}},
		"a READ cut off":       {rpc: 2, program: 100003, version: 3, procedure: 6, args: h.Uint64(0), want: testnfs.RPCError{How: 4}},
		"a name that is long":  {rpc: 2, program: 100003, version: 3, procedure: 3, args: h.Uint32(1<<32 - 1), want: testnfs.RPCError{How: 4}},
		"a list cut off":       {rpc: 2, program: 100003, version: 3, procedure: 16, args: h.Uint64(0), want: testnfs.RPCError{How: 4}},
		"an ACCESS to nothing": {rpc: 2, program: 100003, version: 3, procedure: 4, args: h, want: testnfs.RPCError{How: 4}},
		"a path of 1025":       {rpc: 2, program: 100005, version: 3, procedure: 1, args: testnfs.Args{}.Opaque(make([]byte, 1025)), want: testnfs.RPCError{How: 4}},
	} {
		call := testnfs.Args{}.Uint32(0, 0, test.rpc, test.program, test.version, test.procedure, test.flavour).Opaque(test.cred).Uint32(0, 0)
		_, err := c.DoRecord(append(call, test.args...))
		var got *testnfs.RPCError
		if !errors.As(err, &got) {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got.Denied != test.want.Denied || got.How != test.want.How || !slices.Equal(got.Rest, test.want.Rest) {
			t.Errorf("%s: %+v, want %+v", name, got, test.want)
		}
	}
	// Bytes after the arguments mean nothing.
	if _, err := c.Do3(testnfs.NFS, 1, append(slices.Clone(h), "trailing"...)); err != nil {
		t.Error(err)
	}
}

// TestFragments sends a call in fragments of one byte, and of none.
func TestFragments(t *testing.T) {
	s, address := serve(t, small(), Options{})
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	var c testnfs.Client
	call := c.Call(7, testnfs.MOUNT, 3, 1, testnfs.Args{}.Opaque([]byte("/"+s.Token()+"/dir")))
	var stream testnfs.Args
	for range 3 {
		for _, b := range call {
			stream = append(stream.Uint32(0, 1), b)
		}
		stream = stream.Uint32(1 << 31)
	}
	if _, err := conn.Write(stream); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		record, err := testnfs.ReadRecord(conn)
		if err != nil {
			t.Fatal(err)
		}
		if r, err := testnfs.Reply(record); err != nil || r.Uint32() != 0 {
			t.Errorf("%v", err)
		}
	}
}

// ended holds that the server ends a connection and sends nothing more.
func ended(t *testing.T, what string, conn net.Conn) {
	t.Helper()
	if err := conn.SetReadDeadline(time.Now().Add(testlimit.Patience)); err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(conn)
	var late net.Error
	if len(b) > 0 || errors.As(err, &late) && late.Timeout() {
		t.Errorf("%s: %x, %v", what, b, err)
	}
}

// TestNotRecords holds that a connection ends with what is no call.
func TestNotRecords(t *testing.T) {
	_, address := serve(t, small(), Options{})
	for name, bytes := range map[string][]byte{
		"HTTP":                     []byte("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"),
		"a record that is long":    testnfs.Args{}.Uint32(1<<31 | maxRecord + 1),
		"fragments that are long":  append(append(testnfs.Args{}.Uint32(maxRecord), make([]byte, maxRecord)...), 0x80, 0, 0, 1),
		"an empty record":          testnfs.Args{}.Uint32(1 << 31),
		"a record without a call":  testnfs.Args{}.Uint32(1<<31|4, 7),
		"a reply":                  testnfs.Args{}.Uint32(1<<31|24, 7, 1, 0, 0, 0, 0),
		"a call cut off":           testnfs.Args{}.Uint32(1<<31|20, 7, 0, 2, 100003, 3),
		"a credential of 401":      append(testnfs.Args{}.Uint32(1<<31|436, 7, 0, 2, 100003, 3, 0, 0, 401), make([]byte, 404)...),
		"nothing but empty pieces": make([]byte, 4*(maxFragments+1)),
	} {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Write(bytes); err != nil {
			t.Logf("%s: %v", name, err) // it may be closed already
		}
		ended(t, name, conn)
		conn.Close()
	}
}

// TestGarbageAfterACall holds that a call is answered, and that garbage after it ends only its own
// connection.
func TestGarbageAfterACall(t *testing.T) {
	c, root, s := mounted(t, small(), Options{})
	other := dial(t, c.Address())
	if _, err := other.GetAttr(root); err != nil {
		t.Fatal(err)
	}
	if _, err := other.Write(bytes.Repeat([]byte{0xff}, 100)); err != nil {
		t.Fatal(err)
	}
	if _, err := other.GetAttr(root); err == nil {
		t.Error("the connection goes on")
	}
	if _, err := c.GetAttr(root); err != nil {
		t.Errorf("another connection: %v", err)
	}
	if h := s.Health(); len(h.Errors) > 0 {
		t.Errorf("it complains: %+v", h.Errors)
	}
}

// deadlines is a connection that notes what deadlines it is given.
type deadlines struct {
	net.Conn
	data []byte
	said []bool // whether there is one, at each byte that is read
	now  bool
}

func (d *deadlines) SetReadDeadline(t time.Time) error {
	d.now = !t.IsZero()
	return nil
}

func (d *deadlines) SetWriteDeadline(t time.Time) error { return d.SetReadDeadline(t) }

func (d *deadlines) Write(p []byte) (int, error) {
	d.said = append(d.said, d.now)
	return len(p), nil
}

func (d *deadlines) Read(p []byte) (int, error) {
	d.said = append(d.said, d.now)
	if len(d.data) == 0 {
		return 0, io.EOF
	}
	n := copy(p[:1], d.data)
	d.data = d.data[n:]
	return n, nil
}

// TestDeadlines holds that a connection may be idle for ever, and that neither a request
// nor a reply may take so long.
func TestDeadlines(t *testing.T) {
	one := append(testnfs.Args{}.Uint32(1, 0x41000000)[:5], testnfs.Args{}.Uint32(1<<31|2, 0)[:6]...)
	d := &deadlines{data: slices.Concat(one, one)}
	r := newRecords(d)
	for range 2 {
		if rec, err := r.next(); err != nil || string(rec) != "A\x00\x00" {
			t.Fatalf("%q, %v", rec, err)
		}
	}
	if _, err := r.next(); err != io.EOF {
		t.Error(err)
	}
	for i, is := range d.said {
		if is != (i%len(one) != 0) {
			t.Errorf("byte %d: a deadline: %v", i, is)
		}
	}
	d.now, d.said = false, nil
	if ok := newConn(nil, d).send(&reply{head: make(encoder, markBytes)}); !ok || !slices.Equal(d.said, []bool{true}) {
		t.Errorf("a reply is written with deadlines %v", d.said)
	}
}
