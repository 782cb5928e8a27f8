package nfs

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"testing"

	"github.com/tensorfs/tensorfs/fs"
	"github.com/tensorfs/tensorfs/internal/testing/testlimit"
	"github.com/tensorfs/tensorfs/internal/testing/testnfs"
)

// FuzzRecord reads any stream as records: each is the join of its fragments, and the
// memory is bounded by what a record may have.
func FuzzRecord(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{0x80, 0, 0, 4, 1, 2, 3, 4, 0x80, 0, 0, 0})
	f.Add([]byte{0, 0, 0, 1, 'a', 0, 0, 0, 0, 0x80, 0, 0, 2, 'b', 'c', 0xff})
	f.Add([]byte{0, 0, 0xff, 0xff, 1, 0x80, 1, 0, 1})
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 1})
	f.Fuzz(func(t *testing.T, stream []byte) {
		r := bytes.NewReader(stream)
		for {
			before := len(stream) - r.Len()
			var record []byte
			var err error
			used := testlimit.Allocated(func() { record, err = readRecord(r) })
			if used > 16*maxRecord {
				t.Fatalf("%d bytes of memory", used)
			}
			if err != nil {
				if !errors.Is(err, errRecord) && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
					t.Fatal(err)
				}
				return
			}
			var want []byte
			for at, last := stream[before:len(stream)-r.Len()], false; !last; {
				head := binary.BigEndian.Uint32(at)
				n := head &^ lastFragment
				want, at, last = append(want, at[4:4+n]...), at[4+n:], head != n
			}
			if !bytes.Equal(record, want) || len(record) > maxRecord {
				t.Fatalf("%x, want %x", record, want)
			}
		}
	})
}

// fuzzed returns a connection of a server that no client is on.
func fuzzed(t testing.TB) *conn {
	s, err := New(small(), Options{Key: make([]byte, keyBytes), Token: fuzzToken})
	if err != nil {
		t.Fatal(err)
	}
	near, far := net.Pipe()
	t.Cleanup(func() { near.Close(); far.Close() })
	return newConn(s, near)
}

const fuzzToken = "00112233445566778899aabbccddeeff"

// answers holds an answer to a record: it is a reply of a bounded size, or none.
func answers(t *testing.T, c *conn, record []byte) {
	var r reply
	defer r.free()
	if !c.call(record, &r) {
		return
	}
	// A list is the longest but for what READ has in its payload.
	if len(r.head) > maxList+200 || r.n > maxPayload || (len(r.head)+r.n)%4 != 0 {
		t.Fatalf("a reply of %d and %d bytes", len(r.head), r.n)
	}
	results, err := testnfs.Reply(r.head[markBytes:])
	var refused *testnfs.RPCError
	if err != nil && !errors.As(err, &refused) || err == nil && results.Err != nil {
		t.Fatalf("%x: %v", r.head, err)
	}
	if refused != nil && !refused.Denied && refused.How == acceptSystemErr {
		t.Fatalf("it panics: %+v", c.server.Health())
	}
	if !bytes.Equal(r.head[markBytes:markBytes+4], record[:4]) {
		t.Fatal("the reply to another call")
	}
	if h := c.server.Health(); len(h.Errors) > 1 { // that a second client asked for the mount
		t.Fatalf("%+v", h)
	}
}

// FuzzCall answers any record.
func FuzzCall(f *testing.F) {
	var client testnfs.Client
	root := testnfs.Args{}.Opaque(fuzzed(f).server.handles.put(nil, rootNumber))
	for program, p := range programs {
		for procedure := range p.procedures {
			f.Add([]byte(client.Call(1, program, p.version, uint32(procedure), root.Uint64(0).Uint64(0).Uint32(1000, 1000))))
		}
	}
	f.Add([]byte(client.Call(1, testnfs.MOUNT, 3, 1, testnfs.Args{}.Opaque([]byte("/"+fuzzToken+"/dir")))))
	f.Add([]byte(client.Call(1, testnfs.NFS, 3, 3, append(root, testnfs.Args{}.Opaque([]byte("later"))...))))
	f.Add([]byte(testnfs.Args{}.Uint32(1, 0, 2, 100003, 3, 0, 0, 0, 0, 0)))
	f.Add([]byte(testnfs.Args{}.Uint32(1, 0, 3)))
	f.Fuzz(func(t *testing.T, record []byte) {
		if len(record) <= maxRecord {
			answers(t, fuzzed(t), record)
		}
	})
}

// FuzzArguments answers calls about nodes, whose handles cannot be guessed, with any arguments
// after them.
func FuzzArguments(f *testing.F) {
	for procedure := range nfsProcedures {
		for _, node := range []uint64{1, 2, 3, 4, 5, 8, neverIndex.number} {
			f.Add(uint32(procedure), node, []byte(testnfs.Args{}.Uint64(0).Uint64(0).Uint32(1000, 1000)))
		}
	}
	f.Add(uint32(3), uint64(fs.Root), []byte(testnfs.Args{}.Opaque([]byte("..")).Uint32(0)))
	f.Fuzz(func(t *testing.T, procedure uint32, node uint64, rest []byte) {
		c := fuzzed(t)
		var client testnfs.Client
		handle := testnfs.Args{}.Opaque(c.server.handles.put(nil, node))
		if record := client.Call(1, testnfs.NFS, 3, procedure, append(handle, rest...)); len(record) <= maxRecord {
			answers(t, c, record)
		}
	})
}
