package nfs

import (
	"errors"
	"testing"

	"github.com/tensorfs/tensorfs/internal/testing/testlimit"
	"github.com/tensorfs/tensorfs/internal/testing/testnfs"
)

// With Shared any number of clients may use the token, and no other.
func TestShared(t *testing.T) {
	for _, shared := range []bool{false, true} {
		s, address := serve(t, small(), Options{Shared: shared})
		if _, err := dial(t, address).Mount("/" + s.Token()); err != nil {
			t.Fatal(err)
		}
		if _, err := dial(t, address).Mount("/" + s.Token()); (err == nil) != shared {
			t.Errorf("shared %v: a second client: %v", shared, err)
		}
		if _, err := dial(t, address).Mount("/0123456789abcdef0123456789abcdef"); !errors.Is(err, testnfs.Access) {
			t.Errorf("shared %v: a wrong token: %v", shared, err)
		}
	}
}

// A connection with a valid handle counts as a client until it closes; a connection without one
// does not.
func TestClients(t *testing.T) {
	s, address := serve(t, small(), Options{})
	stranger := dial(t, address)
	if _, err := stranger.Mount("/wrong"); err == nil || s.Clients() != 0 {
		t.Fatalf("%d clients, %v", s.Clients(), err)
	}
	c := dial(t, address)
	root, err := c.Mount("/" + s.Token())
	if err != nil || s.Clients() != 1 {
		t.Fatalf("%d clients, %v", s.Clients(), err)
	}
	c.Close()
	testlimit.Wait(t, "end of the connection", func() bool { return s.Clients() == 0 })
	if _, err := stranger.GetAttr(root); err != nil || s.Clients() != 1 {
		t.Errorf("%d clients, %v", s.Clients(), err)
	}
}
