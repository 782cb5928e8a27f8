package keep

import (
	"bytes"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tensorfs/tensorfs/internal/testing/testlimit"
	"golang.org/x/sys/unix"
)

const nobody = 65534

// asNobody runs fn in a thread of another user.
func asNobody(t *testing.T, fn func() error) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root becomes another user")
	}
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // for good: the thread ends with the goroutine
		_, _, no := unix.RawSyscall(unix.SYS_SETRESUID, nobody, nobody, nobody)
		if no != 0 {
			done <- no
			return
		}
		done <- fn()
	}()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

// openDir returns a directory where everyone may make files.
func openDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "keep")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	return dir
}

// log is a logger's text.
type log struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *log) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// stranger listens at a socket as another user, and returns what it hears.
func stranger(t *testing.T, socket string) (heard *log, end func()) {
	t.Helper()
	var l *net.UnixListener
	asNobody(t, func() (err error) {
		l, err = net.ListenUnix(network, &net.UnixAddr{Name: socket, Net: network})
		return err
	})
	if err := os.Chmod(socket, 0o777); err != nil {
		t.Fatal(err)
	}
	heard = new(log)
	go func() {
		for {
			c, err := l.AcceptUnix()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				m, fds, err := receive(c)
				closeAll(fds)
				if err == nil {
					heard.Write([]byte("heard " + m.Op))
				}
			}()
		}
	}()
	return heard, func() { l.Close() }
}

// Another user who listens at the socket gets nothing: neither at the start, nor after the keeper has ended.
func TestStranger(t *testing.T) {
	dir := openDir(t)
	socket := filepath.Join(dir, "s")
	heard, end := stranger(t, socket)
	defer func() { end() }()
	if err := Reach(socket); !errors.Is(err, errStranger) || !strings.Contains(err.Error(), "user 65534 listens there") {
		t.Errorf("%v", err)
	}
	if _, err := List(socket); !errors.Is(err, errStranger) {
		t.Errorf("%v", err)
	}
	said := new(log)
	c := client(t, socket, "key")
	c.LogTo(slog.New(slog.NewTextHandler(said, nil)))
	if got := get(t, c); len(got) > 0 {
		t.Errorf("got %v", got)
	}
	put(t, c, "device", "1")
	kept := func() bool { c.mu.Lock(); defer c.mu.Unlock(); return c.conn != nil }
	for _, place := range []string{"the first", "the second"} {
		time.Sleep(3 * away) // it looks for a keeper
		if kept() || heard.String() != "" {
			t.Fatalf("%s stranger heard %q", place, heard)
		}
		if place == "the second" {
			break
		}
		end()
		l, err := Listen(socket)
		if err != nil {
			t.Fatal(err)
		}
		k := new(Keeper)
		go k.Serve(l)
		testlimit.Wait(t, "mount that is kept", kept)
		l.Close()
		k.mu.Lock()
		for _, c := range k.clients {
			c.conn.Close()
		}
		closeAll(k.drop("key"))
		k.mu.Unlock()
		heard, end = stranger(t, socket)
		testlimit.Wait(t, "keeper that is gone", func() bool { return !kept() })
	}
	if n := strings.Count(said.String(), "user 65534 listens there"); n != 2 {
		t.Errorf("it is said %d times: %s", n, said)
	}
}

// A manager of services is told something only if root or the own user made its socket.
func TestTell(t *testing.T) {
	dir := openDir(t)
	listen := func(t *testing.T, name string) *net.UnixConn {
		c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: name, Net: "unixgram"})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	foreign := func(t *testing.T, name string) (c *net.UnixConn) {
		asNobody(t, func() (err error) {
			c, err = net.ListenUnixgram("unixgram", &net.UnixAddr{Name: name, Net: "unixgram"})
			return err
		})
		t.Cleanup(func() { c.Close() })
		if name[0] != '@' {
			if err := os.Chmod(name, 0o777); err != nil {
				t.Fatal(err)
			}
		}
		return c
	}
	for _, s := range []struct {
		name, socket string
		listen       func(t *testing.T, name string) *net.UnixConn
		link, told   bool
	}{
		{"own file", dir + "/own", listen, false, true},
		{"own name", "@tensorfs-own-" + filepath.Base(dir), listen, false, true},
		{"link to an own file", dir + "/own2", listen, true, true},
		{"file of another user", dir + "/other", foreign, false, false},
		{"name of another user", "@tensorfs-other-" + filepath.Base(dir), foreign, false, false},
		{"link to a file of another user", dir + "/other2", foreign, true, false},
	} {
		t.Run(s.name, func(t *testing.T) {
			c := s.listen(t, s.socket)
			at := s.socket
			if s.link {
				at += "-link"
				if err := os.Symlink(s.socket, at); err != nil {
					t.Fatal(err)
				}
			}
			err := Tell(at, "READY=1", file(t, "x"))
			if (err == nil) != s.told || err != nil && !errors.Is(err, errStranger) {
				t.Errorf("%v", err)
			}
			b := make([]byte, 100)
			c.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
			if s.told {
				c.SetReadDeadline(time.Time{})
			}
			n, _, _, _, err := c.ReadMsgUnix(b, nil)
			if (err == nil) != s.told || s.told && string(b[:n]) != "READY=1" {
				t.Errorf("it heard %q, %v", b[:max(n, 0)], err)
			}
			t.Setenv("NOTIFY_SOCKET", at)
			if _, err := NewSystemd(); (err == nil) != s.told {
				t.Errorf("descriptors are kept there: %v", err)
			}
		})
	}
	for _, path := range []string{dir, dir + "/none", "@tensorfs-nobody", ""} {
		if err := Tell(path, "READY=1"); err == nil {
			t.Errorf("%q heard something", path)
		}
	}
}
