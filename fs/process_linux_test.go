package fs

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/mounts"
	"github.com/tensorfs/tensorfs/internal/source"
	"github.com/tensorfs/tensorfs/internal/testing/testlimit"
	"github.com/tensorfs/tensorfs/internal/testing/testmount"
	"golang.org/x/sys/unix"
)

// A process that uses a mount it serves itself can stop for good, so the test
// binary runs itself: as the server of a mount, and as the client that looks at
// it. What a client does is a function of the table clients.

const roleEnv = "TENSORFS_TEST_ROLE"

// childEnv is the environment of a child with a role. A child that was built
// with the race detector is not to wait a second before it ends, and its memory is
// collected as users have it, whatever scripts/test asks of the tests.
func childEnv(role string) []string {
	return append(os.Environ(), roleEnv+"="+role, "GOGC=100", "GORACE=atexit_sleep_ms=0 "+os.Getenv("GORACE"))
}

func TestMain(m *testing.M) {
	switch os.Getenv(roleEnv) {
	case "":
		os.Exit(m.Run())
	case "server":
		exit(serveMain(os.Args[1:]))
	case "user":
		exit(becomeUser(os.Args[1:]))
	case "client":
		do, ok := clients[os.Args[1]]
		if !ok {
			exit(fmt.Errorf("no client %q", os.Args[1]))
		}
		exit(do(os.Args[2:]))
	}
	exit(fmt.Errorf("unknown role"))
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// serveMain is the server: MOUNTPOINT TREE MODEL [key=value...]. It prints "ready" on standard
// output, then answers lines on standard input. When its input ends, because the test ended or
// died, it unmounts lazily and exits.
func serveMain(args []string) error {
	mountpoint, tree, model := args[0], args[1], args[2]
	opts := Options{
		FsName:  model,
		ModTime: modTime,
		Logger:  slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelInfo})),
	}
	var other string
	for _, kv := range args[3:] {
		key, value, _ := strings.Cut(kv, "=")
		switch key {
		case "other":
			other = value
		case "mkdir":
			opts.MakeMountpoint = true
		case "extra":
			opts.Extra = strings.Split(value, ",")
		default:
			if err := serverOption(&opts, key, value); err != nil {
				return err
			}
		}
	}
	var root tensorfs.Dir
	switch tree {
	case "wide":
		root = wide(50000)
	case "small":
		root = nested()
	case "imaged":
		root = imagedTree(maxImages)
	case "lost":
		lost, err := lostPages(filepath.Dir(model))
		if err != nil {
			return err
		}
		root = tensorfs.Entries{{Name: "bug", Data: panicking{}}, file("fine", "fine"), {Name: "lost", Data: lost}}
	case "overwritten":
		root = tensorfs.Entries{
			file("fine", "fine"), {Name: "large", Data: &overwritten{Bytes: make([]byte, minImaged)}}, {Name: "x", Data: &overwritten{Bytes: bytes.Repeat([]byte("old "), 16<<10)}},
		}
	case "model":
		m, err := source.Map(model, "model")
		if err != nil {
			return err
		}
		var o *source.Mapped
		if other != "" {
			if o, err = source.Map(other, "other"); err != nil {
				return err
			}
		}
		root = testTree(m, o)
	default:
		return fmt.Errorf("no tree %q", tree)
	}
	s, err := Mount(root, mountpoint, opts)
	if err != nil {
		return err
	}
	term := make(chan os.Signal, 2)
	signal.Notify(term, syscall.SIGTERM)
	lines := make(chan string)
	go func() {
		defer close(lines)
		for in := bufio.NewScanner(os.Stdin); in.Scan(); {
			lines <- in.Text()
		}
	}()
	fmt.Println("ready", os.Getpid())
	for tries := 0; ; {
		select {
		case <-s.Done():
			return nil
		case <-term:
			tries++
			if tries > 1 {
				err = s.UnmountLazy()
			} else {
				err = s.Unmount()
			}
			fmt.Println("unmount:", err)
		case line, ok := <-lines:
			if !ok {
				return s.UnmountLazy()
			}
			fmt.Println(serverCommand(s, line))
		}
	}
}

// panicking is Data with a bug.
type panicking struct{}

func (panicking) Size() int64                       { return 4096 }
func (panicking) ReadAt([]byte, int64) (int, error) { panic("a bug") }

// overwritten is mapped memory of a file that is overwritten while the first reply is
// copied: after the check that the reply begins with.
type overwritten struct {
	tensorfs.Bytes
	changed atomic.Bool
}

func (o *overwritten) Slices(dst [][]byte, off, n int64) ([][]byte, error) {
	if err := o.Check(); err != nil {
		return dst, err
	}
	o.changed.Store(true)
	return o.Bytes.Slices(dst, off, n)
}

func (o *overwritten) ReadAt(p []byte, off int64) (int, error) {
	o.changed.Store(true)
	return o.Bytes.ReadAt(p, off)
}

func (o *overwritten) Check() error {
	if o.changed.Load() {
		return &tensorfs.ChangedError{File: "model"}
	}
	return nil
}

// lostData is mapped memory whose pages are gone. It has no check of its own, as
// if the file were truncated between the check and the copy.
type lostData []byte

func (l lostData) Size() int64                       { return int64(len(l)) }
func (l lostData) ReadAt([]byte, int64) (int, error) { return 0, syscall.ENOSYS }
func (l lostData) Slices(dst [][]byte, off, n int64) ([][]byte, error) {
	return append(dst, l[off:off+n]), nil
}

func lostPages(dir string) (lostData, error) {
	f, err := os.CreateTemp(dir, "lost")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if err := f.Truncate(64 << 10); err != nil {
		return nil, err
	}
	m, err := unix.Mmap(int(f.Fd()), 0, 64<<10, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil, err
	}
	return lostData(m), f.Truncate(0)
}

// server is a mount in another process.
type server struct {
	t          *testing.T
	mountpoint string
	model      string
	size       int64
	cmd        *exec.Cmd
	stdin      io.WriteCloser
	out        *bufio.Reader
	log        *lockedBuffer
	waited     chan struct{}
	err        error
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// needFUSE skips a test loudly where nothing can be mounted.
func needFUSE(t testing.TB) {
	t.Helper()
	testmount.Need(t)
}

// tempDir returns a directory whose removal cannot reach into a mount.
func tempDir(t testing.TB) string {
	dir, err := os.MkdirTemp("", "tensorfs-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// newModel makes a model file of the given size in a directory of its own.
func newModel(t testing.TB, size int64) string {
	path := filepath.Join(tempDir(t), "model.bin")
	if err := writeModel(path, size); err != nil {
		t.Fatal(err)
	}
	return path
}

// serve starts a server and waits until its mount is there.
func serve(t *testing.T, tree, model string, options ...string) *server {
	needFUSE(t)
	mountpoint := filepath.Join(tempDir(t), "mnt")
	if err := os.Mkdir(mountpoint, 0o755); err != nil {
		t.Fatal(err)
	}
	return serveAt(t, mountpoint, tree, model, options...)
}

func serveAt(t *testing.T, mountpoint, tree, model string, options ...string) *server {
	t.Helper()
	s := &server{t: t, mountpoint: mountpoint, model: model, log: new(lockedBuffer), waited: make(chan struct{})}
	if st, err := os.Stat(model); err == nil {
		s.size = st.Size()
	}
	s.cmd = exec.Command(os.Args[0], append([]string{mountpoint, tree, model}, options...)...)
	s.cmd.Env = childEnv("server")
	s.cmd.Stderr = s.log
	s.stdin, _ = s.cmd.StdinPipe()
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	s.out = bufio.NewReader(out)
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		s.err = s.cmd.Wait()
		close(s.waited)
	}()
	t.Cleanup(func() {
		if strings.Contains(s.log.String(), "DATA RACE") {
			t.Error("a data race in the server")
		}
		if t.Failed() {
			t.Logf("server's log:\n%s", s.log)
		}
		s.kill()
		for { // more than one may be stacked there after a failure
			m, err := mounts.Top(mountpoint)
			if err != nil || m == nil {
				break
			}
			if err := (&mounts.Mount{Mountpoint: mountpoint}).Unmount(true); err != nil {
				t.Errorf("a mount is left over: %v", err)
				break
			}
		}
	})
	if line, err := s.out.ReadString('\n'); err != nil || !strings.HasPrefix(line, "ready") {
		<-s.waited
		t.Fatalf("no server: %q, %v\n%s", line, s.err, s.log)
	}
	return s
}

// ask sends a line to the server and returns its answer.
func (s *server) ask(line string) string {
	s.t.Helper()
	if _, err := fmt.Fprintln(s.stdin, line); err != nil {
		s.t.Fatal(err)
	}
	return s.answer()
}

func (s *server) answer() string {
	s.t.Helper()
	answer, err := s.out.ReadString('\n')
	if err != nil {
		s.t.Fatalf("the server is gone: %v\n%s", err, s.log)
	}
	return strings.TrimSpace(answer)
}

// alive reports whether the server still runs.
func (s *server) alive() bool {
	select {
	case <-s.waited:
		return false
	default:
		return true
	}
}

// ended waits for the end of the server, which has to be an orderly one.
func (s *server) ended(t *testing.T) {
	t.Helper()
	testlimit.Receive(t, "end of the server", s.waited)
	if s.err != nil {
		t.Errorf("the server ended with %v", s.err)
	}
}

// kill ends the server as a crash would and waits for it.
func (s *server) kill() {
	_ = s.cmd.Process.Kill() // it may be gone
	<-s.waited
}

// stop makes the server hang.
func (s *server) stop() {
	s.t.Helper()
	if err := s.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		s.t.Fatal(err)
	}
	testlimit.Wait(s.t, "stop of the server", func() bool {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", s.cmd.Process.Pid))
		return err == nil && strings.Contains(string(b), ") T ")
	})
}

func (s *server) path(names ...string) string {
	return filepath.Join(append([]string{s.mountpoint}, names...)...)
}

// client runs a function of the table clients in a process of its own.
func (s *server) client(args ...string) (string, error) {
	return runClient(args...)
}

func runClient(args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0], args...)
	cmd.Env = childEnv("client")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	if ctx.Err() != nil {
		err = fmt.Errorf("timed out: %w", err)
	}
	return strings.TrimSpace(out.String()), err
}

// run is client for commands that must succeed.
func (s *server) run(args ...string) string {
	s.t.Helper()
	out, err := s.client(args...)
	if err != nil {
		s.t.Fatalf("client %q: %v: %s", args, err, out)
	}
	return out
}

// sizeArg returns what a client needs to compute the bytes of the tree.
func (s *server) sizeArg() string { return strconv.FormatInt(s.size, 10) }
