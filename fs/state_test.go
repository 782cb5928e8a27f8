package fs

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/tensorfs/tensorfs/internal/testing/testlimit"
	"golang.org/x/sys/unix"
)

const someToken = "00112233445566778899aabbccddeeff"

// ownPlace gives states a place of their own, short enough for a socket.
func ownPlace(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "tfs")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	t.Setenv("XDG_RUNTIME_DIR", dir)
	return filepath.Join(dir, subtype)
}

// deadPort returns a port that is taken until the test ends, and at which nobody listens.
func deadPort(t *testing.T) int {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	at, err := unix.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	return at.(*unix.SockaddrInet4).Port
}

// openLoopback stands for a server that mounts nothing.
func openLoopback(t *testing.T, port int) *Loopback {
	t.Helper()
	l, err := OpenLoopback(LoopbackOptions{
		FsName: "/models/a.gguf", Logger: slog.New(slog.DiscardHandler),
		Health: func() Health { return Health{Changed: []string{"a.gguf"}} },
		Warm:   func() WarmStatus { return WarmStatus{View: "f16", Done: 1, Total: 2} },
		Port:   port, Token: someToken, Key: make([]byte, keyBytes), Facts: "facts",
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
	dir, port := ownPlace(t), deadPort(t)
	l := openLoopback(t, port)
	s := stateOf(someToken)
	if s == nil || s.PID != os.Getpid() || s.Model != "/models/a.gguf" || s.Facts != "facts" || s.dir != dir {
		t.Fatalf("%+v", s)
	}
	status, err := s.ask()
	if err != nil || status.PID != os.Getpid() || len(status.Health.Changed) != 1 || status.Warm == nil || *status.Warm != (WarmStatus{View: "f16", Done: 1, Total: 2}) {
		t.Errorf("%+v, %v", status, err)
	}
	if err := CleanStates(); err != nil || stateOf(someToken) == nil {
		t.Errorf("the state of a server that is there was removed: %v", err)
	}
	if err := os.Remove(filepath.Join(dir, strconv.Itoa(port)+".json")); err != nil {
		t.Fatal(err)
	}
	if _, err := s.ask(); err != nil { // which makes it look
		t.Fatal(err)
	}
	testlimit.Wait(t, "state that is written again", func() bool { return stateOf(someToken) != nil })
	if err := l.Unmount(); err != nil {
		t.Fatal(err)
	}
	testlimit.Receive(t, "end of the server", l.Done())
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	if _, err := s.ask(); !errors.Is(err, syscall.ENOTCONN) || !s.gone() {
		t.Errorf("a server that has ended: %v", err)
	}
}

// A server whose port another one has by now leaves that one's state alone.
func TestStateOfAnother(t *testing.T) {
	dir := ownPlace(t)
	l := openLoopback(t, 4000)
	other := State{Port: 4000, Token: strings.Repeat("f", tokenDigits), Key: make([]byte, keyBytes), dir: dir}
	if err := other.write(); err != nil {
		t.Fatal(err)
	}
	_ = l.Unmount() // never fails
	l.Wait()
	if stateOf(other.Token) == nil {
		t.Error("the state of another server was removed")
	}
	other.remove()
}

// A server without its socket cannot be asked, and is not gone.
func TestAskWithoutSocket(t *testing.T) {
	ownPlace(t)
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer tcp.Close()
	openLoopback(t, tcp.Addr().(*net.TCPAddr).Port)
	s := stateOf(someToken)
	if err := os.Remove(s.file(socketSuffix)); err != nil {
		t.Fatal(err)
	}
	if _, err := s.ask(); !errors.Is(err, ErrHung) || s.gone() {
		t.Errorf("%v", err)
	}
	tcp.Close()
	if !s.gone() {
		t.Error("nobody listens, and the server is not gone")
	}
}

// What somebody else could change is no place for a state: the next one is taken.
func TestStatePlaces(t *testing.T) {
	for name, spoil := range map[string]func(dir string) error{
		"open to others": func(dir string) error { return errors.Join(os.Mkdir(dir, 0o755), os.Chmod(dir, 0o755)) },
		"a link":         func(dir string) error { return os.Symlink(os.TempDir(), dir) },
		"a file":         func(dir string) error { return os.WriteFile(dir, nil, 0o600) },
		"not to be made": func(dir string) error { return os.Remove(filepath.Dir(dir)) },
		"too long": func(dir string) error {
			long := filepath.Join(filepath.Dir(dir), strings.Repeat("x", 150))
			os.Setenv("XDG_RUNTIME_DIR", long)
			return os.Mkdir(long, 0o700)
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := ownPlace(t)
			temp, err := os.MkdirTemp("", "tfs")
			if err != nil {
				t.Fatal(err)
			}
			defer os.RemoveAll(temp)
			t.Setenv("TMPDIR", temp)
			if err := spoil(dir); err != nil {
				t.Fatal(err)
			}
			openLoopback(t, 4001)
			want := filepath.Join(temp, "tensorfs-"+strconv.Itoa(os.Geteuid()))
			if s := stateOf(someToken); s == nil || s.dir != want {
				t.Errorf("%+v, not in %s", s, want)
			}
		})
	}
}

// What was left behind is removed once its mount is gone, and nothing else is touched.
func TestCleanStates(t *testing.T) {
	dir := ownPlace(t)
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	left := State{PID: 1, Port: deadPort(t), Token: someToken, Key: make([]byte, keyBytes), dir: dir}
	if err := left.write(); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"0.json", "1.json", "x.json", "99999.json"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("{}"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := CleanStates(); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 4 {
		t.Errorf("%v, %v", entries, err)
	}
}

// A server that takes no notice hangs, and one that ends meanwhile is gone.
func TestAskHung(t *testing.T) {
	dir := ownPlace(t)
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	s := State{Port: 4004, Token: someToken, dir: dir}
	l, err := net.Listen("unix", s.file(socketSuffix))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if _, err := s.ask(); !errors.Is(err, ErrHung) {
		t.Errorf("%v", err)
	}
	if s.gone() {
		t.Error("a server that hangs is gone")
	}
	go func() {
		for range 3 { // the two from above wait
			c, err := l.Accept()
			if err != nil {
				return
			}
			c.Close()
		}
	}()
	if _, err := s.ask(); !errors.Is(err, syscall.ENOTCONN) {
		t.Errorf("%v", err)
	}
}

func TestLoopbackToken(t *testing.T) {
	for _, test := range []struct{ kind, source, want string }{
		{"nfs", "127.0.0.1:/" + someToken, someToken},
		{"nfs", "127.0.0.1:/" + someToken + "/raw", someToken}, // mount --bind shows a directory elsewhere
		{"nfs", "localhost:/" + someToken, ""},
		{"nfs", "127.0.0.1:/" + strings.ToUpper(someToken), ""},
		{"nfs", "127.0.0.1:/" + someToken[1:], ""},
		{"nfs", "127.0.0.1:/export/home", ""},
		{"fuse.x", "127.0.0.1:/" + someToken, ""},
		{"nfs", "", ""},
	} {
		if got := loopbackToken(test.kind, test.source); got != test.want {
			t.Errorf("%s %s: %q, want %q", test.kind, test.source, got, test.want)
		}
	}
	if LoopbackSource(someToken) != "127.0.0.1:/"+someToken {
		t.Error(LoopbackSource(someToken))
	}
}

func FuzzState(f *testing.F) {
	s := State{PID: 1, Mountpoint: "/m", Model: "/models/a.gguf", Port: 4005, Token: someToken, Key: bytes.Repeat([]byte{1}, keyBytes)}
	text, err := json.Marshal(s)
	if err != nil {
		f.Fatal(err)
	}
	f.Add("4005.json", text)
	f.Add("4005.json", []byte(`{"port":4005}`))
	f.Add("-5.json", bytes.Replace(text, []byte("4005"), []byte("-5"), 1))
	f.Add("70000.json", bytes.Replace(text, []byte("4005"), []byte("70000"), 1))
	f.Fuzz(func(t *testing.T, name string, text []byte) {
		s, err := parseState("/d", name, text)
		if err != nil {
			return
		}
		if s.file(stateSuffix) != filepath.Join("/d", name) || s.Port < 1 || s.Port > 65535 || !isToken(s.Token) || len(s.Key) != keyBytes {
			t.Errorf("%q: %+v", name, s)
		}
	})
}
