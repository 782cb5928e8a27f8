package loopback

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/tensorfs/tensorfs/internal/mounts"
	"github.com/tensorfs/tensorfs/internal/nfsstate"
	"github.com/tensorfs/tensorfs/internal/testing/testlimit"
	"github.com/tensorfs/tensorfs/internal/testing/testnfs"
)

const someToken = "00112233445566778899aabbccddeeff"

// openLoopback replaces a server that mounts nothing.
func openLoopback(t *testing.T, port int) *Mount {
	t.Helper()
	l, err := Start("", Options{
		State:   nfsstate.State{Model: "/models/a.gguf", Port: port, Token: someToken, Key: make([]byte, nfsstate.KeyBytes), Facts: "facts"},
		Logger:  slog.New(slog.DiscardHandler),
		Status:  func() any { return map[string]int{"well": 1} },
		Clients: func() int { return 0 },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = l.Unmount() // never fails
		l.Wait()
	})
	return l
}

// A server can be asked, keeps its state, and leaves nothing.
func TestLoopback(t *testing.T) {
	dir, port := testnfs.StateDir(t), testnfs.DeadPort(t)
	l := openLoopback(t, port)
	s := nfsstate.Of(someToken)
	if s == nil || s.PID != os.Getpid() || s.Model != "/models/a.gguf" || s.Facts != "facts" {
		t.Fatalf("%+v", s)
	}
	var status map[string]int
	if err := s.Ask(&status); err != nil || status["well"] != 1 {
		t.Errorf("%+v, %v", status, err)
	}
	if err := mounts.CleanStates(); err != nil || nfsstate.Of(someToken) == nil {
		t.Errorf("the state of a server that is there was removed: %v", err)
	}
	if err := os.Remove(filepath.Join(dir, strconv.Itoa(port)+".json")); err != nil {
		t.Fatal(err)
	}
	if err := s.Ask(new(any)); err != nil { // which makes it look
		t.Fatal(err)
	}
	testlimit.Wait(t, "state that is written again", func() bool { return nfsstate.Of(someToken) != nil })
	if err := l.Unmount(); err != nil {
		t.Fatal(err)
	}
	testlimit.Receive(t, "end of the server", l.Done())
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	if err := s.Ask(new(any)); !errors.Is(err, syscall.ENOTCONN) || !s.Gone() {
		t.Errorf("a server that has ended: %v", err)
	}
}

// A server whose port another server has by now leaves the other server's state unchanged.
func TestStateOfAnother(t *testing.T) {
	testnfs.StateDir(t)
	l := openLoopback(t, 4000)
	other := nfsstate.State{Port: 4000, Token: strings.Repeat("f", len(someToken)), Key: make([]byte, nfsstate.KeyBytes)}
	socket, err := other.Listen()
	if err != nil {
		t.Fatal(err)
	}
	socket.Close()
	if err := other.Write(); err != nil {
		t.Fatal(err)
	}
	_ = l.Unmount() // never fails
	l.Wait()
	if nfsstate.Of(other.Token) == nil {
		t.Error("the state of another server was removed")
	}
	other.Remove()
}
