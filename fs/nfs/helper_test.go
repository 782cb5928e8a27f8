package nfs

import (
	"bytes"
	"net"
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/testing/testnfs"
)

// serve serves a tree until the test ends, and returns the server and its address.
func serve(t testing.TB, tree tensorfs.Dir, o Options) (*Server, string) {
	t.Helper()
	s, err := New(tree, o)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(l) }()
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return s, l.Addr().String()
}

// dial connects a client until the test ends.
func dial(t testing.TB, address string) *testnfs.Client {
	t.Helper()
	c, err := testnfs.Dial(address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// mounted returns a client with the root of a tree that is served.
func mounted(t testing.TB, tree tensorfs.Dir, o Options) (*testnfs.Client, testnfs.Handle, *Server) {
	t.Helper()
	s, address := serve(t, tree, o)
	c := dial(t, address)
	h, err := c.Mount("/" + s.Token())
	if err != nil {
		t.Fatal(err)
	}
	return c, h, s
}

func file(name, text string) tensorfs.Entry {
	return tensorfs.Entry{Name: name, Data: bytes.NewReader([]byte(text))}
}

// small has one of each.
func small() tensorfs.Dir {
	return tensorfs.Entries{
		file("a", "some text"),
		{Name: "dir", Dir: tensorfs.Entries{file("b", ""), {Name: "deep", Dir: tensorfs.Entries{file("c", "ccc")}}}},
		{Name: "later", Dir: tensorfs.NewLater(func() tensorfs.Dir { return tensorfs.Entries{file("made", "later")} })},
		{Name: "link", Link: "dir/b"},
	}
}
