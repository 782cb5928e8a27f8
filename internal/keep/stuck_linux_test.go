package keep

import (
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/tensorfs/tensorfs/internal/testing/testlimit"
	"golang.org/x/sys/unix"
)

func dial(t *testing.T, socket string) *net.UnixConn {
	t.Helper()
	c, err := net.DialUnix(network, nil, &net.UnixAddr{Name: socket, Net: network})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// A client that asks without reading the answers blocks no other client, gets one answer at most, and is
// disconnected.
func TestStuckClient(t *testing.T) {
	for _, ask := range []string{`{"op":"list"}`, `{"op":"get","key":"mine"}`, `{`} {
		t.Run(ask, func(t *testing.T) {
			_, socket := serve(t)
			many := dial(t, socket)
			for i := range 300 {
				key := fmt.Sprintf("%s%d", strings.Repeat("x", maxKey/2), i)
				if m, err := raw(t, many, fmt.Sprintf(`{"op":"put","key":%q,"name":"n"}`, key), file(t, "")); err != nil || m.Error != "" {
					t.Fatalf("%+v, %v", m, err)
				}
			}
			stuck := dial(t, socket)
			raw(t, stuck, `{"op":"put","key":"mine","name":"n"}`, file(t, ""))
			stuck.SetWriteDeadline(time.Now().Add(50 * time.Millisecond))
			for range 3000 {
				if _, err := stuck.Write([]byte(ask)); err != nil {
					break
				}
			}
			c := client(t, socket, "key")
			get(t, c)
			put(t, c, "device", "1")
			killed(c)
			if got := get(t, client(t, socket, "key")); got["device"] != "1" {
				t.Errorf("got %v", got)
			}
			testlimit.Wait(t, "end of the connection that is stuck", func() bool {
				stuck.SetWriteDeadline(time.Now().Add(10 * time.Millisecond))
				_, err := stuck.Write([]byte(ask))
				return err != nil && !isTimeout(err)
			})
			answers := 0
			for {
				stuck.SetReadDeadline(time.Now().Add(time.Second))
				_, fds, err := receive(stuck)
				closeAll(fds)
				if err != nil {
					break
				}
				answers++
			}
			if answers > 1 && !strings.Contains(ask, "list") { // a list has many messages
				t.Errorf("%d answers were under way", answers)
			}
		})
	}
}

func isTimeout(err error) bool {
	e, ok := err.(net.Error)
	return ok && e.Timeout()
}

// A process that connects again and again keeps only itself out.
func TestManyConnections(t *testing.T) {
	_, socket := serve(t)
	conns := func(n int) (all []*net.UnixConn) {
		for range n {
			all = append(all, dial(t, socket))
		}
		return all
	}
	all := conns(5)
	k := &Keeper{keys: map[string]*kept{"a": {owner: all[0]}, "b": {owner: all[3]}}}
	for i, pid := range []int{1, 2, 2, 2, 1} { // 1 serves a and has one more, 2 serves b and has two more
		k.clients = append(k.clients, connection{all[i], pid})
	}
	for _, want := range [][]int{{0, 1, 3, 4}, {0, 1, 3}, {0, 3}, {0, 3}} {
		k.shed()
		var left []int
		for _, c := range k.clients {
			for i := range all {
				if all[i] == c.conn {
					left = append(left, i)
				}
			}
		}
		if fmt.Sprint(left) != fmt.Sprint(want) {
			t.Errorf("%v are left, want %v", left, want)
		}
	}
}

// The keeper accepts a bounded number of connections, and keeps the connections that serve a mount.
func TestMaxConnections(t *testing.T) {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil || limit.Cur < 3*maxClients {
		t.Skipf("%d files may be open here, %v", limit.Cur, err)
	}
	k, socket := serve(t)
	c := client(t, socket, "key")
	get(t, c)
	put(t, c, "device", "1")
	for range maxClients + 100 {
		dial(t, socket)
	}
	testlimit.Wait(t, "connections that are closed", func() bool {
		k.mu.Lock()
		defer k.mu.Unlock()
		return len(k.clients) <= maxClients && len(k.clients) > maxClients-10
	})
	put(t, c, "device", "2")
	k.mu.Lock()
	defer k.mu.Unlock()
	if e := k.keys["key"]; e == nil || e.owner == nil {
		t.Error("the server of a mount was given up")
	}
}

// A keeper that does not answer is given up, and its late answer is not taken for another one.
func TestLateAnswer(t *testing.T) {
	pair := func() (a, b *net.UnixConn) { return socketPair(t) }
	conn, keeper := pair()
	life, _ := pair()
	c := &Client{socket: "there", key: "key", conn: conn, life: life, ended: make(chan struct{})}
	conn.SetDeadline(time.Now())
	closed := make(chan bool)
	go func() {
		receive(keeper) // and does not answer
		keeper.Close()
		close(closed)
	}()
	if _, _, err := c.ask(message{Op: "get"}); err == nil || c.conn != nil {
		t.Errorf("%v; the connection is used again: %v", err, c.conn != nil)
	}
	<-closed
}
