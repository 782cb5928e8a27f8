package main

import (
	"bufio"
	"encoding/binary"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/tensorfs/tensorfs/internal/server"
	"github.com/tensorfs/tensorfs/internal/testing/testnfs"
	"golang.org/x/sys/unix"
)

// starts are the ways to start a server in the foreground: as a shell does, and with
// SIGPIPE ignored, as systemd does.
var starts = map[string][]string{
	"":        nil,
	"ignored": {"sh", "-c", `trap "" PIPE; exec "$@"`, "sh"},
}

// startedAs starts a program in such a way and waits for the line that it prints when it
// is ready.
func startedAs(t *testing.T, way []string, stderr *os.File, env []string, args ...string) (c *exec.Cmd, line string) {
	t.Helper()
	c = program(t, args...)
	c.Env = append(c.Env, env...)
	c.Stderr = stderr
	if way != nil {
		c.Args = append(append([]string(nil), way...), append([]string{c.Path}, args...)...)
		var err error
		if c.Path, err = exec.LookPath(way[0]); err != nil {
			t.Skip(err)
		}
	}
	stdout, err := c.StdoutPipe()
	must(t, err)
	must(t, c.Start())
	if line, err = bufio.NewReader(stdout).ReadString('\n'); err != nil {
		t.Fatalf("%q, %v", line, err)
	}
	return c, strings.TrimSpace(line)
}

// stillThere checks that a server serves what it said, and ends it.
func stillThere(t *testing.T, c *exec.Cmd, said string) {
	t.Helper()
	if address, err := url.Parse(said); err == nil && address.Scheme == "nfs" {
		client := dialNFS(t, address.Query().Get("nfsport"))
		if _, err := client.Mount(address.Path); err != nil {
			t.Error(err)
		}
	} else if _, at, _ := strings.Cut(said, " is mounted at "); !isMounted(t, strings.TrimSuffix(at, "; Ctrl-C unmounts")) {
		t.Errorf("nothing is mounted any more: %s", said)
	}
	if err := c.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatalf("the server has ended: %v", err)
	}
	endsWell(t, c)
}

// The signal itself ends no server: the system sends it for any connection.
func TestSIGPIPE(t *testing.T) {
	ownStates(t)
	for name, way := range starts {
		for _, what := range []string{"mount", "serve"} {
			t.Run(what+name, func(t *testing.T) {
				args, dir := []string{"serve", q8}, ""
				if what == "mount" {
					dir = mountDir(t)
					args = []string{"mount", "-f", q8, dir}
				}
				c, said := startedAs(t, way, os.Stderr, nil, args...)
				for range 10 {
					must(t, c.Process.Signal(syscall.SIGPIPE))
				}
				if dir != "" {
					if _, err := os.ReadFile(filepath.Join(dir, "f16/output_norm.weight")); err != nil {
						t.Error(err)
					}
				}
				if signalMask(t, c.Process.Pid, "SigIgn")&(1<<(syscall.SIGPIPE-1)) == 0 {
					t.Error("SIGPIPE is not ignored")
				}
				stillThere(t, c, said)
			})
		}
	}
}

// A service outlives the journal of systemd, which may be stopped.
func TestJournalCloses(t *testing.T) {
	dir, model := mountDir(t), copyOf(t, q8)
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	must(t, err)
	reader, journal := os.NewFile(uintptr(pair[0]), "reader"), os.NewFile(uintptr(pair[1]), "journal")
	var st unix.Stat_t
	must(t, unix.Fstat(pair[1], &st))
	c, said := startedAs(t, starts["ignored"], journal, []string{fmt.Sprintf("JOURNAL_STREAM=%d:%d", st.Dev, st.Ino)}, "mount", "-f", model, dir)
	journal.Close()
	reader.Close()
	must(t, os.Truncate(model, 4096))
	if _, err := os.ReadFile(filepath.Join(dir, "f16/output_norm.weight")); !errors.Is(err, syscall.EIO) {
		t.Errorf("a truncated model: %v", err)
	}
	if st := statusOf(t, dir); st == nil || st.State != "changed" {
		t.Errorf("status: %+v", st)
	}
	stillThere(t, c, said)
}

// Every process on this machine can connect to an NFS server, and a client may go away while
// replies are written.
func TestServeResets(t *testing.T) {
	ownStates(t)
	for name, way := range starts {
		t.Run("serve"+name, func(t *testing.T) {
			c, said := startedAs(t, way, os.Stderr, nil, "serve", q8)
			address, err := url.Parse(said)
			must(t, err)
			client := dialNFS(t, address.Query().Get("nfsport"))
			root, err := client.Mount(address.Path)
			must(t, err)
			h, _, err := client.Find(root, "gguf/model.gguf")
			must(t, err)
			var reads []byte
			for xid := range uint32(16) {
				call := client.Call(xid, testnfs.NFS, testnfs.Version, 6, testnfs.Args{}.Opaque(h).Uint64(0).Uint32(1<<20))
				reads = append(binary.BigEndian.AppendUint32(reads, 1<<31|uint32(len(call))), call...)
			}
			for i := range 300 {
				conn, err := net.Dial("tcp", client.Address())
				if err != nil {
					t.Fatalf("connection %d: %v", i, err)
				}
				tcp := conn.(*net.TCPConn)
				must(t, errors.Join(tcp.SetReadBuffer(1), tcp.SetLinger(0))) // Close resets it then
				_, err = tcp.Write(reads)
				must(t, err)
				_, err = tcp.Read(make([]byte, 1)) // now a reply is being written
				must(t, err)
				tcp.Close()
			}
			stillThere(t, c, said)
		})
	}
}

// So can the server of a model, also while it is asked.
func TestMountResets(t *testing.T) {
	t.Parallel()
	file := newMadeFile(16, 1<<20)
	var asked atomic.Int64
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", `"one"`)
		if asked.Add(1)%2 == 0 {
			http.ServeContent(w, r, "", time.Time{}, io.NewSectionReader(file, 0, file.Size()))
			return
		}
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		tcp := conn.(interface{ NetConn() net.Conn }).NetConn().(*net.TCPConn)
		_ = tcp.SetLinger(0) // Close resets it then
		tcp.Close()
	}))
	s.Config.ErrorLog = nil
	s.StartTLS()
	t.Cleanup(s.Close)
	trusted := filepath.Join(t.TempDir(), "ca.pem")
	must(t, os.WriteFile(trusted, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}), 0o600))
	for name, way := range starts {
		t.Run("mount"+name, func(t *testing.T) {
			dir := mountDir(t)
			env := []string{"TENSORFS_OFFLINE=", "SSL_CERT_FILE=" + trusted, "TENSORFS_CACHE=" + filepath.Join(t.TempDir(), "cache")}
			c, said := startedAs(t, way, nil, env, "mount", "-f", s.URL+"/m.safetensors", dir)
			before := asked.Load()
			for i := range 16 {
				if err := file.sameIn(dir, i, 1<<20, 4096, 0); err != nil {
					t.Fatal(err)
				}
			}
			if n := asked.Load() - before; n < 16 {
				t.Errorf("only %d requests", n)
			}
			time.Sleep(2 * server.UnmountAgain) // in which one that was told to unmount would
			stillThere(t, c, said)
		})
	}
}
