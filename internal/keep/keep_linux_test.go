package keep

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tensorfs/tensorfs/internal/testing/testlimit"
	"golang.org/x/sys/unix"
)

// serve starts a keeper in this process.
func serve(t *testing.T) (k *Keeper, socket string) {
	t.Helper()
	socket = filepath.Join(t.TempDir(), "s")
	l, err := Listen(socket)
	if err != nil {
		t.Fatal(err)
	}
	k = new(Keeper)
	ended := make(chan error, 1)
	go func() { ended <- k.Serve(l) }()
	t.Cleanup(func() {
		l.Close()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		k.mu.Lock()
		defer k.mu.Unlock()
		for key := range k.keys {
			closeAll(k.drop(key))
		}
	})
	return k, socket
}

func client(t *testing.T, socket, key string) *Client {
	t.Helper()
	c, err := NewClient(socket, key)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Drop() })
	return c
}

// killed has a client end as the process does that it is in.
func killed(c *Client) {
	c.mu.Lock()
	defer c.mu.Unlock()
	close(c.ended)
	for _, fd := range c.fds {
		unix.Close(fd)
	}
	c.fds = nil
	c.conn.Close()
	c.life.Close()
}

// file returns an open file that contains text.
func file(t *testing.T, text string) int {
	t.Helper()
	fd, err := unix.MemfdCreate("test", unix.MFD_CLOEXEC)
	if err == nil {
		_, err = unix.Write(fd, []byte(text))
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	return fd
}

// said returns what the files say, by their names, and closes them.
func said(t *testing.T, fds map[string]int) map[string]string {
	t.Helper()
	all := map[string]string{}
	for name, fd := range fds {
		b := make([]byte, 100)
		n, err := unix.Pread(fd, b, 0)
		if err != nil {
			t.Error(err)
		}
		all[name] = string(b[:n])
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err != nil || flags&unix.FD_CLOEXEC == 0 {
			t.Errorf("%s: programs that are started would get it (%d, %v)", name, flags, err)
		}
		unix.Close(fd)
	}
	return all
}

func get(t *testing.T, c *Client) map[string]string {
	t.Helper()
	fds, err := c.Get()
	if err != nil {
		t.Fatal(err)
	}
	return said(t, fds)
}

func put(t *testing.T, c *Client, name, text string) {
	t.Helper()
	if err := c.Put(name, file(t, text)); err != nil {
		t.Fatal(err)
	}
}

func TestKeeper(t *testing.T) {
	_, socket := serve(t)
	a, b := client(t, socket, "/mnt/a"), client(t, socket, "/mnt/b")
	if got := get(t, a); len(got) > 0 {
		t.Errorf("a new key has %v", got)
	}
	get(t, b)
	put(t, a, "device", "old")
	put(t, a, "device", "1")
	put(t, a, "state", "2")
	put(t, b, "device", "3")
	killed(a)
	again := client(t, socket, "/mnt/a")
	if got := get(t, again); fmt.Sprint(got) != "map[device:1 state:2]" {
		t.Errorf("got %v", got)
	}
	all, err := List(socket)
	slices.SortFunc(all, func(a, b Kept) int { return strings.Compare(a.Key, b.Key) })
	if want := fmt.Sprintf("[{/mnt/a [device state] %d true} {/mnt/b [device] %[1]d true}]", os.Getpid()); err != nil || fmt.Sprint(all) != want {
		t.Errorf("list: %v, %v; want %s", all, err, want)
	}
	if err := again.Clear(); err != nil {
		t.Error(err)
	}
	put(t, again, "device", "4")
	killed(again)
	testlimit.Wait(t, "key that nobody serves", func() bool {
		all, err := List(socket)
		return err == nil && slices.ContainsFunc(all, func(k Kept) bool { return k.Key == "/mnt/a" && !k.Served && k.PID == 0 })
	})
	again = client(t, socket, "/mnt/a")
	if got := get(t, again); fmt.Sprint(got) != "map[device:4]" {
		t.Errorf("got %v", got)
	}
	if err := again.Drop(); err != nil {
		t.Error(err)
	}
	if got := get(t, client(t, socket, "/mnt/a")); len(got) > 0 {
		t.Errorf("after drop: %v", got)
	}
}

// A key has one server at a time.
func TestBusy(t *testing.T) {
	_, socket := serve(t)
	a := client(t, socket, "key")
	get(t, a)
	put(t, a, "device", "1")
	b := client(t, socket, "key")
	if _, err := b.Get(); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("process %d serves", os.Getpid())) {
		t.Errorf("%v", err)
	}
	if err := b.Put("device", file(t, "2")); err == nil {
		t.Error("another server put a descriptor")
	}
	time.AfterFunc(50*time.Millisecond, func() { killed(a) }) // Get waits for it
	if got := get(t, client(t, socket, "key")); got["device"] != "1" {
		t.Errorf("got %v", got)
	}
}

// raw sends a message as it is and returns the answer.
func raw(t *testing.T, c *net.UnixConn, text string, fds ...int) (message, error) {
	t.Helper()
	if _, _, err := c.WriteMsgUnix([]byte(text), unix.UnixRights(fds...), nil); err != nil {
		t.Fatal(err)
	}
	m, got, err := receive(c)
	closeAll(got)
	return m, err
}

// What makes no sense is refused, and the connection goes on.
func TestRefused(t *testing.T) {
	k, socket := serve(t)
	c, err := net.DialUnix(network, nil, &net.UnixAddr{Name: socket, Net: network})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fd := file(t, "x")
	long := strings.Repeat("x", maxKey+1)
	for _, r := range []struct {
		text string
		fds  []int
	}{
		{"{", nil}, {"[]", nil}, {"{}", nil}, {`{"op":"put"}`, []int{fd}}, {`{"op":"get"}`, nil}, {`{"op":"none","key":"k"}`, nil},
		{`{"op":"put","key":"k","name":"n"}`, nil}, {`{"op":"put","key":"k","name":"n"}`, []int{fd, fd}}, {`{"op":"put","key":"k"}`, []int{fd}},
		{`{"op":"get","key":"k"}`, []int{fd}}, {`{"op":"get","key":"` + long + `"}`, nil}, {`{"op":"put","key":"k","name":"` + long[:maxName+1] + `"}`, []int{fd}},
		{`{"op":"get","key":"` + strings.Repeat("x", maxMessage) + `"}`, nil},
		{`{"op":"get","key":"k"}`, slices.Repeat([]int{fd}, maxDescriptors+1)},
	} {
		if m, err := raw(t, c, r.text, r.fds...); err != nil || m.Error == "" {
			t.Errorf("%.60s with %d descriptors: %+v, %v", r.text, len(r.fds), m, err)
		}
	}
	for i := range maxDescriptors + 1 {
		m, err := raw(t, c, fmt.Sprintf(`{"op":"put","key":"k","name":"%d"}`, i), fd)
		if err != nil || (m.Error != "") != (i == maxDescriptors) {
			t.Errorf("descriptor %d: %+v, %v", i, m, err)
		}
	}
	for i := range maxKeys {
		m, err := raw(t, c, fmt.Sprintf(`{"op":"put","key":"k%d","name":"n"}`, i), fd)
		if err != nil || (m.Error != "") != (i == maxKeys-1) {
			t.Fatalf("key %d: %+v, %v", i, m, err)
		}
	}
	if k.mu.Lock(); len(k.keys) != maxKeys {
		t.Errorf("%d keys", len(k.keys))
	}
	k.mu.Unlock()
	if all, err := List(socket); err != nil || len(all) != maxKeys {
		t.Errorf("%d in the list, %v", len(all), err)
	}
}

// Descriptors whose other end is gone, as a device's without its mount, are not kept.
func TestSweep(t *testing.T) {
	var pipes [2][2]int
	k := &Keeper{keys: map[string]*kept{}}
	for i := range pipes {
		if err := unix.Pipe2(pipes[i][:], unix.O_CLOEXEC); err != nil {
			t.Fatal(err)
		}
		k.keys[fmt.Sprint(i)] = &kept{fds: map[string]int{"device": pipes[i][1]}}
	}
	defer closeAll(pipes[1][:])
	unix.Close(pipes[0][0])
	fds := k.sweep()
	closeAll(fds)
	if len(fds) != 1 || fds[0] != pipes[0][1] || len(k.keys) != 1 || k.keys["1"] == nil {
		t.Errorf("%v, %v", fds, k.keys)
	}
}

func TestListen(t *testing.T) {
	_, socket := serve(t)
	if _, err := Listen(socket); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a second keeper: %v", err)
	}
	if st, err := os.Stat(socket); err != nil || st.Mode().Perm()&0o077 != 0 {
		t.Errorf("the socket is for others too: %v, %v", st.Mode(), err)
	}
	plain := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(plain, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Listen(plain); err == nil {
		t.Error("a file was replaced by a socket")
	}
	if _, err := os.Stat(plain); err != nil {
		t.Error(err)
	}
}
