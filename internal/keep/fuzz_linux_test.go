package keep

import (
	"net"
	"os"
	"testing"

	"github.com/tensorfs/tensorfs/internal/testing/testlimit"
	"golang.org/x/sys/unix"
)

// socketPair returns two ends of a connection.
func socketPair(t testing.TB) (a, b *net.UnixConn) {
	t.Helper()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	var ends [2]*net.UnixConn
	for i, fd := range pair {
		f := os.NewFile(uintptr(fd), "socket")
		c, err := net.FileConn(f)
		f.Close()
		if err != nil {
			t.Fatal(err)
		}
		ends[i] = c.(*net.UnixConn)
	}
	return ends[0], ends[1]
}

// openFiles returns how many files this process has open.
func openFiles(t testing.TB) int {
	t.Helper()
	all, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(all)
}

// sendRaw sends bytes with some descriptors of a file in memory.
func sendRaw(t testing.TB, c *net.UnixConn, text []byte, fds int) bool {
	fd, err := unix.MemfdCreate("test", unix.MFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	var rights []byte
	if fds > 0 {
		all := make([]int, fds)
		for i := range all {
			all[i] = fd
		}
		rights = unix.UnixRights(all...)
	}
	_, _, err = c.WriteMsgUnix(text, rights, nil)
	return err == nil
}

// FuzzKeeper has a client send anything: the keeper answers each message or closes, keeps no more than it may, and has no
// descriptor left over.
func FuzzKeeper(f *testing.F) {
	for _, text := range []string{`{"op":"put","key":"k","name":"device"}`, `{"op":"get","key":"k"}`, `{"op":"drop","key":"k"}`, `{"op":"list"}`, `{"op":1}`, `[[[[`, "{\"op\":\"put\",\"key\":\"\xff\",\"name\":\"n\"}"} {
		f.Add([]byte(text), uint8(1))
		f.Add([]byte(text), uint8(0))
	}
	f.Add([]byte(`{"op":"get"}`), uint8(9))
	f.Fuzz(func(t *testing.T, text []byte, fds uint8) {
		if len(text) == 0 || len(text) > 2*maxMessage {
			return
		}
		before := openFiles(t)
		a, b := socketPair(t)
		k := new(Keeper)
		ended := make(chan bool)
		go func() { k.answer(b); close(ended) }()
		for range 2 {
			if !sendRaw(t, a, text, int(fds%16)) {
				break
			}
			for { // a list has several messages
				m, got, err := receive(a)
				closeAll(got)
				if len(got) > maxDescriptors {
					t.Errorf("%d descriptors", len(got))
				}
				if err != nil || m.Key == "" || m.Error != "" {
					break
				}
			}
		}
		a.Close()
		<-ended
		k.mu.Lock()
		defer k.mu.Unlock()
		if len(k.clients) > 0 || len(k.keys) > 1 {
			t.Errorf("%d clients, %d keys", len(k.clients), len(k.keys))
		}
		for key, e := range k.keys {
			if e.owner != nil || len(key) > maxKey || len(e.fds) > 1 {
				t.Errorf("%.50q: %+v", key, e)
			}
			closeAll(k.drop(key))
		}
		testlimit.Wait(t, "descriptor that is left over", func() bool { return openFiles(t) <= before })
	})
}

// FuzzClient has a keeper answer anything: what the client takes is bounded, and no descriptor is left over.
func FuzzClient(f *testing.F) {
	for _, text := range []string{`{}`, `{"names":["device"]}`, `{"names":["device","device"]}`, `{"error":"no"}`, `{"busy":true,"pid":1}`, `{"key":"k","names":["device"]}`, `{"names":[`} {
		f.Add([]byte(text), uint8(1), uint8(0))
		f.Add([]byte(text), uint8(2), uint8(1))
	}
	f.Fuzz(func(t *testing.T, text []byte, fds, what uint8) {
		if len(text) == 0 || len(text) > 2*maxMessage {
			return
		}
		before := openFiles(t)
		conn, keeper := socketPair(t)
		life, other := socketPair(t)
		c := &Client{socket: "there", key: "key", conn: conn, life: life, fds: map[string]int{}, ended: make(chan struct{})}
		sendRaw(t, keeper, text, int(fds%16)) // before it is asked
		switch what % 3 {
		case 0:
			m, got, err := c.ask(message{Op: "get"})
			if err == nil && !m.Busy {
				if got, err := c.taken(m, got); err == nil {
					if len(got) > maxDescriptors || len(got) != len(m.Names) {
						t.Errorf("%d descriptors with %d names", len(got), len(m.Names))
					}
					for _, fd := range got {
						unix.Close(fd)
					}
				}
			} else {
				closeAll(got)
			}
		case 1:
			_ = c.tell(message{Op: "drop"})
		case 2:
			keeper.Close()
			_, _ = c.list()
		}
		for _, fd := range c.fds {
			unix.Close(fd)
		}
		c.lose()
		keeper.Close()
		other.Close()
		testlimit.Wait(t, "descriptor that is left over", func() bool { return openFiles(t) <= before })
	})
}
