package nfs

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/testing/testnfs"
)

// TestMount lets one connection in, with the token and below it.
func TestMount(t *testing.T) {
	var log bytes.Buffer
	s, address := serve(t, small(), Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	at := "/" + s.Token()
	stranger := dial(t, address)
	for path, want := range map[string]testnfs.Status{
		"":                                  testnfs.Access,
		"/":                                 testnfs.Access,
		"/a":                                testnfs.Access,
		"//" + s.Token():                    testnfs.Access,
		"/" + strings.ToUpper(s.Token()):    testnfs.Access,
		at[:len(at)-1]:                      testnfs.Access,
		at + "0":                            testnfs.Access,
		"/" + strings.Repeat("0", 32):       testnfs.Access,
		"/x" + at:                           testnfs.Access,
		"/" + strings.Repeat("f", 32) + "/": testnfs.Access,
	} {
		if path == "/"+strings.ToUpper(s.Token()) && path == at {
			continue // a token without letters
		}
		if _, err := stranger.Mount(path); !errors.Is(err, want) {
			t.Errorf("%q: %v", path, err)
		}
	}
	// Attempts that fail use nothing up.
	c := dial(t, address)
	for path, want := range map[string]testnfs.Status{
		at + "/none":                          testnfs.NoEnt,
		at + "/a":                             testnfs.NotDir,
		at + "/a/b":                           testnfs.NotDir,
		at + "/link":                          testnfs.NotDir,
		at + "/.metadata_never_index":         testnfs.NotDir,
		at + "/" + strings.Repeat("n", 256):   testnfs.NameTooLong,
		at + "/dir/" + strings.Repeat("n", 9): testnfs.NoEnt,
	} {
		if _, err := stranger.Mount(path); !errors.Is(err, want) {
			t.Errorf("%q: %v", path, err)
		}
	}
	handles := map[string]uint64{"": 1, "/": 1, "/dir": 3, "//dir//deep/": 7, "/later": 4}
	for path, number := range handles {
		h, err := c.Mount(at + path)
		if err != nil {
			t.Fatalf("%q: %v", path, err)
		}
		if a, err := c.GetAttr(h); err != nil || a.FileID != number || a.Type != testnfs.Dir {
			t.Errorf("%q: %+v, %v", path, a, err)
		}
	}
	// Nor does the second one learn which names there are.
	for _, path := range []string{"", "/", "/dir", "/none", "/a", "/a/b", "/" + strings.Repeat("n", 256)} {
		if _, err := stranger.Mount(at + path); !errors.Is(err, testnfs.Access) {
			t.Errorf("a second client, %q: %v", path, err)
		}
	}
	c.Close()
	if _, err := dial(t, address).Mount(at); !errors.Is(err, testnfs.Access) {
		t.Errorf("a second client, after the first one: %v", err)
	}
	s.Close() // nothing is logged any more
	if n := strings.Count(log.String(), "a second client"); n != 1 || strings.Contains(log.String(), s.Token()) {
		t.Errorf("the log:\n%s", log.String())
	}
}

// TestMountLists holds that the server never reveals the path.
func TestMountLists(t *testing.T) {
	c, _, _ := mounted(t, small(), Options{})
	for _, procedure := range []uint32{2, 5} {
		r, err := c.Do(testnfs.MOUNT, testnfs.Version, procedure, nil)
		if err != nil || r.Bool() || r.Rest() > 0 {
			t.Errorf("procedure %d: %v, and %d bytes", procedure, err, r.Rest())
		}
	}
}

// TestUnmounted holds which messages are the end of a mount.
func TestUnmounted(t *testing.T) {
	said := func(s *Server) bool {
		select {
		case <-s.Unmounted():
			return true
		default:
			return false
		}
	}
	umnt := func(path string) func(*testnfs.Client) error {
		return func(c *testnfs.Client) error { return c.Unmount(path) }
	}
	all := func(c *testnfs.Client) error {
		_, err := c.Do(testnfs.MOUNT, testnfs.Version, 4, nil)
		return err
	}
	const token = "0123456789abcdef0123456789abcdef"
	for name, test := range map[string]struct {
		send           func(*testnfs.Client) error
		mount, mounted bool
		want           bool
	}{
		"UMNT":                            {umnt("/" + token), true, false, true},
		"UMNT of a directory":             {umnt("/" + token + "/dir"), true, false, true},
		"UMNT of something else":          {umnt("/0"), true, false, false},
		"UMNT without a mount":            {umnt("/" + token), false, false, false},
		"UMNT of an earlier server's":     {umnt("/" + token), false, true, true},
		"UMNTALL":                         {all, true, false, true},
		"UMNTALL without a mount":         {all, false, false, false},
		"a GETATTR":                       {func(c *testnfs.Client) error { _, err := c.GetAttr(nil); return ignore(err) }, true, false, false},
		"UMNTALL after an earlier server": {all, false, true, true},
	} {
		s, address := serve(t, small(), Options{Token: token, Mounted: test.mounted})
		c := dial(t, address)
		if test.mount {
			if _, err := c.Mount("/" + token); err != nil {
				t.Fatal(err)
			}
		}
		for range 2 {
			if err := test.send(c); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		if got := said(s); got != test.want {
			t.Errorf("%s: unmounted: %v", name, got)
		}
		if test.mounted {
			if _, err := c.Mount("/" + token); !errors.Is(err, testnfs.Access) {
				t.Errorf("%s: a token that was used: %v", name, err)
			}
		}
	}
}

// ignore returns nil instead of a status.
func ignore(err error) error {
	var status testnfs.Status
	if errors.As(err, &status) {
		return nil
	}
	return err
}

// TestRestart holds that a server which starts again goes on with the handles that
// clients have, and that one with another tree or key does not.
func TestRestart(t *testing.T) {
	o := Options{Key: bytes.Repeat([]byte{7}, 32)}
	first, address := serve(t, small(), o)
	c := dial(t, address)
	root, err := c.Mount("/" + first.Token())
	if err != nil {
		t.Fatal(err)
	}
	made, before, err := c.Find(root, "later/made")
	if err != nil {
		t.Fatal(err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := c.GetAttr(root); err == nil {
		t.Error("a server that is closed answers")
	}

	changed := o
	changed.FSID = 1
	other := o
	other.Key = bytes.Repeat([]byte{8}, 32)
	larger := append(small().(tensorfs.Entries), file("z", ""))
	for name, test := range map[string]struct {
		tree tensorfs.Dir
		o    Options
		want error
	}{
		"the same":     {small(), o, nil},
		"another key":  {small(), other, testnfs.BadHandle},
		"another fsid": {small(), changed, testnfs.BadHandle},
		"another tree": {larger, o, testnfs.BadHandle},
	} {
		s, address := serve(t, test.tree, test.o)
		c := dial(t, address)
		// The directory was not made yet: the handle of what is in it is good all the same.
		after, err := c.GetAttr(made)
		before.Times = after.Times // of New
		if !errors.Is(err, test.want) || err == nil && after != before {
			t.Errorf("%s: %+v, %v, want %+v", name, after, err, before)
		}
		if err == nil {
			if b, err := c.ReadAll(made, 3); err != nil || string(b) != "later" {
				t.Errorf("%s: %q, %v", name, b, err)
			}
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
