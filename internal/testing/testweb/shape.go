package testweb

import (
	"net"
	"strings"
	"testing"
	"time"
)

// Shape puts a proxy before a server: each way takes half of the round trip, and each
// connection sends at most rate bytes a second, 0 for any number. It returns the
// address to ask instead.
func Shape(t testing.TB, url string, roundTrip time.Duration, rate int64) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	to := strings.TrimPrefix(url, "http://")
	go func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", to)
			if err != nil {
				in.Close()
				continue
			}
			go carry(out, in, roundTrip/2, 0)
			go carry(in, out, roundTrip/2, rate)
		}
	}()
	return "http://" + l.Addr().String()
}

// carried is what is on its way.
type carried struct {
	b   []byte
	due time.Time
}

// window is how many pieces are on their way at most, and piece how long they are.
const (
	window = 256
	piece  = 32 << 10
)

// carry moves bytes until the sender ends.
func carry(to, from net.Conn, delay time.Duration, rate int64) {
	way := make(chan carried, window)
	go func() {
		defer to.Close()
		next := time.Now() // when the connection is free
		for c := range way {
			time.Sleep(time.Until(c.due))
			if rate > 0 {
				if now := time.Now(); next.Before(now.Add(-10 * time.Millisecond)) {
					next = now
				}
				next = next.Add(time.Duration(len(c.b)) * time.Second / time.Duration(rate))
				time.Sleep(time.Until(next))
			}
			if _, err := to.Write(c.b); err != nil {
				from.Close()
				for range way { // until the sender has noticed
				}
				return
			}
		}
	}()
	defer close(way)
	for {
		b := make([]byte, piece)
		n, err := from.Read(b)
		if n > 0 {
			way <- carried{b[:n], time.Now().Add(delay)}
		}
		if err != nil {
			return
		}
	}
}
