package nfsstate

import (
	"bytes"
	"encoding/json"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/tensorfs/tensorfs/internal/testing/testnfs"
)

const someToken = "00112233445566778899aabbccddeeff"

// serve replaces a server at a port.
func serve(t *testing.T, port int) {
	t.Helper()
	s := State{PID: os.Getpid(), Model: "/models/a.gguf", Port: port, Token: someToken, Key: make([]byte, KeyBytes)}
	l, err := s.Listen()
	if err != nil {
		t.Fatal(err)
	}
	go Answer(l, func() any { return 1 })
	t.Cleanup(func() {
		l.Close()
		s.Remove()
	})
	if err := s.Write(); err != nil {
		t.Fatal(err)
	}
}

// A server without its socket cannot be asked, and is not gone.
func TestAskWithoutSocket(t *testing.T) {
	testnfs.StateDir(t)
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer tcp.Close()
	serve(t, tcp.Addr().(*net.TCPAddr).Port)
	s := Of(someToken)
	if err := os.Remove(s.file(socketSuffix)); err != nil {
		t.Fatal(err)
	}
	if err := s.Ask(new(any)); !errors.Is(err, ErrHung) || s.Gone() {
		t.Errorf("%v", err)
	}
	tcp.Close()
	if !s.Gone() {
		t.Error("nobody listens, and the server is not gone")
	}
}

// A directory that another user could change is not used for the state: the next one is taken.
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
			dir := testnfs.StateDir(t)
			temp, err := os.MkdirTemp("", "tfs")
			if err != nil {
				t.Fatal(err)
			}
			defer os.RemoveAll(temp)
			t.Setenv("TMPDIR", temp)
			if err := spoil(dir); err != nil {
				t.Fatal(err)
			}
			serve(t, 4001)
			want := filepath.Join(temp, "tensorfs-"+strconv.Itoa(os.Geteuid()))
			if s := Of(someToken); s == nil || s.dir != want {
				t.Errorf("%+v, not in %s", s, want)
			}
		})
	}
}

// A server that does not react hangs; a server that ends while it is asked counts as ended.
func TestAskHung(t *testing.T) {
	dir := testnfs.StateDir(t)
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	s := State{Port: 4004, Token: someToken, dir: dir}
	l, err := net.Listen("unix", s.file(socketSuffix))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := s.Ask(new(any)); !errors.Is(err, ErrHung) {
		t.Errorf("%v", err)
	}
	if s.Gone() {
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
	if err := s.Ask(new(any)); !errors.Is(err, syscall.ENOTCONN) {
		t.Errorf("%v", err)
	}
}

func TestTokenIn(t *testing.T) {
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
		if got := TokenIn(test.kind, test.source); got != test.want {
			t.Errorf("%s %s: %q, want %q", test.kind, test.source, got, test.want)
		}
	}
	if Source(someToken) != "127.0.0.1:/"+someToken {
		t.Error(Source(someToken))
	}
}

func FuzzState(f *testing.F) {
	s := State{PID: 1, Mountpoint: "/m", Model: "/models/a.gguf", Port: 4005, Token: someToken, Key: bytes.Repeat([]byte{1}, KeyBytes)}
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
		if s.file(stateSuffix) != filepath.Join("/d", name) || s.Port < 1 || s.Port > 65535 || !IsToken(s.Token) || len(s.Key) != KeyBytes {
			t.Errorf("%q: %+v", name, s)
		}
	})
}
