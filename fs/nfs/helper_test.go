package nfs

import (
	"bytes"
	"net"
	"testing"

	"github.com/tensorfs/tensorfs/fs"
	"github.com/tensorfs/tensorfs/internal/testnfs"
)

// serve serves a tree until the test ends, and returns the server and its address.
func serve(t testing.TB, tree fs.Dir, o Options) (*Server, string) {
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
func mounted(t testing.TB, tree fs.Dir, o Options) (*testnfs.Client, testnfs.Handle, *Server) {
	t.Helper()
	s, address := serve(t, tree, o)
	c := dial(t, address)
	h, err := c.Mount("/" + s.Token())
	if err != nil {
		t.Fatal(err)
	}
	return c, h, s
}

func file(name, text string) fs.Entry {
	return fs.Entry{Name: name, Data: bytes.NewReader([]byte(text))}
}

// small has one of each.
func small() fs.Dir {
	return fs.Entries{
		file("a", "some text"),
		{Name: "dir", Dir: fs.Entries{file("b", ""), {Name: "deep", Dir: fs.Entries{file("c", "ccc")}}}},
		{Name: "later", Dir: fs.NewLater(func() fs.Dir { return fs.Entries{file("made", "later")} })},
		{Name: "link", Link: "dir/b"},
	}
}
